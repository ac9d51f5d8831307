"""Recovery: what a store is worth after a stop, clean or not.

The twin of Recovery.tla. A store that opens walks its CommitLog from a segment that it can
trust, dispatches again what it meets, and cuts everything behind the last good record. The
`abort` file says that the last stop was not clean; then the checkpoint tells which segment
can be trusted, otherwise the ConsumeQueues do.

Promised: the log is a prefix of what it was (RECOV-001); what was flushed before it was
acknowledged is in it (RECOV-002); every queue is dense, with one unit for each record and
none behind the log's end (RECOV-003 to RECOV-005). Never promised: that a message which was
only written survives (RECOV-010), or that the index has a record once (RECOV-011).

Where Apache 5.3.3 breaks a promise the reference keeps it:

- old records stay behind the end that recovery gives the log there, and the next recovery
  may walk into them; here nothing stays (RECOV-008);
- a ConsumeQueue of nothing but blank units hides every later record of its queue there; here
  blank units are no units;
- a queue whose ConsumeQueue was lost misses its first record there after a clean start,
  which compares with `>`, and with the greatest end of all queues; here a gap sends the walk
  back to the first segment (RECOV-006). A queue that was lost wholly, and has no record in
  the segments walked, is noticed by neither.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from mqspec.core.log import (
    EMPTY,
    Dispatch,
    LogState,
    Span,
    TopicQueue,
    Unit,
    dispatch,
    has_unit,
    is_indexed,
)
from mqspec.core.record import Outline
from mqspec.core.step import Change, Step, apply

CHECKPOINT_MARGIN_MS = 3000  # StoreCheckpoint.getMinTimestamp (5.3.3)
BLANK_UNIT = Unit(0, 0x7FFFFFFF, 0)  # fills a ConsumeQueue before its first unit
_WALKED = Unit(-1, 0, 0)  # stands for the unit of a record that the walk met: before its end


class Checkpoint(NamedTuple):
    """The checkpoint file: store timestamps, ms, up to which files are on disk."""

    physic_msg_timestamp: int = 0  # the CommitLog
    logics_msg_timestamp: int = 0  # the ConsumeQueues
    index_msg_timestamp: int = 0  # the last full index file
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0  # position of the last record, as the last recovery saw it

    @property
    def min_timestamp(self) -> int:
        """Records stored before this are on disk, in the log and in their queues."""
        both = min(self.physic_msg_timestamp, self.logics_msg_timestamp)
        return max(0, both - CHECKPOINT_MARGIN_MS)


class Segment(NamedTuple):
    """A segment of the CommitLog."""

    start: int  # position
    store_timestamp: int | None  # of its first record, ms; None where that is not good


Walked: TypeAlias = tuple[int, Outline | None]  # position behind a record; None: a blank


@dataclass(frozen=True, slots=True)
class Files:
    """What lies in the files when the store opens."""

    abort: bool
    checkpoint: Checkpoint
    segments: tuple[Segment, ...]  # ascending
    consume_queue: Mapping[TopicQueue, Span]  # queue offsets, blank units included
    unit: Callable[[TopicQueue, int], Unit]  # reads one of them
    scan: Callable[[int], Iterator[Walked]]  # walks the log from a position to its end
    dispatch_of: Callable[[Outline], Dispatch]  # reads more of a record

    @property
    def log_min(self) -> int:
        """The position where the log begins."""
        return self.segments[0].start if self.segments else 0


@dataclass(slots=True)
class RecoveryState:
    """How far recovery is. The shell applies the changes that the actions return."""

    scan_from: int = 0  # position where the walk started
    process_offset: int = 0  # position: everything from `scan_from` up to it is good
    store_timestamp: int = 0  # ms, of the last record that was walked over
    consume_queue: dict[TopicQueue, Span] = field(default_factory=dict)


class Scanned(NamedTuple):
    """The walk met a good record, or went over the blank that closes a segment."""

    end: int  # position behind it
    record: Dispatch | None  # None: a blank


class _Rescan:
    def __repr__(self) -> str:
        return "RESCAN"


RESCAN: Final = _Rescan()  # the result of a redispatch that sends the walk back


def recover(files: Files, state: RecoveryState) -> Iterator[Dispatch]:
    """All of it: a function of what the files hold, and of nothing else. What is yielded are
    the records whose units are to be written; `state`, a new one, becomes what was recovered.

    It writes nothing itself: whoever does not write either (`mqspec store check`) sees what
    recovery would do.
    """
    log_min = files.log_min
    apply(state, load(files).changes)
    loaded = dict(state.consume_queue)
    is_walked = False
    while not is_walked:
        is_walked = True
        for end, record in files.scan(state.scan_from):
            if record is None:
                apply(state, redispatch(state, Scanned(end, None), log_min).changes)
                continue
            topic, queue_id, queue_offset, _, sys_flag, state.store_timestamp, _ = record
            span = state.consume_queue.get((topic, queue_id), EMPTY)
            if has_unit(span, queue_offset) or not is_indexed(sys_flag):
                # As redispatch would say, without reading more of the record: most are such.
                state.process_offset = end
                continue
            scanned = Scanned(end, files.dispatch_of(record))
            step = redispatch(state, scanned, log_min)
            apply(state, step.changes)
            if step.result is RESCAN:
                is_walked = False
                break
            if step.result:
                yield step.result

    def unit(queue: TopicQueue, offset: int) -> Unit:
        is_loaded = offset < loaded.get(queue, EMPTY).max
        return files.unit(queue, offset) if is_loaded else _WALKED

    apply(state, end_recovery(state, unit).changes)


def load(files: Files) -> Step:
    """Recovery!Load. The result is the position at which the walk starts."""
    log_min = files.log_min
    spans = {
        queue: _real_units(files, queue, span, log_min)
        for queue, span in files.consume_queue.items()
    }
    trusted = _trusted_abnormal(files) if files.abort else _trusted_normal(files, spans)
    if any(_is_blank(files, queue, span) for queue, span in files.consume_queue.items()):
        trusted = log_min  # what it lost may lie anywhere (RECOV-021)
    return Step(
        (
            Change("scan_from", None, max(trusted, log_min)),
            Change("process_offset", None, max(trusted, log_min)),
            *(Change("consume_queue", queue, span) for queue, span in spans.items()),
        ),
        result=max(trusted, log_min),
    )


def redispatch(state: RecoveryState, event: Scanned, log_min: int) -> Step:
    """Recovery!Redispatch. The result is the record, if its unit is to be written, None, or
    RESCAN: the record is ahead of its queue, whose units before it were lost, so that the walk
    starts again from `log_min`, where the log begins."""
    advanced = Change("process_offset", None, event.end)
    if event.record is None:
        return Step((advanced,))
    span = state.consume_queue.get(event.record.queue, EMPTY)
    if event.record.queue_offset > span.max and state.scan_from > log_min:
        back = (Change("scan_from", None, log_min), Change("process_offset", None, log_min))
        return Step(back, result=RESCAN)
    step = dispatch(LogState(consume_queue=state.consume_queue), (event.record,))
    units = (change for change in step.changes if change.variable == "consume_queue")
    return Step((advanced, *units), result=event.record if step.result else None)


def end_recovery(state: RecoveryState, unit: Callable[[TopicQueue, int], Unit]) -> Step:
    """Recovery!EndRecovery. No unit stays that points behind the log's end (RECOV-005).

    The shell then cuts the files to the spans and to `process_offset`, leaves no old byte
    behind the ends, and flushes, all before the first append: a record that the walk did not
    reach must not come back after another crash (RECOV-008).
    """
    return Step(
        tuple(
            Change("consume_queue", queue, _before(state.process_offset, queue, span, unit))
            for queue, span in state.consume_queue.items()
        )
    )


def _before(
    end: int, queue: TopicQueue, span: Span, unit: Callable[[TopicQueue, int], Unit]
) -> Span:
    """The span without the units of records that start at `end` or behind it."""
    offsets = range(span.min, span.max)
    kept = bisect_left(offsets, True, key=lambda k: unit(queue, k).position >= end)
    return Span(span.min, span.min + kept)


def _real_units(files: Files, queue: TopicQueue, span: Span, log_min: int) -> Span:
    """The span without its head of blank units, and of records that the log has no more."""
    offsets = range(span.min, span.max)
    passed = bisect_left(offsets, True, key=lambda k: _is_real(files.unit(queue, k), log_min))
    return Span(span.min + passed, span.max)


def _is_blank(files: Files, queue: TopicQueue, span: Span) -> bool:
    """Whether a queue holds nothing but blank units: they are all before its first real one."""
    return span.min < span.max and files.unit(queue, span.max - 1) == BLANK_UNIT


def _is_real(unit: Unit, log_min: int) -> bool:
    return unit != BLANK_UNIT and unit.position >= log_min


def _trusted_normal(files: Files, spans: Mapping[TopicQueue, Span]) -> int:
    """The last segment that starts before everything that is dispatched ends."""
    last_units = (files.unit(q, span.max - 1) for q, span in spans.items() if span.min < span.max)
    dispatched = max((unit.position + unit.size for unit in last_units), default=-1)
    return max((s.start for s in files.segments if s.start <= dispatched), default=0)


def _trusted_abnormal(files: Files) -> int:
    """The last segment that begins with a record which the checkpoint covers."""
    covered = (
        segment.start
        for segment in files.segments
        if segment.store_timestamp is not None
        and segment.store_timestamp <= files.checkpoint.min_timestamp
    )
    return max(covered, default=0)
