"""Transactions: half messages, how they end, and what becomes of those that do not.

A broker looks at its halves each 30 s. The born time of a message is the producer's, and so is
the count of checks in its properties: a case need not wait until a half is old, or until it was
checked 14 times, only for the next look.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.cases import BUSY_S
from mqconform.connection import QUIET_S, Connection, eventually
from mqconform.frame import ONE_WAY, Frame
from mqconform.records import Record, parse_records
from mqconform.requests import COMMIT, RESUME_CHECK_HALF_MESSAGE, ROLLBACK, UNKNOWN, Request
from mqconform.scene import Scene, done, shows
from mqconform.stage import Restart

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
PARKED_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
COMMITTED = "test_a_committed_message_is_delivered"
CHECKED = "test_a_half_without_an_end_is_checked_back"
NEXT_CHECK_S = 75.0  # a look each 30 s, behind a half that is younger than 6 s
LONG_AGO_MS = 60_000
DELAY_S = 15.0
OP_BATCH_S = 3.0  # transactionOpBatchInterval
SENDS_MOST = 500  # to bring two queues to one offset
CHECKS = 8  # of a half, each 2 s, until a younger one must be old enough as well
PREPARED = 4  # of a sysFlag
COMPRESSED = 0x301  # of a sysFlag: the body is a zlib stream
ZLIB_BODY = zlib.compress(b"half" * 100)
IN_TURN = 8  # producers: few brokers that ask at random ask each of them once


class Half(NamedTuple):
    """A half message in a topic of its own."""

    topic: str
    queue_id: int
    group: str
    queue_offset: int  # in the half topic
    position: int

    def end(self, kind: int, *, from_check: bool = False) -> requests.Request:
        return requests.end_transaction(
            self.group, self.queue_offset, self.position, kind, from_check=from_check
        )


def send_half(
    scene: Scene,
    properties: Mapping[str, str] | None = None,
    *,
    group: str | None = None,
    queue_id: int = 0,
    age_ms: int = 0,
) -> Half:
    topic, group = scene.topic(queue_id + 1), group or scene.name("P")
    request = requests.send_half(
        topic, group, b"half", {"UNIQ_KEY": scene.name("K"), **(properties or {})}
    )
    born = time.time_ns() // 1_000_000 - age_ms
    answer = done(scene.broker.call(request.having(e=queue_id, g=born, h=7)))
    assert answer.fields["queueId"] == str(queue_id)
    position = int(answer.fields["msgId"][-16:], 16)
    return Half(topic, queue_id, group, answer.number("queueOffset"), position)


def ends(scene: Scene, half: Half) -> list[int]:
    """How many messages each queue of the half's topic has, up to its own."""
    return [scene.max_offset(half.topic, queue_id) for queue_id in range(half.queue_id + 1)]


def is_published(scene: Scene, half: Half) -> bool:
    """Whether the message of a half comes to be in its queue, once, and in no other."""
    expected = [0] * half.queue_id + [1]
    return eventually(lambda: any(ends(scene, half))) and ends(scene, half) == expected


def lies_in_half_topic(scene: Scene, half: Half) -> bool:
    """Whether the broker stored a half where it says; one with a delay may lie elsewhere."""
    if scene.max_offset(HALF_TOPIC) <= half.queue_offset:
        return False
    return stored_half(scene, half).physical_offset == half.position


def stored_half(scene: Scene, half: Half) -> Record:
    """The half, as it lies in the half topic."""
    assert eventually(lambda: scene.max_offset(HALF_TOPIC) > half.queue_offset)
    (record, *_) = scene.pull(requests.pull(HALF_TOPIC, scene.group(), half.queue_offset))
    return record


def check_back(producer: Connection) -> tuple[Frame, Record]:
    """The next check-back, and the message that it is about."""
    notice = producer.notice(NEXT_CHECK_S)
    assert notice.code == requests.CHECK_TRANSACTION_STATE
    assert notice.flag & ONE_WAY
    (record,) = parse_records(notice.body)
    return notice, record


