"""What the rules say of whole groups, on the code: every small size, and ids at random.

The proofs take Python's lists as given, and the models take any ring: these tests go through
the real lists, and the real hash.
"""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqspec.core.allocation import (
    AVG,
    AVG_BY_CIRCLE,
    Owners,
    Strategy,
    allocate,
    consistent_hash,
    moves,
    owners,
)
from mqspec.core.types import MessageQueue, string_order

ids = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=6, unique=True).map(
    lambda cids: sorted(cids, key=string_order)
)
queues = st.lists(
    st.builds(MessageQueue, st.just("topic"), st.sampled_from(["a", "b"]), st.integers(0, 40)),
    min_size=1,
    max_size=30,
    unique=True,
).map(sorted)


def taken(strategy: Strategy, mq_all: list[MessageQueue], cid_all: list[str]) -> Owners:
    return owners(
        mq_all, [(cid, allocate(strategy, "group", cid, mq_all, cid_all)) for cid in cid_all]
    )


@pytest.mark.parametrize("strategy", [AVG, AVG_BY_CIRCLE], ids=lambda strategy: strategy.name)
def test_every_small_group_shares_all_queues_evenly(strategy: Strategy) -> None:
    for number, members in product(range(1, 17), range(1, 8)):
        mq_all = [MessageQueue("topic", "broker", queue_id) for queue_id in range(number)]
        cid_all = [f"c{member}" for member in range(members)]
        found = taken(strategy, mq_all, cid_all)
        assert all(len(cids) == 1 for cids in found.values())
        sizes = [sum(cids == [cid] for cids in found.values()) for cid in cid_all]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] - sizes[-1] <= 1


@given(mq_all=queues, cid_all=ids, virtual_nodes=st.integers(1, 12))
def test_consistent_hash_gives_every_queue_to_one_member(
    mq_all: list[MessageQueue], cid_all: list[str], virtual_nodes: int
) -> None:
    found = taken(consistent_hash(virtual_nodes), mq_all, cid_all)
    assert all(len(cids) == 1 for cids in found.values())


@given(mq_all=queues, cid_all=ids, data=st.data(), points=st.sampled_from([2**32, 50]))
def test_a_leaving_moves_only_the_leavers_queues(
    mq_all: list[MessageQueue], cid_all: list[str], data: st.DataObject, points: int
) -> None:
    """With few points many collide, which changes nothing about it."""
    strategy = consistent_hash(3, lambda key: hash_of(key) % points)
    leaver = data.draw(st.sampled_from(cid_all))
    survivors = [cid for cid in cid_all if cid != leaver]
    if survivors:
        before, after = (taken(strategy, mq_all, cids) for cids in (cid_all, survivors))
        assert all(move.before == (leaver,) for move in moves(before, after))


def hash_of(key: str) -> int:
    """Any hash that is the same in every run."""
    found = 7
    for letter in key:
        found = found * 31 + ord(letter)
    return found
