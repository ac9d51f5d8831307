"""Crashes and what they leave: images of a store's files, and a check of what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from msgspec import structs

from mqspec.core.record import Batch, BatchMessage, Blank, Record, decode_record
from mqspec.store import MessageStore, StoreConfig

SMALL = StoreConfig(
    segment_size=2048, consume_queue_units=8, max_hash_slot_num=16, max_index_num=64
)
PAGE = 256  # bytes; smaller than a real one, so that small stores have many
UNIT = Struct(">qiq")
BLANK_UNIT = (0, 0x7FFFFFFF, 0)

Image = dict[str, bytes]  # the files of a store, by relative path


class Clock:
    """A clock that goes on by a millisecond each time it is read."""

    def __init__(self, now: int = 1_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        self.now += 1
        return self.now


def message(key: str, queue_id: int = 0, topic: str = "T", pad: int = 0) -> Record:
    """A message that is identified by its body."""
    return Record(topic, key.encode() + b"." * pad, b"KEYS\x01" + key.encode(), queue_id)


def batch(
    keys: Sequence[str], queue_id: int = 0, pad: int = 0, sys_flag: int = 0, topic: str = "T"
) -> Batch:
    """Messages that are stored as one, each as `message` makes it."""
    messages = [message(key, queue_id, topic, pad) for key in keys]
    own = [BatchMessage(one.body, one.properties, one.flag) for one in messages]
    return Batch(structs.replace(messages[0], sys_flag=sys_flag), own)


def key_of(record: Record) -> str:
    """The key that `message` gave it."""
    return record.body.partition(b".")[0].decode()


def new_store(root: Path, config: StoreConfig = SMALL, clock: Clock | None = None) -> MessageStore:
    """A store that is not opened yet."""
    return MessageStore(root, config, clock or Clock())


def keys(store: MessageStore, queue_id: int = 0, topic: str = "T") -> list[str]:
    """What a consumer reads of a queue, from its minimum offset on."""
    offset, found = store.min_offset(topic, queue_id), []
    while offset < store.max_offset(topic, queue_id):
        result = store.get(topic, queue_id, offset, 32)
        records = [decode_record(data) for data in result.records]
        found += [key_of(record) for record in records if isinstance(record, Record)]
        assert result.next_begin_offset > offset
        offset = result.next_begin_offset
    return found


def image_of(root: Path) -> Image:
    """The files as they are now, on disk or in the page cache: what a kill -9 leaves.

    But for `lock`: a process that closes it anywhere gives up its lock.
    """
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def mixed(durable: Image, current: Image, lost: Iterable[bool]) -> Image:
    """What a crash of the machine leaves: of each page that is not on disk, the old content
    where `lost` says so. A file that was made since is there, its size too."""
    lots = iter(lost)
    left: Image = {}
    for name, new in current.items():
        old = durable.get(name, b"").ljust(len(new), b"\0")
        pages = range(0, len(new), PAGE)
        left[name] = b"".join(
            old[at : at + PAGE]
            if new[at : at + PAGE] != old[at : at + PAGE] and next(lots, False)
            else new[at : at + PAGE]
            for at in pages
        )
    return left


def write_image(root: Path, image: Image) -> Path:
    """Lay an image out as a store."""
    for name, data in image.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


@dataclass
class Contents:
    """What lies in the files of a store, read without it."""

    log: list[Record]
    # Units by queue offset, of records that are not expired.
    queues: dict[tuple[str, int], dict[int, tuple[int, int, int]]]
    end: int

    @property
    def keys(self) -> list[str]:
        return [key_of(record) for record in self.log]


def contents(root: Path, config: StoreConfig = SMALL) -> Contents:
    """Read the files from the first segment to the first bytes that are no record."""
    segments = sorted((root / "commitlog").glob("*"))
    data = b"".join(path.read_bytes() for path in segments)
    end = start = int(segments[0].name) if segments else 0
    log: list[Record] = []
    while True:
        match decode_record(data, end - start):
            case Record() as record if record.physical_offset == end:
                log.append(record)
                end += record.size
            case Blank(size) if end + size < start + len(data):
                end += size
            case _:
                break
    return Contents(log, units(root, start), end)


def units(root: Path, begin: int) -> dict[tuple[str, int], dict[int, tuple[int, int, int]]]:
    """What ConsumeQueues hold, blanks left out: units by queue offset, of records at `begin`
    or behind it."""
    queues: dict[tuple[str, int], dict[int, tuple[int, int, int]]] = {}
    for path in sorted((root / "consumequeue").glob("*/*/*")):
        queue = (path.parent.parent.name, int(path.parent.name))
        found = UNIT.iter_unpack(path.read_bytes())
        for offset, unit in enumerate(found, int(path.name) // UNIT.size):
            if unit[1] > 0 and unit != BLANK_UNIT and unit[0] >= begin:
                queues.setdefault(queue, {})[offset] = unit
    return queues


def violations(found: Contents) -> set[str]:
    """The rules that the files of a store at rest break."""
    broken = set()
    for queue, units in found.queues.items():
        if sorted(units) != list(range(min(units), max(units) + 1)):
            broken.add("RECOV-003")
        if len({position for position, _, _ in units.values()}) < len(units):
            broken.add("RECOV-004")
        if any(position + size > found.end for position, size, _ in units.values()):
            broken.add("RECOV-005")
        records = {r.queue_offset: r for r in found.log if (r.topic, r.queue_id) == queue}
        for offset, (position, size, _) in units.items():
            record = records.get(offset)
            if record and (record.physical_offset, record.size) != (position, size):
                broken.add("RECOV-003")
    for record in found.log:
        if record.queue_offset not in found.queues.get((record.topic, record.queue_id), {}):
            broken.add("RECOV-003")
    return broken
