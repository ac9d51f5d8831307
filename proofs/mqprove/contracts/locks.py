"""Locks of queues, and pops in order: who may consume, and until when."""

from __future__ import annotations

from mqprove.contracts.contract import contract
from mqspec.core import lock, pop_order
from mqspec.core.lock import LockBatch, LockEntry, LockState
from mqspec.core.pop_order import OrderInfo, OrderKey, PopOrderState
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue

MQ = MessageQueue("topic", "broker", 0)
NEXT = MessageQueue("topic", "broker", 1)
ORDER = OrderKey("topic", "group", 0)


def _locked(holder: str, since_ms: int) -> LockState:
    return LockState({"group": {MQ: LockEntry(holder, since_ms)}})


@contract("LOCK-001", "LOCK-004")
def a_lock_is_not_taken_while_it_lives(since_ms: int, now_ms: int, live_ms: int) -> bool:
    """Who does not hold a lock gets it once it is older than it lives, and not before.

    post: _
    """
    step = lock.try_lock_batch(
        _locked("holder", since_ms), LockBatch("group", "other", (MQ,)), now_ms, live_ms
    )
    return bool(step.result) == (now_ms - since_ms > live_ms) == bool(step.changes)


@contract("LOCK-002")
def the_holder_renews_its_lock(since_ms: int, now_ms: int, live_ms: int) -> bool:
    """The holder gets its lock again, from now on, however old it is.

    post: _
    """
    state = _locked("holder", since_ms)
    step = lock.try_lock_batch(state, LockBatch("group", "holder", (MQ,)), now_ms, live_ms)
    apply(state, step.changes)
    return step.result == (MQ,) and state.mq_lock_table["group"][MQ].last_update_ms == now_ms


@contract("LOCK-003")
def only_the_holder_unlocks(is_holder: bool, since_ms: int) -> bool:
    """An unlock takes a lock from its holder, and from nobody else.

    post: _
    """
    state = _locked("holder", since_ms)
    event = LockBatch("group", "holder" if is_holder else "other", (MQ,))
    apply(state, lock.unlock_batch(state, event).changes)
    return bool(state.mq_lock_table) != is_holder


@contract("LOCK-005")
def groups_do_not_see_each_others_locks(since_ms: int, now_ms: int, live_ms: int) -> bool:
    """A queue that one group has locked is free for another.

    post: _
    """
    state = _locked("holder", since_ms)
    step = lock.try_lock_batch(state, LockBatch("another", "other", (MQ,)), now_ms, live_ms)
    apply(state, step.changes)
    kept = state.mq_lock_table["group"][MQ] == LockEntry("holder", since_ms)
    return step.result == (MQ,) and kept


@contract("RETRY-008")
def a_group_is_orderly_while_a_lock_lives(one_ms: int, other_ms: int, live_ms: int) -> bool:
    """Of two locks of these ages both have expired where each could be taken by another.

    post: _
    """
    held = {MQ: LockEntry("one", -one_ms), NEXT: LockEntry("other", -other_ms)}
    is_expired = lock.is_lock_all_expired(LockState({"group": held}), "group", 0, live_ms)
    return is_expired == (one_ms > live_ms and other_ms > live_ms)


@contract("POP-020")
def a_batch_blocks_until_it_is_due(pop_time: int, invisible_ms: int, now_ms: int) -> bool:
    """The queue gives nothing to another attempt before the batch is due again.

    post: _
    """
    state = PopOrderState({ORDER: OrderInfo(pop_time, invisible_ms, (0, 1))})
    return pop_order.is_blocked(state, ORDER, None, now_ms) == (now_ms < pop_time + invisible_ms)


@contract("POP-022")
def the_same_attempt_is_not_blocked(pop_time: int, invisible_ms: int, now_ms: int) -> bool:
    """Who lost the answer may ask again with the same attempt id, at any time.

    post: _
    """
    batch = OrderInfo(pop_time, invisible_ms, (0,), attempt_id="attempt")
    return not pop_order.is_blocked(PopOrderState({ORDER: batch}), ORDER, "attempt", now_ms)


@contract("POP-021", "POP-024")
def an_ack_in_order_moves_to_the_first_open_one(
    pop_time: int, acked_at: int, is_second: bool, begun: bool
) -> bool:
    """An acknowledgement of the last batch moves the group to its first message that is open, and
    one of an earlier batch moves nothing.

    post: _
    """
    batch = OrderInfo(pop_time, 0, (7, 8), acked=frozenset({7} if begun else ()))
    state = PopOrderState({ORDER: batch})
    step = pop_order.ack(state, ORDER, 8 if is_second else 7, acked_at)
    if acked_at != pop_time:
        return step.result is None and not step.changes
    if is_second:
        return step.result == (9 if begun else 7)
    return step.result == 8


@contract("POP-020")
def what_is_acknowledged_blocks_no_more(pop_time: int, now_ms: int) -> bool:
    """A batch that is acknowledged as a whole blocks its queue no longer.

    pre: now_ms >= 0
    post: _
    """
    state = PopOrderState({ORDER: OrderInfo(pop_time, 60_000, (7,))})
    apply(state, pop_order.ack(state, ORDER, 7, pop_time).changes)
    return not pop_order.is_blocked(state, ORDER, None, now_ms)


@contract("POP-023")
def a_batch_that_comes_again_counts_once_more(count: int, is_same: bool) -> bool:
    """A message of the last batch was delivered once more, unless the attempt is the same.

    pre: count >= 0
    post: _
    """
    last = OrderInfo(0, 0, (7,), consumed_count={7: count}, attempt_id="attempt")
    again = OrderInfo(1, 0, (7,), attempt_id="attempt" if is_same else None)
    told = pop_order.pop(PopOrderState({ORDER: last}), ORDER, again).result
    return bool(told.by_offset == {7: count if is_same else count + 1})


@contract("POP-028")
def the_file_of_orders_keeps_the_last_batch(
    pop_time: int, invisible_ms: int, next_ms: int, is_acked: bool
) -> bool:
    """What is written is what is read.

    post: _
    """
    acked = frozenset({8} if is_acked else ())
    batch = OrderInfo(pop_time, invisible_ms, (7, 8), {7: next_ms}, acked=acked)
    state = PopOrderState({ORDER: batch})
    return pop_order.load(pop_order.persist(state)).order_info == state.order_info
