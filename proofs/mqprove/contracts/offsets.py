"""Progress: what a consumer reports, and what the broker keeps of it."""

from __future__ import annotations

from mqprove.contracts.contract import contract
from mqspec.core import offset_commit
from mqspec.core.offset_commit import (
    Consumed,
    ConsumerState,
    FlowControl,
    OffsetKey,
    OffsetState,
    ProcessQueue,
    Pulled,
    QueueSpan,
)
from mqspec.core.response import Refusal
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue

MQ = MessageQueue("topic", "broker", 0)
KEY = OffsetKey("topic", "group", 0)
OTHER = OffsetKey("topic", "other", 0)


@contract("OFFSET-003")
def reported_progress_never_goes_back(before: int, offset: int) -> bool:
    """Progress that is noted is at least what was noted before.

    post: _
    """
    state = ConsumerState(offset_store={MQ: before})
    apply(state, offset_commit.update_offset(state, MQ, offset, increase_only=True).changes)
    return state.offset_store[MQ] == max(before, offset)


@contract("OFFSET-002")
def progress_stays_before_the_unfinished(first: int, second: int, third: int, done: int) -> bool:
    """One of three messages is finished: progress is the first of the two others.

    pre: first < second < third and done in (first, second, third)
    post: _
    """
    queue = ProcessQueue(1, third + 1, 0, (first, second, third), queue_offset_max=third)
    left, progress = offset_commit.remove_message(queue, Consumed(MQ, 1, (done,)))
    unfinished = tuple(offset for offset in (first, second, third) if offset != done)
    return left.msg_tree_map == unfinished and progress == unfinished[0]


@contract("OFFSET-002")
def progress_ends_behind_the_last_message(offset: int, last: int) -> bool:
    """Where nothing is left to finish, progress is behind the last message that was pulled.

    pre: offset <= last
    post: _
    """
    queue = ProcessQueue(1, last + 1, 0, (offset,), queue_offset_max=last)
    left, progress = offset_commit.remove_message(queue, Consumed(MQ, 1, (offset,)))
    return left.msg_tree_map == () and progress == last + 1


@contract("OFFSET-006")
def what_was_taken_away_reports_nothing(now: int, then: int, offset: int) -> bool:
    """A message of an earlier process queue is finished: nothing changes.

    pre: now != then
    post: _
    """
    held = ProcessQueue(now, offset + 1, 0, (offset,), queue_offset_max=offset)
    state = ConsumerState({MQ: held}, {MQ: offset}, now)
    step = offset_commit.process_consume_result(state, Consumed(MQ, then, (offset,)))
    return step.changes == () and step.result is False


@contract("OFFSET-001")
def pulled_messages_are_held(last: int, offset: int, next_offset: int) -> bool:
    """Messages that are pulled behind those held are held, behind them.

    pre: last < offset < next_offset
    post: _
    """
    state = ConsumerState({MQ: ProcessQueue(1, last + 1, 0, (last,), queue_offset_max=last)})
    step = offset_commit.pull_message(state, Pulled(MQ, 1, next_offset, 0, (offset,)))
    apply(state, step.changes)
    held = state.process_queue_table[MQ]
    return held.msg_tree_map == (last, offset) and held.queue_offset_max == offset


@contract("OFFSET-002")
def an_empty_pull_moves_no_unfinished_progress(offset: int, next_offset: int) -> bool:
    """A pull that found nothing moves progress only where no message is held.

    post: _
    """
    state = ConsumerState({MQ: ProcessQueue(1, 0, 0, (offset,), queue_offset_max=offset)})
    step = offset_commit.correct_tags_offset(state, Pulled(MQ, 1, next_offset, 0))
    return step.changes == ()


@contract("PULL-018")
def flow_control_holds_from_the_limit_on(span: int, size_mib: int, limit: int) -> bool:
    """The next pull waits where offsets or whole MiB exceed their limits, and not before.

    pre: span >= 1 and size_mib >= 0 and limit >= 1
    post: _
    """
    queue = ProcessQueue(1, 0, 0, (0, span), size_mib << 20)
    limits = FlowControl(limit, limit << 20, limit)
    return offset_commit.must_wait(queue, limits) == (span > limit or size_mib > limit or limit < 2)


