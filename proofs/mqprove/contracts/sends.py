"""Sends: which queue, when again, and which broker is avoided for how long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from mqprove.contracts.contract import contract
from mqspec.core import java, producer
from mqspec.core.metadata import Perm
from mqspec.core.producer import FaultItem, ProducerState
from mqspec.core.response import ResponseCode
from mqspec.core.route import BrokerData, QueueData, TopicRouteData
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue

QUEUES = (
    MessageQueue("topic", "a", 0),
    MessageQueue("topic", "a", 1),
    MessageQueue("topic", "b", 0),
)


class _Numbered(Sequence[MessageQueue]):
    """Any number of queues, which nobody could list."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, at: Any) -> Any:
        return MessageQueue("topic", "a", at)


TURNS = (-1, 0, 1, 2**31 - 2)  # behind the last of these they begin again soon


@contract("SEND-027")
def another_try_goes_to_another_broker(turn: int, failed_on_a: bool) -> bool:
    """After a failure the queue is one of another broker, whoever's turn it is, until turns
    begin again.

    pre: -1 <= turn < 2147483640
    post: _
    """
    failed = "a" if failed_on_a else "b"
    state = ProducerState({"topic": turn})
    return producer.select_one_message_queue(state, QUEUES, failed).result.broker_name != failed


@contract("SEND-027")
def every_queue_has_its_turn(turn: int) -> bool:
    """Each send goes to the queue behind that of the send before.

    pre: -1 <= turn < 2147483647
    post: _
    """
    state = ProducerState({"topic": turn})
    step = producer.select_one_message_queue(state, QUEUES, None)
    apply(state, step.changes)
    return step.result == QUEUES[(turn + 1) % 3] and state.send_which_queue == {"topic": turn + 1}


@contract("SEND-028")
def an_avoided_broker_is_not_chosen(at: int, until_ms: int, now_ms: int) -> bool:
    """While a broker is avoided, one that is available is chosen, until turns begin
    again.

    pre: 0 <= at < 3 and now_ms < until_ms
    post: _
    """
    state = ProducerState({"topic": TURNS[at]}, {"a": FaultItem(0, until_ms)})
    step = producer.select_one_message_queue(state, QUEUES, None, now_ms)
    return step.result.broker_name == "b"


@contract("SEND-028")
def a_slower_broker_is_avoided_for_no_shorter(fast_ms: int, slow_ms: int) -> bool:
    """Who took longer is avoided at least as long.

    pre: 0 <= fast_ms <= slow_ms
    post: _
    """
    fast, slow = map(producer.not_available_duration, (fast_ms, slow_ms))
    return 0 <= fast <= slow <= 30_000


@contract("SEND-028")
def only_time_ends_that_a_broker_is_avoided(until_ms: int, latency_ms: int, now_ms: int) -> bool:
    """A send that went well does not make an avoided broker available sooner.

    post: _
    """
    state = ProducerState(fault_item_table={"a": FaultItem(0, until_ms)})
    apply(state, producer.update_fault_item(state, "a", latency_ms, now_ms).changes)
    return state.fault_item_table["a"].start_timestamp_ms >= until_ms


@contract("SEND-026")
def success_is_never_sent_again(retries_not_store_ok: bool) -> bool:
    """Whatever the producer asks for, a success is the end; a try without an answer is not.

    post: _
    """
    again = producer.is_tried_again(ResponseCode.SUCCESS, retries_not_store_ok=retries_not_store_ok)
    return not again and producer.is_tried_again(None, retries_not_store_ok=retries_not_store_ok)


