"""Consumer offsets: what a broker keeps of what a group says, and where a queue begins and ends."""

from __future__ import annotations

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import eventually
from mqconform.requests import Subscription
from mqconform.scene import Scene, done, fields

STORED = "test_a_message_is_stored_as_it_was_sent"
COMMITTED = "test_a_committed_offset_is_kept_as_it_is[1-0]"


@case("OFFSET-010", party="broker")
@pytest.mark.parametrize(("offset", "queue_id"), [(1, 0), (0, 0), (9999, 0), (4, 77), (2**40, 0)])
def test_a_committed_offset_is_kept_as_it_is(scene: Scene, offset: int, queue_id: int) -> None:
    topic, group = scene.topic(), scene.group()
    answer = scene.broker.call(requests.commit_offset(group, topic, offset, queue_id))
    assert answer.code == 0
    query = scene.broker.call(requests.query_offset(group, topic, queue_id))
    assert fields(query, "offset") == (0, offset)


@case("OFFSET-011", party="broker")
def test_the_last_offset_counts_though_it_goes_back(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    for offset in (10, 5, 7, 0):
        assert scene.connect().call(requests.commit_offset(group, topic, offset)).code == 0
        assert scene.committed(group, topic) == offset


@case("OFFSET-012", party="broker")
def test_a_negative_offset_is_taken_for_none(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    assert scene.broker.call(requests.commit_offset(group, topic, 3)).code == 0
    assert scene.broker.call(requests.commit_offset(group, topic, -3)).code == 0
    assert scene.committed(group, topic) is None


@case("OFFSET-013", "OFFSET-022", party="broker", after=STORED)
def test_a_young_queue_is_consumed_from_its_first_message(scene: Scene) -> None:
    topic, group, nobody = scene.topic(), scene.group(), scene.new_group()
    scene.send(topic)
    for request in (
        requests.query_offset(group, topic),
        requests.query_offset(nobody, topic).having(setZeroIfNotFound=True),
    ):
        assert fields(scene.broker.call(request), "offset") == (0, 0)
    assert [scene.committed(asked, topic) for asked in (group, nobody)] == [None, None]


@case("OFFSET-014", party="broker", after=STORED)
def test_an_offset_that_is_not_kept_is_not_found(scene: Scene) -> None:
    topic, group = scene.topic(queues=2), scene.group()
    scene.send(topic)
    not_zero = requests.query_offset(group, topic).having(setZeroIfNotFound=False)
    assert scene.broker.call(not_zero).code == 22
    for unknown in (
        requests.query_offset(group, topic, 1),
        requests.query_offset(group, topic, 99),
        requests.query_offset(group, scene.name("T")),
    ):
        assert scene.broker.call(unknown).code == 22


@case("OFFSET-015", party="broker")
def test_an_offset_of_an_unknown_group_or_topic_is_refused(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    nobody, nowhere = scene.name("G"), scene.name("T")
    assert scene.broker.call(requests.commit_offset(nobody, topic, 1)).code == 26
    assert scene.committed(nobody, topic) is None
    assert scene.broker.call(requests.commit_offset(group, nowhere, 1)).code == 17
    assert scene.committed(group, nowhere) is None


@case("OFFSET-050", party="broker")
@pytest.mark.parametrize("left_out", ["queueId", "commitOffset"])
def test_a_commit_without_a_field_is_refused(scene: Scene, left_out: str) -> None:
    request = requests.commit_offset(scene.group(), scene.topic(), 1).without(left_out)
    assert scene.broker.call(request).code == 29


@case("OFFSET-051", party="broker", after=STORED)
def test_the_bounds_of_a_queue(scene: Scene) -> None:
    topic = scene.topic(queues=2)
    for _ in range(3):
        scene.send(topic)
    for queue_id, end in ((0, 3), (1, 0), (99, 0)):
        least = scene.broker.call(requests.min_offset(topic, queue_id))
        assert fields(least, "offset") == (0, 0)
        greatest = scene.broker.call(requests.max_offset(topic, queue_id))
        assert fields(greatest, "offset") == (0, end)
    nowhere = scene.name("T")
    assert fields(scene.broker.call(requests.max_offset(nowhere)), "offset") == (0, 0)
    assert fields(scene.broker.call(requests.min_offset(nowhere)), "offset") == (0, 0)


@case("OFFSET-052", party="broker", after=STORED)
def test_an_offset_is_found_by_time(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    for _ in range(5):
        scene.send(topic)
    times = [record.store_timestamp for record in scene.read_all(topic, group)]
    for time_ms in {0, *times, times[-1] + 60_000}:
        first = sum(stored < time_ms for stored in times)
        answer = scene.broker.call(requests.search_offset(topic, time_ms))
        assert fields(answer, "offset") == (0, first)
    nowhere = scene.name("T")
    assert fields(scene.broker.call(requests.search_offset(nowhere, 1)), "offset") == (0, 0)


@case("OFFSET-053", party="broker", after=STORED)
def test_the_time_of_the_first_message(scene: Scene) -> None:
    topic, group = scene.topic(queues=2), scene.group()
    scene.send(topic)
    scene.send(topic)
    stored = scene.read_all(topic, group)[0].store_timestamp
    assert fields(scene.broker.call(requests.earliest_time(topic)), "timestamp") == (0, stored)
    assert fields(scene.broker.call(requests.earliest_time(topic, 1)), "timestamp") == (0, -1)


@case("OFFSET-054", party="broker", after=COMMITTED)
@pytest.mark.parametrize(
    ("offset", "subscription", "code"), [(0, "*", 0), (1, "*", 19), (0, "Z", 20), (7, "*", 21)]
)
def test_a_pull_commits_the_offset_that_it_carries(
    scene: Scene, offset: int, subscription: str, code: int
) -> None:
    topic, group = scene.topic(), scene.group()
    scene.send(topic, tag="A")
    request = requests.pull(topic, group, offset, subscription=subscription, commit=5)
    assert scene.broker.call(request).code == code
    assert scene.committed(group, topic) == 5


@case("OFFSET-054", party="broker", after=COMMITTED)
@pytest.mark.parametrize("back", [4, 1, 0])
def test_a_pull_commits_what_is_less_too(scene: Scene, back: int) -> None:
    topic, group = scene.topic(), scene.group()
    for offset in (5, back):
        assert scene.broker.call(requests.pull(topic, group, commit=offset)).code == 19
        assert scene.committed(group, topic) == offset


@case("OFFSET-054", party="broker", after=COMMITTED)
def test_a_pull_commits_at_its_own_queue_however_many_there_are(scene: Scene) -> None:
    topic, group = scene.topic(queues=300), scene.group()
    queue_ids = (0, 1, 7, 8, 15, 16, 255, 256, 299)
    for queue_id in queue_ids:
        request = requests.pull(topic, group, queue_id=queue_id, commit=1000 + queue_id)
        assert scene.broker.call(request).code == 19
    for queue_id in queue_ids:
        assert scene.committed(group, topic, queue_id) == 1000 + queue_id


@case("OFFSET-054", party="broker", after=COMMITTED)
def test_a_pull_that_is_refused_commits_nothing(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    assert scene.broker.call(requests.pull(topic, group, queue_id=9, commit=5)).code in (1, 29)
    assert scene.committed(group, topic, 9) is None


@case("OFFSET-055", party="broker", after="test_a_pull_is_held_until_a_message_arrives")
def test_a_held_pull_commits_once(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    consumer = scene.connect()
    held = consumer.ask(requests.pull(topic, group, commit=3, suspend_ms=60_000))
    assert eventually(lambda: scene.committed(group, topic) == 3)
    assert consumer.is_quiet(held)
    assert scene.broker.call(requests.commit_offset(group, topic, 5)).code == 0
    scene.send(topic)
    assert consumer.answer(held).code == 0
    assert scene.committed(group, topic) == 5


@case("OFFSET-056", party="broker", after=COMMITTED)
def test_an_offset_is_kept_for_each_group_topic_and_queue(scene: Scene) -> None:
    topics = [scene.topic(queues=2) for _ in range(2)]
    groups = [scene.group() for _ in range(2)]
    places = [(group, topic, q) for group in groups for topic in topics for q in range(2)]
    for offset, (group, topic, queue_id) in enumerate(places):
        scene.broker.call(requests.commit_offset(group, topic, offset, queue_id))
    assert [scene.committed(*place) for place in places] == list(range(len(places)))


@case("OFFSET-056", party="broker", after=COMMITTED)
def test_names_that_run_together_are_told_apart(scene: Scene) -> None:
    """Of two topics and groups whose names, one behind the other, are the same."""
    topic, group = scene.name("T"), scene.name("G")
    places = [(f"x{group}", topic), (group, f"{topic}x")]
    for each, of in places:
        done(scene.broker.call(requests.create_topic(of, 1, 1)))
        done(scene.broker.call(requests.create_group(each)))
    for offset, (each, of) in enumerate(places, 5):
        done(scene.broker.call(requests.commit_offset(each, of, offset)))
    assert [scene.committed(each, of) for each, of in places] == [5, 6]


@case("OFFSET-023", party="broker", after=COMMITTED)
def test_the_least_offset_of_all_groups_but_some(scene: Scene) -> None:
    topic, left_out = scene.topic(queues=2), scene.group()
    for group, offset in ((left_out, 2), (scene.group(), 7), (scene.group(), 5)):
        assert scene.broker.call(requests.commit_offset(group, topic, offset)).code == 0
    for but, least in (("", 2), (left_out, 5)):
        answer = done(scene.broker.call(requests.correction_offset(topic, but))).json()
        assert {int(q): offset for q, offset in answer["correctionOffsets"].items()} == {0: least}


@case("OFFSET-023", party="broker", after=COMMITTED)
@pytest.mark.parametrize(("least", "other"), [(3, 9), (12_345, 12_346), (2**31 + 7, 2**40)])
def test_the_least_offset_is_that_of_any_group(scene: Scene, least: int, other: int) -> None:
    """Whichever of several groups is furthest behind."""
    topic, groups = scene.topic(), [scene.group() for _ in range(5)]
    for behind in groups:
        for group in groups:
            offset = least if group == behind else other
            assert scene.broker.call(requests.commit_offset(group, topic, offset)).code == 0
        answer = done(scene.broker.call(requests.correction_offset(topic, ""))).json()
        assert {int(q): at for q, at in answer["correctionOffsets"].items()} == {0: least}


@case("OFFSET-023", party="broker", after=COMMITTED)
def test_an_offset_before_the_first_message_is_not_the_least(scene: Scene) -> None:
    topic, (lost, other) = scene.topic(queues=2), (scene.group(), scene.group())
    for group, queue_id, offset in ((lost, 0, -1), (other, 0, 5), (lost, 1, -1)):
        done(scene.broker.call(requests.commit_offset(group, topic, offset, queue_id)))
    answer = done(scene.broker.call(requests.correction_offset(topic, ""))).json()
    assert {int(q): at for q, at in answer["correctionOffsets"].items()} == {0: 5}


@case("OFFSET-022", party="broker", after=COMMITTED)
def test_a_query_that_leaves_out_a_group_keeps_its_offset(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    assert scene.broker.call(requests.commit_offset(group, topic, 2)).code == 0
    answer = scene.broker.call(requests.correction_offset(topic, group))
    assert scene.committed(group, topic) == 2
    with scene.apaches():  # no client is known to ask so
        assert answer.code == 0


@case("OFFSET-058", party="broker", after=COMMITTED)
def test_a_group_gets_the_offsets_of_another(scene: Scene) -> None:
    topic, source, target = scene.topic(queues=2), scene.group(), scene.group()
    far = 1 << 40
    for group, offsets in (
        (source, {0: 3, 1: 1, 2: 0, 3: 0, 255: far}),
        (target, {1: 9, 2: 9, 7: 9}),
    ):
        for queue_id, offset in offsets.items():
            done(scene.broker.call(requests.commit_offset(group, topic, offset, queue_id)))
    done(scene.broker.call(requests.clone_offset(source, target, topic)))
    queues = 0, 1, 2, 3, 255, 7
    assert [scene.committed(target, topic, each) for each in queues] == [3, 1, 0, 0, far, None]
    assert [scene.committed(source, topic, each) for each in queues] == [3, 1, 0, 0, far, None]


@case("OFFSET-058", party="broker", after="test_a_group_gets_the_offsets_of_another")
def test_offsets_that_are_not_cloned(scene: Scene) -> None:
    topic, wanted = scene.topic(), scene.topic()
    source, target = scene.group(), scene.group()
    for each in (topic, wanted):
        done(scene.broker.call(requests.commit_offset(source, each, 3)))
        done(scene.broker.call(requests.commit_offset(target, each, 1)))
    member = scene.connect()
    done(member.call(requests.heartbeat(scene.name("C"), source, [Subscription(wanted)])))
    clone = requests.clone_offset(source, target, topic)
    for nothing in (
        clone,
        requests.clone_offset(scene.group(), target, topic),
        clone.without("topic"),
    ):
        assert scene.broker.call(nothing).code == 0
        assert [scene.committed(target, each) for each in (topic, wanted)] == [1, 1]
    done(scene.broker.call(requests.clone_offset(source, target, wanted)))
    done(scene.broker.call(requests.clone_offset(source, target, topic, offline=True)))
    assert [scene.committed(target, each) for each in (topic, wanted)] == [3, 3]


@case("OFFSET-058", party="broker", after="test_offsets_that_are_not_cloned")
def test_offsets_of_what_a_group_pulled_are_cloned(scene: Scene) -> None:
    topic, source, target = scene.topic(), scene.group(), scene.group()
    done(scene.broker.call(requests.commit_offset(source, topic, 3)))
    member, other = scene.connect(), Subscription(scene.topic())
    done(member.call(requests.heartbeat(scene.client("one"), source, [other])))
    scene.broker.call(requests.pull(topic, source))
    done(scene.broker.call(requests.clone_offset(source, target, topic)))
    assert scene.committed(target, topic) == 3
