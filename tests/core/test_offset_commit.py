"""Offset commit: the consumer's half against the real client's pins, the broker's against 5.3.3."""

from __future__ import annotations

import pytest

from mqspec.core.offset_commit import (
    CONSUME_CONCURRENTLY_MAX_SPAN,
    NOT_FOUND,
    PULL_THRESHOLD_FOR_QUEUE,
    PULL_THRESHOLD_SIZE_FOR_QUEUE,
    Answer,
    CommitOffset,
    Consumed,
    ConsumerState,
    OffsetKey,
    OffsetState,
    ProcessQueue,
    Pulled,
    QueueSpan,
    UpdateConsumerOffset,
    add_message_queue,
    clean_offset,
    clean_offset_by_topic,
    commit_offset,
    correct_tags_offset,
    load,
    must_wait,
    offset_illegal,
    persist,
    persist_all,
    process_consume_result,
    pull_commit_offset,
    pull_message,
    query_consumer_offset,
    query_min_offset_in_all_group,
    query_then_erase_reset_offset,
    remove_unnecessary_message_queue,
    reset_offset_inner,
    reset_offset_of_members,
    update_consumer_offset,
    update_offset,
    which_group_by_topic,
    which_topic_by_consumer,
)
from mqspec.core.response import Refusal, ResponseCode
from mqspec.core.step import Step, apply
from mqspec.core.types import MessageQueue

MQ = MessageQueue("T", "broker-a", 0)
OTHER = MessageQueue("T", "broker-a", 1)
KEY = OffsetKey("T", "G", 0)


def start(state: ConsumerState, next_offset: int, stored: int, mq: MessageQueue = MQ) -> int:
    step = add_message_queue(state, mq, next_offset, stored, now_ms=0)
    apply(state, step.changes)
    queue: ProcessQueue = step.result
    return queue.generation


def pull(state: ConsumerState, generation: int, *offsets: int, next_offset: int) -> bool:
    step = pull_message(state, Pulled(MQ, generation, next_offset, 9, offsets, 10 * len(offsets)))
    apply(state, step.changes)
    still_there: bool = step.result
    return still_there


def consume(state: ConsumerState, generation: int, *offsets: int) -> int | None:
    event = Consumed(MQ, generation, offsets, 10 * len(offsets))
    apply(state, process_consume_result(state, event).changes)
    return state.offset_store.get(MQ)


@pytest.fixture
def owner() -> ConsumerState:
    """The owner of MQ, generation 1, that pulled 5, 6, 7."""
    state = ConsumerState()
    start(state, 5, 5)
    pull(state, 1, 5, 6, 7, next_offset=8)
    return state


def test_progress_is_the_smallest_unfinished_message_then_the_one_after_the_last(
    owner: ConsumerState,
) -> None:
    assert consume(owner, 1, 6) == 5
    assert consume(owner, 1, 5) == 7
    assert consume(owner, 1, 7) == 8
    assert owner.process_queue_table[MQ] == ProcessQueue(1, 8, 9, (), 0, 7)


def test_a_gap_of_filtered_messages_is_not_progress_until_a_later_pull(
    owner: ConsumerState,
) -> None:
    pull(owner, 1, next_offset=12)
    assert consume(owner, 1, 5, 6, 7) == 8
    event = Pulled(MQ, 1, 12, 9)
    apply(owner, correct_tags_offset(owner, event).changes)
    assert owner.offset_store[MQ] == 12


def test_tags_are_not_corrected_while_something_is_unfinished(owner: ConsumerState) -> None:
    assert correct_tags_offset(owner, Pulled(MQ, 1, 12, 9)) == Step()


def test_a_message_that_is_not_there_changes_nothing(owner: ConsumerState) -> None:
    assert consume(owner, 1, 99) == 5
    assert owner.process_queue_table[MQ].msg_tree_map == (5, 6, 7)


def test_hundred_put_ten_then_one_removed() -> None:  # ProcessQueueTest
    state = ConsumerState()
    start(state, 0, NOT_FOUND)
    pull(state, 1, *range(100), next_offset=100)
    consume(state, 1, *range(10))
    assert len(state.process_queue_table[MQ].msg_tree_map) == 90
    consume(state, 1, 10)
    assert len(state.process_queue_table[MQ].msg_tree_map) == 89
    assert state.process_queue_table[MQ].size_bytes == 890


