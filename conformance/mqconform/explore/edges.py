"""The sizes that are tried: at, below and above the edges of the protocol and what keeps it."""

from __future__ import annotations

from typing import Final

COUNTS: Final = (1, 2, 3, 8, 16, 64, 256)  # of queues and of members
COLLIDING: Final = ("Aa", "BB")  # tags of one hash
NEGATIVE: Final = "polygenelubricants"  # a tag whose hash is the least integer


def around(edge: int, least: int = 0) -> tuple[int, ...]:
    """An edge and its neighbours."""
    return tuple(size for size in (edge - 1, edge, edge + 1) if size >= least)


BODY_MAX: Final = 4 * 1024 * 1024  # bytes
BODIES: Final = (0, 1, 65_535, 65_536, 262_144, *around(BODY_MAX))
