"""What waits: held pulls, delayed messages, requests in a pool."""

from __future__ import annotations

from mqprove.contracts.contract import contract
from mqspec.core import delay, flow_control, long_polling, timer
from mqspec.core.delay import DelayState, TimeUp
from mqspec.core.group import SubscriptionData
from mqspec.core.log import Span
from mqspec.core.long_polling import LongPollingState, PullRequest
from mqspec.core.step import apply
from mqspec.core.timer import TimerState, Waiting

QUEUE = ("topic", 0)
ALL = SubscriptionData("topic")
TAGGED = SubscriptionData("topic", "tag", frozenset({"tag"}), frozenset({7}))


def _holding(*requests: PullRequest) -> LongPollingState:
    return LongPollingState({QUEUE: requests})


@contract("PULL-008", "PULL-014")
def a_held_pull_is_woken_by_its_message(
    offset: int, end: int, deadline_ms: int, now_ms: int
) -> bool:
    """A pull is woken where the queue goes beyond its offset, or its time is up; else it stays.

    post: _
    """
    state = _holding(PullRequest("pull", offset, ALL, deadline_ms))
    step = long_polling.notify_message_arriving(state, QUEUE, end, None, now_ms)
    apply(state, step.changes)
    is_woken = end > offset or now_ms >= deadline_ms
    return (
        step.result == (("pull",) if is_woken else ())
        and bool(state.pull_request_table) != is_woken
    )


@contract("PULL-010")
def another_tag_wakes_nobody(offset: int, end: int, is_wanted: bool, deadline_ms: int) -> bool:
    """Before its time is up, a pull of a tag is woken by a message with that tag's hash only.

    pre: deadline_ms > 0
    post: _
    """
    state = _holding(PullRequest("pull", offset, TAGGED, deadline_ms))
    step = long_polling.notify_message_arriving(state, QUEUE, end, 7 if is_wanted else 8, 0)
    return bool(step.result) == (end > offset and is_wanted)


@contract("PULL-011")
def every_held_pull_is_looked_at(first: int, second: int, end: int) -> bool:
    """Of two held pulls each is woken that the arrival concerns.

    post: _
    """
    state = _holding(PullRequest("one", first, ALL, 1), PullRequest("two", second, ALL, 1))
    step = long_polling.notify_message_arriving(state, QUEUE, end, None, 0)
    return step.result == tuple(
        token for token, offset in (("one", first), ("two", second)) if end > offset
    )


@contract("PULL-009", "PULL-013")
def a_look_ends_what_is_overdue(offset: int, end: int, deadline_ms: int, now_ms: int) -> bool:
    """A look at all queues ends each pull whose time is up, and leaves no other changed.

    post: _
    """
    state = _holding(PullRequest("pull", offset, ALL, deadline_ms))
    step = long_polling.check_hold_request(state, lambda queue: end, now_ms)
    return bool(step.result) == (now_ms >= deadline_ms or end > offset) == bool(step.changes)


@contract("DELAY-002")
def nothing_is_delivered_early(deliver_at: int, now_ms: int, delay_ms: int, offset: int) -> bool:
    """A message whose time lies within its level's delay waits for it.

    pre: deliver_at <= now_ms + delay_ms
    post: _
    """
    step = delay.deliver(DelayState(), TimeUp(1, offset, deliver_at, now_ms), delay_ms)
    return step.result == (deliver_at <= now_ms) == bool(step.changes)


@contract("DELAY-003", "DELAY-004")
def delivery_goes_on_behind_its_message(deliver_at: int, now_ms: int, offset: int) -> bool:
    """A delivery moves its level's offset by one, and no other level's.

    pre: deliver_at <= now_ms
    post: _
    """
    state = DelayState({1: offset, 2: offset})
    apply(state, delay.deliver(state, TimeUp(1, offset, deliver_at, now_ms), 1000).changes)
    return state.offset_table == {1: offset + 1, 2: offset}


@contract("DELAY-003")
def delivery_begins_inside_its_queue(stored: int, least: int, end: int) -> bool:
    """Whatever the file says, delivery goes on inside the queue; where it can, as the file says.

    pre: 0 <= least <= end
    post: _
    """
    begins = delay.next_offset(DelayState({1: stored}), 1, Span(least, end))
    return least <= begins <= end and (begins == stored or not least <= stored <= end)


@contract("DELAY-007")
def the_file_of_delays_keeps_them(first: int, second: int) -> bool:
    """What is written is what is read.

    post: _
    """
    state = DelayState({1: first, 18: second})
    return delay.load(delay.persist(state)) == state


@contract("TIMER-002", "TIMER-007")
def a_time_lies_in_its_slot(deliver_at: int) -> bool:
    """A slot is a whole second, which the time lies in, or which ends with it.

    post: _
    """
    slot = timer.slot_of(deliver_at)
    return slot % timer.PRECISION_MS == 0 and slot < deliver_at <= slot + timer.PRECISION_MS


@contract("TIMER-002")
def no_slot_is_emptied_before_its_second_has_passed(second: int, now_ms: int) -> bool:
    """What is due lies in a second that has passed.

    pre: 0 <= second < 10 and now_ms >= 0
    post: _
    """
    slot = second * timer.PRECISION_MS
    state = TimerState(wheel={slot: Waiting(0, "", 0, None)})
    due = timer.dequeue(state, now_ms).result
    return due is None or due.slot + timer.PRECISION_MS <= now_ms


@contract("TIMER-008")
def nothing_leaves_a_wheel_that_is_not_filled(taken: int, before: int, now_ms: int) -> bool:
    """After a start no message is delivered before all that waited then are in the wheel again.

    pre: taken < before
    post: _
    """
    waiting = {0: Waiting(0, "", 0, None)}
    state = TimerState(queue_offset=taken, wheel=waiting, taken_before=before)
    return timer.dequeue(state, now_ms).changes == ()


@contract("WIRE-013")
def a_full_pool_takes_no_request(waiting: int, waiting_bytes: int) -> bool:
    """A request waits where its pool and the memory have room, and is refused elsewhere.

    pre: waiting >= 0 and waiting_bytes >= 0
    post: _
    """
    refusal = flow_control.submit(flow_control.SEND, waiting, waiting_bytes)
    has_room = waiting < 10_000 and waiting_bytes <= 64 << 20
    return (refusal is None) == has_room


@contract("WIRE-013", is_searched=True)
def a_request_that_waited_too_long_is_refused(arrived_ms: int, now_ms: int) -> bool:
    """A send that waited for 200 ms or longer is refused, and one that waited less is not.

    post: _
    """
    refusal = flow_control.clean_expired_request(flow_control.SEND, 0, arrived_ms, now_ms)
    return (refusal is None) == (now_ms - arrived_ms < 200)
