"""What is inconsistent in the files of a store, and what recovery would do about it.

Reads only: nothing is mapped writable, no lock is taken, nothing is removed. The store may be
one of Apache RocketMQ's, and a broker may be running on it: what that is still writing at
the ends of its files is not found fault with. One damage is one finding: what follows from a
place of the log that cannot be read (a gap, a unit that points there) is not told again.

The names of the checks, and what they say, are those of `mqspec audit` where it has the same.
"""

from __future__ import annotations

import mmap
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any

from mqrules import UserError
from mqspec.core import index
from mqspec.core.index import ENTRY_BYTES, HEADER_BYTES, SLOT_BYTES, IndexEntry, IndexHeader
from mqspec.core.log import (
    DELAY_LEVELS_MS,
    EMPTY,
    UNIT_BYTES,
    UNIT_LAYOUT,
    Dispatch,
    Span,
    TopicQueue,
    Unit,
    dispatch_of_record,
)
from mqspec.core.record import Blank, Record, body_crc, decode_record
from mqspec.core.recovery import BLANK_UNIT, Checkpoint, Files, RecoveryState, recover
from mqspec.store.checkpoint import CHECKPOINT_BYTES, read_checkpoint
from mqspec.store.commit_log import CommitLog
from mqspec.store.config_file import damaged, read_for_start
from mqspec.store.consume_queue import ConsumeQueue
from mqspec.store.deleted_topics import DeletedTopics
from mqspec.store.directory import StoreDirectory, is_in_use
from mqspec.store.files import Disk
from mqspec.store.mapped_file import NAME_DIGITS

Progress = Callable[[int, int], None]  # bytes of the log that were walked, and all of them

_HEADER = Struct(">4q2i")
_ENTRY = Struct(">iqii")
_MAGIC = re.compile(rb"\xda\xa3\x20[\xa7\xab]|\xcb\xd4\x31\x94")
_MAGIC_AT = 4
_EXT_ADDRESS_MAX = -(1 << 31) - 1  # at most this: a tags code that points into a ConsumeQueueExt
_SLOTS_TO_ENTRIES = 4  # of an index file, by default
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """Something inconsistent, and where."""

    check: str
    rule: str  # that it breaks, or is the matter of
    why: str
    file: str  # its path in the store
    position: int | None = None  # in the log, or in the file where it is not of the log
    queue: TopicQueue | None = None
    queue_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a start would do. `refused` says why it would not start."""

    refused: str = ""
    abnormal: bool = False
    scan_from: int = 0  # position where the walk of the log starts
    commit_log: Span = EMPTY  # positions, as recovered
    written: dict[TopicQueue, int] = field(default_factory=dict)  # units
    dropped: dict[TopicQueue, int] = field(default_factory=dict)  # units


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was found."""

    store: str
    running: bool  # a broker uses it
    records: int
    units: int
    index_entries: int
    findings: tuple[Finding, ...]
    recovery: Recovery


def check(
    root: Path,
    progress: Progress = lambda done, total: None,
    delay_levels: Sequence[int] = DELAY_LEVELS_MS,
) -> CheckReport:
    """Check the store in a directory. Raises UserError where it is none.

    `delay_levels` are those, ms, of the broker that wrote it: units of delayed messages hold
    when they are due.
    """
    StoreDirectory(root).check()
    if not (root / "commitlog").is_dir():
        raise UserError(str(root), "not a store: it has no commitlog", "name a broker's store")
    with ExitStack() as closing:
        checked = _Check(root, closing, progress, delay_levels)
        findings = tuple(checked.findings())
        return CheckReport(
            str(root),
            checked.running,
            checked.records,
            sum(len(queue.marks) for queue in checked.queues.values()),
            checked.index_entries,
            findings,
            checked.recovery(),
        )


class _ReadOnly(Disk):
    """A disk that is only read. What would be removed stays."""

    def map(self, path: Path, size: int) -> mmap.mmap:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)

    def remove(self, path: Path) -> None:
        pass


