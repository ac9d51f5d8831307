"""The decisions of the log, without any file."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mqspec.core.log import (
    DELAY_LEVELS_MS,
    SCHEDULE_TOPIC,
    Append,
    Dispatch,
    GetMessageStatus,
    Limits,
    LogState,
    Put,
    PutStatus,
    Span,
    Stored,
    Unit,
    append_message,
    arrivals,
    check_messages,
    check_offset,
    commit,
    dispatch,
    flush,
    is_batch_full,
    is_indexed,
    is_transient_store_pool_deficient,
    may_dispatch,
    parse_delay_levels,
    unit_tags_codes,
    units,
)
from mqspec.core.record import Record, SysFlag, alone, tags_code
from mqspec.core.step import apply

QUEUE = ("T", 0)


def appended(
    state: LogState, *sizes: int, indexed: bool = True
) -> tuple[int, int, Span | None] | None:
    put = Put(QUEUE, sum(sizes), len(sizes), indexed)
    step = append_message(state, Append((put,), segment_size=100))
    apply(state, step.changes)
    (place,) = step.result
    return structs.astuple(place) if place else None


def dispatched(state: LogState, offset: int, indexed: bool = True) -> Unit | None:
    event = Dispatch(QUEUE, offset, indexed, (10 * offset,), (10,), (0,))
    step = dispatch(state, (event,))
    apply(state, step.changes)
    return event.unit if step.result else None


def test_records_follow_each_other() -> None:
    state = LogState()
    assert appended(state, 40) == (0, 0, None)
    assert appended(state, 40) == (40, 1, None)
    assert state.commit_log == (0, 80)
    assert state.topic_queue_table == {QUEUE: 2}


@pytest.mark.parametrize(
    ("size", "place"), [(52, (40, 1, None)), (53, (100, 1, Span(40, 100))), (93, None)]
)
def test_a_segment_keeps_eight_bytes_for_its_blank(
    size: int, place: tuple[int, int, Span | None] | None
) -> None:
    state = LogState()
    appended(state, 40)
    assert appended(state, size) == place
    assert state.topic_queue_table == {QUEUE: 2 if place else 1}


def test_a_batch_rolls_as_one() -> None:
    state = LogState()
    appended(state, 40)
    assert appended(state, 30, 30) == (100, 1, Span(40, 100))
    assert state.topic_queue_table == {QUEUE: 3}


some_sizes = st.lists(st.integers(1, 40), min_size=1, max_size=3)


@given(
    st.lists(st.tuples(st.integers(0, 2), some_sizes, st.booleans()), min_size=1),
    st.booleans(),
    st.integers(0, 9),
)
def test_puts_together_are_as_one_by_one(
    puts: list[tuple[int, list[int], bool]], transient_store_pool: bool, known: int
) -> None:
    """Puts of batches, and their dispatch, are what they are record by record. `known`: how many
    of the puts have their units already."""
    one, together = LogState(), LogState()
    run = [
        Put(("T", queue_id), sum(sizes), len(sizes), indexed) for queue_id, sizes, indexed in puts
    ]
    places = []
    for put in run:
        step = append_message(one, Append((put,), 100, transient_store_pool))
        apply(one, step.changes)
        places += step.result
    step = append_message(together, Append(run, 100, transient_store_pool))
    apply(together, step.changes)
    assert step.result == places
    assert together == one

    dispatches = [
        Dispatch(
            put.queue,
            place.queue_offset,
            put.indexed,
            tuple(itertools.accumulate(sizes[:-1], initial=place.position)),
            tuple(sizes),
            tuple(sizes),
        )
        for put, place, (_, sizes, _) in zip(run, places, puts, strict=True)
        if place
    ]
    for number, each in enumerate(dispatches):
        for record in records_of(each):
            apply(one, dispatch(one, (record,)).changes)
        if number < known:
            apply(together, dispatch(together, (each,)).changes)
    if dispatches:
        step = dispatch(together, dispatches)
        apply(together, step.changes)
        assert together == one
        visible = [each for of_queue in step.result.values() for each in of_queue]
        new = [each for each in dispatches[known:] if each.indexed]
        assert sorted(visible, key=lambda each: each.positions) == new


def records_of(batch: Dispatch) -> list[Dispatch]:
    return [
        Dispatch(
            batch.queue,
            batch.queue_offset + number * batch.indexed,
            batch.indexed,
            (position,),
            (size,),
            (code,),
        )
        for number, (position, size, code) in enumerate(units((batch,)))
    ]


def test_a_record_without_queue_takes_no_offset() -> None:
    state = LogState()
    assert appended(state, 40, indexed=False) == (0, 0, None)
    assert state.topic_queue_table == {}


def test_dispatch_gives_each_record_one_unit() -> None:
    state = LogState()
    assert [dispatched(state, offset) for offset in (0, 1, 0, 1)] == [
        Unit(0, 10, 0),
        Unit(10, 10, 0),
        None,
        None,
    ]
    assert state.consume_queue == {QUEUE: Span(0, 2)}
    assert dispatched(state, 2, indexed=False) is None
    assert state.consume_queue == {QUEUE: Span(0, 2)}


def test_a_queue_begins_where_its_first_record_says() -> None:
    state = LogState()
    dispatched(state, 7)
    assert state.consume_queue == {QUEUE: Span(7, 8)}
    dispatched(state, 9)
    assert state.consume_queue == {QUEUE: Span(9, 10)}  # no hole between minimum and maximum


@pytest.mark.parametrize(("sync", "before", "after"), [(True, False, True), (False, True, True)])
def test_what_is_dispatched_before_it_is_flushed(sync: bool, before: bool, after: bool) -> None:
    state = LogState()
    appended(state, 40)
    event = Dispatch(QUEUE, 0, True, (0,), (40,), (0,))
    assert may_dispatch(state, event.end, sync) is before
    apply(state, flush(state, 39).changes)
    assert may_dispatch(state, event.end, sync) is before
    apply(state, flush(state, 40).changes)
    assert may_dispatch(state, event.end, sync) is after


def test_what_is_in_the_transient_store_pool_is_not_visible() -> None:
    state = LogState()
    for _ in range(2):
        apply(state, append_message(state, Append((Put(QUEUE, 40),), 100, True)).changes)
    event = Dispatch(QUEUE, 0, True, (0,), (40,), (0,))
    assert (state.commit_log, state.committed_where) == ((0, 80), 0)
    assert not may_dispatch(state, event.end, sync_flush=False)
    apply(state, commit(state).changes)
    assert state.committed_where == 80
    assert may_dispatch(state, event.end, sync_flush=False)


def test_the_flushed_position_never_goes_back() -> None:
    state = LogState(flushed_where=50)
    apply(state, flush(state, 40).changes)
    assert state.flushed_where == 50


@pytest.mark.parametrize(
    ("topic", "retry", "body", "properties", "found"),
    [
        (127, False, 0, 0, 0),
        (128, False, 0, 0, PutStatus.MESSAGE_ILLEGAL),
        (255, True, 0, 0, 0),
        (256, True, 0, 0, PutStatus.MESSAGE_ILLEGAL),
        (1, False, 4 << 20, 32767, (4 << 20) + 32767),
        (1, False, (4 << 20) + 1, 0, PutStatus.MESSAGE_ILLEGAL),
        (1, False, (4 << 20) + 1, 32768, PutStatus.PROPERTIES_SIZE_EXCEEDED),
    ],
)
def test_limits_of_a_message(
    topic: int, retry: bool, body: int, properties: int, found: int | PutStatus
) -> None:
    name = ("%RETRY%" if retry else "").ljust(topic, "t")
    assert check_messages(alone(Record(name, bytes(body), bytes(properties))), 4 << 20) == found


@pytest.mark.parametrize(
    ("sys_flag", "indexed"),
    [
        (0, True),
        (SysFlag.PREPARED, False),
        (SysFlag.COMMIT, True),
        (SysFlag.ROLLBACK, False),
        (SysFlag.PREPARED | SysFlag.COMPRESSED, False),
    ],
)
def test_which_records_enter_a_queue(sys_flag: int, indexed: bool) -> None:
    assert is_indexed(sys_flag) is indexed


@pytest.mark.parametrize(
    ("topic", "properties", "code"),
    [
        ("T", b"", 0),
        ("T", b"TAGS\x01a||b\x02", tags_code("a||b")),
        ("T", b"DELAY\x013\x02TAGS\x01a\x02", tags_code("a")),
        ("T", "TAGS\x01\u043a\x02".encode(), tags_code("\u043a")),
        ("T", b"TAGS\x01\xff\x02", tags_code("\ufffd")),
        (SCHEDULE_TOPIC, b"DELAY\x013\x02TAGS\x01a\x02", 5_000 + 10_000),
        (SCHEDULE_TOPIC, b"DELAY\x010\x02TAGS\x01a\x02", tags_code("a")),
        (SCHEDULE_TOPIC, "DELAY\x01\uff13\x02".encode(), 5_000 + 10_000),
        (SCHEDULE_TOPIC, b"DELAY\x01no number\x02TAGS\x01a\x02", tags_code("a")),
        (SCHEDULE_TOPIC, b"DELAY\x0199\x02", 5_000 + DELAY_LEVELS_MS[-1]),
    ],
)
def test_what_filters_see_of_a_message(topic: str, properties: bytes, code: int) -> None:
    assert unit_tags_codes(topic, [properties], b"", 5_000) == [code]


@pytest.mark.parametrize("beside", [b"", b"\x02TAGS\x01b\x02"])
@pytest.mark.parametrize("topic", ["T", SCHEDULE_TOPIC])
@pytest.mark.parametrize("own", [[b"", b"A\x011"], [b"DELAY\x012\x02", b"TAGS\x01a", b"A\x011"]])
def test_what_filters_see_of_a_batch(topic: str, own: list[bytes], beside: bytes) -> None:
    columns = range(len(own)), [1] * len(own), own
    found = Stored((topic, 0), 7, True, *columns, beside, 5_000, 0).dispatch(DELAY_LEVELS_MS)
    told = [properties for _, _, properties in arrivals((found,))]
    assert told == [(each + beside).decode() for each in own]
    one_by_one = [unit_tags_codes(topic, [each + beside], b"", 5_000) for each in own]
    assert [[code] for code in found.tags_codes] == one_by_one


@pytest.mark.parametrize(
    ("span", "offset", "answer"),
    [
        (Span(0, 0), 5, (GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0)),
        (Span(3, 9), 2, (GetMessageStatus.OFFSET_TOO_SMALL, 3)),
        (Span(3, 9), 3, None),
        (Span(3, 9), 8, None),
        (Span(3, 9), 9, (GetMessageStatus.OFFSET_OVERFLOW_ONE, 9)),
        (Span(3, 9), 10, (GetMessageStatus.OFFSET_OVERFLOW_BADLY, 9)),
        (Span(9, 9), 9, (GetMessageStatus.OFFSET_OVERFLOW_ONE, 9)),
    ],
)
def test_where_a_read_begins(
    span: Span, offset: int, answer: tuple[GetMessageStatus, int] | None
) -> None:
    assert check_offset(span, offset) == answer


def test_a_pull_is_full() -> None:
    assert not is_batch_full(Limits(), 0, 0, 0, 10**9)
    assert is_batch_full(Limits(), 1, 1, 10, 10)
    assert not is_batch_full(Limits(), 99, 31, 10, 10)
    assert is_batch_full(Limits(), 99, 32, 10, 10)
    assert not is_batch_full(Limits(), 99, 1, 200_000, 62_144)
    assert is_batch_full(Limits(), 99, 1, 200_000, 62_145)


def test_the_customary_delays() -> None:
    assert len(DELAY_LEVELS_MS) == 18
    assert DELAY_LEVELS_MS[:5] == (1000, 5000, 10_000, 30_000, 60_000)
    assert DELAY_LEVELS_MS[-1] == 2 * 3_600_000


@pytest.mark.parametrize("text", ["", "5", "1s 2", "1s,2s", "s", "-1s"])
def test_delays_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="list of delays"):
        parse_delay_levels(text)


def test_when_a_message_is_due_depends_on_the_delays_of_the_store() -> None:
    assert unit_tags_codes(SCHEDULE_TOPIC, [b"DELAY\x012\x02"], b"", 5_000, (7, 9)) == [5_009]
    assert unit_tags_codes(SCHEDULE_TOPIC, [b"DELAY\x013\x02"], b"", 5_000, (7, 9)) == [5_009]


@pytest.mark.parametrize(
    ("committed", "end", "pool_size", "is_deficient"),
    [
        (0, 0, 1, True),
        (0, 0, 2, False),
        (50, 199, 3, False),
        (99, 200, 3, True),
        (100, 299, 3, False),
    ],
)
def test_a_pool_has_a_buffer_for_each_segment_that_is_not_committed(
    committed: int, end: int, pool_size: int, is_deficient: bool
) -> None:
    state = LogState(Span(0, end), committed_where=committed)
    assert is_transient_store_pool_deficient(state, 100, pool_size) == is_deficient
