"""Several records at once, as columns: what the core says of one, for many."""
