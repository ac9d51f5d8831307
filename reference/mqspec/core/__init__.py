"""The specification as pure functions: one module for each TLA+ module."""
