"""Messages that wait for a time of their own."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from mqspec.core.log import PutStatus
from mqspec.core.metadata import BrokerConfig, MetadataState, TopicConfig
from mqspec.core.record import NOWHERE, Record, decode_properties, encode_properties
from mqspec.core.response import Refusal
from mqspec.core.step import apply
from mqspec.core.timer import (
    TIMER_TOPIC,
    Recall,
    TimerState,
    Waiting,
    break_off,
    delivered_before,
    delivered_copy,
    dequeue,
    enqueue,
    first_waiting,
    recall_handle,
    recall_message,
    recalled_key,
    schedule_timer,
)

CONFIG = BrokerConfig()
NOW_MS = 1_700_000_000_500
SECOND_MS = 1_700_000_000_000
MAX_MS = 1000 * CONFIG.timer_max_delay_sec


def message(**properties: object) -> Record:
    texts = {"UNIQ_KEY": "k", **{name: str(value) for name, value in properties.items()}}
    return Record("T", b"body", encode_properties(texts).encode(), queue_id=3, flag=7)


def scheduled(**properties: object) -> Record:
    found = schedule_timer(CONFIG, message(**properties), NOW_MS)
    assert isinstance(found, Record)
    return found


@pytest.mark.parametrize(
    ("properties", "slot_ms"),
    [
        ({"TIMER_DELIVER_MS": SECOND_MS + 3000}, 2000),
        ({"TIMER_DELIVER_MS": SECOND_MS + 3001}, 3000),
        ({"TIMER_DELAY_SEC": 3}, 3000),
        ({"TIMER_DELAY_SEC": CONFIG.timer_max_delay_sec}, MAX_MS),
        ({"TIMER_DELAY_MS": 2500}, 2000),
        ({"TIMER_DELAY_MS": MAX_MS}, MAX_MS),
        ({"TIMER_DELAY_SEC": 3, "TIMER_DELAY_MS": 9000, "TIMER_DELIVER_MS": 1}, 3000),
        ({"TIMER_DELAY_MS": 9000, "TIMER_DELIVER_MS": 1}, 9000),
    ],
)
def test_a_message_waits_for_its_second(properties: dict[str, object], slot_ms: int) -> None:
    waits = scheduled(**properties)
    assert (waits.topic, waits.queue_id, waits.body, waits.flag) == (TIMER_TOPIC, 0, b"body", 7)
    found = decode_properties(waits.properties)
    assert found["TIMER_OUT_MS"] == str(SECOND_MS + slot_ms)
    assert (found["REAL_TOPIC"], found["REAL_QID"]) == ("T", "3")


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"TIMER_DELIVER_MS": NOW_MS},
        {"TIMER_DELAY_SEC": -1},
        {"TIMER_DELAY_SEC": 3, "DELAY": 1},
        {"TIMER_DELAY_SEC": 3, "TIMER_OUT_MS": 1},  # it was delivered by a wheel
        {"MY_TIMER_DELAY": 3},
    ],
)
def test_a_message_that_waits_not(properties: dict[str, object]) -> None:
    assert scheduled(**properties) == message(**properties)


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_MS": MAX_MS + 1},
        {"TIMER_DELAY_SEC": "abc"},
        {"TIMER_DELIVER_MS": 1, "TIMER_DEL_UNIQKEY": "T+k"},
    ],
)
def test_a_time_that_cannot_be(properties: dict[str, object]) -> None:
    found = schedule_timer(CONFIG, message(**properties), NOW_MS)
    assert found is PutStatus.WHEEL_TIMER_MSG_ILLEGAL


def test_a_broker_may_have_no_wheel() -> None:
    config = replace(CONFIG, timer_wheel_enable=False)
    found = schedule_timer(config, message(TIMER_DELAY_SEC=3), NOW_MS)
    assert found is PutStatus.WHEEL_TIMER_NOT_ENABLE
    assert schedule_timer(config, message(), NOW_MS) == message()


def take_in(state: TimerState, messages: Iterable[Record | None]) -> TimerState:
    """The state, with messages of the timer queue in the wheel."""
    for offset, each in enumerate(messages, state.queue_offset):
        apply(state, enqueue(state, offset, each).changes)
    return state


def turn(state: TimerState, now_ms: int) -> list[list[int]]:
    """The queue offsets of all that comes out of the wheel by a time, by slot."""
    found = []
    while (step := dequeue(state, now_ms)).changes:
        apply(state, step.changes)
        found += [step.result.queue_offsets] if step.result else []
    return found


def delivered(messages: Sequence[Record], now_ms: int = 9) -> list[bytes]:
    """The properties of what is delivered of messages of one slot."""
    due = dequeue(take_in(TimerState(), messages), SECOND_MS + 60_000).result
    copies = (delivered_copy(messages[each], due.deleted, now_ms) for each in due.queue_offsets)
    return [copy.properties for copy in copies if copy]


def test_nothing_leaves_the_wheel_early() -> None:
    waits = [scheduled(TIMER_DELAY_MS=delay_ms) for delay_ms in (3000, 2000, 2400)]
    state = take_in(TimerState(SECOND_MS), waits)
    assert state.queue_offset == 3
    assert turn(state, SECOND_MS + 2999) == []
    assert turn(state, SECOND_MS + 3000) == [[1, 2]]
    assert turn(state, SECOND_MS + 9000) == [[0]]
    assert state == TimerState(SECOND_MS + 9000, 3)


def test_a_look_at_a_full_wheel_touches_few_slots() -> None:
    class Wheel(dict[int, Waiting]):
        looks = 0

        def __contains__(self, slot: object) -> bool:
            Wheel.looks += 1
            return super().__contains__(slot)

        def __iter__(self) -> Iterator[int]:
            raise AssertionError("the whole wheel is gone through")

    waiting = Waiting(0, "", 0, None)
    wheel = Wheel(dict.fromkeys(range(SECOND_MS, SECOND_MS + MAX_MS, 1000), waiting))
    state = TimerState(SECOND_MS, wheel=wheel, next_slot=SECOND_MS)
    looks = range(SECOND_MS, SECOND_MS + 5000, 100)
    assert [slot for now_ms in looks for slot in turn(state, now_ms)] == [[0]] * 4
    assert Wheel.looks < 100


def test_a_full_slot_is_not_copied_for_one_more_message() -> None:
    waits = scheduled(TIMER_DELAY_SEC=3)
    state = take_in(TimerState(), [waits] * 1000)
    (before,) = state.wheel.values()
    (after,) = take_in(state, [waits]).wheel.values()
    assert after.before is before
    assert turn(state, SECOND_MS + 60_000) == [list(range(1001))]


def test_a_slot_that_is_broken_off_is_gone_on_with() -> None:
    waits = [scheduled(TIMER_DELAY_SEC=3, UNIQ_KEY=key) for key in "abcd"]
    delete = scheduled(TIMER_DELAY_SEC=3, TIMER_DEL_UNIQKEY="T+d")
    state = take_in(TimerState(SECOND_MS + 9000), [delete, *waits])
    due = dequeue(state, SECOND_MS + 60_000).result
    assert due.queue_offsets == [1, 2, 3, 4]
    apply(state, break_off(state, due.slot, 3).changes)
    assert delivered_before(state) == due.slot
    left = dequeue(state, SECOND_MS + 60_000).result
    assert left == due._replace(queue_offsets=[3, 4])
    assert left.deleted == {"T+d"}


def test_a_time_within_a_second_is_that_second_s() -> None:
    state = TimerState(SECOND_MS, next_slot=SECOND_MS)
    waits = structs.replace(
        message(), properties=f"TIMER_OUT_MS\x01{SECOND_MS + 2700}\x02".encode()
    )
    take_in(state, [waits])
    assert turn(state, SECOND_MS + 2999) == []
    assert turn(state, SECOND_MS + 3000) == [[0]]


def test_a_clock_that_goes_back_hides_nothing() -> None:
    state = take_in(TimerState(SECOND_MS + 60_000), [scheduled(TIMER_DELAY_SEC=3)])
    assert turn(state, SECOND_MS + 61_000) == [[0]]


def test_what_is_no_timer_message_is_passed_over() -> None:
    passed = [None, message(), message(TIMER_OUT_MS="x")]
    assert take_in(TimerState(), passed) == TimerState(0, 3)


def test_after_a_restart_the_wheel_has_what_was_not_delivered() -> None:
    waits = [scheduled(TIMER_DELAY_SEC=seconds) for seconds in (1, 5, 5)]
    state = take_in(TimerState(SECOND_MS + 5000, taken_before=4), [*waits, None])
    assert first_waiting(state, 0) == 1
    assert first_waiting(state, 2) == 2
    assert first_waiting(state, 3) == 4
    assert turn(state, SECOND_MS + 60_000) == [[1, 2]]
    assert turn(take_in(TimerState(), waits), SECOND_MS + 60_000) == [[0], [1, 2]]


def test_nothing_leaves_the_wheel_before_it_is_filled_again() -> None:
    waits = [scheduled(TIMER_DELAY_SEC=seconds) for seconds in (1, 1)]
    state = take_in(TimerState(SECOND_MS, taken_before=2), waits[:1])
    assert turn(state, SECOND_MS + 60_000) == []
    assert turn(take_in(state, waits[1:]), SECOND_MS + 60_000) == [[0, 1]]


def test_what_no_wheel_had_waits_after_a_restart_however_early_it_is_due() -> None:
    """It was stored, and the broker was killed before it took it in."""
    waits = [scheduled(TIMER_DELAY_SEC=seconds) for seconds in (1, 1, 9)]
    state = take_in(TimerState(SECOND_MS + 5000, taken_before=1), waits)
    assert state.queue_offset == 3
    assert turn(state, SECOND_MS + 5000) == [[1]]
    assert state.read_time == SECOND_MS + 5000
    assert turn(state, SECOND_MS + 60_000) == [[2]]


def test_progress_stays_before_all_that_waits() -> None:
    state = TimerState(SECOND_MS + 8000)
    assert delivered_before(state) == SECOND_MS + 8000
    take_in(state, [scheduled(TIMER_DELAY_SEC=3)])  # visible only now
    assert delivered_before(state) == SECOND_MS + 3000


def test_what_is_delivered() -> None:
    waits = structs.replace(scheduled(TIMER_DELAY_SEC=3), store_timestamp=5)
    copy = delivered_copy(waits, (), 9)
    assert copy
    assert (copy.topic, copy.queue_id, copy.body, copy.flag) == ("T", 3, b"body", 7)
    found = decode_properties(copy.properties)
    assert (found["TIMER_ENQUEUE_MS"], found["TIMER_DEQUEUE_MS"]) == ("5", "9")
    assert isinstance(schedule_timer(CONFIG, copy, NOW_MS), Record)


def test_a_message_deletes_another_one_of_its_slot() -> None:
    one, two = (scheduled(TIMER_DELAY_SEC=3, UNIQ_KEY=key) for key in "ab")
    delete = scheduled(TIMER_DELAY_SEC=3, TIMER_DEL_UNIQKEY="T+a")
    assert delivered([one, two, delete]) == delivered([delete, one, two]) == delivered([two])
    other = scheduled(TIMER_DELAY_SEC=3, TIMER_DEL_UNIQKEY="a")
    assert delivered([one, other]) == delivered([one])


def test_a_recall_handle_names_the_message() -> None:
    handle = recall_handle("broker-a", scheduled(TIMER_DELAY_SEC=3))
    assert handle is not None
    assert urlsafe_b64decode(handle) == b"v1 T broker-a %d k" % (SECOND_MS + 3001)
    assert recall_handle("broker-a", message()) is None
    retried = schedule_timer(
        CONFIG, structs.replace(message(TIMER_DELAY_SEC=3), topic="%RETRY%g"), NOW_MS
    )
    assert isinstance(retried, Record)
    assert recall_handle("broker-a", retried) is None


def test_a_recall_handle_believes_what_a_message_says_of_itself() -> None:
    handle = recall_handle("broker-a", message(TIMER_OUT_MS=5, REAL_TOPIC="R"))
    assert handle is not None
    assert urlsafe_b64decode(handle) == b"v1 R broker-a 6 k"
    assert recall_handle("broker-a", message(TIMER_OUT_MS=5)) is None
    assert recall_handle("broker-a", message(REAL_TOPIC="R")) is None
    assert recall_handle("broker-a", message(TIMER_OUT_MS="soon", REAL_TOPIC="R")) is None


def recalled(handle: str, topic: str = "T", *, enabled: bool = True) -> Record | Refusal:
    metadata = MetadataState({"T": TopicConfig("T", 4, 4)})
    config = replace(CONFIG, recall_message_enable=enabled)
    return recall_message(metadata, config, Recall(topic, handle, "P", NOWHERE, NOWHERE), NOW_MS)


def test_a_recalled_message_is_not_delivered() -> None:
    gone = scheduled(TIMER_DELAY_SEC=3)
    handle = recall_handle("broker-a", gone)
    assert handle is not None
    assert recalled_key(handle) == "k"
    recall = recalled(handle)
    assert isinstance(recall, Record)
    waits = schedule_timer(CONFIG, recall, NOW_MS)
    assert isinstance(waits, Record)
    slots = {decode_properties(one.properties)["TIMER_OUT_MS"] for one in (gone, waits)}
    assert len(slots) == 1
    assert delivered([gone, waits]) == []


def test_recalls_that_are_refused() -> None:
    def handle(*words: object) -> str:
        return urlsafe_b64encode(" ".join(map(str, words)).encode()).decode()

    soon = NOW_MS + 1000
    good = handle("v1", "T", "broker-a", soon, "k")
    assert isinstance(recalled(good), Record)
    codes = {
        **dict.fromkeys(("", "?", "é", "bm8="), 604),
        handle("v2", "T", "broker-a", soon, "k"): 604,
        handle("v1", "T", "broker-a", soon): 604,
        handle("v1", "U", "broker-a", soon, "k"): 604,
        handle("v1", "T", "broker-b", soon, "k"): 604,
        handle("v1", "T", "broker-a", NOW_MS, "k"): 604,
        handle("v1", "T", "broker-a", NOW_MS + MAX_MS, "k"): 604,
        handle("v1", "T", "broker-a", "soon", "k"): 604,
    }
    found = {handle: recalled(handle) for handle in codes}
    assert {handle: getattr(one, "code", 0) for handle, one in found.items()} == codes
    for refused, code in ((recalled(good, "U"), 17), (recalled(good, enabled=False), 16)):
        assert isinstance(refused, Refusal)
        assert refused.code == code
