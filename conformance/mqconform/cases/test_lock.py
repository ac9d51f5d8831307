"""Locks of queues that are consumed in order: who gets one, and what they do not prevent."""

from __future__ import annotations

import time

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import Connection, eventually
from mqconform.requests import Request
from mqconform.scene import Scene, done, fields
from mqconform.stage import Restart

LIVE_MIN_S, LIVE_MAX_S = 9, 70  # 60 s, or as little as a target is set to

GRANTED = "test_a_lock_is_granted_to_one_member_at_a_time"

Queue = tuple[str, str, int]


def lock(broker: Connection, group: str, client_id: str, *queues: Queue) -> set[Queue]:
    """Ask for locks; those that are granted."""
    answer = done(broker.call(requests.lock(group, client_id, *queues)))
    return {
        (queue["topic"], queue["brokerName"], queue["queueId"])
        for queue in answer.json()["lockOKMQSet"]
    }


def queues_of(scene: Scene, count: int) -> list[Queue]:
    topic = scene.topic(count)
    return [(topic, scene.broker_names[0], queue_id) for queue_id in range(count)]


@case("LOCK-001", party="broker")
def test_a_lock_is_granted_to_one_member_at_a_time(scene: Scene) -> None:
    group, (a, b, c) = scene.group(), queues_of(scene, 3)
    other = scene.connect()
    assert lock(scene.broker, group, "one", a, b) == {a, b}
    assert lock(other, group, "other", a, b) == set()
    assert lock(other, group, "other", b, c) == {c}
    assert lock(scene.broker, group, "one", c) == set()


@case("LOCK-001", party="broker", after=GRANTED)
@pytest.mark.parametrize("count", [64, 257, 1000])
def test_a_group_holds_as_many_locks_as_it_likes(scene: Scene, count: int) -> None:
    """Names are not looked up (LOCK-006), so no topic needs as many queues."""
    group = scene.group()
    queues: list[Queue] = [(scene.name("T"), scene.broker_names[0], n) for n in range(count)]
    assert lock(scene.broker, group, "one", *queues) == set(queues)
    assert lock(scene.connect(), group, "other", *queues) == set()


@case("LOCK-001", party="broker", after=GRANTED)
@pytest.mark.parametrize("part", ["topic", "broker"])
def test_queues_of_one_number_are_locked_each_by_itself(scene: Scene, part: str) -> None:
    """Of two topics, or of two brokers of one topic."""
    group, topic, name = scene.group(), scene.name("T"), scene.broker_names[0]
    a, b = [
        (topic + more * (part == "topic"), name + more * (part == "broker"), 0)
        for more in ("", "2")
    ]  # fmt: skip
    other = scene.connect()
    assert lock(scene.broker, group, "one", a) == {a}
    assert lock(other, group, "other", a, b) == {b}
    assert lock(scene.broker, group, "one", a, b) == {a}
    done(scene.broker.call(requests.unlock(group, "one", a)))
    assert lock(other, group, "other", a, b) == {a, b}


@case("LOCK-001", party="broker", after=GRANTED)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10.0.0.1@7#8", "10.0.0.1@7#9"),
        ("10.0.0.1@7@unit", "10.0.0.1@7"),
        ("10.0.0.1@7@a", "10.0.0.1@7@b"),
        ("Member", "member"),
        ("m" * 255 + "a", "m" * 255 + "b"),
        ("member", "member "),
    ],
    ids=["instances", "unit", "units", "case", "long", "blank"],
)
def test_members_whose_ids_are_alike_are_two(scene: Scene, one: str, other: str) -> None:
    group, (a, b) = scene.group(), queues_of(scene, 2)
    assert lock(scene.broker, group, one, a) == {a}
    assert lock(scene.connect(), group, other, a, b) == {b}
    assert lock(scene.broker, group, one, a, b) == {a}