def asked(scene: Scene, notice: Frame, half: Half) -> Half:
    """The copy of a half that a check-back names."""
    return half._replace(
        queue_offset=notice.number("tranStateTableOffset"),
        position=notice.number("commitLogOffset"),
    )


def checked_back(
    scene: Scene, properties: Mapping[str, str] | None = None
) -> tuple[Half, Half, Record]:
    """A half whose producer is asked, the copy of it that is named then, and the message."""
    producer, group = scene.connect(), scene.name("P")
    done(producer.call(requests.producer_heartbeat(scene.name("C"), group)))
    half = send_half(scene, properties, group=group, age_ms=LONG_AGO_MS)
    notice, record = check_back(producer)
    return half, asked(scene, notice, half), record


def ended(scene: Scene, group: str) -> dict[int, int]:
    """The halves that op messages name, and when the first of these was stored, ms."""
    found = scene.read_all(OP_TOPIC, group) if scene.max_offset(OP_TOPIC) else []
    assert {record.properties["TAGS"] for record in found} <= {"d"}
    assert all(record.body.endswith(b",") for record in found)
    return {half: record.store_timestamp for record in reversed(found) for half in named(record)}


def named(op: Record) -> set[int]:
    """The halves that an op message names."""
    return {int(word) for word in op.body.split(b",") if word}


@case("TX-001", "TX-002", party="broker")
def test_a_half_waits_in_the_half_topic(scene: Scene) -> None:
    half = send_half(scene, {"TAGS": "A"}, queue_id=1)
    record = stored_half(scene, half)
    assert (record.topic, record.queue_id, record.sys_flag) == (HALF_TOPIC, 0, 0)
    assert (record.body, record.flag) == (b"half", 7)
    assert record.physical_offset == half.position
    expected = {"REAL_TOPIC": half.topic, "REAL_QID": "1", "TAGS": "A"}
    shows(record.properties, expected)
    assert ends(scene, half) == [0, 0]


@case("TX-022", party="broker")
def test_a_half_has_the_id_of_its_transaction(scene: Scene) -> None:
    properties = stored_half(scene, send_half(scene)).properties
    assert properties["__transactionId__"] == properties["UNIQ_KEY"]


@case("TX-003", party="broker")
def test_a_committed_message_is_delivered(scene: Scene) -> None:
    half = send_half(scene, {"TAGS": "A", "KEYS": "k"}, queue_id=1)
    stored = stored_half(scene, half)
    assert scene.broker.call(half.end(COMMIT)).code == 0
    assert is_published(scene, half)
    (record,) = scene.read_all(half.topic, scene.group(), half.queue_id)
    assert (record.body, record.flag, record.queue_id) == (b"half", 7, 1)
    assert record.born_timestamp == stored.born_timestamp
    shows(record.properties, {"TAGS": "A", "KEYS": "k"})
    assert record.sys_flag == COMMIT
    assert record.prepared_transaction_offset == half.position


@case("TX-003", party="broker", after=COMMITTED)
def test_a_compressed_half_is_delivered_as_one(scene: Scene) -> None:
    """By its flag a consumer knows that it must be decompressed, and how."""
    topic, group = scene.topic(), scene.name("P")
    send = requests.send_half(topic, group, ZLIB_BODY, {"UNIQ_KEY": scene.name("K")})
    answer = done(scene.broker.call(send.having(f=PREPARED | COMPRESSED)))
    half = Half(
        topic, 0, group, answer.number("queueOffset"), int(answer.fields["msgId"][-16:], 16)
    )
    assert stored_half(scene, half).sys_flag == COMPRESSED
    done(scene.broker.call(half.end(COMMIT)))
    assert is_published(scene, half)
    (record,) = scene.read_all(topic, scene.group())
    assert (record.sys_flag, record.body) == (COMMIT | COMPRESSED, ZLIB_BODY)


