"""Messages by key and by id: the index as requests show it, and as it lies on disk."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from mqconform import requests
from mqconform.case import at_edges, case
from mqconform.connection import eventually
from mqconform.frame import Frame
from mqconform.records import parse_records
from mqconform.requests import Request, java_hash
from mqconform.scene import Scene, done
from mqconform.stage import Restart

STORED = "test_a_message_is_stored_as_it_was_sent"
FOUND = "test_a_message_is_found_by_each_of_its_keys"

# The head of an index file, and an entry (IndexHeader.java, IndexFile.java, 5.3.3).
HEAD = struct.Struct(">4q2i")
ENTRY = struct.Struct(">iqii")
LEAST = -(2**31)  # a hash
SLOTS = {  # of a file, by its size in bytes
    40 + 4 * slots + 20 * entries: slots
    for slots, entries in ((5_000_000, 20_000_000), (50_000, 200_000))
}


def store(scene: Scene, topic: str, body: bytes, **properties: str) -> int:
    """Store a message; its physical offset."""
    answer = done(scene.broker.call(requests.send(topic, body, properties=properties)))
    return int(answer.fields["msgId"][16:], 16)


def bodies(answer: Frame) -> list[bytes]:
    return [record.body for record in parse_records(answer.body)] if answer.code == 0 else []


def by_unique_key(topic: str, key: str) -> Request:
    """A query as clients ask it that look for a message by its id (MQAdminImpl, 5.3.3)."""
    return requests.query_message(topic, key).having(_UNIQUE_KEY_QUERY=True)


def found(scene: Scene, topic: str, key: str, *wanted: bytes, count: int = 32) -> Frame:
    """A query that finds the bodies, waiting for the index to get there."""
    return found_by(scene, requests.query_message(topic, key, count), *wanted)


def found_by(scene: Scene, request: Request, *wanted: bytes) -> Frame:
    answers = [scene.broker.call(request)]

    def is_found() -> bool:
        answers.append(scene.broker.call(request))
        return bodies(answers[-1]) == list(wanted)

    eventually(is_found)
    given = bodies(answers[-1])
    assert len(given) == len(wanted), f"{len(given)} messages are found of {len(wanted)}"
    assert given == list(wanted)
    return answers[-1]


def query(scene: Scene, request: Request) -> Frame:
    """The answer to a query: one that is refused while messages are stored is asked again, as the
    case that is about it fails (`test_a_query_is_answered_beside_sends`)."""
    answers = [scene.broker.call(request)]

    def is_answered() -> bool:
        answers.append(scene.broker.call(request))
        return answers[-1].code != 1

    if answers[-1].code == 1:
        eventually(is_answered)
    return answers[-1]


@case("LOG-020", party="store", after=STORED)
def test_a_message_is_found_by_each_of_its_keys(scene: Scene) -> None:
    topic, other = scene.topic(), scene.topic()
    store(scene, topic, b"one", KEYS="a b", UNIQ_KEY=scene.name("U"))
    position = store(scene, topic, b"two", KEYS="b  c", UNIQ_KEY=(unique := scene.name("U")))
    answer = found(scene, topic, "b", b"one", b"two")
    assert answer.number("indexLastUpdatePhyoffset") >= position
    found(scene, topic, "a", b"one")
    found(scene, topic, "c", b"two")
    found_by(scene, by_unique_key(topic, unique), b"two")
    for absent in ("a b", "d"):
        assert query(scene, requests.query_message(topic, absent)).code == 22
    assert query(scene, requests.query_message(other, "b")).code == 22
    with scene.apaches():  # no tool asks for no key
        assert query(scene, requests.query_message(topic, "")).code == 22


@case("LOG-020", party="store", after=FOUND)
def test_a_query_is_answered_beside_sends(scene: Scene) -> None:
    topic = scene.topic()
    store(scene, topic, b"one", KEYS="k")
    found(scene, topic, "k", b"one")
    for _ in range(20):
        store(scene, topic, b"other", KEYS="l")
        answer = scene.broker.call(requests.query_message(topic, "k"))
        with scene.apaches():  # a tool that is refused can ask again
            assert bodies(done(answer)) == [b"one"]


@case("LOG-020", party="store", after=FOUND)
def test_a_unique_key_is_one_of_the_keys(scene: Scene) -> None:
    topic, unique = scene.topic(), scene.name("U")
    store(scene, topic, b"one", UNIQ_KEY=unique)
    with scene.apaches():  # who looks for a unique key says so
        found(scene, topic, unique, b"one")


@case("LOG-020", party="store", after=FOUND)
def test_keys_are_told_apart_to_their_last_character(scene: Scene) -> None:
    topic = scene.topic()
    for size in (1, 15, 16, 17, 32, 64, 255, 1000):
        key = "k" * (size - 1)
        store(scene, topic, b"a", KEYS=key + "a")
        store(scene, topic, b"b", KEYS=key + "b")
        found(scene, topic, key + "a", b"a")
        found(scene, topic, key + "b", b"b")


@case("LOG-021", party="store", after=FOUND)
@at_edges("LOG-021", "messages asked for")
def test_the_newest_messages_are_found_first(scene: Scene, value: int, fits: bool) -> None:
    topic = scene.topic()
    sent = [b"%d" % n for n in range(70)]
    for body in sent:
        store(scene, topic, body, KEYS="k")
    found(scene, topic, "k", *sent[-value if fits else -64 :], count=value)
    assert query(scene, requests.query_message(topic, "k", 0)).code == 22


@case("LOG-021", party="store", after=FOUND)
def test_as_many_are_found_as_there_are(scene: Scene) -> None:
    topic = scene.topic()
    sent = [b"%d" % n for n in range(64)]
    for number, body in enumerate(sent, 1):
        store(scene, topic, body, KEYS="k")
        if number in (1, 31, 32, 33, 63, 64):
            found(scene, topic, "k", *sent[:number], count=64)


@case("LOG-021", party="store", after=FOUND)
def test_messages_are_found_whatever_their_size(scene: Scene) -> None:
    """Far more together than a pull is given."""
    topic = scene.topic()
    sent = [b"%d" % n + b"x" * size for n, size in enumerate((1, 262_144, 1 << 20, 1 << 21, 2))]
    for body in sent:
        store(scene, topic, body, KEYS="k")
    found(scene, topic, "k", *sent)


@case("LOG-022", party="broker", after=FOUND)
@at_edges("LOG-022", "messages stored")
def test_a_query_by_unique_key_asks_for_32(scene: Scene, value: int, fits: bool) -> None:
    topic = scene.topic()
    sent = [b"%d" % n for n in range(value)]
    for body in sent:
        store(scene, topic, body, UNIQ_KEY="k")
    wanted = sent if fits else sent[-32:]
    found_by(scene, by_unique_key(topic, "k").having(maxNum=0), *wanted)


@case("LOG-023", party="broker", after=FOUND)
def test_messages_of_another_time_are_not_found(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    scene.send(topic, b"here")
    (record,) = scene.read_all(topic, group)
    found(scene, topic, scene.last_key, b"here")
    at, request = record.store_timestamp, requests.query_message(topic, scene.last_key)
    around = request.having(beginTimestamp=at - 1000, endTimestamp=at)
    assert bodies(query(scene, around)) == [b"here"]
    for begin, end in ((0, at - 2000), (at + 2000, at + 4000), (at + 2000, at - 2000)):
        answer = query(scene, request.having(beginTimestamp=begin, endTimestamp=end))
        assert (answer.code, answer.number("indexLastUpdateTimestamp")) == (22, 0)


@case("LOG-029", party="broker", after=FOUND)
@pytest.mark.parametrize("field", ["maxNum", "beginTimestamp", "endTimestamp"])
def test_a_query_says_what_it_asks_for(scene: Scene, field: str) -> None:
    request = requests.query_message(scene.topic(), "k").without(field)
    assert scene.broker.call(request).code == 1


@case("LOG-029", party="broker", after=FOUND)
def test_a_query_without_a_key_looks_for_null(scene: Scene) -> None:
    topic = scene.topic()
    request = requests.query_message(topic, "k").without("key")
    assert query(scene, request).code == 22
    store(scene, topic, b"null", KEYS="null")
    found(scene, topic, "null", b"null")
    assert bodies(query(scene, request)) == [b"null"]


@case("LOG-024", party="store", after=FOUND)
def test_keys_of_one_hash_are_one_key(scene: Scene) -> None:
    topic = scene.topic()
    assert java_hash("Aa") == java_hash("BB")
    store(scene, topic, b"Aa", KEYS="Aa")
    store(scene, topic, b"BB", KEYS="BB")
    found(scene, topic, "Aa", b"Aa", b"BB")


@case("SEND-001", "SUBS-001", party="broker", after=FOUND)
@pytest.mark.parametrize("before", [True, False], ids=["before", "behind"])
def test_a_property_is_told_from_those_that_end_like_it(scene: Scene, before: bool) -> None:
    topic, key = scene.topic(), scene.name("K")
    own = {"TAGS": "A", "KEYS": "k", "UNIQ_KEY": key}
    others = {"xTAGS": "B", "xKEYS": "other", "xUNIQ_KEY": "other", "xDELAY": "18"}
    properties = {**others, **own} if before else {**own, **others}
    answer = done(scene.broker.call(requests.send(topic, b"one", properties=properties)))
    assert answer.fields["transactionId"] == key
    found(scene, topic, "k", b"one")
    found_by(scene, by_unique_key(topic, key), b"one")
    assert query(scene, requests.query_message(topic, "other")).code == 22
    for tag, wanted in (("A", [b"one"]), ("B", [])):
        pulled = scene.broker.call(requests.pull(topic, scene.group(), subscription=tag))
        assert bodies(pulled) == wanted


@case("LOG-025", party="broker", after=STORED)
def test_a_message_is_found_by_its_id(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    for body in (b"one", b"two"):
        scene.send(topic, body)
    for record in scene.read_all(topic, group):
        answer = scene.broker.call(requests.view_message(record.physical_offset))
        assert (answer.code, parse_records(answer.body)) == (0, [record])
    for nowhere in (-1, 1 << 60):
        answer = scene.broker.call(requests.view_message(nowhere))
        assert answer.code == 1
        scene.worded(answer, f"can not find message by the offset, {nowhere}")


@case("LOG-026", party="store", after=FOUND)
def test_a_prepared_record_is_indexed_and_a_rollback_one_is_not(scene: Scene) -> None:
    topic = scene.topic()
    for flag in (4, 12):
        request = requests.send(topic, b"%d" % flag, properties={"KEYS": "k"}).having(f=flag)
        done(scene.broker.call(request))
    store(scene, topic, b"last", KEYS="k")
    found(scene, topic, "k", b"4", b"last")


@case("LOG-027", party="store", claims="restart", after=FOUND)
@pytest.mark.parametrize("kind", [Restart.CLEAN, Restart.KILL], ids=lambda kind: kind.value)
def test_messages_are_found_after_a_restart(scene: Scene, kind: Restart) -> None:
    topic = scene.topic()
    store(scene, topic, b"one", KEYS="one both")
    store(scene, topic, b"two", KEYS="two both")
    found(scene, topic, "both", b"one", b"two")
    scene.restart(kind)
    found(scene, topic, "one", b"one")
    answer = query(scene, requests.query_message(topic, "both"))
    assert set(bodies(answer)) == {b"one", b"two"}


@case("LOG-028", party="store", claims="store", after=FOUND)
def test_an_index_file_is_chains_of_entries(scene: Scene) -> None:
    topic = scene.topic()
    positions = [store(scene, topic, body, KEYS="k") for body in (b"one", b"two")]
    found(scene, topic, "k", b"one", b"two")
    path = sorted((scene.store / "index").iterdir())[-1]
    assert (len(path.name), path.name.isdecimal()) == (17, True)
    assert chain(path, f"{topic}#k") == positions[::-1]


@case("LOG-028", party="store", claims="store", after=FOUND)
def test_the_key_of_the_least_hash_is_kept_as_0(scene: Scene) -> None:
    """It is the one whose absolute value is no Java integer."""
    topic = scene.topic()
    key = key_of(f"{topic}#", LEAST)
    assert java_hash(f"{topic}#{key}") == LEAST
    position = store(scene, topic, b"one", KEYS=key)
    found(scene, topic, key, b"one")
    path = sorted((scene.store / "index").iterdir())[-1]
    assert chain(path, f"{topic}#{key}") == [position]


def key_of(head: str, hash_: int) -> str:
    """Seven characters behind which the text has that hash."""
    left = (hash_ - java_hash(head + "A" * 7)) % 2**32
    return "".join(chr(ord("A") + left // 31**n % 31) for n in reversed(range(7)))


def chain(path: Path, key: str) -> list[int]:
    """The positions in the chain of a key in an index file."""
    slots = SLOTS[path.stat().st_size]
    hash_ = abs(java_hash(key)) if java_hash(key) != LEAST else 0
    found = []
    with path.open("rb") as file:
        begin, end, first, last, used, following = HEAD.unpack(file.read(HEAD.size))
        assert 0 < begin <= end
        assert first <= last
        assert 0 < used < following
        file.seek(HEAD.size + 4 * (hash_ % slots))
        (number,) = struct.unpack(">i", file.read(4))
        while number:
            file.seek(HEAD.size + 4 * slots + ENTRY.size * number)
            code, position, seconds, previous = ENTRY.unpack(file.read(ENTRY.size))
            assert previous < number < following
            assert 0 <= seconds <= (end - begin) // 1000
            found += [position] if code == hash_ else []
            number = previous
    return found
