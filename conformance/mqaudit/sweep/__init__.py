"""Sweeps: what each strategy would do to many groups and their releases (`allocate --sweep`)."""
