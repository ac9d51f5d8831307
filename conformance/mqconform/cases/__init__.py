"""The cases, an area a module: plain functions on a `Scene`, marked with their rules."""

from typing import Final

BUSY_S: Final = 5.0  # what a busy machine may add to the seconds that a rule allows