_READ_ONLY = _ReadOnly()


@dataclass
class _Array:
    """The files of a CommitLog or a ConsumeQueue, as they are."""

    file_size: int = 0
    files: dict[int, mmap.mmap] = field(default_factory=dict)  # by the position of the first byte
    paths: dict[int, str] = field(default_factory=dict)

    def path(self, position: int) -> str:
        """Of the file that holds a position; of the last one behind them all."""
        return self.paths[max((start for start in self.paths if start <= position), default=0)]

    def read(self, position: int, length: int) -> bytes:
        start = position - position % self.file_size if self.file_size else 0
        file = self.files.get(start)
        return file[position - start : position - start + length] if file else b""


@dataclass
class _Queue:
    """A ConsumeQueue: the array, its units up to the last that was written, and of each whether
    a record of the log has it."""

    array: _Array
    span: Span  # queue offsets
    marks: bytearray

    def unit(self, queue_offset: int) -> Unit | None:
        data = self.array.read(queue_offset * UNIT_BYTES, UNIT_BYTES)
        return Unit(*UNIT_LAYOUT.unpack(data)) if len(data) == UNIT_BYTES else None

    def units(self) -> Iterator[tuple[int, Unit]]:
        for queue_offset in range(*self.span):
            if unit := self.unit(queue_offset):
                yield queue_offset, unit


