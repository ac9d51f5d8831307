"""What the rules say of whole groups, on the code: every small size, and ids at random.

The proofs take Python's lists as given, and the models take any ring: these tests go through
the real lists, and the real hash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqspec.core.allocation import (
    AVG,
    AVG_BY_CIRCLE,
    FALLS_TO,
    Owners,
    Seat,
    Strategy,
    Uneven,
    allocate,
    consistent_hash,
    moves,
    owners,
    uneven,
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


def by_running(strategy: Strategy, queues: int, told: Sequence[tuple[str, list[str]]]) -> Uneven:
    """The same by what each member takes, with the list that it was told."""
    mq_all = [MessageQueue("topic", "broker", queue_id) for queue_id in range(queues)]
    found = owners(
        mq_all, [(cid, allocate(strategy, "group", cid, mq_all, cids)) for cid, cids in told]
    )
    numbers = [len(cids) for cids in found.values()]
    return Uneven(
        sum(number > 1 for number in numbers), sum(not number for number in numbers), max(numbers)
    )


def wrong_by_condition(condition: Callable[..., Uneven]) -> int:
    """How many small groups it is wrong about: any ids, equal or not, that all were told."""
    return sum(
        condition(strategy.name, queues, [Seat.of(cid, list(cids)) for cid in cids])
        != by_running(strategy, queues, [(cid, list(cids)) for cid in cids])
        for strategy in (AVG, AVG_BY_CIRCLE)
        for queues in range(1, 8)
        for size in range(1, 6)
        for cids in combinations_with_replacement("abcd", size)
    )


def test_how_many_have_not_one_owner_is_told_without_running() -> None:
    assert set(FALLS_TO) == {AVG.name, AVG_BY_CIRCLE.name}
    assert wrong_by_condition(uneven) == 0


def test_a_condition_that_forgets_the_second_of_an_id_is_noticed() -> None:
    def forgets(strategy: str, queues: int, seats: Sequence[Seat]) -> Uneven:
        return uneven(strategy, queues, set(seats))

    assert wrong_by_condition(forgets) > 100


@pytest.mark.parametrize("strategy", [AVG, AVG_BY_CIRCLE], ids=lambda strategy: strategy.name)
def test_every_small_group_that_was_told_different_lists(strategy: Strategy) -> None:
    """Each of three members has any list: without itself as well, or with an id twice."""
    lists = [
        list(cids) for size in range(1, 4) for cids in combinations_with_replacement("abc", size)
    ]
    for views in product(lists, repeat=3):
        for queues in (1, 4, 5):
            told = list(zip("abc", views, strict=True))
            found = uneven(strategy.name, queues, [Seat.of(cid, cids) for cid, cids in told])
            assert found == by_running(strategy, queues, told)


@given(
    strategy=st.sampled_from([AVG, AVG_BY_CIRCLE]),
    queues=st.integers(1, 60),
    told=st.lists(
        st.tuples(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), min_size=1)),
        min_size=1,
    ),
)
def test_lists_at_random(
    strategy: Strategy, queues: int, told: list[tuple[str, list[str]]]
) -> None:
    told = [(cid, sorted(cids)) for cid, cids in told]
    seats = [Seat.of(cid, cids) for cid, cids in told]
    assert uneven(strategy.name, queues, seats) == by_running(strategy, queues, told)
