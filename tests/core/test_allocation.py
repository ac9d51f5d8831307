"""The six strategies: the figures of scenario A, the edge cases and the errors of 5.3.3."""

from __future__ import annotations

from itertools import chain

import pytest

from mqspec.core.allocation import (
    AVG,
    AVG_BY_CIRCLE,
    STRATEGIES,
    AllocationError,
    Strategy,
    allocate,
    by_config,
    by_machine_room,
    consistent_hash,
    hash_ring,
    machine_room_nearby,
    moves,
    owners,
)
from mqspec.core.types import MessageQueue


def queues(number: int, broker_name: str = "brokerName") -> list[MessageQueue]:
    return [MessageQueue("topic", broker_name, queue_id) for queue_id in range(number)]


def ids(number: int) -> list[str]:
    return [f"CID_PREFIX{i}" for i in range(number)]


def slices(strategy: Strategy, mq_all: list[MessageQueue], cid_all: list[str]) -> list[list[int]]:
    return [
        [mq.queue_id for mq in allocate(strategy, "group", cid, mq_all, cid_all)] for cid in cid_all
    ]


@pytest.mark.parametrize(
    ("number", "members", "sizes"),
    [
        (8, 2, [4, 4]),
        (7, 2, [4, 3]),
        (12, 5, [3, 3, 2, 2, 2]),
        (13, 5, [3, 3, 3, 2, 2]),
        (10, 4, [3, 3, 2, 2]),
        (2, 3, [1, 1, 0]),
        (8, 3, [3, 3, 2]),
        (1, 1, [1]),
    ],
)
def test_averagely_gives_contiguous_slices(number: int, members: int, sizes: list[int]) -> None:
    found = slices(AVG, queues(number), ids(members))
    assert [len(part) for part in found] == sizes
    assert list(chain(*found)) == list(range(number))


def test_by_circle_deals_one_queue_at_a_time() -> None:
    assert slices(AVG_BY_CIRCLE, queues(10), ids(4)) == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]
    assert slices(AVG_BY_CIRCLE, queues(2), ids(4)) == [[0], [1], [], []]


def test_members_of_one_id_take_one_slice_and_leave_another() -> None:
    found = slices(AVG, queues(12), ["a", "b", "b", "c", "d"])
    assert found == [[0, 1, 2], [3, 4, 5], [3, 4, 5], [8, 9], [10, 11]]  # 6 and 7: nobody's
    assert slices(AVG_BY_CIRCLE, queues(4), ["a", "a"]) == [[0, 2], [0, 2]]


def test_config_looks_at_nothing() -> None:
    configured = queues(2, "elsewhere")
    strategy = by_config(configured)
    assert allocate(strategy, "group", "", [], []) == configured
    assert allocate(strategy, "group", "a", queues(1), ["b"]) == configured
    assert allocate(by_config([]), "group", "a", queues(1), ["a"]) == []


def test_machine_room_gives_equal_shares_then_the_remainder() -> None:
    rooms = queues(5, "room1@broker-a") + queues(5, "room2@broker-b")
    assert slices(by_machine_room(["room1"]), rooms, ids(2)) == [[0, 1, 4], [2, 3]]
    assert slices(by_machine_room([]), rooms, ids(2)) == [[], []]


@pytest.mark.parametrize(
    ("broker_name", "kept"),
    [
        ("room1@a", True),
        ("room1@a@", True),  # Java's split drops empty parts at the end
        ("room1@", False),
        ("room1", False),
        ("room1@a@b", False),
        ("room2@a", False),
        ("", False),
    ],
)
def test_machine_room_reads_the_broker_name(broker_name: str, kept: bool) -> None:
    found = slices(by_machine_room(["room1"]), queues(1, broker_name), ids(1))
    assert found == ([[0]] if kept else [[]])


def nearby(inner: Strategy) -> Strategy:
    return machine_room_nearby(
        inner,
        lambda mq: mq.broker_name.partition("@")[0],
        lambda cid: cid.partition("@")[0],
    )


def test_nearby_keeps_queues_in_their_room_and_shares_lonely_rooms() -> None:
    assert nearby(AVG).name == "MACHINE_ROOM_NEARBY-AVG"
    mq_all = [
        MessageQueue("topic", f"{room}@broker", i) for room in ("r1", "r2", "r3") for i in range(4)
    ]
    cid_all = ["r1@a", "r1@b", "r3@a"]
    found = {
        cid: [
            (mq.broker_name[:2], mq.queue_id)
            for mq in allocate(nearby(AVG), "g", cid, mq_all, cid_all)
        ]
        for cid in cid_all
    }
    assert found == {
        "r1@a": [("r1", 0), ("r1", 1), ("r2", 0), ("r2", 1)],
        "r1@b": [("r1", 2), ("r1", 3), ("r2", 2)],
        "r3@a": [("r3", 0), ("r3", 1), ("r3", 2), ("r3", 3), ("r2", 3)],
    }