class _Check:
    def __init__(
        self, root: Path, closing: ExitStack, progress: Progress, delay_levels: Sequence[int]
    ) -> None:
        self.root = root
        self._delay_levels = delay_levels
        self.running = is_in_use(root)
        self.unclean = (root / "abort").exists() and not self.running
        self.records = 0
        self.index_entries = 0
        self.queues: dict[TopicQueue, _Queue] = {}
        self._log = _Array()
        self._log_end = 0
        self._unreadable: list[Span] = []
        self._last_offsets: dict[TopicQueue, int] = {}
        self._last_timestamp = 0
        self._deleted = DeletedTopics(root, _READ_ONLY)
        self._closing = closing
        self._progress = progress

    def findings(self) -> Iterator[Finding]:
        if self.unclean:
            why = "the last stop was not clean: a start recovers abnormally"
            yield Finding("unclean stop", "RECOV-001", why, "abort")
        # Queues first: what is written meanwhile to a live store comes to its log first.
        yield from self._load_queues()
        yield from self._load(self._log, self.root / "commitlog")
        with suppress(UserError):  # where it cannot be read: the check of config files says so
            self._deleted.load(self._log_min)
        yield from self._check_log()
        for queue, files in self.queues.items():
            yield from self._check_units(queue, files)
        yield from self._check_checkpoint()
        yield from self._check_index()
        yield from self._check_config()
        yield from self._check_offsets()

    # Files

    @property
    def _log_min(self) -> int:
        return min(self._log.files, default=0)

    def _load_queues(self) -> Iterator[Finding]:
        for directory in sorted((self.root / "consumequeue").glob("*/*")):
            if directory.name.isdecimal():
                array = _Array()
                yield from self._load(array, directory)
                queue = (directory.parent.name, int(directory.name))
                self.queues[queue] = _Queue(array, *_written(array))

    def _load(self, array: _Array, directory: Path) -> Iterator[Finding]:
        paths = sorted(directory.iterdir())
        sizes = {path: path.stat().st_size for path in paths if path.is_file()}
        common = Counter(filter(None, sizes.values())).most_common(1)
        array.file_size = common[0][0] if common else 0
        for path in paths:
            where = self._relative(path)
            if not (path in sizes and len(path.name) == NAME_DIGITS and path.name.isdecimal()):
                yield Finding("files", "RECOV-001", "not a store file", where)
            elif sizes[path] != array.file_size:
                if not (self.running and path == paths[-1] and sizes[path] == 0):
                    why = f"{sizes[path]} bytes long, the others {array.file_size}"
                    yield Finding("files", "RECOV-001", why, where)
            elif int(path.name) % array.file_size:
                why = f"its name is not a multiple of {array.file_size}"
                yield Finding("files", "RECOV-001", why, where)
            else:
                start = int(path.name)
                previous = max(array.files, default=start - array.file_size)
                if previous + array.file_size != start:
                    missing = directory / f"{previous + array.file_size:0{NAME_DIGITS}}"
                    why = "the file is missing"
                    yield Finding("files", "RECOV-001", why, self._relative(missing))
                array.files[start] = _READ_ONLY.map(path, array.file_size)
                array.paths[start] = where
                self._closing.callback(array.files[start].close)

    # The log

    def _check_log(self) -> Iterator[Finding]:
        # Apache RocketMQ makes a segment before it needs it.
        begun = [start for start, file in self._log.files.items() if any(file[:8])]
        total = len(begun) * self._log.file_size
        for done, start in enumerate(begun):
            self._progress(done * self._log.file_size, total)
            with memoryview(self._log.files[start]) as view:
                yield from self._check_segment(start, view, last=start == begun[-1])
        self._progress(total, total)

    def _check_segment(self, start: int, view: memoryview, last: bool) -> Iterator[Finding]:
        at = 0
        while at < len(view):
            match decode_record(view, at, check_crc=False):
                case Record() as record if record.physical_offset == start + at:
                    yield from self._check_record(record, view, at)
                    at += record.size
                    self._log_end = start + at
                case Blank(size) if size == len(view) - at:
                    return
                case _:
                    is_end = _is_zero(view, at)
                    following = None if is_end else _next_record(view, start, at + 1)
                    if following is None:
                        yield from self._check_tail(start + at, start + len(view), last, is_end)
                        return
                    why = "no record, and the log goes on after it"
                    yield self._in_log("unreadable log", "LOG-001", why, start + at)
                    self._unreadable.append(Span(start + at, start + following))
                    self._last_offsets.clear()
                    at = following

    def _check_tail(self, position: int, end: int, last: bool, zero: bool) -> Iterator[Finding]:
        if not last:
            why = "not closed, though another segment follows"
            yield self._in_log("unclosed segments", "LOG-004", why, position)
        elif not zero and not self.running:
            why = "a torn tail, which recovery drops"
            yield self._in_log("unreadable log", "RECOV-001", why, position)
        else:
            return
        self._unreadable.append(Span(position, end))

    def _check_record(self, record: Record, view: memoryview, at: int) -> Iterator[Finding]:
        self.records += 1
        self._last_timestamp = max(self._last_timestamp, record.store_timestamp)
        dispatch = dispatch_of_record(record, self._delay_levels)
        # The CRC stands behind size and magic.
        if record.body and body_crc(record.body) != int.from_bytes(view[at + 8 : at + 12], "big"):
            yield self._of_record("damaged bodies", "LOG-011", "its CRC is wrong", dispatch)
        is_dead = self._deleted.is_dead(record.topic, record.physical_offset)
        if dispatch.indexed and not is_dead:
            yield from self._check_order(dispatch)
            yield from self._check_unit_of(dispatch)

    def _check_order(self, dispatch: Dispatch) -> Iterator[Finding]:
        before = self._last_offsets.get(dispatch.queue)
        self._last_offsets[dispatch.queue] = dispatch.queue_offset
        # From 0 again: the topic may have been deleted and made anew.
        if before is None or dispatch.queue_offset in (before + 1, 0):
            return
        left_out = dispatch.queue_offset > before
        why = "queue offsets were left out" if left_out else "a queue offset was given twice"
        yield self._of_record("gaps in queue offsets", "LOG-002", why, dispatch)

    def _check_unit_of(self, dispatch: Dispatch) -> Iterator[Finding]:
        files = self.queues.get(dispatch.queue)
        if files is None:
            if any(topic == dispatch.queue[0] for topic, _ in self.queues) and not self.running:
                why = "has no unit: its ConsumeQueue is lost"
                yield self._of_record("records without a unit", "LOG-006", why, dispatch)
            return  # of a topic without any ConsumeQueue: deleted

        unit = files.unit(dispatch.queue_offset)
        if unit is not None and _matches(unit, dispatch.unit):
            if files.span.min <= dispatch.queue_offset < files.span.max:
                files.marks[dispatch.queue_offset - files.span.min] = True
        elif dispatch.queue_offset >= files.span.max:
            if not self.running:
                why = "not dispatched yet when the broker ended" if self.unclean else "has no unit"
                yield self._of_record("records without a unit", "LOG-006", why, dispatch)
        elif unit in (BLANK_UNIT, Unit(0, 0, 0)):
            why = "has no unit: there is a blank one"
            yield self._of_record("records without a unit", "LOG-006", why, dispatch)

    # The queues

    def _check_units(self, queue: TopicQueue, files: _Queue) -> Iterator[Finding]:
        log_min = self._log_min
        for (queue_offset, unit), marked in zip(files.units(), files.marks, strict=False):
            if marked or unit in (BLANK_UNIT, Unit(0, 0, 0)) or unit.position < log_min:
                continue
            if any(span.min <= unit.position < span.max for span in self._unreadable):
                continue
            check, rule, why = self._diagnosis(queue, queue_offset, unit)
            if check:
                position = queue_offset * UNIT_BYTES
                file = files.array.path(position)
                yield Finding(check, rule, why, file, unit.position, queue, queue_offset)

    def _diagnosis(self, queue: TopicQueue, queue_offset: int, unit: Unit) -> tuple[str, str, str]:
        if unit.position + unit.size > self._log_end:
            if self.running:
                return "", "", ""
            return "units beyond the log", "RECOV-005", "beyond the end of the log"
        elsewhere = "units that point elsewhere", "RECOV-003"
        record = self._record_at(unit.position)
        if record is None:
            return *elsewhere, "no record begins there"
        dispatch = dispatch_of_record(record, self._delay_levels)
        if (dispatch.queue, dispatch.queue_offset) == (queue, queue_offset):
            which = "size" if dispatch.unit.size != unit.size else "tags code"
            return *elsewhere, f"its {which} is not that of the record there"
        own = self.queues.get(dispatch.queue)
        owner = own.unit(dispatch.queue_offset) if own else None
        if dispatch.queue == queue and owner == dispatch.unit:
            return "records with two units", "LOG-003", "another unit points to the same record"
        return *elsewhere, "the record there is another"

    def _record_at(self, position: int) -> Record | None:
        size = int.from_bytes(self._log.read(position, 4), "big")
        record = decode_record(self._log.read(position, size), check_crc=False)
        is_there = isinstance(record, Record) and record.physical_offset == position
        return record if isinstance(record, Record) and is_there else None

    # The other files

    def _check_checkpoint(self) -> Iterator[Finding]:
        path = self.root / "checkpoint"
        if not path.exists() or path.stat().st_size < CHECKPOINT_BYTES:
            if self.records and not self.running:
                why = "missing or torn: an abnormal start walks the whole log"
                yield Finding("checkpoint", "RECOV-001", why, "checkpoint")
            return
        found = read_checkpoint(path)
        for at, name in enumerate(Checkpoint._fields[:3]):
            covered = getattr(found, name)
            if self._is_whole and covered > self._last_timestamp:
                why = f"{name} {covered} is later than the last record, {self._last_timestamp}"
                yield Finding("checkpoint", "RECOV-001", why, "checkpoint", 8 * at)

    @property
    def _is_whole(self) -> bool:
        """Whether all records of the log were met: what it should hold can be told from them."""
        return bool(self.records) and not self._unreadable and not self.running

    def _check_index(self) -> Iterator[Finding]:
        for path in sorted((self.root / "index").glob("*")):
            where, size = self._relative(path), path.stat().st_size
            if size == 0:
                continue
            if size <= HEADER_BYTES:
                yield Finding("index", "LOG-028", "too short for its head", where)
                continue
            file = _READ_ONLY.map(path, size)
            self._closing.callback(file.close)
            header = IndexHeader(*_HEADER.unpack(file[:HEADER_BYTES]))
            entries_at = _entries_at(file, header)
            if header.index_count > index.FIRST_ENTRY and entries_at is None:
                why = "its entries are not where its head says"
                yield Finding("index", "LOG-028", why, where, 0)
                continue
            for number in range(index.FIRST_ENTRY, header.index_count if entries_at else 0):
                assert entries_at is not None
                at = entries_at + number * ENTRY_BYTES
                self.index_entries += 1
                entry = IndexEntry(*_ENTRY.unpack(file[at : at + ENTRY_BYTES]))
                if why := self._why_not_indexed(entry):
                    yield Finding("index entries that point elsewhere", "LOG-020", why, where, at)

    def _why_not_indexed(self, entry: IndexEntry) -> str:
        position = entry.phy_offset
        if position < min(self._log.files, default=0):
            return ""
        if any(span.min <= position < span.max for span in self._unreadable):
            return ""
        record = self._record_at(position)
        if record is None:
            running = self.running and position >= self._log_end
            return "" if running else f"no record begins at {position}"
        keys = index.index_keys(record.sys_flag, record.properties)
        if entry.key_hash in {index.key_hash(record.topic, key) for key in keys}:
            return ""
        return f"the record at {position} has no key of this hash"

    def _check_config(self) -> Iterator[Finding]:
        for path, why in damaged(self.root / "config"):
            yield Finding("config files", "RECOV-020", why, self._relative(path))

    def _check_offsets(self) -> Iterator[Finding]:
        path = self.root / "config" / "consumerOffset.json"
        file = self._relative(path)
        for key, offsets in _table(read_for_start(path).get("offsetTable")).items():
            for queue_id, offset in _table(offsets).items():
                if not queue_id.isdecimal():
                    why = f"{key} has an offset in {queue_id!r}, which is no queue"
                    yield Finding("consumer offsets", "RECOV-015", why, file)
                    continue

                queue = (key.split("@")[0], int(queue_id))
                end = self._queue_end(queue)
                if isinstance(offset, int) and offset > end and not self.running:
                    why = f"{key} committed {offset}, beyond the queue's end, {end}"
                    yield Finding("consumer offsets", "RECOV-015", why, file, None, queue, offset)

    def _queue_end(self, queue: TopicQueue) -> int:
        files = self.queues.get(queue)
        return max(files.span.max if files else 0, self._last_offsets.get(queue, -1) + 1)

    # Recovery

    def recovery(self) -> Recovery:
        """What a start would do, by recovery itself."""
        try:
            return self._recovery()
        except UserError as refusal:
            return Recovery(refused=str(refusal))

    def _recovery(self) -> Recovery:
        log = CommitLog(
            self.root / "commitlog",
            self._log.file_size or 1,
            _READ_ONLY,
            delay_levels=self._delay_levels,
        )
        self._closing.callback(log.close)
        log.check()
        queues: dict[TopicQueue, ConsumeQueue] = {}
        for (topic, queue_id), files in self.queues.items():
            directory = self.root / "consumequeue" / topic / str(queue_id)
            units = max(files.array.file_size // UNIT_BYTES, 1)
            queues[topic, queue_id] = ConsumeQueue(directory, units, _READ_ONLY)
            self._closing.callback(queues[topic, queue_id].close)
            queues[topic, queue_id].check()
        loaded = {queue: files.load() for queue, files in queues.items()}
        segments = log.load()

        def unit(queue: TopicQueue, offset: int) -> Unit:
            return queues[queue].unit(offset)

        deleted = DeletedTopics(self.root, _READ_ONLY)
        deleted.load(segments[0].start if segments else 0)
        left = deleted.queues_left(loaded, unit)
        files_ = Files(
            (self.root / "abort").exists(),
            read_checkpoint(self.root / "checkpoint"),
            segments,
            {queue: span for queue, span in loaded.items() if queue not in left},
            unit,
            deleted.living(log.scan),
            log.dispatch_of,
        )
        written: Counter[TopicQueue] = Counter()
        state = RecoveryState()
        for dispatch in recover(files_, state):
            written[dispatch.queue] += 1
        dropped = {
            queue: span.max - state.consume_queue.get(queue, Span(0, span.min)).max
            for queue, span in loaded.items()
        }
        return Recovery(
            "",
            files_.abort,
            state.scan_from,
            Span(files_.log_min, state.process_offset),
            dict(written),
            {queue: count for queue, count in dropped.items() if count > 0},
        )

    def _in_log(self, name: str, rule: str, why: str, position: int) -> Finding:
        return Finding(name, rule, why, self._log.path(position), position)

    def _of_record(self, name: str, rule: str, why: str, dispatch: Dispatch) -> Finding:
        position = dispatch.unit.position
        file = self._log.path(position)
        return Finding(name, rule, why, file, position, dispatch.queue, dispatch.queue_offset)

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self.root))


