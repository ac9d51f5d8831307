"""The theorems about allocation."""

from __future__ import annotations

import z3

from mqprove.group import Group
from mqprove.prover import Theorem


def disjoint(group: Group) -> z3.BoolRef:
    """No queue is taken by two members, each in its own run."""
    one, other = group.member("i"), group.member("j")
    queue = group.number("k", below=group.queues)
    return z3.Implies(
        one.position != other.position, z3.Not(z3.And(one.takes(queue), other.takes(queue)))
    )


THEOREMS = (
    Theorem(
        "averagely is disjoint",
        ("ALLOC-001",),
        "For all numbers of queues and members, no two members take the same queue.",
        "AVG",
        disjoint,
    ),
)
