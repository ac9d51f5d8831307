"""Sends: which queue, when again, and which broker is avoided for how long."""

from __future__ import annotations

from mqprove.contracts.contract import contract
from mqspec.core import producer
from mqspec.core.producer import FaultItem, ProducerState
from mqspec.core.response import ResponseCode
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue

QUEUES = (
    MessageQueue("topic", "a", 0),
    MessageQueue("topic", "a", 1),
    MessageQueue("topic", "b", 0),
)


@contract("SEND-027")
def another_try_goes_to_another_broker(turn: int, failed_on_a: bool) -> bool:
    """After a failure the queue is one of another broker, whoever's turn it is.

    pre: turn >= -1
    post: _
    """
    failed = "a" if failed_on_a else "b"
    state = ProducerState({"topic": turn})
    return producer.select_one_message_queue(state, QUEUES, failed).result.broker_name != failed


@contract("SEND-027")
def every_queue_has_its_turn(turn: int) -> bool:
    """Each send goes to the queue behind that of the send before.

    pre: turn >= -1
    post: _
    """
    state = ProducerState({"topic": turn})
    step = producer.select_one_message_queue(state, QUEUES, None)
    apply(state, step.changes)
    return step.result == QUEUES[(turn + 1) % 3] and state.send_which_queue == {"topic": turn + 1}


@contract("SEND-028")
def an_avoided_broker_is_not_chosen(turn: int, until_ms: int, now_ms: int) -> bool:
    """While a broker is avoided, one that is available is chosen.

    pre: turn >= -1 and now_ms < until_ms
    post: _
    """
    state = ProducerState({"topic": turn}, {"a": FaultItem(0, until_ms)})
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