@case("TX-004", party="broker", after=COMMITTED)
def test_a_half_with_a_delay_is_delivered(scene: Scene) -> None:
    # Level 2: where it is kept with the delayed messages, and its end is noted in the op queue of
    # its queue there, nobody reads that one, and no half of another case is harmed.
    half = send_half(scene, {"DELAY": "2"}, queue_id=1)
    scene.send(before := scene.topic())  # stored just before the commit
    assert scene.broker.call(half.end(COMMIT)).code == 0
    assert eventually(lambda: scene.max_offset(half.topic, half.queue_id) == 1, DELAY_S)
    group = scene.group()
    (mark,), (record,) = (
        scene.read_all(*queue) for queue in ((before, group), (half.topic, group, half.queue_id))
    )
    assert record.store_timestamp >= mark.store_timestamp + 5000


@case("TX-005", party="broker", after=COMMITTED)
def test_every_commit_publishes(scene: Scene) -> None:
    half = send_half(scene)
    for kind in (COMMIT, COMMIT, ROLLBACK, COMMIT):
        assert scene.broker.call(half.end(kind)).code == 0
    assert eventually(lambda: scene.max_offset(half.topic) == 3)


@case("TX-006", "TX-007", party="broker")
def test_a_half_without_an_end_is_checked_back(scene: Scene) -> None:
    producer, group = scene.connect(), scene.name("P")
    done(producer.call(requests.producer_heartbeat(scene.name("C"), group)))
    times = {"TRANSACTION_CHECK_TIMES": "3"}
    half = send_half(scene, times, group=group, queue_id=1, age_ms=LONG_AGO_MS)
    notice, record = check_back(producer)
    assert (record.topic, record.queue_id, record.body) == (half.topic, 1, b"half")
    assert record.properties["TRANSACTION_CHECK_TIMES"] == "4"
    key = record.properties["UNIQ_KEY"]
    assert [notice.fields[name] for name in ("msgId", "transactionId")] == [key, key]
    copy = asked(scene, notice, half)
    assert copy.queue_offset > half.queue_offset
    stored = stored_half(scene, copy)
    kept = {name: value for name, value in stored.properties.items() if name != "WAIT"}  # TX-020
    shows(record.properties, kept)
    assert stored.physical_offset == record.physical_offset == copy.position
    assert scene.broker.call(copy.end(COMMIT, from_check=True)).code == 0
    assert is_published(scene, half)
    with scene.apaches():  # a producer reads the message's own words
        assert notice.fields["offsetMsgId"] == stored.message_id


@case("TX-023", party="broker", after=CHECKED)
def test_a_check_back_names_the_half_topic(scene: Scene) -> None:
    producer, group = scene.connect(), scene.name("P")
    done(producer.call(requests.producer_heartbeat(scene.name("C"), group)))
    half = send_half(scene, group=group, age_ms=LONG_AGO_MS)
    notice, _ = check_back(producer)
    assert notice.fields["topic"] == HALF_TOPIC
    done(scene.broker.call(half.end(ROLLBACK)))


@case("TX-020", party="broker", after=CHECKED)
def test_the_message_of_a_check_back_does_not_wait(scene: Scene) -> None:
    _, copy, record = checked_back(scene, {"WAIT": "true"})
    assert record.properties["WAIT"] == "false"
    assert stored_half(scene, copy).properties["WAIT"] == "true"


@case("TX-018", party="broker", after=CHECKED)
def test_a_half_that_was_checked_back_is_delivered_as_it_was_sent(scene: Scene) -> None:
    half, copy, _ = checked_back(scene, {"KEYS": "k"})
    done(scene.broker.call(copy.end(COMMIT, from_check=True)))
    assert is_published(scene, half)
    (record,) = scene.read_all(half.topic, scene.group())
    assert (record.body, record.properties["KEYS"], record.flag) == (b"half", "k", 7)


