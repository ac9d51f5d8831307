"""Pops: the life of a checkpoint, and what an acknowledgement may name."""

from __future__ import annotations

from mqprove.contracts.contract import contract
from mqspec.core import pop
from mqspec.core.extra_info import ReceiptHandle
from mqspec.core.log import Span
from mqspec.core.offset_commit import OffsetKey, OffsetState
from mqspec.core.pop import ChangeInvisibleTime, PoppedCheckPoint
from mqspec.core.revive_log import (
    REVIVE_GROUP,
    AckMsg,
    CheckPointKey,
    PopCheckPoint,
    ReviveMessage,
    revive_topic,
)
from mqspec.core.step import apply

PLACE = ("topic", "group", 0)


def _check_point(start: int, pop_time: int, invisible_ms: int, again: int = 0) -> PopCheckPoint:
    name = CheckPointKey(*PLACE, start, pop_time, "broker")
    return PopCheckPoint(name, invisible_ms, (start,), again)


def _read(check_point: PopCheckPoint, acked: int, read_at: int) -> pop.PopState:
    """What is known once a checkpoint and an acknowledgement were read, from an offset on."""
    state = pop.PopState()
    ack = AckMsg(check_point.key, check_point.invisible_time, (acked,), False)
    messages: tuple[ReviveMessage, ...] = (check_point, ack)
    for at, message in enumerate(messages):
        apply(state, pop.consume_revive_message(state, 0, read_at + at, message).changes)
    return state


@contract("POP-001")
def nothing_comes_back_before_its_time(pop_time: int, invisible_ms: int, now_ms: int) -> bool:
    """A message that is due again was invisible for as long as was asked.

    post: _
    """
    held = PoppedCheckPoint(_check_point(0, pop_time, invisible_ms), 0)
    return not pop.is_due(held, now_ms) or now_ms > pop_time + invisible_ms


@contract("POP-002")
def what_is_due_stays_due(pop_time: int, invisible_ms: int, now_ms: int, later_ms: int) -> bool:
    """A message that is due is due at every later time.

    pre: now_ms <= later_ms
    post: _
    """
    held = PoppedCheckPoint(_check_point(0, pop_time, invisible_ms), 0)
    return not pop.is_due(held, now_ms) or pop.is_due(held, later_ms)


@contract("POP-002")
def a_failed_revival_is_tried_later(start: int, invisible_ms: int, again: int) -> bool:
    """A checkpoint that is written again waits for longer, and is counted.

    pre: again >= 0
    post: _
    """
    before = _check_point(start, 0, invisible_ms, again)
    after = pop.re_put_ck(before, start)
    return (
        after.revive_time > before.revive_time
        and after.re_put_times == again + 1
        and after.offsets == (start,)
    )


@contract("POP-008", "POP-044")
def a_changed_time_counts_from_now(
    pop_time: int, old_ms: int, new_ms: int, offset: int, now_ms: int
) -> bool:
    """A change makes a later checkpoint of the message, and acknowledges the old one.

    pre: pop_time <= now_ms
    post: _
    """
    handle = ReceiptHandle(0, pop_time, old_ms, 0, "0", "broker", 0, offset)
    made, ack = pop.change_invisible_time(
        ChangeInvisibleTime(*PLACE, offset, handle, new_ms), now_ms
    )
    return (
        made.key.pop_time == max(now_ms, pop_time + 1)
        and made.invisible_time == new_ms
        and ack.key.pop_time == pop_time
        and made.offsets == ack.offsets == (offset,)
    )


@contract("POP-007", is_searched=True)
def an_ack_names_a_message_of_the_queue(least: int, end: int, offset: int) -> bool:
    """An acknowledgement below the queue or beyond its end is refused.

    post: _
    """
    refusal = pop.check_ack_offset("topic", 0, offset, Span(least, end))
    return (refusal is None) == (least <= offset <= end)


@contract("POP-011")
def a_group_begins_inside_the_queue(least: int, end: int, mode: int) -> bool:
    """A group without progress begins at the first message or at the last one.

    pre: 0 <= least < end
    post: _
    """
    begun = pop.init_offset(OffsetState(), OffsetKey(*PLACE), mode, Span(least, end))
    from_first = mode == pop.INIT_MIN or least == 0
    return begun.result == (least if from_first else end - 1)


@contract("POP-011")
def a_group_goes_on_where_it_was(stored: int, least: int, end: int, mode: int) -> bool:
    """Where progress is stored it is taken as it is, and not changed.

    pre: stored >= 0
    post: _
    """
    key = OffsetKey(*PLACE)
    begun = pop.init_offset(OffsetState({key: stored}), key, mode, Span(least, end))
    return begun.result == stored and begun.changes == ()


@contract("POP-003", "POP-029")
def an_acknowledged_message_is_not_revived(start: int, read_at: int) -> bool:
    """A checkpoint whose message is acknowledged is done with.

    post: _
    """
    state = _read(_check_point(start, 0, 60_000), start, read_at)
    return state.check_points == {} and state.scan_offset == {0: read_at + 2}


@contract("POP-002")
def an_open_message_stays_in_its_checkpoint(start: int, acked: int, read_at: int) -> bool:
    """An acknowledgement of one message leaves another one to be revived.

    pre: acked != start
    post: _
    """
    check_point = _check_point(start, 0, 60_000)
    state = _read(check_point, acked, read_at)
    return state.check_points[0, check_point.key].unacked == (start,)


@contract("POP-028")
def the_revive_offset_leaves_what_is_pending(committed: int, pending: int, read: int) -> bool:
    """The revive log is committed up to a checkpoint that is not done, never past it.

    pre: -1 <= committed < pending < read
    post: _
    """
    held = PoppedCheckPoint(_check_point(0, 0, 0), pending)
    state = pop.PopState({(0, held.check_point.key): held}, {0: read})
    key = OffsetKey(revive_topic("cluster"), REVIVE_GROUP, 0)
    offsets = OffsetState({key: committed})
    apply(offsets, pop.commit_revive_offset(state, offsets, "cluster", 0).changes)
    return committed <= offsets.offset_table[key] < pending