def test_updates_only_increase_where_they_are_asked_to() -> None:  # RemoteBrokerOffsetStoreTest
    state = ConsumerState()
    for offset, increase_only, expected in [
        (1024, True, 1024),
        (1023, False, 1023),
        (1022, True, 1023),
    ]:
        apply(state, update_offset(state, MQ, offset, increase_only=increase_only).changes)
        assert state.offset_store[MQ] == expected


def test_what_finishes_after_the_queue_was_dropped_is_not_reported(owner: ConsumerState) -> None:
    step = remove_unnecessary_message_queue(owner, MQ, "G")
    assert step.sends == (UpdateConsumerOffset("G", MQ, 5),)
    apply(owner, step.changes)
    assert consume(owner, 1, 5) is None
    assert not pull(owner, 1, 8, next_offset=9)
    assert persist_all(owner, "G") == Step()


def test_a_queue_that_comes_back_is_another_queue(owner: ConsumerState) -> None:
    apply(owner, remove_unnecessary_message_queue(owner, MQ, "G").changes)
    assert start(owner, 5, 5) == 2
    pull(owner, 2, 5, next_offset=6)
    assert consume(owner, 1, 5) == 5  # of the first process queue: it does not count
    assert owner.process_queue_table[MQ].msg_tree_map == (5,)
    assert consume(owner, 2, 5) == 6


def test_a_queue_that_is_held_is_not_started_on_again(owner: ConsumerState) -> None:
    assert add_message_queue(owner, MQ, 0, 0, 0) == Step()


def test_dirty_progress_makes_way_for_what_is_stored() -> None:
    state = ConsumerState(offset_store={MQ: 77})
    start(state, 0, NOT_FOUND)
    assert state.offset_store == {}
    assert persist_all(state, "G").sends == ()  # nothing is reported before the first progress


def test_every_queue_held_is_reported_again_and_others_are_forgotten(owner: ConsumerState) -> None:
    owner.offset_store[OTHER] = 3
    for _ in range(2):
        step = persist_all(owner, "G")
        assert step.sends == (UpdateConsumerOffset("G", MQ, 5),)
        apply(owner, step.changes)
    assert OTHER not in owner.offset_store


def test_a_consumer_without_queues_reports_and_forgets_nothing() -> None:
    state = ConsumerState(offset_store={OTHER: 3})
    assert persist_all(state, "G") == Step()


def test_an_illegal_offset_is_corrected_and_the_queue_dropped(owner: ConsumerState) -> None:
    step = offset_illegal(owner, MQ, 1, 3, "G")
    assert step.sends == (UpdateConsumerOffset("G", MQ, 3),)
    apply(owner, step.changes)
    assert owner.process_queue_table == {}
    assert offset_illegal(owner, MQ, 1, 3, "G") == Step()


def test_a_pull_carries_progress_unless_it_is_zero(owner: ConsumerState) -> None:
    assert pull_commit_offset(owner, MQ) == 5
    assert pull_commit_offset(ConsumerState(offset_store={MQ: 0}), MQ) is None
    assert pull_commit_offset(ConsumerState(), MQ) is None


def test_the_same_message_twice_is_an_error_of_the_caller(owner: ConsumerState) -> None:
    with pytest.raises(ValueError, match="pulled 7 again"):
        pull(owner, 1, 7, next_offset=8)


@pytest.mark.parametrize(
    ("queue", "waits"),
    [
        (ProcessQueue(1, 0, 0), False),
        (ProcessQueue(1, 0, 0, tuple(range(PULL_THRESHOLD_FOR_QUEUE))), False),
        (ProcessQueue(1, 0, 0, tuple(range(PULL_THRESHOLD_FOR_QUEUE + 1))), True),
        (ProcessQueue(1, 0, 0, (0,), PULL_THRESHOLD_SIZE_FOR_QUEUE + (1 << 20) - 1), False),
        (ProcessQueue(1, 0, 0, (0,), PULL_THRESHOLD_SIZE_FOR_QUEUE + (1 << 20)), True),
        (ProcessQueue(1, 0, 0, (1, CONSUME_CONCURRENTLY_MAX_SPAN + 1)), False),
        (ProcessQueue(1, 0, 0, (0, CONSUME_CONCURRENTLY_MAX_SPAN + 1)), True),
    ],
)
def test_flow_control(queue: ProcessQueue, waits: bool) -> None:
    assert must_wait(queue) is waits