@case("TX-006", party="broker", after=CHECKED)
def test_the_end_of_a_half_with_a_delay_ends_no_other(scene: Scene) -> None:
    delayed, half = one_place(scene)
    assert scene.broker.call(delayed.end(COMMIT)).code == 0
    behind = send_half(scene, group=half.group, age_ms=LONG_AGO_MS)
    assert behind.queue_offset > half.queue_offset
    producer = scene.connect()
    done(producer.call(requests.producer_heartbeat(scene.name("C"), half.group)))
    asked_about: list[str] = []
    while half.topic not in asked_about and len(asked_about) < CHECKS:
        asked_about.append(check_back(producer)[1].topic)
    assert half.topic in asked_about, "it is not checked back, and the one behind it is"


def one_place(scene: Scene) -> tuple[Half, Half]:
    """A half with a delay and a young one without, of one queue offset, where the broker keeps
    them in two topics; if these are very far apart, then of any."""
    delayed = send_half(scene, {"DELAY": "1"})
    for _ in range(SENDS_MOST):
        if lies_in_half_topic(scene, delayed):
            break
        if delayed.queue_offset < scene.max_offset(HALF_TOPIC):
            delayed = send_half(scene, {"DELAY": "1"})
        elif (half := send_half(scene)).queue_offset == delayed.queue_offset:
            return delayed, half
    return delayed, send_half(scene)


@case("TX-005", party="broker", after=CHECKED)
def test_a_commit_of_the_older_copy_counts_too(scene: Scene) -> None:
    half, copy, _ = checked_back(scene)
    for ended in (half, copy):
        assert scene.broker.call(ended.end(COMMIT)).code == 0
    assert eventually(lambda: scene.max_offset(half.topic) == 2)


@case("TX-008", party="broker", after=CHECKED)
def test_a_half_that_was_checked_often_is_parked(scene: Scene) -> None:
    producer, half, record = parked(scene)
    assert (record.body, record.properties["PGROUP"]) == (b"half", half.group)
    assert not producer.notices


def parked(scene: Scene) -> tuple[Connection, Half, Record]:
    """A half that is checked back no more, its producer, and how it is kept."""
    producer, group = scene.connect(), scene.name("P")
    done(producer.call(requests.producer_heartbeat(scene.name("C"), group)))
    half = send_half(scene, {"TRANSACTION_CHECK_TIMES": "15"}, group=group, age_ms=LONG_AGO_MS)
    reader = scene.group()

    def found() -> list[Record]:
        if scene.max_offset(PARKED_TOPIC) == 0:
            return []
        kept = scene.read_all(PARKED_TOPIC, reader)
        return [r for r in kept if r.properties["REAL_TOPIC"] == half.topic]

    assert eventually(lambda: len(found()) == 1, NEXT_CHECK_S)
    (record,) = found()
    return producer, half, record


@case("TX-021", party="broker", after="test_a_half_that_was_checked_often_is_parked")
def test_a_parked_half_is_checked_again(scene: Scene) -> None:
    producer, half, record = parked(scene)
    done(scene.broker.call(Request(RESUME_CHECK_HALF_MESSAGE, {"msgId": record.message_id})))
    notice, checked = check_back(producer)
    assert (checked.topic, checked.properties["TRANSACTION_CHECK_TIMES"]) == (half.topic, "1")
    done(scene.broker.call(asked(scene, notice, half).end(COMMIT)))
    assert is_published(scene, half)


@case("TX-021", party="broker")
@pytest.mark.parametrize(
    "named",
    [{}, {"msgId": "abc"}, {"msgId": "7F000001000000010FFFFFFFFFFFFFFF"}],
    ids=["no id", "none", "none there"],
)
def test_nothing_is_checked_again_that_is_not_there(scene: Scene, named: dict[str, str]) -> None:
    assert scene.broker.call(Request(RESUME_CHECK_HALF_MESSAGE, named)).code == 1


