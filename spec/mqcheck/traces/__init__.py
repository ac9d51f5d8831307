"""Traces of real runs, held against the modules: a protocol a file, `check` for all of them."""