# The broker's half: observed on 5.3.3, experiment D.


def commit(
    state: OffsetState,
    offset: int | None,
    *,
    group: str | None = "G",
    queue_id: int | None = 0,
    group_exists: bool = True,
    topic_exists: bool = True,
) -> Answer:
    step = update_consumer_offset(
        state,
        CommitOffset(group, "T", queue_id, offset),
        group_exists=group_exists,
        topic_exists=topic_exists,
    )
    apply(state, step.changes)
    answer: Answer = step.result
    return answer


def query(state: OffsetState, *, zero: bool = True, young: bool = False) -> Answer:
    return query_consumer_offset(state, KEY, set_zero_if_not_found=zero, queue_is_young=young)


@pytest.mark.parametrize("offset", [10, 5, 9999, 0])
def test_what_arrives_last_is_stored(offset: int) -> None:
    state = OffsetState({KEY: 7})
    assert commit(state, offset) == Answer(ResponseCode.SUCCESS)
    assert query(state) == Answer(ResponseCode.SUCCESS, offset=offset)


def test_a_queue_that_does_not_exist_is_stored_too() -> None:
    state = OffsetState()
    assert commit(state, 4, queue_id=77) == Answer(ResponseCode.SUCCESS)
    assert state.offset_table == {OffsetKey("T", "G", 77): 4}


def test_a_negative_offset_is_stored_and_read_as_none() -> None:
    state = OffsetState()
    commit(state, -3)
    assert state.offset_table == {KEY: -3}
    assert query(state, young=True) == Answer(ResponseCode.SUCCESS, offset=0)
    assert query(state, zero=False, young=True).code == ResponseCode.QUERY_NOT_FOUND


def test_nothing_stored_is_zero_on_a_young_queue_only() -> None:
    assert query(OffsetState(), young=True) == Answer(ResponseCode.SUCCESS, offset=0)
    assert query(OffsetState()) == Answer(
        ResponseCode.QUERY_NOT_FOUND,
        "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
    )
    assert query(OffsetState(), zero=False, young=True) == Answer(
        ResponseCode.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first"
    )


def test_refused_commits_store_nothing() -> None:
    state = OffsetState()
    assert commit(state, 1, group_exists=False) == Answer(
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group G not exist!"
    )
    assert commit(state, 1, group=None) == Answer(
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group null not exist!"
    )
    assert commit(state, 1, topic_exists=False) == Answer(
        ResponseCode.TOPIC_NOT_EXIST, "Topic T not exist!"
    )
    assert commit(state, 1, queue_id=None) == Answer(
        ResponseCode.INVALID_PARAMETER, "QueueId is null, topic is T"
    )
    assert commit(state, None) == Answer(
        ResponseCode.INVALID_PARAMETER, "Offset is null, topic is T"
    )
    assert state.offset_table == {}


def test_a_commit_that_rides_on_a_pull_is_stored_as_it_is() -> None:
    state = OffsetState({KEY: 7})
    apply(state, commit_offset(state, KEY, 2).changes)
    assert state.offset_table == {KEY: 2}


def test_the_file_has_the_real_shape_and_comes_back() -> None:
    state = OffsetState({KEY: 55, OffsetKey("T", "G", 3): 1, OffsetKey("U", "G", 0): 2})
    content = persist(state)
    assert content == {
        "offsetTable": {"T@G": {"0": 55, "3": 1}, "U@G": {"0": 2}},
        "groupTopicMap": {"G": ["T", "U"]},
    }
    assert load(content) == state


@pytest.mark.parametrize(
    "table",
    [[], {"no at": {}}, {"T@G": 5}, {"T@G": {"x": 1}}, {"T@G": {"0": "x"}}, {"T@G": {"0": None}}],
)
def test_a_file_that_is_none_is_refused(table: object) -> None:
    with pytest.raises(ValueError, match=r"offsetTable|topic@group|invalid literal|no offset"):
        load({"offsetTable": table})


def reset(state: OffsetState, offset: int | None, *spans: QueueSpan) -> object:
    step = reset_offset_inner(spans, offset)
    apply(state, step.changes)
    return step.result