@contract("OFFSET-010", "OFFSET-011")
def what_arrives_last_is_stored(before: int, offset: int) -> bool:
    """A commit is stored as it is, and touches no other group.

    post: _
    """
    state = OffsetState({KEY: before, OTHER: before})
    apply(state, offset_commit.commit_offset(state, KEY, offset).changes)
    return state.offset_table == {KEY: offset, OTHER: before}


@contract("OFFSET-018")
def a_waiting_reset_keeps_commits_off(stored: int, reset: int, offset: int) -> bool:
    """Until a pull has learned of a reset no commit is stored.

    post: _
    """
    state = OffsetState({KEY: stored}, {KEY: reset})
    event = offset_commit.CommitOffset(KEY.group, KEY.topic, KEY.queue_id, offset)
    step = offset_commit.update_consumer_offset(state, event, group_exists=True, topic_exists=True)
    return step.changes == () and step.result.code == 0


@contract("OFFSET-019")
def a_reset_is_told_once(reset: int) -> bool:
    """The first pull is told where to go on, the second nothing.

    post: _
    """
    state = OffsetState(reset_offset_table={KEY: reset})
    first = offset_commit.query_then_erase_reset_offset(state, KEY)
    apply(state, first.changes)
    second = offset_commit.query_then_erase_reset_offset(state, KEY)
    return first.result == reset and second.result is None


@contract("OFFSET-012", "OFFSET-013", "OFFSET-014")
def a_query_answers_what_is_stored_or_none(stored: int, sets_zero: bool, is_young: bool) -> bool:
    """An offset that is not negative is answered; else 0, or that there is none.

    post: _
    """
    answer = offset_commit.query_consumer_offset(
        OffsetState({KEY: stored}),
        KEY,
        set_zero_if_not_found=sets_zero,
        queue_is_young=is_young,
    )
    if stored >= 0:
        return answer.offset == stored
    return answer.offset == (0 if sets_zero and is_young else None)


@contract("OFFSET-017", is_searched=True)
def a_reset_lies_in_the_queue(least: int, end: int, offset: int) -> bool:
    """A group is moved to an offset of the queue, or one behind its end; elsewhere it is refused.

    pre: 0 <= least <= end
    post: _
    """
    step = offset_commit.reset_offset_inner([QueueSpan(KEY, least, end, 0)], offset)
    is_refused = isinstance(step.result, Refusal)
    return is_refused != (least <= offset <= end + 1) and is_refused == (step.changes == ())


@contract("OFFSET-021")
def members_are_moved_back_only_by_force(by_time: int, stored: int, is_force: bool) -> bool:
    """Members are told the time's offset, or the stored one where that is before it.

    pre: stored != -1
    post: _
    """
    told = offset_commit.reset_offset_of_members(
        OffsetState({KEY: stored}), [QueueSpan(KEY, 0, 0, by_time)], is_force=is_force
    )
    return told == {0: by_time if is_force or by_time <= stored else stored}


@contract("OFFSET-023")
def the_least_offset_is_some_groups(mine: int, others: int, minimum: int) -> bool:
    """The least offset of all groups is one of theirs, and none has less that can be read.

    post: _
    """
    state = OffsetState({KEY: mine, OTHER: others})
    least = offset_commit.query_min_offset_in_all_group(state, KEY.topic, (), lambda _: minimum)
    counted = [offset for offset in (mine, others) if offset >= minimum]
    return least == ({0: min(counted)} if counted else {})


@contract("RECOV-051")
def the_file_of_offsets_keeps_them(offset: int) -> bool:
    """What is written is what is read.

    post: _
    """
    state = OffsetState({KEY: offset, OTHER: 0})
    return offset_commit.load(offset_commit.persist(state)).offset_table == state.offset_table