@case("TX-009", party="broker")
def test_a_producer_that_does_not_know_gets_no_answer(scene: Scene) -> None:
    half = send_half(scene)
    is_quiet = scene.broker.is_quiet(scene.broker.ask(half.end(UNKNOWN)))
    other = scene.broker.call(half.end(3))
    scene.send(half.topic)
    assert scene.max_offset(half.topic) == 1
    assert scene.broker.call(half.end(COMMIT)).code == 0
    with scene.apaches():  # a producer sends it one way
        assert is_quiet
        assert other.code == 1


@case("TX-010", party="broker")
def test_ended_halves_are_in_an_op_message(scene: Scene) -> None:
    op_message_in_time(scene)
    op_message_in_time(scene)  # these end right after an op message, so that the next is far


def op_message_in_time(scene: Scene) -> None:
    halves = [send_half(scene) for _ in range(3)]
    for half, kind in zip(halves, (COMMIT, ROLLBACK, COMMIT), strict=True):
        assert scene.broker.call(half.end(kind)).code == 0
    wanted, group = {half.queue_offset for half in halves}, scene.group()
    assert eventually(lambda: wanted <= ended(scene, group).keys())
    with scene.apaches():  # what ends together is noted together, but for what is just written
        naming = [op for op in scene.read_all(OP_TOPIC, group) if wanted & named(op)]
        assert len(naming) < len(halves)
    assert is_published(scene, halves[-1])
    (last,) = scene.read_all(halves[-1].topic, group)  # stored when the last of them ended
    written = max(time_ms for half, time_ms in ended(scene, group).items() if half in wanted)
    assert written <= last.store_timestamp + 1000 * (OP_BATCH_S + BUSY_S)


def that_fit_not(scene: Scene, half: Half) -> list[Half]:
    """What is like the half, but for the group, the queue offset or the position."""
    return [
        half._replace(group=scene.name("P")),
        half._replace(queue_offset=half.queue_offset + 1),
        half._replace(position=1 << 40),
    ]


@case("TX-011", party="broker", after=COMMITTED)
@pytest.mark.parametrize("kind", [COMMIT, ROLLBACK])
def test_an_end_that_fits_no_half_is_refused(scene: Scene, kind: int) -> None:
    half = send_half(scene)
    ends = [other.end(kind) for other in that_fit_not(scene, half)]
    codes = [
        scene.broker.call(end).code for end in (*ends, half.end(kind).without("producerGroup"))
    ]
    scene.send(half.topic)
    assert scene.max_offset(half.topic) == 1
    with scene.apaches():  # a producer sends it one way
        assert codes == [1] * len(codes)


@case("TX-011", "TX-010", party="broker", after=COMMITTED)
@pytest.mark.parametrize("kind", [COMMIT, ROLLBACK])
def test_an_end_that_is_refused_is_not_written(scene: Scene, kind: int) -> None:
    half = send_half(scene)
    for other in that_fit_not(scene, half):
        scene.broker.call(other.end(kind))
    later, group = send_half(scene), scene.group()
    done(scene.broker.call(later.end(ROLLBACK)))
    assert eventually(lambda: later.queue_offset in ended(scene, group))
    assert half.queue_offset not in ended(scene, group)


@case("TX-012", party="broker", after=COMMITTED)
def test_an_end_after_the_immunity_of_its_half_is_refused(scene: Scene) -> None:
    properties = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "30"}
    half = send_half(scene, properties, age_ms=LONG_AGO_MS)
    assert scene.broker.call(half.end(COMMIT)).code == 604
    scene.send(half.topic)
    assert scene.max_offset(half.topic) == 1
    assert scene.broker.call(half.end(COMMIT, from_check=True)).code == 0
    assert eventually(lambda: scene.max_offset(half.topic) == 2)