@contract("SEND-027", "SEND-028")
def each_queue_that_was_looked_at_has_had_its_turn(
    begins_again: bool, failed_on_a: bool, a_is_due: bool, b_is_due: bool, how: int
) -> bool:
    """It is the first queue that is wanted, behind the last one and round the end: one of a broker
    that is available, or else reachable, and not the one that failed. Where none is wanted it is
    the next queue all the same. So it is where Java's turns, an int, begin again.

    pre: 0 <= how <= 3
    post: _
    """
    turn, failed, avoids = TURNS[3 if begins_again else 0], "a" if failed_on_a else None, how > 0
    available, reached = {"a": a_is_due, "b": b_is_due}, {"a": how == 1, "b": how <= 2}
    items = {name: FaultItem(0, 7 if available[name] else 8, reached[name]) for name in "ab"}
    state = ProducerState({"topic": turn}, items)
    step = producer.select_one_message_queue(state, QUEUES, failed, 7 if avoids else None)
    apply(state, step.changes)

    rounds = [available, reached] if avoids else [{"a": True, "b": True}]
    taken = 1
    for wanted in (each for each in rounds for _ in QUEUES):
        broker = QUEUES[(turn + taken) % 2**31 % 3].broker_name
        if broker != failed and wanted[broker]:
            break
        taken += 1
    is_next = step.result == QUEUES[(turn + taken) % 2**31 % 3]
    return is_next and state.send_which_queue == {"topic": turn + taken}


@contract("SEND-027")
def a_turn_is_an_int_of_java(turn: int) -> bool:
    """Of 3 or 8 queues, or of as many as there are turns, the one behind the last is taken, as
    Java's remainder of an int finds it, whose highest bit is dropped where it wraps. Of the many it
    is the turn itself, so that of any number it is the right remainder.

    pre: -1 <= turn <= 4294967296
    post: _
    """
    after = java.wrapped(turn + 1, java.INT_BITS)
    counted = after if after >= 0 else after + 2**31
    return all(_chosen(turn, queues) == counted % queues for queues in (3, 8, 2**31))


def _chosen(turn: int, queues: int) -> int:
    """The number of the queue that is taken after a turn, where none is avoided."""
    state = ProducerState({"topic": turn})
    return producer.select_one_message_queue(state, _Numbered(queues), None).result.queue_id


@contract("SEND-029")
def a_key_has_the_queue_that_java_gives_it(code: int, queues: int) -> bool:
    """Of any number of queues a key has the one at the remainder of its hash, which in Java has the
    hash's sign, without that sign: also of the smallest int, which has no opposite.

    pre: -2147483648 <= code <= 2147483647 and 1 <= queues
    post: _
    """
    with patch.object(producer, "string_hash", lambda key: code):
        chosen = producer.select_by_hash(_Numbered(queues), "key")
    quotient = abs(code) // queues
    remainder = code - queues * (quotient if code >= 0 else -quotient)
    return chosen.queue_id == abs(remainder)


@contract("SEND-028")
def a_broker_is_avoided_as_the_table_says(at: int, more_ms: int, now_ms: int, failed: bool) -> bool:
    """A send that took at least so long has its broker avoided for so long; one that failed counts
    as one of ten seconds, and is kept with what it took.

    pre: 0 <= at < len(producer.LATENCY_MAX) and 0 <= more_ms and 0 <= now_ms
    post: _
    """
    latency_ms = producer.LATENCY_MAX[at] + more_ms
    if latency_ms >= (*producer.LATENCY_MAX[1:], latency_ms + 1)[at]:
        return True  # the next of the table says it
    state = ProducerState()
    step = producer.update_fault_item(
        state, "a", latency_ms, now_ms, isolation=failed, reachable=not failed
    )
    apply(state, step.changes)
    avoided_ms = 10_000 if failed else producer.NOT_AVAILABLE_DURATION[at]
    return state.fault_item_table == {"a": FaultItem(latency_ms, now_ms + avoided_ms, not failed)}


@contract("SEND-027")
def only_what_is_written_by_masters_is_published_to(
    is_written: bool, has_master: bool, writes: int, at_most: int
) -> bool:
    """Of a broker are chosen its queues to write, in order, if it lets write and has a master: and
    of a topic that is created, no more than asked for.

    pre: 0 <= writes <= 2 and 1 <= at_most <= 2
    post: _
    """
    perm = Perm.READ | Perm.WRITE if is_written else Perm.READ
    route = TopicRouteData(
        (QueueData("b", 4, writes, perm), QueueData("a", 0, 1, Perm.WRITE)),
        (
            BrokerData("C", "b", {0 if has_master else 1: "h:2"}),
            BrokerData("C", "a", {0: "h:1"}),
        ),
    )
    of_b = min(writes, at_most) if is_written and has_master else 0
    places = [("a", 0), *(("b", number) for number in range(of_b))]
    published = producer.publish_queues("topic", route, at_most)
    return published == [MessageQueue("topic", *place) for place in places]
