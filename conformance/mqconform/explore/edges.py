"""The sizes and names that are tried: at, below and above the edges of the protocol and of what
keeps it. Limits that a rule says stand in `mqrules/edges.toml`."""

from __future__ import annotations

from typing import Final

from mqrules import edges

COUNTS: Final = (1, 2, 3, 8, 16, 64, 256)  # of queues and of members
COLLIDING: Final = ("Aa", "BB")  # tags of one hash
NEGATIVE: Final = "polygenelubricants"  # a tag whose hash is the least integer
HEAD: Final = "0123456789abcdef"  # 16 characters

# Names that are alike: in upper and lower case, by their beginnings, ends and hashes, when cut.
ALIKE: Final = (
    "k", "K", "k1", "k10", "1k", *COLLIDING, HEAD, HEAD + "0", HEAD + "1", "1" + HEAD,
    HEAD * 4, HEAD * 4 + "x", "x" * 255, "x" * 256, "ä€𝄞", NEGATIVE,
)  # fmt: skip
LONG: Final = "t" * 5_000  # behind the sizes of usual buffers: 4,096 and what is a little less


def around(edge: int, least: int = 0) -> tuple[int, ...]:
    """An edge and its neighbours."""
    return tuple(size for size in (edge - 1, edge, edge + 1) if size >= least)


def at_edge(rule: str) -> tuple[int, ...]:
    """What is tried of a rule's limits, ascending. Raises KeyError where it has none."""
    return tuple(sorted({value for edge in edges()[rule] for value in edge.inside + edge.outside}))


BODIES: Final = (0, 65_535, 65_536, *(size // 2 for size in at_edge("PULL-005")),
                 *at_edge("SEND-012"))  # fmt: skip
"""Sizes of bodies, bytes: of two, a pull gives one or both."""