@case("TX-012", party="broker", after=CHECKED)
def test_a_half_is_not_checked_back_in_its_immunity(scene: Scene) -> None:
    producer, group = scene.connect(), scene.name("P")
    done(producer.call(requests.producer_heartbeat(scene.name("C"), group)))
    immune = send_half(
        scene, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "600"}, group=group, age_ms=LONG_AGO_MS
    )
    other = send_half(scene, group=group, age_ms=LONG_AGO_MS)
    _, record = check_back(producer)
    assert record.topic == other.topic
    assert not producer.notices
    assert scene.broker.call(immune.end(COMMIT)).code == 0


@case("TX-013", party="broker", claims="restart", after=CHECKED)
def test_a_half_is_checked_back_after_a_kill(scene: Scene) -> None:
    group = scene.name("P")
    # Until all are ready for the restart it may be looked at more than 15 times.
    never_parked = {"TRANSACTION_CHECK_TIMES": "-1000"}
    half = send_half(scene, never_parked, group=group, age_ms=LONG_AGO_MS)
    scene.restart(Restart.KILL)
    producer = scene.connect()
    done(producer.call(requests.producer_heartbeat(scene.name("C"), group)))
    notice, record = check_back(producer)
    assert record.topic == half.topic
    copy = asked(scene, notice, half)
    assert scene.broker.call(copy.end(COMMIT, from_check=True)).code == 0
    assert is_published(scene, half)


@case("TX-014", "TX-010", party="broker", after=CHECKED)
def test_a_half_that_was_rolled_back_is_gone(scene: Scene) -> None:
    producer, group = scene.connect(), scene.name("P")
    done(producer.call(requests.producer_heartbeat(scene.name("C"), group)))
    gone = send_half(scene, group=group)  # young: not asked about before its end is written
    assert scene.broker.call(gone.end(ROLLBACK)).code == 0
    assert eventually(lambda: gone.queue_offset in ended(scene, scene.group()))
    other = send_half(scene, group=group, age_ms=LONG_AGO_MS)
    _, record = check_back(producer)
    assert record.topic == other.topic
    assert scene.max_offset(gone.topic) == 0


@case("TX-015", party="broker")
def test_the_property_makes_a_half_and_not_the_flag(scene: Scene) -> None:
    topic, group = scene.topic(), scene.name("P")
    for flag in (4, 12):
        answer = scene.broker.call(requests.send(topic).having(f=flag))
        assert (answer.code, answer.fields["queueOffset"]) == (0, "0")
    half = scene.broker.call(requests.send_half(topic, group).having(f=0))
    assert half.code == 0
    scene.send(topic)
    assert scene.max_offset(topic) == 1


def times_asked(producer: Connection) -> int:
    """How often a producer is asked, from now on until it is quiet."""
    times = 0
    while not producer.is_quiet(within=0 if times else QUIET_S):
        times += 1
    return times


@case("TX-016", party="broker", after=CHECKED)
def test_producers_of_a_group_are_asked_in_turn(scene: Scene) -> None:
    topic, group, behind = scene.topic(), scene.name("P"), scene.name("P")
    *producers, last = (scene.connect() for _ in range(IN_TURN + 1))
    for producer in producers:
        done(producer.call(requests.producer_heartbeat(scene.name("C"), group)))
    done(last.call(requests.producer_heartbeat(scene.name("C"), behind)))
    # The turn may be that of all groups together: another's half between these takes one. And a
    # one-way request may be lost.
    for _ in range(3):
        once = {"UNIQ_KEY": scene.name("K"), "TRANSACTION_CHECK_TIMES": "14"}  # then it is parked
        half = requests.send_half(topic, group, b"half", once)
        born = time.time_ns() // 1_000_000 - LONG_AGO_MS
        for opaque in [scene.broker.ask(half.having(g=born)) for _ in producers]:
            done(scene.broker.answer(opaque))
        send_half(scene, once, group=behind, age_ms=LONG_AGO_MS)
        check_back(last)  # halves are looked at in their order: so the others were
        if [times_asked(producer) for producer in producers] == [1] * IN_TURN:
            return
    pytest.fail("one was asked twice before another, three times")