@pytest.mark.parametrize("members", [10, 20, 30])
@pytest.mark.parametrize("inner", STRATEGIES.values(), ids=lambda strategy: strategy.name)
def test_nearby_covers_every_room_once(members: int, inner: Strategy) -> None:
    rooms = ["IDC1", "IDC2", "IDC3", "IDC4", "IDC5"]
    mq_all = [MessageQueue("topic", f"{room}@b", i) for room in rooms for i in range(20)]
    cid_all = sorted(f"{room}@{i}" for room in rooms[:3] for i in range(members // 3))
    taken = [(cid, allocate(nearby(inner), "g", cid, mq_all, cid_all)) for cid in cid_all]
    assert all(len(cids) == 1 for cids in owners(mq_all, taken).values())
    assert all(mq.broker_name[:4] in (cid[:4], "IDC4", "IDC5") for cid, mqs in taken for mq in mqs)


def test_nearby_refuses_an_unknown_room() -> None:
    with pytest.raises(AllocationError, match=r"Machine room is null for mq MessageQueue \[topic"):
        allocate(nearby(AVG), "g", "r@a", queues(1, "@b"), ["r@a"])
    with pytest.raises(AllocationError, match="Machine room is null for consumer id @a"):
        allocate(nearby(AVG), "g", "r@a", queues(1, "r@b"), ["@a", "r@a"])


def test_consistent_hash_has_the_vector_of_5_3_3() -> None:
    found = slices(consistent_hash(), queues(10), ids(2))
    assert found == [[1, 2, 5, 6, 7, 8, 9], [0, 3, 4]]


def test_consistent_hash_at_the_edges() -> None:
    assert slices(consistent_hash(0), queues(3), ids(2)) == [[], []]
    with pytest.raises(AllocationError, match="illegal virtualNodeCnt :-1"):
        consistent_hash(-1)
    # Everything at one point: the later member wins all of it.
    assert slices(consistent_hash(1, lambda key: 7), queues(3), ids(2)) == [[], [0, 1, 2]]
    # Round the end of the ring.
    at = {"a-0": 10, "b-0": 20}
    strategy = consistent_hash(1, lambda key: at.get(key, 21))
    assert slices(strategy, queues(2), ["a", "b"]) == [[0, 1], []]


def test_an_id_that_comes_twice_gets_more_points() -> None:
    at = {"a-0": 10, "a-1": 20, "a-2": 30, "a-3": 40}
    assert hash_ring(["a", "a"], 2, at.__getitem__) == dict.fromkeys(at.values(), "a")


@pytest.mark.parametrize(
    ("cid", "number", "members", "message"),
    [
        ("", 1, 1, "currentCID is empty"),
        ("a", 0, 1, "mqAll is null or mqAll empty"),
        ("a", 1, 0, "cidAll is null or cidAll empty"),
        ("", 0, 0, "currentCID is empty"),
    ],
)
@pytest.mark.parametrize(
    "strategy",
    [*STRATEGIES.values(), by_machine_room(["r"]), nearby(AVG)],
    ids=lambda strategy: strategy.name,
)
def test_the_errors_are_the_real_ones(
    strategy: Strategy, cid: str, number: int, members: int, message: str
) -> None:
    with pytest.raises(AllocationError, match=message):
        allocate(strategy, "group", cid, queues(number, "r@b"), ids(members))


@pytest.mark.parametrize(
    "strategy",
    [*STRATEGIES.values(), by_machine_room(["r"]), nearby(AVG)],
    ids=lambda strategy: strategy.name,
)
def test_who_is_not_in_the_list_takes_nothing(strategy: Strategy) -> None:
    assert allocate(strategy, "group", "stranger", queues(4, "r@b"), ids(2)) == []


@pytest.mark.parametrize(
    ("strategy", "moved", "between_survivors"),
    [(AVG, 8, 2), (AVG_BY_CIRCLE, 18, 12), (consistent_hash(), 5, 0)],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_moves_when_the_second_of_four_leaves(
    strategy: Strategy, moved: int, between_survivors: int
) -> None:
    mq_all, cids = queues(24), ids(4)
    survivors = [cids[0], *cids[2:]]

    def run(members: list[str]) -> list[tuple[str, list[MessageQueue]]]:
        return [(cid, allocate(strategy, "g", cid, mq_all, members)) for cid in members]

    found = moves(owners(mq_all, run(cids)), owners(mq_all, run(survivors)))
    assert len(found) == moved
    assert len(allocate(strategy, "g", cids[1], mq_all, cids)) == moved - between_survivors
    assert sum(move.before != (cids[1],) for move in found) == between_survivors
