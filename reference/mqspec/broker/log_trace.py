"""The trace of a log: its steps as the module Log takes them, one record at a time.

A broker stores and dispatches many records at once, on either path. Such a step is dealt out to its
records: in between, the variables are what the columns of positions and offsets, and the units that
were written, say; at the end they are what the step makes them. After each append comes what the
record says of itself in the bytes of the log. So a step that is not what its records come to one by
one, or bytes that are not, show in the trace.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from mqspec.broker.carrying import note, note_told
from mqspec.core.log import EMPTY, UNIT_LAYOUT, Dispatch, LogState, Span, Stored, TopicQueue, grow
from mqspec.core.record import decode_outline
from mqspec.core.step import Change, Step, whole
from mqspec.fast.run import StoredRun

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

MODULE: Final = "Log"


class _Record(NamedTuple):
    """Where a record got its place."""

    queue: TopicQueue
    queue_offset: int | None  # None: it enters no queue
    position: int
    size: int  # bytes

    @property
    def end(self) -> int:
        return self.position + self.size


class LogTrace:
    """Writes the steps of a broker's log to its trace."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def found(self, state: LogState) -> None:
        """Recovery found the log like this."""
        note(self._broker, MODULE, whole(state))

    def flushed(self, step: Step) -> None:
        """The log is on disk up to a position."""
        note(self._broker, MODULE, step)

    def appended(
        self, step: Step, stored: Sequence[Stored | StoredRun], written: Sequence[bytes]
    ) -> None:
        """Records got their places, and are written."""
        records = [record for each in stored for record in _records(each)]
        variables = {change.variable: change.value for change in step.changes}
        log = variables.get("commit_log")
        first = log.min if isinstance(log, Span) else 0
        parts = []
        for record in records:
            part = [Change("commit_log", None, Span(first, record.end))]
            if record.queue_offset is not None:
                part.append(Change("topic_queue_table", record.queue, record.queue_offset + 1))
            if "committed_where" in variables:
                part.append(Change("committed_where", None, record.end))
            parts.append(part)

        batches = dict(map(_batch, stored))
        said = _said(written)
        for one, changes in zip(records, _dealt(step, parts), strict=True):
            if size := batches.get(one.position):
                note_told(self._broker, MODULE, "batch", None, size)
            note(self._broker, MODULE, Step(tuple(changes)))
            note_told(self._broker, MODULE, "record", *next(said, (None, None)))
        for more in said:
            note_told(self._broker, MODULE, "record", *more)

    def dispatched(
        self, state: LogState, step: Step, records: Sequence[Dispatch] | StoredRun
    ) -> None:
        """Records were dispatched."""
        if isinstance(records, StoredRun):
            singles = list(_of_run(records, step))
        else:
            singles = list(_of_dispatches(records, step))
        spans = dict(state.consume_queue)
        parts = []
        for one in singles:
            part = [Change("reput_from_offset", None, one.end)]
            if one.indexed:
                span = grow(spans.get(one.queue, EMPTY), one.queue_offset, one.next_offset)
                spans[one.queue] = span
                part.append(Change("consume_queue", one.queue, span))
            parts.append(part)

        for one, changes in zip(singles, _dealt(step, parts), strict=True):
            note(self._broker, MODULE, Step(tuple(changes)), _event(one))


def _event(one: Dispatch) -> object:
    """What is told of a record that is dispatched; nothing where its tags code is not known."""
    for code in one.tags_codes:
        return {
            "queue": one.queue,
            "queue_offset": one.queue_offset,
            "tags_code": code,
            "store_timestamp": one.store_timestamp,
        }
    return None


def _dealt(step: Step, parts: Sequence[list[Change]]) -> Sequence[Sequence[Change]]:
    """What each record changes, but for the last change of each variable and key, which is the
    step's, or none where the step has none. What no part has is the last one's."""
    left: dict[tuple[str, Hashable], Change] = {
        (change.variable, change.key): change for change in step.changes
    }
    seen: set[tuple[str, Hashable]] = set()
    dealt: list[list[Change]] = []
    for part in reversed(parts):
        mine = []
        for change in part:
            where = (change.variable, change.key)
            if where in seen:
                mine.append(change)
            elif where in left:
                mine.append(left.pop(where))
            seen.add(where)
        dealt.append(mine)
    dealt[0] += left.values()
    return dealt[::-1]


def _batch(stored: Stored | StoredRun) -> tuple[int, int]:
    """Where a batch begins, and its size: it is in one segment. No size where there is none."""
    is_batch = isinstance(stored, Stored) and len(stored.sizes) > 1
    return stored.positions[0], sum(stored.sizes) if is_batch else 0


def _records(stored: Stored | StoredRun) -> Iterator[_Record]:
    if isinstance(stored, StoredRun):
        columns = stored.queues, stored.queue_offsets, stored.positions, stored.sizes
        yield from map(_Record, *columns)
        return
    places = zip(stored.positions, stored.sizes, strict=True)
    for number, (position, size) in enumerate(places, start=stored.queue_offset):
        yield _Record(stored.queue, number if stored.indexed else None, position, size)


def _said(written: Sequence[bytes]) -> Iterator[tuple[TopicQueue | None, object]]:
    """What each record says of itself; of bytes that are none, nothing."""
    for piece in written:
        view, at = memoryview(piece), 0
        while at < len(piece):
            outline = decode_outline(view, at)
            if outline is None:
                yield None, None
                break
            value = {
                "queue_offset": outline.queue_offset,
                "position": outline.physical_offset,
                "size": outline.size,
            }
            yield (outline.topic, outline.queue_id), value
            at += outline.size


def _of_dispatches(dispatches: Sequence[Dispatch], step: Step) -> Iterator[Dispatch]:
    """Each record as a dispatch of its own, which is indexed where it became visible."""
    shown = {id(each) for several in step.result.values() for each in several}
    for each in dispatches:
        columns = zip(each.positions, each.sizes, each.tags_codes, strict=True)
        for number, (position, size, code) in enumerate(columns, start=each.queue_offset):
            yield msgspec.structs.replace(
                each,
                queue_offset=number,
                indexed=id(each) in shown,
                positions=(position,),
                sizes=(size,),
                tags_codes=(code,),
            )


def _of_run(run: StoredRun, step: Step) -> Iterator[Dispatch]:
    """The same of a run, by the units that were written, in the order of the log. A record without
    one has no tags code."""
    found = {
        record.position: Dispatch(
            record.queue, record.queue_offset or 0, False, (record.position,), (record.size,), ()
        )
        for record in _records(run)
    }
    at = dict(zip(run.positions, run.store_timestamps, strict=True))
    for queue, (first, packed) in step.result.items():
        for number, unit in enumerate(UNIT_LAYOUT.iter_unpack(packed), start=first):
            position, size, code = unit
            found[position] = Dispatch(
                queue, number, True, (position,), (size,), (code,), at.get(position, 0)
            )
    yield from (found[position] for position in sorted(found))