def _written(array: _Array) -> tuple[Span, bytearray]:
    """The queue offsets up to the last unit that was written, and no mark of any."""
    first = min(array.files, default=0) // UNIT_BYTES
    end = first
    for start in sorted(array.files, reverse=True):
        if written := len(array.files[start][:].rstrip(b"\0")):
            end = start // UNIT_BYTES + -(-written // UNIT_BYTES)
            break
    return Span(first, end), bytearray(end - first)


def _matches(unit: Unit, wanted: Unit) -> bool:
    in_ext = unit.tags_code <= _EXT_ADDRESS_MAX and wanted[:2] == unit[:2]
    return unit == wanted or in_ext


def _next_record(view: memoryview, start: int, at: int) -> int | None:
    """Where the next record, or the closing blank, of a segment begins."""
    for found in _MAGIC.finditer(view, at + _MAGIC_AT):
        begin = found.start() - _MAGIC_AT
        match decode_record(view, begin):
            case Record(physical_offset=there) if there == start + begin:
                return begin
            case Blank(size) if size == len(view) - begin:
                return begin
    return None


def _is_zero(view: memoryview, at: int) -> bool:
    chunks = (bytes(view[i : i + _CHUNK]) for i in range(at, len(view), _CHUNK))
    return all(chunk == bytes(len(chunk)) for chunk in chunks)


