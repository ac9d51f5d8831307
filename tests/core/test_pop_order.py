"""PopOrder: a queue is blocked, freed and popped again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqspec.core import pop_order
from mqspec.core.extra_info import OrderCount
from mqspec.core.pop_order import IllegalOffsetError, OrderInfo, OrderKey, PopOrderState
from mqspec.core.step import Step, apply

KEY = OrderKey("T", "G", 0)
BATCH = OrderInfo(1_000, 100, (1, 2, 3), last_consume_timestamp=1_000, attempt_id="a")


def popped(*batches: OrderInfo) -> PopOrderState:
    state = PopOrderState()
    for batch in batches:
        apply(state, pop_order.pop(state, KEY, batch).changes)
    return state


def carried(state: PopOrderState, step: Step) -> object:
    apply(state, step.changes)
    return step.result


def test_a_queue_is_blocked_until_its_messages_are_due() -> None:
    state = popped(BATCH)
    assert pop_order.is_blocked(state, KEY, "b", 1_099)
    assert pop_order.is_blocked(state, KEY, None, 1_099)
    assert not pop_order.is_blocked(state, KEY, "b", 1_100)
    assert not pop_order.is_blocked(state, KEY, "a", 1_000)
    assert not pop_order.is_blocked(state, KEY._replace(queue_id=1), "b", 1_000)


def test_the_offset_moves_to_the_first_message_that_is_not_acknowledged() -> None:
    state = popped(BATCH)
    moved = [carried(state, pop_order.ack(state, KEY, offset, 1_000)) for offset in (2, 1, 3)]
    assert moved == [1, 3, 4]
    assert not pop_order.is_blocked(state, KEY, "b", 1_000)


def test_acknowledgements_of_an_earlier_batch_are_ignored() -> None:
    assert pop_order.ack(popped(BATCH), KEY, 1, 999) == Step()


def test_an_offset_that_was_not_popped_is_refused() -> None:
    with pytest.raises(IllegalOffsetError):
        pop_order.ack(popped(BATCH), KEY, 4, 1_000)


def test_without_a_batch_acknowledgements_are_ignored() -> None:
    assert pop_order.ack(PopOrderState(), KEY, 7, 1_000) == Step()


def test_deliveries_are_counted() -> None:
    # The vectors of ConsumerOrderInfoManagerTest.
    state = popped(replace(BATCH, offsets=(1, 2)))
    counts = [
        carried(state, pop_order.pop(state, KEY, replace(BATCH, offsets=offsets, attempt_id=None)))
        for offsets in ((1, 2), (2, 3), (3, 4), (5, 6))
    ]
    assert counts == [
        OrderCount({1: 1, 2: 1}, 1),
        OrderCount({2: 2}, 0),
        OrderCount({3: 1}, 0),
        OrderCount({}, 0),
    ]


def test_the_same_attempt_is_no_further_delivery() -> None:
    state = popped(BATCH, replace(BATCH, attempt_id="b"))
    again = pop_order.pop(state, KEY, replace(BATCH, attempt_id="b"))
    assert again.result == OrderCount({1: 1, 2: 1, 3: 1}, 1)


def test_a_changed_invisible_time_blocks_longer_or_shorter() -> None:
    state = popped(replace(BATCH, offsets=(1,)))
    apply(state, pop_order.change_invisible_time(state, KEY, 1, 1_000, 5_000).changes)
    assert pop_order.is_blocked(state, KEY, "b", 4_999)
    apply(state, pop_order.change_invisible_time(state, KEY, 1, 1_000, 1_050).changes)
    assert not pop_order.is_blocked(state, KEY, "b", 1_050)
    assert pop_order.change_invisible_time(state, KEY, 1, 999, 9_000) == Step()


def test_a_reset_clears_the_block() -> None:
    state = popped(BATCH)
    apply(state, pop_order.clear_block(state, KEY).changes)
    assert not pop_order.is_blocked(state, KEY, "b", 1_000)


def test_what_is_no_more_is_forgotten() -> None:
    state = popped(BATCH)
    late = 1_000 + pop_order.CLEAN_SPAN_MS
    assert pop_order.auto_clean(state, {"T": 1}, {"G": 0}, late) == Step()
    for queues, groups, now_ms in (
        ({}, {"G": 0}, 0),
        ({"T": 0}, {"G": 0}, 0),
        ({"T": 1}, {}, 0),
        ({"T": 1}, {"G": 0}, late + 1),
    ):
        assert len(pop_order.auto_clean(state, queues, groups, now_ms).changes) == 1


def test_the_file_holds_the_table() -> None:
    state = popped(BATCH, replace(BATCH, attempt_id="b"))
    apply(state, pop_order.ack(state, KEY, 2, 1_000).changes)
    apply(state, pop_order.change_invisible_time(state, KEY, 1, 1_000, 5_000).changes)
    content = pop_order.persist(state)
    assert content["table"]["T@G"][0] == {
        "popTime": 1_000,
        "i": 100,
        "o": [1, 1, 2],
        "l": 1_000,
        "cm": 2,
        "a": "b",
        "oc": {1: 1, 2: 1, 3: 1},
        "ot": {1: 5_000},
    }
    assert pop_order.load(content) == state


@pytest.mark.parametrize("table", [[], {"T@G": 3}, {"T@G": {"0": {}}}, {"T@G": {"0": {"o": []}}}])
def test_a_file_that_no_broker_wrote_is_refused(table: object) -> None:
    with pytest.raises(ValueError, match="table"):
        pop_order.load({"table": table})