def erase(state: OffsetState) -> object:
    step = query_then_erase_reset_offset(state, KEY)
    apply(state, step.changes)
    return step.result


SPAN = QueueSpan(KEY, min_offset=2, max_offset=10, offset_by_time=7)


def test_a_reset_keeps_commits_off_until_one_pull_learns_of_it() -> None:
    state = OffsetState({KEY: 9})
    assert reset(state, 5, SPAN) == {0: 5}
    previously = Answer(ResponseCode.SUCCESS, "Offset has been previously reset")
    assert commit(state, 8) == previously
    assert query(state) == Answer(ResponseCode.SUCCESS, offset=5)
    assert erase(state) == 5
    assert erase(state) is None
    assert query(state) == Answer(ResponseCode.SUCCESS, offset=5)
    assert commit(state, 8) == Answer(ResponseCode.SUCCESS)


def test_a_commit_on_a_pull_goes_past_a_reset() -> None:
    state = OffsetState()
    reset(state, 5, SPAN)
    apply(state, commit_offset(state, KEY, 8).changes)
    assert query(state) == Answer(ResponseCode.SUCCESS, offset=5)
    erase(state)
    assert query(state) == Answer(ResponseCode.SUCCESS, offset=8)


@pytest.mark.parametrize(("offset", "allowed"), [(1, 0), (2, 1), (11, 1), (12, 0), (-5, 0)])
def test_where_a_group_may_be_reset_to(offset: int, allowed: int) -> None:
    state = OffsetState()
    result = reset(state, offset, SPAN)
    if allowed:
        assert result == {0: offset}
        return
    remark = f"Target offset {offset} not in consume queue range [2-10]"
    assert result == Refusal(ResponseCode.SYSTEM_ERROR, remark)
    assert state == OffsetState()


def test_a_reset_by_time_moves_all_queues_and_is_not_written() -> None:
    state = OffsetState()
    assert reset(state, None, SPAN, SPAN._replace(key=OffsetKey("T", "G", 1))) == {0: 7, 1: 7}
    loaded = load(persist(state))
    assert loaded == OffsetState({KEY: 7, OffsetKey("T", "G", 1): 7})


def test_offsets_go_with_their_topic_and_with_their_group() -> None:
    keys = [OffsetKey("T", "G", 0), OffsetKey("T", "H", 1), OffsetKey("U", "G", 0)]
    tables = (dict.fromkeys(keys, number) for number in (1, 2, 3))
    state = OffsetState(*tables)
    assert which_group_by_topic(state, "T") == ["G", "H"]
    assert which_topic_by_consumer(state, "G") == ["T", "U"]
    apply(state, clean_offset_by_topic(state, "T").changes)
    assert which_group_by_topic(state, "T") == []
    assert state.offset_table == {keys[2]: 1}
    apply(state, clean_offset(state, "G").changes)
    assert state == OffsetState({}, {keys[1]: 2}, {keys[1]: 3})


def test_members_are_told_a_time_but_forward_only_where_it_is_forced() -> None:
    state = OffsetState({KEY: 9})
    assert reset_offset_of_members(state, [SPAN], is_force=False) == {0: 7}
    ahead = SPAN._replace(offset_by_time=10)
    assert reset_offset_of_members(state, [ahead], is_force=False) == {0: 9}
    assert reset_offset_of_members(state, [ahead], is_force=True) == {0: 10}
    nobody = SPAN._replace(key=OffsetKey("T", "H", 0))
    refusal = reset_offset_of_members(state, [nobody], is_force=True)
    assert refusal == Refusal(ResponseCode.SYSTEM_ERROR, "THe consumer group <H> not exist")


def test_the_least_offsets_of_a_topic_are_of_all_groups_but_some_and_all_are_kept() -> None:
    table = {OffsetKey("T", "G", 0): 2, OffsetKey("T", "H", 0): 7, OffsetKey("U", "H", 1): 1}
    state = OffsetState(dict(table))
    assert query_min_offset_in_all_group(state, "T", (), lambda _: 2) == {0: 2}
    assert query_min_offset_in_all_group(state, "T", (), lambda _: 3) == {0: 7}
    assert query_min_offset_in_all_group(state, "T", ["G", "X"], lambda _: 0) == {0: 7}
    assert state.offset_table == table
