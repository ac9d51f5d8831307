"""Messages that wait, level by level."""

from __future__ import annotations

import pytest
from msgspec import structs

from mqspec.core import delay
from mqspec.core.delay import (
    DelayState,
    TimeUp,
    deliver,
    delivered_copy,
    next_offset,
    schedule_message,
)
from mqspec.core.log import DELAY_LEVELS_MS, SCHEDULE_TOPIC, Span
from mqspec.core.record import Record, decode_properties, encode_properties
from mqspec.core.step import apply

LEVELS = DELAY_LEVELS_MS
NOW_MS = 1_700_000_000_000


def message(**properties: str) -> Record:
    return Record("T", b"body", encode_properties(properties).encode(), queue_id=3, flag=7)


@pytest.mark.parametrize(
    ("asked", "level", "kept"),
    [("1", 1, "1"), ("+07", 7, "+07"), ("18", 18, "18"), ("+19", 18, "18"), ("99999", 18, "18")],
)
def test_a_delayed_message_goes_to_the_schedule_topic(asked: str, level: int, kept: str) -> None:
    waits = schedule_message(LEVELS, message(TAGS="A", DELAY=asked, TIMER_DELAY_SEC="3"))
    assert (waits.topic, waits.queue_id) == (SCHEDULE_TOPIC, level - 1)
    assert (waits.body, waits.flag) == (b"body", 7)
    assert decode_properties(waits.properties) == {
        "TAGS": "A",
        "DELAY": kept,
        "REAL_TOPIC": "T",
        "REAL_QID": "3",
    }


@pytest.mark.parametrize("properties", [{}, {"DELAY": "0"}, {"DELAY": "-1"}, {"MY_DELAY": "3"}])
def test_a_message_that_waits_not(properties: dict[str, str]) -> None:
    assert schedule_message(LEVELS, message(**properties)) == message(**properties)


def test_a_level_that_is_no_number() -> None:
    with pytest.raises(ValueError, match="abc"):
        schedule_message(LEVELS, message(DELAY="abc"))


def test_what_is_delivered_is_what_was_sent() -> None:
    waits = schedule_message(LEVELS, message(DELAY="1"))
    copy = delivered_copy(waits)
    assert copy == structs.replace(message(), properties=waits.properties)


@pytest.mark.parametrize(
    "properties",
    [{}, {"REAL_TOPIC": "T"}, {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"}],
)
def test_what_has_nowhere_to_go_is_dropped(properties: dict[str, str]) -> None:
    assert delivered_copy(message(**properties)) is None


@pytest.mark.parametrize(
    ("deliver_at", "due"),
    [
        (NOW_MS + 1, False),
        (NOW_MS, True),
        (NOW_MS - 5000, True),
        (NOW_MS + 1000, False),
        (NOW_MS + 1001, True),  # further away than the level is long: not believed
    ],
)
def test_when_a_message_is_due(deliver_at: int, due: bool) -> None:
    state = DelayState({1: 4})
    step = deliver(state, TimeUp(1, 4, deliver_at, NOW_MS), delay_ms=1000)
    assert step.result is due
    apply(state, step.changes)
    assert state.offset_table == {1: 5 if due else 4}


@pytest.mark.parametrize(("queue", "offset"), [(Span(0, 9), 4), (Span(6, 9), 6), (Span(0, 2), 2)])
def test_delivery_goes_on_within_the_queue(queue: Span, offset: int) -> None:
    assert next_offset(DelayState({1: 4}), 1, queue) == offset


def test_a_level_without_an_offset_starts_at_its_first_message() -> None:
    assert next_offset(DelayState(), 2, Span(3, 9)) == 3


def test_the_file_holds_the_state() -> None:
    state = DelayState({1: 4, 18: 7})
    assert delay.persist(state) == {"offsetTable": {1: 4, 18: 7}}
    assert delay.load({"offsetTable": {"1": 4, "18": 7}}) == state
    assert delay.load({}) == DelayState()


@pytest.mark.parametrize("table", [[], {"x": 1}, {"1": "4"}, {"1": None}])
def test_a_file_that_is_none(table: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        delay.load({"offsetTable": table})
