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
ALONE: Final = ("restarts",)
"""Areas that touch whoever else uses the target: explored where they are named, and alone."""
