"""Theorems about the reference's own code."""