def _entries_at(file: mmap.mmap, header: IndexHeader) -> int | None:
    """Where entry 0 of an index file is. The head does not say how many slots there are: as by
    default, or so that the first entry and the last are the ones that the head names."""

    def fits(slots: int) -> bool:
        ends = (
            (index.FIRST_ENTRY, header.begin_phy_offset),
            (
                header.index_count - 1,
                header.end_phy_offset,
            ),
        )
        entries_at = HEADER_BYTES + slots * SLOT_BYTES
        for number, position in ends:
            at = entries_at + number * ENTRY_BYTES
            if at + ENTRY_BYTES > len(file):
                return False
            if IndexEntry(*_ENTRY.unpack(file[at : at + ENTRY_BYTES])).phy_offset != position:
                return False

        return True

    room = len(file) - HEADER_BYTES
    by_default = room // (SLOT_BYTES + _SLOTS_TO_ENTRIES * ENTRY_BYTES)
    step = ENTRY_BYTES // SLOT_BYTES
    others = range(room // SLOT_BYTES % step, room // SLOT_BYTES, step)
    candidates: tuple[int, ...] = (by_default, *(others if room < _CHUNK else ()))
    for slots in candidates:
        if fits(slots):
            return HEADER_BYTES + slots * SLOT_BYTES
    return None


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
