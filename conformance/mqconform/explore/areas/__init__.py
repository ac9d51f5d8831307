"""The areas that can be explored, a module each: `AREA` says its programs, how its world is
prepared, and what is allowed, by the core."""

from typing import Final

NAMES: Final = (
    "offsets",
    "messages",
    "holds",
    "locks",
    "kv",
    "routes",
    "members",
    "retries",
    "keys",
    "pops",
    "orders",
    "revivals",
    "transactions",
    "delays",
    "tools",
)
NAMED: Final = ("beside",)
"""Areas that are explored where they are named. Of 5.3.3 this tells in what the reference differs
from it, which is still to be read."""
ALONE: Final = ("restarts",)
"""Areas that touch whoever else uses the target: explored where they are named, and alone."""
