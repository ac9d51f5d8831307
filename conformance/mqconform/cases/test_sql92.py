"""Subscriptions by properties: SQL92 expressions, on a broker that is told to filter by them.

The last broker by name is told so; the first stays as it was, for the cases that expect that.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import Connection, eventually
from mqconform.fastjson import loads
from mqconform.records import parse_records
from mqconform.requests import Request, Subscription
from mqconform.scene import Scene, done
from mqconform.stage import Restart

FILTERED = "test_messages_are_chosen_by_their_properties[a = 1-one]"

WRITTEN_S = 25.0  # the file is written each 10 s, first after 10 s
ENTRY = ("topic", "consumerGroup", "expression", "expressionType", "clientVersion", "deadTime")

LARGE = (
    *(1 - 2**63, -(2**62), -(2**53) - 1, -(2**53), -(2**31) - 1),
    *(2**31, 2**53, 2**53 + 1, 2**62 - 1, 2**62, 2**63 - 1),
)

MANY = ", ".join(f"'{side}{n}'" for n in range(64) for side in "0z")  # texts that no message has

# By key: the properties of the messages of a topic.
MESSAGES = {
    "none": {},
    "one": {"a": "1"},
    "two": {"a": "2", "b": "2"},
    "word": {"a": "abc"},
    "true": {"c": "TRUE"},
}


def filtering(scene: Scene) -> Connection:
    """A connection to a broker that filters by properties."""
    broker = scene.connect(scene.broker_names[-1])
    scene.set_options(broker, enablePropertyFilter=True)
    return broker


def filled(scene: Scene, broker: Connection) -> str:
    """A topic with all messages."""
    topic = scene.name("T")
    done(broker.call(requests.create_topic(topic, 1, 1)))
    for key, properties in MESSAGES.items():
        request = requests.send(topic, properties={"KEYS": key, **properties})
        done(broker.call(request))
    assert eventually(lambda: scene.max_offset(topic, 0, broker) == len(MESSAGES))
    return topic


def pull(topic: str, group: str, expression: str, offset: int = 0) -> Request:
    request = requests.pull(topic, group, offset, subscription=expression)
    return request.having(expressionType="SQL92")


def found(broker: Connection, request: Request) -> str:
    """The keys of what a pull delivers."""
    answer = done(broker.call(request), 0, 20)
    assert answer.number("nextBeginOffset") == len(MESSAGES)
    return " ".join(record.key or "" for record in parse_records(answer.body))


@case("SUBS-010", party="broker", claims="brokers")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a = 1", "one"),
        ("a <> 1", "two"),
        ("NOT (a = 1)", "two"),
        ("a > 1 OR b IS NULL", "none one two true"),
        ("b IS NULL OR a > 1", "none one two word true"),
        ("a BETWEEN 1 AND 2 AND b = 2", "two"),
        ("a IN ('abc', '1')", "one word"),
        ("a NOT IN ('abc', '1')", "two"),
        (f"a IN ({MANY}, 'abc', '1')", "one word"),
        (f"a IN ('1', {MANY}, 'abc')", "one word"),
        (f"a NOT IN ('1', {MANY}, 'abc')", "two"),
        (f"a IN ('{'x' * 4_096}', '2')", "two"),
        (" OR ".join(["a = 'x'"] * 64 + ["a = '2'"]), "two"),
        (" AND ".join(["a = '2'"] * 64 + ["b = '2'"]), "two"),
        ("a IS NULL AND c = TRUE", "true"),
        ("a >= b", "two"),
        ("KEYS = 'word'", "word"),
        ("NULL OR a = 'x'", ""),
    ],
)
def test_messages_are_chosen_by_their_properties(
    scene: Scene, expression: str, expected: str
) -> None:
    broker = filtering(scene)
    topic = filled(scene, broker)
    assert found(broker, pull(topic, scene.new_group(), expression)) == expected


@case("SUBS-010", party="broker", claims="brokers")
def test_large_numbers_are_told_apart(scene: Scene) -> None:
    """Beyond 2^53, where doubles have none between two of them."""
    broker, topic, group = filtering(scene), scene.name("T"), scene.new_group()
    done(broker.call(requests.create_topic(topic, 1, 1)))
    for number in LARGE:
        done(broker.call(requests.send(topic, properties={"KEYS": str(number), "a": str(number)})))
    assert eventually(lambda: scene.max_offset(topic, 0, broker) == len(LARGE))

    def chosen(expression: str) -> list[int]:
        answer = done(broker.call(pull(topic, group, expression)), 0, 20)
        return [int(record.key or "") for record in parse_records(answer.body)]

    for number in LARGE:
        assert chosen(f"a = {number}") == [number]
        assert chosen(f"a > {number}") == [each for each in LARGE if each > number]
        assert chosen(f"a BETWEEN {number} AND {number}") == [number]


@case("SUBS-022", party="broker", claims="brokers")
def test_messages_are_chosen_by_a_part_of_a_property(scene: Scene) -> None:
    broker = filtering(scene)
    expression = "a CONTAINS 'b' OR a STARTSWITH '2' OR a ENDSWITH '1'"
    topic = filled(scene, broker)
    assert found(broker, pull(topic, scene.new_group(), expression)) == "one two word"


@case("SUBS-011", party="broker", claims="brokers")
@pytest.mark.parametrize(
    ("expression", "kind", "code"),
    [
        ("a > 1", "SQL92", 0),
        ("a > 1 AND b IS NOT NULL", "SQL92", 0),
        ("a >", "SQL92", 23),
        ("a > 'x'", "SQL92", 23),
        ("a = NULL", "SQL92", 23),
        ("1", "SQL92", 23),
        ("", "SQL92", 23),
        ("a > 1", "OTHER", 23),
        ("A || B", "TAG", 0),
    ],
)
def test_an_expression_is_checked(scene: Scene, expression: str, kind: str, code: int) -> None:
    request = requests.check_client_config(scene.new_group(), scene.name("T"), expression, kind)
    assert filtering(scene).call(request).code == code


@case("SUBS-012", party="broker", claims="brokers", after=FILTERED)
def test_an_expression_that_is_none(scene: Scene) -> None:
    broker, group = filtering(scene), scene.new_group()
    topic = filled(scene, broker)
    assert found(broker, pull(topic, group, "a =")) == " ".join(MESSAGES)
    assert broker.call(pull(topic, group, "")).code == 23
    carried_by_heartbeat = requests.pull(topic, group, subscription=None)
    for version, (expression, code) in enumerate((("a = 1", 0), ("a =", 27), ("a = 2", 0)), 1):
        subscription = Subscription(topic, expression, version, "SQL92")
        done(broker.call(requests.heartbeat(scene.client("one"), group, [subscription])))
        assert broker.call(carried_by_heartbeat).code == code
    assert found(broker, carried_by_heartbeat) == "two"


@case("SUBS-013", party="broker", claims="brokers", after=FILTERED)
def test_an_expression_ends_where_the_grammar_ends(scene: Scene) -> None:
    broker = filtering(scene)
    topic, group = filled(scene, broker), scene.new_group()
    assert found(broker, pull(topic, group, "a = 1 foo bar !!")) == "one"
    for expression, code in (("a = 1 foo !", 0), ("a = 1 !", 23)):
        request = requests.check_client_config(group, topic, expression, "SQL92")
        assert broker.call(request).code == code


@case("SUBS-014", party="broker", claims="brokers", after=FILTERED)
def test_a_held_pull_is_woken_by_what_it_wants(scene: Scene) -> None:
    broker, consumer = filtering(scene), filtering(scene)
    # The scan looks at no property. Right after one, which an early answer shows, it is far.
    for _ in range(3):
        topic, group = filled(scene, broker), scene.new_group()
        request = pull(topic, group, "a = 'mine'", len(MESSAGES))
        flags = requests.SUBSCRIPTION | requests.SUSPEND
        held = consumer.ask(request.having(sysFlag=flags, suspendTimeoutMillis=60_000))
        assert consumer.is_quiet(held)
        done(broker.call(requests.send(topic, properties={"a": "other", "KEYS": "other"})))
        if not consumer.is_quiet(held):
            continue
        sent_at = time.monotonic()
        done(broker.call(requests.send(topic, properties={"a": "mine", "KEYS": "mine"})))
        answer = consumer.answer(held)
        if answer.code == 20 and answer.number("maxOffset") == len(MESSAGES) + 1:
            continue  # the scan came just before it
        assert [record.key for record in parse_records(answer.body)] == ["mine"]
        assert time.monotonic() - sent_at < 4
        return
    pytest.fail("answered as soon as the message came, three times")


@case("SUBS-020", party="broker", claims="brokers", after=FILTERED)
def test_an_expression_outlives_its_group(scene: Scene) -> None:
    broker, group = filtering(scene), scene.new_group()
    topic = filled(scene, broker)
    by_heartbeat = requests.pull(topic, group, subscription=None)

    def wanted(expression: str, version: int) -> str:
        """What a group gets whose only member joins, pulls and leaves."""
        with scene.connect(scene.broker_names[-1]) as member:
            wants = Subscription(topic, expression, version, "SQL92")
            done(member.call(requests.heartbeat(scene.client("one"), group, [wants])))
            keys = found(member, by_heartbeat)
            done(member.call(requests.unregister(scene.client("one"), group)))
        assert broker.call(by_heartbeat).code == 24
        return keys

    assert wanted("a = 1", 10) == "one"
    assert wanted("a = 2", 5) == "one"
    assert wanted("a = 2", 10) == "one"
    assert wanted("a = 2", 11) == "two"


@case("SUBS-021", party="store", claims="restart store")
def test_expressions_are_written_and_read_again(scene: Scene) -> None:
    topic, group, left = scene.topic(), scene.group(), scene.group()
    wants = Subscription(topic, "a = 1", 7, "SQL92")
    with scene.connect() as leaves:
        done(leaves.call(requests.heartbeat(scene.client("two"), left, [wants])))
        done(leaves.call(requests.unregister(scene.client("two"), left)))
    done(scene.broker.call(requests.heartbeat(scene.client("one"), group, [wants])))
    assert eventually(lambda: bool(kept(scene, topic, group)), WRITTEN_S)
    alive, dead = kept(scene, topic, group), kept(scene, topic, left)
    assert alive.keys() >= {"bornTime", "bloomFilterData"}
    assert {name: alive[name] for name in ENTRY} == {
        "topic": topic,
        "consumerGroup": group,
        "expression": "a = 1",
        "expressionType": "SQL92",
        "clientVersion": 7,
        "deadTime": 0,
    }
    assert dead["deadTime"] >= dead["bornTime"]
    scene.restart(Restart.KILL)
    # What the broker has read has no member, and is written so.
    assert eventually(lambda: kept(scene, topic, group).get("deadTime", 0) > 0, WRITTEN_S)
    assert kept(scene, topic, left) == dead
    assert kept(scene, topic, group) | {"deadTime": 0, "dead": False} == alive


def kept(scene: Scene, topic: str, group: str) -> dict[str, Any]:
    """What consumerFilter.json has of a group; nothing while it is being written."""
    try:
        content = loads((scene.store / "config" / "consumerFilter.json").read_bytes())
    except (OSError, ValueError):
        return {}
    data = content["filterDataByTopic"].get(topic, {"groupFilterData": {}})
    return dict(data["groupFilterData"].get(group, {}))
