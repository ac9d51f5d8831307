"""Subscriptions: what the broker filters, and whose wish counts."""

from __future__ import annotations

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import eventually
from mqconform.frame import Frame
from mqconform.records import parse_records
from mqconform.requests import Subscription
from mqconform.scene import Scene, done, fields

STORED = "test_a_message_is_stored_as_it_was_sent"


def tags_of(scene: Scene, topic: str, group: str, subscription: str | None = "*") -> list[str]:
    """The tags that one pull delivers."""
    answer = scene.broker.call(requests.pull(topic, group, subscription=subscription))
    assert answer.code == 0
    return [record.properties["TAGS"] for record in parse_records(answer.body)]


def tagged(scene: Scene, tags: str) -> str:
    """A topic that holds a message of each tag."""
    topic = scene.topic()
    for tag in tags.split():
        scene.send(topic, tag=tag)
    return topic


@case("SUBS-001", party="broker", after=STORED)
@pytest.mark.parametrize(
    ("subscription", "found"),
    [("A", "A A"), ("A || C", "A C A"), (" B ", "B"), ("*", "A B C A"), ("", "A B C A")],
)
def test_a_pull_delivers_the_tags_that_it_wants(
    scene: Scene, subscription: str, found: str
) -> None:
    topic = tagged(scene, "A B C A")
    assert tags_of(scene, topic, scene.group(), subscription) == found.split()


@case("SUBS-001", party="broker", after=STORED)
def test_every_broker_filters(scene: Scene) -> None:
    topic, group = scene.topic(everywhere=True), scene.group()
    for name in scene.broker_names:
        broker = scene.connect(name)
        for tag in "ABA":
            scene.send(topic, tag=tag, broker=broker, broker_name=name)
        answer = broker.call(requests.pull(topic, group, subscription="A"))
        found = [record.properties["TAGS"] for record in parse_records(answer.body)]
        assert (answer.code, found) == (0, ["A", "A"]), name


