"""MessageStore: the files of one broker, opened, written, read and closed.

It carries what `mqspec.core.log` and `mqspec.core.recovery` decide to the files. One thread
uses it at a time. Files that Apache RocketMQ 5.3.3 wrote are opened as they are, and the
other way round; its timer and compaction files are left alone.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

from msgspec.structs import replace

from mqrules import UserError
from mqspec.core import log, recovery, retention
from mqspec.core.log import (
    UNIT_BYTES,
    Appended,
    Dispatch,
    GetMessageStatus,
    GetResult,
    Limits,
    LogState,
    PutResult,
    PutStatus,
    Span,
    Stored,
    TopicQueue,
    Unit,
)
from mqspec.core.record import (
    HEAD_BYTES,
    Batch,
    Layout,
    Record,
    alone,
    layout_of,
    offset_message_ids,
    size_in,
)
from mqspec.core.recovery import Checkpoint, Files, RecoveryState
from mqspec.core.retention import RetentionConfig
from mqspec.core.step import apply
from mqspec.fast import run
from mqspec.fast.run import AppendedRun, Row, StoredRun
from mqspec.store.checkpoint import read_checkpoint, write_checkpoint
from mqspec.store.commit_log import CommitLog
from mqspec.store.consume_queue import ConsumeQueue
from mqspec.store.deleted_topics import DeletedTopics
from mqspec.store.directory import StoreDirectory
from mqspec.store.files import DISK, Disk
from mqspec.store.index_file import IndexService, IndexSize
from mqspec.store.watcher import Watcher

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreConfig(RetentionConfig):
    """A store keeps the sizes of the files that it was made with; these are the real ones."""

    segment_size: int = 1 << 30  # of the CommitLog, bytes
    consume_queue_units: int = 300_000  # of a ConsumeQueue file
    sync_flush: bool = False  # a put is answered when it is on disk
    max_hash_slot_num: int = 5_000_000  # of an index file
    max_index_num: int = 20_000_000  # entries of an index file, the first of them unused
    transient_store_pool_enable: bool = False  # a put is answered before it is in a file
    transient_store_pool_size: int = 5  # buffers of a segment's size
    message_delay_level: str = log.DELAY_LEVELS


class Boundary(StrEnum):
    """Which of the messages around a time is meant (BoundaryType.java, 5.3.3)."""

    LOWER = "lower"
    UPPER = "upper"


class RecoveryReport(NamedTuple):
    """What opening the store found and did."""

    abnormal: bool  # the last stop was not clean
    scan_from: int  # position where the walk of the log started
    commit_log: Span  # positions, as recovered
    redispatched: int  # units written to ConsumeQueues


class QueryResult(NamedTuple):
    """What a query by key found, and how far the index is."""

    records: tuple[bytes, ...] = ()  # as they lie in the log, in its order
    index_last_update_timestamp: int = 0  # ms
    index_last_update_phy_offset: int = 0


Visible: TypeAlias = Mapping[TopicQueue, Sequence[Dispatch]]


class MessageStore:
    """The store in one directory. `clock_ms` gives the time, in ms since the epoch.

    `on_arrival` is called when messages become visible, with what gives them, by queue, and does
    not use the store itself; `watcher` is told what recovery found, and then each step of the log
    before it is carried out. `settle` is called after each put, to dispatch it and, with
    synchronous flush, to have it on disk first, now or soon; what it returns is how the put ended.
    `limits` may be others at any time.
    """

    def __init__(
        self,
        root: Path,
        config: StoreConfig,
        clock_ms: Callable[[], int],
        disk: Disk = DISK,
    ) -> None:
        self.root = root
        self._disk = disk
        self.on_arrival: Callable[[Callable[[], Visible]], None] = lambda _: None
        self.watcher: Watcher | None = None
        self.settle: Callable[[], PutStatus] = self._settle
        self.limits = Limits()
        self.config = config
        self._clock_ms = clock_ms
        self._directory = StoreDirectory(root, disk)
        self.delay_levels = delay_levels_of(config.message_delay_level)
        self._commit_log = CommitLog(
            root / "commitlog",
            config.segment_size,
            disk,
            config.transient_store_pool_enable,
            self.delay_levels,
        )
        self._consume_queues: dict[TopicQueue, ConsumeQueue] = {}
        self._deleted = DeletedTopics(root, disk)
        index_size = IndexSize(config.max_hash_slot_num, config.max_index_num)
        self._index = IndexService(root / "index", index_size, clock_ms, disk)
        self._index_from: int | None = None  # position: the index is behind, and goes on there
        self._state = LogState()
        self._pending: deque[Stored | StoredRun] = deque()  # not yet dispatched
        self._is_dispatch_stuck = False
        self._is_disk_full = False
        self._manual_rounds = 0
        self._checkpoint = Checkpoint()
        self._written_at = 0  # store timestamp, ms, of the last record written
        self._dispatched_at = 0  # and of the last one dispatched

    def open(self) -> RecoveryReport:
        """Take the directory, and recover what is there.

        Raises UserError where it is no store, is in use, or has a file that cannot be the
        store's; nothing in it is changed then.
        """
        self._directory.check()
        self._consume_queues = self._find_consume_queues()
        self._commit_log.check()
        for consume_queue in self._consume_queues.values():
            consume_queue.check()
        self._index.check()
        self._directory.take()
        abort = self.root / "abort"
        abnormal = abort.exists()
        # Before anything is written, or a crash would look like a clean stop, and too much
        # would be trusted.
        self._disk.write(abort, str(os.getpid()).encode())
        self._disk.sync_directory(self.root)
        report = self._recover(abnormal)
        if self.watcher:
            self.watcher.found(self._state)
        return report

    def close(self) -> None:
        """Stop cleanly: all is on disk, and the next start need not walk the log. Once it is
        closed nothing is done any more."""
        if not self._directory.is_taken:
            return
        self.catch_up()
        self.flush()
        self._commit_log.close()
        for consume_queue in self._consume_queues.values():
            consume_queue.close()
        self._index.close()
        self._disk.remove(self.root / "abort")
        self._directory.release()

    def update_config(self, limits: Limits, config: RetentionConfig) -> None:
        """Take other limits, and keep files for another time."""
        self.limits = limits
        kept = {each.name: getattr(config, each.name) for each in fields(RetentionConfig)}
        self.config = dataclasses.replace(self.config, **kept)

    # Writing

    def put(self, message: Record) -> PutResult:
        """Store one message; its offsets and its store timestamp are given here."""
        return self.put_batch(alone(message))

    def put_batch(self, batch: Batch) -> PutResult:
        """Store messages next to each other, all or none."""
        return self.put_together((batch,))[0]

    def put_together(self, puts: Sequence[Batch]) -> list[PutResult]:
        """Store what arrived together, in its order. What cannot be stored keeps nothing else
        from it."""
        if self._is_dispatch_stuck:
            self.reput()
        if self._is_dispatch_stuck or self._is_disk_full:
            return [PutResult(PutStatus.SERVICE_NOT_AVAILABLE)] * len(puts)
        refused = {}
        wanted = []
        for number, batch in enumerate(puts):
            checked = log.check_messages(batch, self.limits.max_message_size)
            if isinstance(checked, PutStatus):
                refused[number] = PutResult(checked)
                continue
            shared = batch.shared
            layout = layout_of(shared)
            queue, size = (shared.topic, shared.queue_id), layout.size(batch, checked)
            put = log.Put(queue, size, len(batch.messages), log.is_indexed(shared.sys_flag))
            wanted.append((put, batch, layout))

        try:
            results = self._append(wanted)
        except OSError as error:
            _log.error("the log cannot grow: %s", error)
            return [PutResult(PutStatus.CREATE_MAPPED_FILE_FAILED)] * len(puts)

        settled = self.settle()
        if settled is not PutStatus.PUT_OK:
            results = [replace(each, status=settled) if each.end else each for each in results]
        for number, result in refused.items():
            results.insert(number, result)
        return results

    @property
    def takes_runs(self) -> bool:
        """Whether `put_run` is of use."""
        config = self.config
        return not (config.sync_flush or config.transient_store_pool_enable)

    def put_run(self, rows: Sequence[Row], is_batch: bool) -> AppendedRun | None:
        """Store a run, or a batch, where it takes them; None, and nothing is done, where they are
        to be put as others are, which may say what is wrong."""
        if self._is_dispatch_stuck or self._is_disk_full:
            return None
        now_ms = max(self._clock_ms(), self._written_at)
        limits = self.config.segment_size, self.limits.max_message_size
        if is_batch:
            step = run.append_batch(self._state, rows[0], *limits, now_ms)
        else:
            step = run.append_run(self._state, rows, *limits, now_ms)

        appended: AppendedRun | None = step.result
        if appended is None:
            return None
        try:
            begin = Appended(appended.stored.positions[0], 0)
            self._commit_log.append([(begin, appended.encoded)])
        except OSError:
            return None

        if self.watcher:
            self.watcher.appended(step, (appended.stored,), (appended.encoded,))
        apply(self._state, step.changes)
        self._pending.append(appended.stored)
        self._written_at = now_ms
        self.settle()
        return appended

    def _append(self, wanted: Sequence[tuple[log.Put, Batch, Layout]]) -> list[PutResult]:
        config = self.config
        puts = [put for put, _, _ in wanted]
        append = log.Append(puts, config.segment_size, config.transient_store_pool_enable)
        step = log.append_message(self._state, append)
        now_ms = max(self._clock_ms(), self._written_at)
        results = []
        runs: list[tuple[Appended, list[bytes]]] = []
        stored: list[Stored] = []
        for (put, batch, layout), place in zip(wanted, step.result, strict=True):
            if place is None:
                results.append(PutResult(PutStatus.MESSAGE_ILLEGAL))
                continue
            if place.blank or not runs:
                runs.append((place, []))
            queue_offset, pieces = place.queue_offset, runs[-1][1]
            offsets = log.queue_offsets(queue_offset, put.indexed)
            positions, sizes = layout.encode(pieces, batch, place.position, offsets, now_ms)
            own = [one.properties for one in batch.messages]
            columns = positions, sizes, own
            sys_flag = batch.shared.sys_flag
            stored.append(
                Stored(
                    put.queue, queue_offset, put.indexed, *columns, batch.beside, now_ms, sys_flag
                )
            )
            ids = offset_message_ids(batch.shared.store_host, positions)
            end = place.position + put.size
            results.append(PutResult(PutStatus.PUT_OK, queue_offset, end, ids, now_ms, put.size))

        if stored:
            written = [(place, b"".join(pieces)) for place, pieces in runs]
            self._commit_log.append(written)
            if self.watcher:
                self.watcher.appended(step, stored, [piece for _, piece in written])
            apply(self._state, step.changes)
            self._pending += stored
            self._written_at = now_ms

        return results

    def reput(self) -> None:
        """Dispatch what may be dispatched (ReputMessageService)."""
        try:
            while ready := self._dispatchable():
                for is_run, same in groupby(ready, lambda each: isinstance(each, StoredRun)):
                    stored = list(same)
                    if is_run:
                        self._dispatch_run(run.together(cast("list[StoredRun]", stored)))
                    else:
                        others = cast("list[Stored]", stored)
                        self._dispatch([each.dispatch(self.delay_levels) for each in others])
                    for _ in stored:
                        self._pending.popleft()
            if self._is_dispatch_stuck:
                self._index.build()
        except OSError as error:
            self._get_stuck("dispatched", error)
        else:
            self._is_dispatch_stuck = False

    def catch_up(self, count: int | None = None) -> None:
        """Dispatch and index what was stored, and `count` records that an abnormal start left to
        be indexed, all of them without a count. The broker calls it each 500 ms, with none of
        them: no put waits for it."""
        self.reput()
        self.index_more(count)
        try:
            self._index.build()
        except OSError as error:
            self._get_stuck("indexed", error)

    def index_more(self, count: int | None) -> None:
        """Index so many of the records that an abnormal start left to be indexed. The broker calls
        it each 100 ms: no start waits for it."""
        if self._index_from is None:
            return
        try:
            self._walk_to_index(self._index_from, count)
        except OSError as error:
            self._get_stuck("indexed", error)

    def _walk_to_index(self, begin: int, count: int | None) -> None:
        walked, end = 0, self._state.reput_from_offset
        with closing(self._commit_log.scan(begin)) as walk:
            for position, record in islice(walk, count):
                if position > end:
                    break
                if record:
                    self._index.add((self._commit_log.dispatch_of(record),))
                self._index_from = position
                walked += 1
        if walked != count:
            self._index_from = None

    def commit_commit_log(self) -> None:
        """With a transient store pool: write it to the files, for all to read. The broker calls
        it each 200 ms."""
        self._commit_log.commit()
        apply(self._state, log.commit(self._state).changes)
        self.reput()

    @property
    def disk_used_percent(self) -> int:
        """How much of the store's disk is used."""
        return self._disk.used_percent(self.root)

    @property
    def is_transient_store_pool_deficient(self) -> bool:
        """Whether no more puts are to be taken until some were written to the files."""
        config = self.config
        return config.transient_store_pool_enable and log.is_transient_store_pool_deficient(
            self._state, config.segment_size, config.transient_store_pool_size
        )

    @property
    def undispatched_bytes(self) -> int:
        """How much of the log is not visible yet."""
        return self._state.commit_log.max - self._state.reput_from_offset

    @property
    def unflushed(self) -> Span:
        """Positions that are in files, and not on disk for sure."""
        return Span(self._state.flushed_where, self._state.committed_where)

    def sync_commit_log(self, span: Span) -> None:
        """Return when positions that are in files are on disk. For any thread; the store does
        not know of it before `note_flushed`."""
        if span.min < span.max:
            self._commit_log.flush(span)

    def note_flushed(self, position: int) -> None:
        """All before a position is on disk."""
        step = log.flush(self._state, position)
        if self.watcher:
            self.watcher.flushed(step)
        apply(self._state, step.changes)
        self.reput()

    def flush_commit_log(self) -> None:
        """Return when what is in the files of the log is on disk. The broker calls it each
        500 ms (LOG-008)."""
        span = self.unflushed
        self.sync_commit_log(span)
        self.note_flushed(span.max)

    def flush(self) -> None:
        """Return when the log and the ConsumeQueues are on disk, and the checkpoint says so."""
        self.commit_commit_log()
        self.flush_commit_log()
        self.flushing()()

    def flushing(self) -> Callable[[], None]:
        """What brings the ConsumeQueues and the checkpoint to disk, as they are now, once the
        log is there as far as it is now. For any thread."""
        self.catch_up(0)  # the checkpoint says how far the index is
        dirty = [queue for queue in self._consume_queues.values() if queue.is_dirty]
        checkpoint = self._checkpoint = self._checkpoint._replace(
            physic_msg_timestamp=self._written_at,
            logics_msg_timestamp=self._dispatched_at,
            index_msg_timestamp=self._index.index_msg_timestamp,
        )

        def flush() -> None:
            for consume_queue in dirty:
                consume_queue.flush()
            write_checkpoint(self.root / "checkpoint", checkpoint, self._disk)

        return flush

    def clean(self) -> None:
        """Remove what is kept long enough, or has to go because the disk is full. The broker
        calls it each 10 s."""
        now_ms = self._clock_ms()
        self.commit_commit_log()  # what is not dispatched stays
        decided = retention.clean_commit_log(
            self.config,
            self._commit_log.stored_segments(),
            self._state.reput_from_offset,
            self.disk_used_percent,
            self._is_disk_full,
            time.localtime(now_ms / 1000).tm_hour,
            now_ms,
            is_manual=self._manual_rounds > 0,
        )
        self._manual_rounds = max(0, self._manual_rounds - 1)
        if decided.is_disk_full != self._is_disk_full:
            _log.warning("the disk is %s", "full" if decided.is_disk_full else "not full any more")
        self._is_disk_full = decided.is_disk_full
        if decided.expired:
            self._delete_expired_file(decided.expired[-1] + self.config.segment_size)

    def delete_files_manually(self) -> None:
        """What is old goes at any hour, for some rounds."""
        self._manual_rounds = retention.MANUAL_ROUNDS

    @property
    def topics(self) -> frozenset[str]:
        """Those that have, or had, a message."""
        self.reput()
        return frozenset(topic for topic, _ in self._consume_queues)

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic; its records stay in the log."""
        self.reput()
        step = log.delete_topic(self._state, topic)
        if not step.result:
            return  # no record of it is anybody's: nothing is to be remembered
        self._deleted.add(topic, self._state.commit_log.max)
        for queue in step.result:
            self._remove_consume_queue(queue)
        apply(self._state, step.changes)

    # Reading

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        tag_filter: Callable[[int], bool] | None = None,
        record_filter: Callable[[bytes], bool] | None = None,
    ) -> GetResult:
        """Read messages of a queue from an offset on, those whose tags code and whose record pass
        the filters.

        `next_begin_offset` is behind the last message that was looked at, or where a read
        should begin that began where nothing is.
        """
        queue = (topic, queue_id)
        span = self._visible(queue)
        minimum, maximum = span
        nothing = log.check_offset(span, offset)
        if nothing:
            return GetResult(*nothing, minimum, maximum)
        records: list[bytes] = []
        total, next_offset, status = 0, offset, GetMessageStatus.NO_MATCHED_MESSAGE
        scanned_max = max(self.limits.max_filter_message_size // UNIT_BYTES, max_count)
        count = min(maximum - offset, scanned_max)
        for position, size, code in self._consume_queues[queue].units(offset, count):
            if log.is_batch_full(self.limits, max_count, len(records), total, size):
                break  # also where the filter would pass over the message (PULL-016)
            if tag_filter is None or tag_filter(code):
                record = self._commit_log.read(position, size)
                if record and (record_filter is None or record_filter(record)):
                    records.append(record)
                    total += size
                    status = GetMessageStatus.FOUND
                elif not record and not records:
                    status = GetMessageStatus.MESSAGE_WAS_REMOVING
            next_offset += 1
        return GetResult(status, next_offset, minimum, maximum, tuple(records))

    def units(self, topic: str, queue_id: int, offset: int, max_count: int) -> list[Unit]:
        """The ConsumeQueue's units of a queue from an offset on, within [min, max)."""
        queue = (topic, queue_id)
        minimum, maximum = self._visible(queue)
        count = min(maximum - offset, max_count)
        if offset < minimum or count <= 0:
            return []
        return list(self._consume_queues[queue].units(offset, count))

    def look_message_by_offset(self, position: int) -> Record | None:
        """The record at a position of the log; None where there is none."""
        first, end = self._state.commit_log
        if not first <= position < end:
            return None
        # Any number may be asked for: what stands there is not read before it can be a record.
        size = size_in(self._commit_log.read(position, HEAD_BYTES))
        if not 0 < size <= end - position:
            return None
        record = self._commit_log.record(position, size)
        return record if isinstance(record, Record) else None

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first queue offset that can be read; 0 of a queue that does not exist."""
        return self._visible((topic, queue_id)).min

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last visible message."""
        return self._visible((topic, queue_id)).max

    def is_all_visible(self, topic: str, queue_id: int) -> bool:
        """Whether all that was stored in a queue can be read."""
        stored = self._state.topic_queue_table.get((topic, queue_id), 0)
        return stored <= self.max_offset(topic, queue_id)

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, boundary: Boundary) -> int:
        """The first message stored at the time or later (LOWER), or the last one stored at the
        time or earlier (UPPER), within [min, max]."""
        minimum, maximum = self._visible((topic, queue_id))
        offsets = range(minimum, maximum)

        def stored_at(offset: int) -> int:
            return self._store_timestamp((topic, queue_id), offset)

        if boundary is Boundary.LOWER:
            return minimum + bisect_left(offsets, time_ms, key=stored_at)
        return max(minimum, minimum + bisect_right(offsets, time_ms, key=stored_at) - 1)

    def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        """Messages of a topic with a key, or one of the same hash, stored in a time (to the
        second, both ends included): the newest ones."""
        self.catch_up()
        count = min(max_count, self.limits.max_msgs_num_batch)
        found = self._index.query_offset(topic, key, count, begin_ms, end_ms)
        if not found.phy_offsets:
            return QueryResult()
        records = filter(None, map(self.record_at, found.phy_offsets))
        return QueryResult(tuple(records), *found[1:])

    def record_at(self, position: int) -> bytes:
        """The record at a position, as it lies in the log; nothing where there is none."""
        record = self.look_message_by_offset(position)
        return self._commit_log.read(position, record.size) if record else b""

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """The store timestamp, ms, of a queue's first message; -1 where it has none."""
        minimum, maximum = self._visible((topic, queue_id))
        return self._store_timestamp((topic, queue_id), minimum) if minimum < maximum else -1

    def stored_at(self, topic: str, queue_id: int, offset: int) -> int:
        """The store timestamp, ms, of the message at a queue offset; -1 where there is none."""
        minimum, maximum = self._visible((topic, queue_id))
        if not minimum <= offset < maximum:
            return -1
        return self._store_timestamp((topic, queue_id), offset)

    @property
    def positions(self) -> LogState:
        """Where everything ends, to be looked at only."""
        return self._state

    # Inside

    def _recover(self, abort: bool) -> RecoveryReport:
        segments = self._commit_log.load()
        self._checkpoint = read_checkpoint(self.root / "checkpoint")
        self._index.load(abort, self._checkpoint.index_msg_timestamp)
        spans = {queue: files.load() for queue, files in self._consume_queues.items()}
        self._deleted.load(segments[0].start if segments else 0)
        for queue in self._deleted.queues_left(spans, self._unit):
            self._remove_consume_queue(queue)
            del spans[queue]

        files = Files(
            abort,
            self._checkpoint,
            segments,
            spans,
            self._unit,
            self._deleted.living(self._commit_log.scan),
            self._commit_log.dispatch_of,
        )
        state = RecoveryState()
        redispatched = 0
        for dispatch in recovery.recover(files, state):
            self._write_units(
                dispatch.queue, dispatch.queue_offset, log.pack_units((dispatch.unit,))
            )
            redispatched += 1
            if not abort:
                self._index.add((dispatch,))

        self._written_at = self._dispatched_at = state.store_timestamp
        if abort:
            self._index_from = state.scan_from
        self._cut(state, files.log_min)
        return RecoveryReport(abort, state.scan_from, self._state.commit_log, redispatched)

    def _cut(self, state: RecoveryState, log_min: int) -> None:
        """Cut the files to what was recovered, all on disk before the first append."""
        end = state.process_offset
        self._deleted.truncate(end)
        self._commit_log.truncate(end)
        self._commit_log.flush(Span(log_min, end))
        for queue, span in state.consume_queue.items():
            self._consume_queues[queue].truncate(span.max)
            self._consume_queues[queue].flush()
        next_offsets = {queue: span.max for queue, span in state.consume_queue.items()}
        self._state = LogState(
            Span(log_min, end), end, end, end, next_offsets, dict(state.consume_queue)
        )

    def _remove_consume_queue(self, queue: TopicQueue) -> None:
        consume_queue = self._consume_queues.pop(queue, None)
        if consume_queue:
            consume_queue.remove()
        self._disk.remove_directory(self.root / "consumequeue" / queue[0])

    def _delete_expired_file(self, log_min: int) -> None:
        if self._index_from is not None:
            self._index_from = max(self._index_from, log_min)
        apply(self._state, retention.delete_expired_file(self._state, log_min, self._unit).changes)
        # Or a crash would take a unit whose record is gone, and its queue offset be given again.
        for consume_queue in self._consume_queues.values():
            consume_queue.flush()
        self._commit_log.delete_before(log_min)
        for queue, span in self._state.consume_queue.items():
            self._consume_queues[queue].delete_before(span.min)
        self._index.delete_expired_file(log_min)

    def _find_consume_queues(self) -> dict[TopicQueue, ConsumeQueue]:
        return {
            (path.parent.name, int(path.name)): self._consume_queue(path)
            for path in sorted((self.root / "consumequeue").glob("*/*"))
            if path.name.isdecimal()
        }

    def _consume_queue(self, directory: Path) -> ConsumeQueue:
        return ConsumeQueue(directory, self.config.consume_queue_units, self._disk)

    def _dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        dispatches = self._deleted.unindexed(dispatches)
        step = log.dispatch(self._state, dispatches)
        for queue, visible in step.result.items():
            self._write_units(queue, visible[0].queue_offset, log.pack_units(log.units(visible)))
        if self.watcher:
            self.watcher.dispatched(self._state, step, dispatches)
        apply(self._state, step.changes)
        self._dispatched_at = dispatches[-1].store_timestamp
        self.on_arrival(lambda: step.result)
        if self._index_from is None:
            self._index.add(dispatches)

    def _dispatch_run(self, stored: StoredRun) -> None:
        step = run.dispatch_run(self._state, stored, self._deleted.is_dead)
        for queue, (queue_offset, units) in step.result.items():
            self._write_units(queue, queue_offset, units)
        if self.watcher:
            self.watcher.dispatched(self._state, step, stored)
        apply(self._state, step.changes)
        self._dispatched_at = stored.store_timestamps[-1]
        self.on_arrival(lambda: run.visible(stored, step.result))
        if self._index_from is None:
            self._index.add_run(stored)

    def _write_units(self, queue: TopicQueue, queue_offset: int, units: bytes) -> None:
        consume_queue = self._consume_queues.get(queue)
        if consume_queue is None:
            topic, queue_id = queue
            directory = self.root / "consumequeue" / topic / str(queue_id)
            consume_queue = self._consume_queues[queue] = self._consume_queue(directory)
        consume_queue.put(queue_offset, units)

    def _unit(self, queue: TopicQueue, offset: int) -> Unit:
        return self._consume_queues[queue].unit(offset)

    def _store_timestamp(self, queue: TopicQueue, offset: int) -> int:
        position, size, _ = self._unit(queue, offset)
        record = self._commit_log.record(position, size)
        return record.store_timestamp if isinstance(record, Record) else 0

    def _get_stuck(self, undone: str, error: OSError) -> None:
        if not self._is_dispatch_stuck:  # it is tried again each 500 ms, and said once
            _log.error("messages are stored and cannot be %s yet: %s", undone, error)
        self._is_dispatch_stuck = True

    def _dispatchable(self) -> list[Stored | StoredRun]:
        """What may be dispatched, from the first on that was not."""
        is_sync_flush = self.config.sync_flush
        count = bisect_left(
            self._pending,
            True,
            key=lambda each: not log.may_dispatch(self._state, each.end, is_sync_flush),
        )
        return list(islice(self._pending, count))

    def _visible(self, queue: TopicQueue) -> Span:
        """What a queue's ConsumeQueue holds, for somebody who looks: what was put is there,
        unless it may not be dispatched."""
        spans = self._state.consume_queue
        span = spans.get(queue, log.EMPTY)
        is_behind = self._state.topic_queue_table.get(queue, 0) > span.max
        if is_behind and self._pending and not self._is_dispatch_stuck:
            self.reput()
            span = spans.get(queue, log.EMPTY)
        return span

    def _settle(self) -> PutStatus:
        if self.config.sync_flush:
            try:
                self.flush_commit_log()
            except OSError:
                return PutStatus.FLUSH_DISK_TIMEOUT
        self.reput()
        return PutStatus.PUT_OK


def delay_levels_of(text: str) -> tuple[int, ...]:
    """The levels of a messageDelayLevel, ms. Raises UserError."""
    try:
        return log.parse_delay_levels(text)
    except ValueError as error:
        raise UserError("messageDelayLevel", str(error), "write it like '1s 5s 10m'") from None
