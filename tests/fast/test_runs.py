"""A run comes to what its messages come to one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mqspec.core import log
from mqspec.core.index import Keys
from mqspec.core.log import (
    DELAY_LEVELS_MS,
    Append,
    Dispatch,
    LogState,
    Put,
    Span,
    Stored,
    append_message,
    arrivals,
    check_messages,
    pack_units,
    units,
)
from mqspec.core.publish import batched
from mqspec.core.record import (
    PROPERTIES_BYTES_MAX,
    Batch,
    BatchMessage,
    Host,
    Record,
    SysFlag,
    alone,
    layout_of,
)
from mqspec.core.step import Step, apply
from mqspec.fast.run import (
    AppendedRun,
    Row,
    StoredRun,
    append_batch,
    append_run,
    dispatch_run,
    kind_of,
    together,
    visible,
)
from mqspec.wire.bodies import BodyError, decode_batch, encode_batch

AT = 5_000  # ms
HOSTS_V6 = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
_, MAX_MESSAGE_SIZE = LIMITS = 2_000, 300  # bytes
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
def runs(draw: st.DrawFn) -> list[tuple[Row, Record]]:
    """Rows, and the messages that they are."""
    kinds = []
    for topic, queue_id in draw(st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3)):
        message = structs.replace(draw(messages), topic=topic, queue_id=queue_id)
        kinds.append((message, kind_of(message)))
    drawn = st.tuples(st.sampled_from(kinds), st.integers(0, 2), bodies, properties)
    run = []
    for (message, kind), born, body, own in draw(st.lists(drawn, min_size=1)):
        row = Row(kind, (message.topic, message.queue_id), born, body, own)
        run.append((row, message_of(row, message)))
    return run


def message_of(row: Row, like: Record) -> Record:
    _, _, born, body, own = row
    return structs.replace(like, born_timestamp=born, body=body, properties=own)


def one_by_one(
    state: LogState, batches: Sequence[Batch], limits: tuple[int, int] = LIMITS
) -> tuple[bytes, list[Dispatch]] | None:
    """What is to be written, and its dispatches; None where the way of all others is taken."""
    segment_size, max_message_size = limits
    encoded, dispatches = b"", []
    for batch in batches:
        own_bytes = check_messages(batch, max_message_size)
        if not isinstance(own_bytes, int):
            return None
        shared, layout = batch.shared, layout_of(batch.shared)
        put = Put(
            (shared.topic, shared.queue_id), layout.size(batch, own_bytes), len(batch.messages)
        )
        step = append_message(state, Append((put,), segment_size))
        (place,) = step.result
        if not place or place.blank:
            return None
        apply(state, step.changes)
        pieces: list[bytes] = []
        columns = layout.encode(
            pieces, batch, place.position, itertools.count(place.queue_offset), AT
        )
        encoded += b"".join(pieces)
        own, first = [one.properties for one in batch.messages], place.queue_offset
        stored = Stored(put.queue, first, True, *columns, own, batch.beside, AT, shared.sys_flag)
        dispatches.append(stored.dispatch(DELAY_LEVELS_MS))
    return encoded, dispatches


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
    stored = run.stored
    assert (stored.positions[0], stored.end) == (before.commit_log.max, after.commit_log.max)
    if isinstance(stored, Stored):
        # The flag is as it is stored: the hosts' bits follow them.
        (alike,) = (structs.replace(each, sys_flag=stored.sys_flag) for each in dispatches)
        assert stored.dispatch(DELAY_LEVELS_MS) == alike
        assert (dispatches[0].sys_flag ^ stored.sys_flag) & ~HOSTS_V6 == 0
    else:
        compare_dispatch(after, stored, dispatches)


def compare_dispatch(before: LogState, run: StoredRun, dispatches: Sequence[Dispatch]) -> None:
    after, expected = deepcopy(before), deepcopy(before)
    step = dispatch_run(after, run, lambda *_: False)
    apply(after, step.changes)
    by_queue = log.dispatch(expected, dispatches)
    apply(expected, by_queue.changes)
    assert after == expected
    written = {
        queue: (each[0].queue_offset, pack_units(units(each)))
        for queue, each in by_queue.result.items()
    }
    assert step.result == written
    told = {queue: list(arrivals(each)) for queue, each in visible(run, step.result).items()}
    assert told == {queue: list(arrivals(each)) for queue, each in by_queue.result.items()}
    waiting, waiting_run = Keys([], [], [], []), Keys([], [], [], [])
    waiting.add(dispatches)
    topics = [topic for topic, _ in run.queues]
    waiting_run.add_columns(run.properties, b"", topics, run.positions, run.store_timestamps)
    assert waiting_run == waiting


@given(states, runs(), st.integers(0, 5), st.integers(0, 5))
def test_runs_are_dispatched_together_and_again(
    state: LogState, rows: list[tuple[Row, Record]], cut: int, known: int
) -> None:
    """As often as it takes: what has its unit gets no other one."""
    limits = 1 << 30, 1 << 30
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    before, dispatches, stored = deepcopy(state), [], []
    for part in parts:
        state_one = deepcopy(state)
        step = append_run(state, [row for row, _ in part], *limits, AT)
        apply(state, step.changes)
        stored.append(step.result.stored)
        found = one_by_one(state_one, [alone(message) for _, message in part], limits)
        assert found
        dispatches += found[1]
    assert before.consume_queue == state.consume_queue == {}
    if dispatches[:known]:
        apply(state, log.dispatch(state, dispatches[:known]).changes)
    compare_dispatch(state, together(stored), dispatches)


def test_what_was_deleted_enters_no_queue() -> None:
    kind = kind_of(Record("T", b""))
    rows = [Row(kind, ("T", n % 2), 0, b"x", b"") for n in range(4)]
    (_, stored) = append_run(LogState(), rows, *LIMITS, AT).result
    deleted_at = stored.positions[3]
    step = dispatch_run(LogState(), stored, lambda topic, at: topic == "T" and at < deleted_at)
    ((queue, (offset, packed)),) = step.result.items()
    assert (queue, offset, len(packed)) == (("T", 1), 1, 20)
    assert step.changes[0].value == stored.end


@given(states, runs())
def test_a_run_is_what_its_messages_are_alone(
    state: LogState, run: list[tuple[Row, Record]]
) -> None:
    step = append_run(state, [row for row, _ in run], *LIMITS, AT)
    compare(state, step, [alone(message) for _, message in run])


batch_messages = st.builds(
    BatchMessage, st.binary(max_size=40), properties, st.integers(-(2**31), 2**31 - 1)
)


@given(
    states,
    runs(),
    st.lists(batch_messages, min_size=1, max_size=4).map(encode_batch),
    st.data(),
)
def test_a_batch_is_what_it_is_elsewhere(
    state: LogState, run: list[tuple[Row, Record]], body: bytes, data: st.DataObject
) -> None:
    if data.draw(st.booleans()):  # torn, or a byte of it is another one
        at = data.draw(st.integers(0, len(body) - 1))
        body = body[:at] + data.draw(st.binary(max_size=1)) + body[at + 1 :]
    row, message = run[0][0]._replace(body=body), run[0][1]
    step = append_batch(state, row, *LIMITS, AT)
    try:
        found = decode_batch(body)
    except BodyError:
        found = []
    is_ended = all(one.properties[-1:] in (b"", b"\x02") for one in found)
    if not found or not is_ended or len(body) > MAX_MESSAGE_SIZE:
        assert step == Step()
    else:
        compare(state, step, [batched(message_of(row, message), found)])


@pytest.mark.parametrize("own", [b"A\x011", b"\x02A\x011"])
def test_properties_that_are_not_ended_are_put_together_elsewhere(own: bytes) -> None:
    message = Record("T", b"")
    body = encode_batch([BatchMessage(b"a", own)])
    row = Row(kind_of(message), ("T", 0), 1, body, b"B\x012\x02")
    assert append_batch(LogState(), row, *LIMITS, AT).result is None


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (1, False)])
def test_the_segment_keeps_room_for_its_blank(more: int, is_taken: bool) -> None:
    rows = [Row(kind_of(Record("T", b"")), ("T", 0), 0, b"x" * n, b"") for n in (30, 30 + more)]
    size = 2 * (92 + 30)
    state = LogState(Span(0, 2_000 - 8 - size))
    assert (append_run(state, rows, *LIMITS, AT).result is not None) == is_taken
    body = encode_batch([BatchMessage(row.body, row.properties) for row in rows])
    batch = rows[0]._replace(body=body)
    assert (append_batch(state, batch, *LIMITS, AT).result is not None) == is_taken


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (1, False)])
def test_properties_have_a_limit(more: int, is_taken: bool) -> None:
    """Those of a message of a batch with those that are beside it."""
    beside = b"B\x012\x02"
    own = b"A\x01".ljust(PROPERTIES_BYTES_MAX - len(beside) - 1 + more, b"1") + b"\x02"
    row = Row(kind_of(Record("T", b"")), ("T", 0), 0, b"x", own + beside)
    limits = 1 << 20, 1 << 20
    assert (append_run(LogState(), [row], *limits, AT).result is not None) == is_taken
    batch = row._replace(body=encode_batch([BatchMessage(b"x", own)]), properties=beside)
    assert (append_batch(LogState(), batch, *limits, AT).result is not None) == is_taken
