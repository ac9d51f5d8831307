"""Rebalancing: what a member gives to its strategy. The theorems about allocation take as given
that both lists are in Java's order, which is that of UTF-16 code units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from mqprove.contracts.contract import contract
from mqspec.core import rebalance
from mqspec.core.allocation import Strategy
from mqspec.core.offset_commit import ConsumerState
from mqspec.core.rebalance import Member, View
from mqspec.core.types import ClientId, MessageQueue

T = TypeVar("T")

NAMES = ("A", "a", "aB", "aa", "b", "\ud7ff", "\U00010000", "\uff5e")
"""In Java's order: U+10000 is two code units, both below that of U+FF5E."""

QUEUES = (
    *(MessageQueue("topic", "A", number) for number in (1, 2, 10)),
    *(MessageQueue("topic", name, 0) for name in NAMES[1:]),
    MessageQueue("topics", "A", 0),
)
"""In Java's order: by topic, then broker name, then number."""

TWICE = "aa"  # an id that two members have


def _given(mq_all: Sequence[MessageQueue], cid_all: Sequence[ClientId]) -> list[tuple[object, ...]]:
    """What is given to the strategy of a member that sees these lists."""
    told: list[tuple[object, ...]] = []

    def take(*given: object) -> list[MessageQueue]:
        told.append(given)
        return []

    member = Member("group", "A", Strategy("TOLD", take, checked=False))
    view = View("topic", tuple(mq_all), tuple(cid_all))
    rebalance.rebalance_by_topic(ConsumerState(), member, view, 0)
    return told


def _stirred(some: Sequence[T], by: int, backwards: bool) -> Sequence[T]:
    """In another order: each pair comes in both, for some numbers."""
    turned = (*some[by:], *some[:by])
    return turned[::-1] if backwards else turned


@contract("ALLOC-005", "ALLOC-009")
def ids_are_sorted_as_in_java(by: int, backwards: bool) -> bool:
    """A member allocates over all ids that it was told, in Java's order, one that two have twice.

    pre: 0 <= by < 8
    post: _
    """
    ids = [*_stirred(NAMES, by, backwards), TWICE]
    sorted_ids = [each for each in NAMES for _ in range(ids.count(each))]
    return _given(QUEUES, ids) == [("group", "A", list(QUEUES), sorted_ids)]


@contract("ALLOC-005", "ALLOC-009")
def queues_are_sorted_as_in_java(by: int, backwards: bool) -> bool:
    """A member allocates over all queues that it sees, in Java's order.

    pre: 0 <= by < 8
    post: _
    """
    queues = _stirred(QUEUES, by, backwards)
    return _given(queues, NAMES) == [("group", "A", list(QUEUES), list(NAMES))]