@case("LOCK-002", party="broker", after=GRANTED)
def test_a_holder_gets_its_lock_again(scene: Scene) -> None:
    group, (a, b) = scene.group(), queues_of(scene, 2)
    assert lock(scene.broker, group, "one", a) == {a}
    assert lock(scene.connect(), group, "one", a, b) == {a, b}
    assert lock(scene.broker, group, "other", a, b) == set()


@case("LOCK-003", party="broker", after=GRANTED)
def test_only_the_holder_unlocks(scene: Scene) -> None:
    group, (a, b) = scene.group(), queues_of(scene, 2)
    assert lock(scene.broker, group, "one", a, b) == {a, b}
    done(scene.broker.call(requests.unlock(group, "other", a)))
    assert lock(scene.broker, group, "other", a) == set()
    done(scene.broker.call(requests.unlock(group, "one", a)))
    assert lock(scene.broker, group, "other", a, b) == {a}


@case("LOCK-003", party="broker", after=GRANTED)
def test_an_unlock_of_several_frees_only_its_own(scene: Scene) -> None:
    group, queues = scene.group(), queues_of(scene, 64)
    mine, others = set(queues[::2]), set(queues[1::2])
    assert lock(scene.broker, group, "one", *mine) == mine
    assert lock(scene.broker, group, "other", *others) == others
    done(scene.broker.call(requests.unlock(group, "one", *queues)))
    assert lock(scene.broker, group, "third", *queues) == mine
    assert lock(scene.broker, group, "other", *queues) == others


@case("LOCK-004", party="broker", after=GRANTED)
def test_a_lock_that_is_not_renewed_goes_to_the_next(scene: Scene) -> None:
    group, (silent, *renewed) = scene.group(), queues_of(scene, 9)
    other = scene.connect()
    assert lock(scene.broker, group, "one", silent, *renewed) == {silent, *renewed}
    began = time.monotonic()

    def is_taken_over() -> bool:
        assert lock(scene.broker, group, "one", *renewed) == set(renewed)
        return lock(other, group, "other", silent) == {silent}

    assert eventually(is_taken_over, LIVE_MAX_S)
    assert time.monotonic() - began > LIVE_MIN_S
    lost = lock(other, group, "other", *renewed)
    assert not lost, f"of {len(renewed)} locks that were renewed together {len(lost)} are lost"


@case("LOCK-005", party="broker", after=GRANTED)
def test_groups_do_not_see_each_others_locks(scene: Scene) -> None:
    (a,) = queues_of(scene, 1)
    for group in (scene.group(), scene.group()):
        assert lock(scene.broker, group, scene.name("C"), a) == {a}


@case("LOCK-006", party="broker")
def test_the_names_of_a_lock_are_not_looked_up(scene: Scene) -> None:
    nowhere = (scene.name("T"), "nowhere", 99)
    assert lock(scene.broker, scene.new_group(), "one", nowhere) == {nowhere}
    assert lock(scene.broker, scene.new_group(), "one") == set()
    for code in (requests.LOCK_BATCH_MQ, requests.UNLOCK_BATCH_MQ):
        assert scene.broker.call(Request(code)).code == 1


@case("LOCK-007", party="broker", after=GRANTED)
def test_a_lock_fences_nobody_off(scene: Scene) -> None:
    group, (a,) = scene.group(), queues_of(scene, 1)
    scene.send(a[0])
    assert lock(scene.broker, group, "one", a) == {a}
    other = scene.connect()
    pulled = other.call(requests.pull(a[0], group))
    assert fields(pulled, "nextBeginOffset") == (0, 1)
    done(other.call(requests.commit_offset(group, a[0], 1)))
    assert scene.committed(group, a[0]) == 1


@case("LOCK-008", party="broker", claims="restart", after=GRANTED)
def test_a_restart_forgets_all_locks(scene: Scene) -> None:
    group, (a,) = scene.group(), queues_of(scene, 1)
    assert lock(scene.broker, group, "one", a) == {a}
    scene.restart(Restart.CLEAN)
    assert lock(scene.broker, group, "other", a) == {a}
