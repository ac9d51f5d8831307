"""Shorter ways of the broker for what is sent most: they give what the plain ones give."""
