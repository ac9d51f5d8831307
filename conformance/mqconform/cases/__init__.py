"""The cases, an area a module: plain functions on a `Scene`, marked with their rules."""
