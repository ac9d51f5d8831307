"""A run comes to what its messages come to one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mqspec.core.log import (
    DELAY_LEVELS_MS,
    Append,
    Dispatch,
    LogState,
    Put,
    Span,
    Stored,
    append_message,
    check_messages,
    dispatch_of,
)
from mqspec.core.publish import batched
from mqspec.core.record import Batch, BatchMessage, Host, Record, alone, layout_of
from mqspec.core.run import AppendedRun, Kind, Limits, Row, append_batch, append_run
from mqspec.core.step import Step, apply
from mqspec.wire.bodies import BodyError, decode_batch, encode_batch

AT = 5_000  # ms
LIMITS = Limits(segment_size=2_000, max_message_size=300)
QUEUES = [("T", 0), ("T", 3), ("a-longer-topic" * 9 + "U", 0)]

messages = st.builds(
    Record,
    topic=st.just(""),
    body=st.just(b""),
    flag=st.integers(-(2**31), 2**31 - 1),
    sys_flag=st.sampled_from([0, 1, 1 << 4]),
    born_host=st.sampled_from([Host(b"abcd", 5), Host(b"abcdefghijklmnop", 6)]),
    store_host=st.sampled_from([Host(b"ABCD", 7), Host(b"ABCDEFGHIJKLMNOP", 8)]),
    reconsume_times=st.integers(0, 9),
)
properties = st.sampled_from([b"", b"TAGS\x01a\x02", b"A\x011\x02TAGS\x01b\x02UNIQ_KEY\x01u\x02"])
bodies = st.binary(max_size=40) | st.sampled_from([b"x" * 300, b"x" * 301])
states = st.builds(
    LogState,
    commit_log=st.integers(0, 1_999).map(lambda end: Span(0, end)),
    topic_queue_table=st.dictionaries(st.sampled_from(QUEUES), st.integers(1, 1 << 40)),
)


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    kinds = []
    for queue in draw(st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3)):
        message = structs.replace(draw(messages), topic=queue[0], queue_id=queue[1])
        kinds.append((Kind(message, layout_of(message)), queue))
    drawn = st.tuples(st.sampled_from(kinds), st.integers(0, 2), bodies, properties)
    return [
        Row(*kind, born, body, own) for kind, born, body, own in draw(st.lists(drawn, min_size=1))
    ]


def record_of(row: Row) -> Record:
    return structs.replace(
        row.kind.message,
        queue_id=row.queue[1],
        born_timestamp=row.born_timestamp,
        body=row.body,
        properties=row.properties,
    )


def one_by_one(state: LogState, batches: Sequence[Batch]) -> tuple[bytes, list[Dispatch]] | None:
    """What is to be written, and its dispatches; None where the way of all others is taken."""
    encoded, dispatches = b"", []
    for batch in batches:
        own_bytes = check_messages(batch, LIMITS.max_message_size)
        if not isinstance(own_bytes, int):
            return None
        shared, layout = batch.shared, layout_of(batch.shared)
        put = Put(
            (shared.topic, shared.queue_id), layout.size(batch, own_bytes), len(batch.messages)
        )
        step = append_message(state, Append((put,), LIMITS.segment_size))
        (place,) = step.result
        if not place or place.blank:
            return None
        apply(state, step.changes)
        pieces: list[bytes] = []
        columns = layout.encode(
            pieces, batch, place.position, itertools.count(place.queue_offset), AT
        )
        encoded += b"".join(pieces)
        dispatches.append(dispatch_of(Stored(batch, *columns, place.queue_offset, AT)))
    return encoded, dispatches


def records_of(dispatches: Sequence[Dispatch]) -> list[tuple[object, ...]]:
    """Each record by itself, in the order of the log."""
    found: list[tuple[object, ...]] = []
    for one in dispatches:
        columns = zip(one.positions, one.sizes, one.tags_codes, one.properties, strict=True)
        for number, (position, size, code, own) in enumerate(columns):
            offset = one.queue_offset + number
            found.append((position, size, code, own, one.beside, one.queue, offset))
        assert (one.indexed, one.sys_flag, one.store_timestamp) == (True, 0, AT)
    return sorted(found, key=lambda each: (each[0],))


def compare(before: LogState, step: Step, batches: Sequence[Batch]) -> None:
    after, expected = deepcopy(before), deepcopy(before)
    alone_each = one_by_one(expected, batches)
    run: AppendedRun | None = step.result
    assert (run is None) == (alone_each is None)
    if run is None or alone_each is None:
        assert not step.changes
        return
    encoded, dispatches = alone_each
    assert run.encoded == encoded
    apply(after, step.changes)
    assert after == expected
    assert (run.begin, run.stored.end) == (before.commit_log.max, expected.commit_log.max)
    own = [structs.replace(each, sys_flag=0) for each in dispatches]
    assert records_of(list(run.stored.dispatches(DELAY_LEVELS_MS))) == records_of(own)
    assert list(run.places) == [(each.positions[0], each.queue_offset) for each in dispatches]


@given(states, rows())
def test_a_run_is_what_its_messages_are_alone(state: LogState, run: list[Row]) -> None:
    compare(state, append_run(state, run, LIMITS, AT), [alone(record_of(row)) for row in run])


batch_messages = st.builds(
    BatchMessage, st.binary(max_size=40), properties, st.integers(-(2**31), 2**31 - 1)
)


@given(
    states,
    rows(),
    st.lists(batch_messages, min_size=1, max_size=4).map(encode_batch),
    st.data(),
)
def test_a_batch_is_what_it_is_elsewhere(
    state: LogState, run: list[Row], body: bytes, data: st.DataObject
) -> None:
    if data.draw(st.booleans()):  # torn, or a byte of it is another one
        at = data.draw(st.integers(0, len(body) - 1))
        body = body[:at] + data.draw(st.binary(max_size=1)) + body[at + 1 :]
    row = run[0]._replace(body=body)
    try:
        batch = batched(record_of(row), decode_batch(body))
    except BodyError:
        batch = None
    step = append_batch(state, row, LIMITS, AT)
    is_usual = batch and all(one.properties[-1:] in (b"", b"\x02") for one in batch.messages)
    if batch is None or not is_usual or len(body) > LIMITS.max_message_size:
        assert step == Step()
    else:
        compare(state, step, [batch])


@pytest.mark.parametrize("own", [b"A\x011", b"\x02A\x011"])
def test_properties_that_are_not_ended_are_put_together_elsewhere(own: bytes) -> None:
    message = Record("T", b"")
    body = encode_batch([BatchMessage(b"a", own)])
    row = Row(Kind(message, layout_of(message)), ("T", 0), 1, body, b"B\x012\x02")
    assert append_batch(LogState(), row, LIMITS, AT).result is None