@case("SUBS-001", party="broker", after=STORED)
def test_a_long_queue_is_filtered_to_its_end(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    for tag in "AB" * 3:
        batch = requests.send_batch(topic, [b"x"] * 200, properties={"TAGS": tag})
        done(scene.broker.call(batch))
    assert eventually(lambda: scene.max_offset(topic) == 1200)
    wanted = [n for n in range(1200) if n // 200 % 2 == 0]

    def found(offset: int, pulls: int) -> list[int]:
        """What the first pull gives that finds anything, of so many that follow each other."""
        for _ in range(pulls):
            answer = scene.broker.call(requests.pull(topic, group, offset, subscription="A"))
            if answer.code != 20:
                break
            offset = answer.number("nextBeginOffset")
        return [r.queue_offset for r in parse_records(answer.body)] if answer.code == 0 else []

    offsets = (0, 200, 799, 800, 990, 999, 1000, 1199)
    behind = {offset: [n for n in wanted if n >= offset][:32] for offset in offsets}
    for offset, expected in behind.items():
        some = found(offset, pulls=1200)
        assert some == expected[: len(some)], offset
        assert bool(some) is bool(expected), offset
    with scene.apaches():  # how far one pull looks
        assert {offset: found(offset, pulls=1) for offset in offsets} == behind


@case("SUBS-001", "SEND-013", party="broker", after=STORED)
def test_each_message_of_a_batch_has_its_own_tag(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    tags = ["A", "B", "B", "A", "C"]
    batch = requests.send_batch(topic, [b"x"] * len(tags), 0, [{"TAGS": tag} for tag in tags])
    done(scene.broker.call(batch))
    assert eventually(lambda: scene.max_offset(topic) == len(tags))
    for tag in dict.fromkeys(tags):
        pulled = scene.broker.call(requests.pull(topic, group, subscription=tag))
        found = [record.queue_offset for record in parse_records(done(pulled).body)]
        assert found == [n for n, one in enumerate(tags) if one == tag], tag


@case("SUBS-002", party="broker", after=STORED)
def test_a_pull_that_wants_none_of_the_tags_moves_on(scene: Scene) -> None:
    request = requests.pull(tagged(scene, "A B A"), scene.group(), subscription="Z")
    assert fields(scene.broker.call(request), "nextBeginOffset", "maxOffset") == (20, 3, 3)


@case("SUBS-003", party="broker", after=STORED)
def test_a_tag_of_the_same_hash_passes_the_broker(scene: Scene) -> None:
    assert tags_of(scene, tagged(scene, "Aa BB C"), scene.group(), "BB") == ["Aa", "BB"]


@case("SUBS-004", party="broker", after=STORED)
@pytest.mark.parametrize(("subscription", "code"), [("||", 23), ("|| ||", 20)])
def test_an_expression_without_tags(scene: Scene, subscription: str, code: int) -> None:
    topic = tagged(scene, "A")
    request = requests.pull(topic, scene.group(), subscription=subscription)
    assert scene.broker.call(request).code == code


@case("SUBS-005", party="broker")
def test_a_pull_needs_a_subscription(scene: Scene) -> None:
    topic, other, group = scene.topic(), scene.topic(), scene.group()
    request = requests.pull(topic, group, subscription=None)
    assert scene.broker.call(request).code == 24
    scene.broker.call(requests.heartbeat(scene.client("one"), group, [Subscription(other)]))
    assert scene.broker.call(request).code == 24
    scene.broker.call(
        requests.heartbeat(scene.client("one"), group, [Subscription(other), Subscription(topic)])
    )
    assert scene.broker.call(request).code == 19


@case("SUBS-006", party="broker")
@pytest.mark.parametrize(("asked", "code"), [(4, 19), (5, 19), (6, 25)])
def test_a_pull_with_a_newer_subscription_is_refused(scene: Scene, asked: int, code: int) -> None:
    topic, group = scene.topic(), scene.group()
    scene.broker.call(requests.heartbeat(scene.client("one"), group, [Subscription(topic, "*", 5)]))
    request = requests.pull(topic, group, subscription=None, sub_version=asked)
    assert scene.broker.call(request).code == code


@case("SUBS-006", "GROUP-009", party="broker", after=STORED)
def test_a_member_that_changes_what_it_wants_misses_nothing(scene: Scene) -> None:
    """The broker's half of SUBS-019: a real member's pulls name the version that it pulls by."""
    topic, group = tagged(scene, "A B A B"), scene.group()

    def pull(offset: int, version: int) -> Frame:
        request = requests.pull(topic, group, offset, subscription=None, sub_version=version)
        return scene.broker.call(request)

    def tags(answer: Frame) -> list[str]:
        return [record.properties["TAGS"] for record in parse_records(done(answer).body)]

    done(
        scene.broker.call(
            requests.heartbeat(scene.client("one"), group, [Subscription(topic, "A", 1)])
        )
    )
    assert tags(pull(0, 1)) == ["A", "A"]
    # It wants B too, and pulls before the broker knows: nothing is passed over by the old filter.
    assert pull(1, 2).code == 25
    done(
        scene.broker.call(
            requests.heartbeat(scene.client("one"), group, [Subscription(topic, "A || B", 2)])
        )
    )
    assert tags(pull(1, 2)) == ["B", "A", "B"]
    # A heartbeat of before comes late, and takes nothing back.
    done(
        scene.broker.call(
            requests.heartbeat(scene.client("one"), group, [Subscription(topic, "A", 1)])
        )
    )
    assert tags(pull(1, 2)) == ["B", "A", "B"]


@case("GROUP-009", party="broker", after=STORED)
def test_the_newest_subscription_of_a_group_wins(scene: Scene) -> None:
    topic, group = tagged(scene, "A B C"), scene.group()
    one, other = scene.connect(), scene.connect()
    one.call(requests.heartbeat(scene.client("one"), group, [Subscription(topic, "A", 10)]))
    assert tags_of(scene, topic, group, None) == ["A"]
    other.call(requests.heartbeat(scene.client("other"), group, [Subscription(topic, "B", 20)]))
    assert tags_of(scene, topic, group, None) == ["B"]
    one.call(requests.heartbeat(scene.client("one"), group, [Subscription(topic, "C", 15)]))
    assert tags_of(scene, topic, group, None) == ["B"]


@case("GROUP-009", party="broker", after=STORED)
@pytest.mark.parametrize(
    ("version", "wins"),
    [(-1, False), (999, False), (1000, False), (1001, True), (2**63 - 1, True)],
)
def test_a_subscription_must_be_newer_to_win(scene: Scene, version: int, *, wins: bool) -> None:
    """One of the same version does not: two members that want other tags would take messages
    from each other, whichever spoke last."""
    topic, group = tagged(scene, "A B C"), scene.group()
    one, other = scene.connect(), scene.connect()
    done(one.call(requests.heartbeat(scene.client("one"), group, [Subscription(topic, "A", 1000)])))
    done(
        other.call(
            requests.heartbeat(scene.client("other"), group, [Subscription(topic, "B", version)])
        )
    )
    assert tags_of(scene, topic, group, None) == (["B"] if wins else ["A"])


@case("GROUP-009", party="broker")
def test_a_member_drops_a_topic_of_the_whole_group(scene: Scene) -> None:
    kept, dropped, group = scene.topic(), scene.topic(), scene.group()
    both = [Subscription(kept), Subscription(dropped)]
    one, other = scene.connect(), scene.connect()
    one.call(requests.heartbeat(scene.client("one"), group, both))
    assert scene.broker.call(requests.pull(dropped, group, subscription=None)).code == 19
    other.call(requests.heartbeat(scene.client("other"), group, both[:1]))
    assert scene.broker.call(requests.pull(dropped, group, subscription=None)).code == 24
    assert scene.broker.call(requests.pull(kept, group, subscription=None)).code == 19


@case("SUBS-009", party="broker")
@pytest.mark.parametrize("kind", ["SQL92", "tag"])
def test_only_tags_are_filtered_by_default(scene: Scene, kind: str) -> None:
    topic, group = scene.topic(), scene.group()
    request = requests.pull(topic, group, subscription="a > 1").having(expressionType=kind)
    assert scene.broker.call(request).code == 1
    assert scene.broker.call(requests.check_client_config(group, topic, "a > 1", kind)).code == 1
    assert scene.broker.call(requests.check_client_config(group, topic, "A")).code == 0
