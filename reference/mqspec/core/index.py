"""Index: which records of the log have a key.

An index file is a hash table with chains: slots, each with the number of the newest entry of
its chain, and entries in the order in which they came. When it is full the next one is begun.
An entry knows the hash of its key and not the key, so that a query by key finds messages with
other keys too (LOG-024); who asked sorts them out. A record has an entry for its unique key
and one for each of its keys, in its topic.

The index is a help, not a promise: it may be behind the log by what was gathered for it, and
after a stop that was not clean, files that the checkpoint does not cover are removed, and only
what recovery dispatches again is in them (LOG-027). A query sees all that is visible, and a
clean stop leaves all of it indexed.

Facts: store/index/{IndexFile,IndexHeader,IndexService}.java (5.3.3), and the files of 5.3.3.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from mqspec.core.java import INT_MAX
from mqspec.core.log import Dispatch
from mqspec.core.record import SysFlag, find_values, mentions, string_hash
from mqspec.core.types import Topic

HEADER_BYTES = 40
SLOT_BYTES = 4
ENTRY_BYTES = 20
FIRST_ENTRY = 1  # entry 0 is never used: in a slot and in an entry, 0 ends the chain

_UNIQ_KEY, _KEYS = b"UNIQ_KEY\x01", b"KEYS\x01"
_ROLLBACK = int(SysFlag.ROLLBACK)  # the two bits of what a record is in a transaction


class IndexHeader(NamedTuple):
    """The head of an index file. A file takes over the end of the one before as its begin."""

    begin_timestamp: int = 0  # store timestamps, ms
    end_timestamp: int = 0
    begin_phy_offset: int = 0  # positions of the log
    end_phy_offset: int = 0
    hash_slot_count: int = 0  # slots in use
    index_count: int = FIRST_ENTRY  # the number of the next entry

    def following(self) -> IndexHeader:
        """The head of the next file."""
        return IndexHeader(
            self.end_timestamp, self.end_timestamp, self.end_phy_offset, self.end_phy_offset
        )


class Key(NamedTuple):
    """One key of a record."""

    key_hash: int
    phy_offset: int  # position of the record
    store_timestamp: int  # ms


class IndexEntry(NamedTuple):
    """One entry."""

    key_hash: int
    phy_offset: int  # position of the record
    time_diff: int  # s, from the file's begin to the record's store timestamp
    prev_index: int  # the next older entry of the chain


def index_keys(sys_flag: int, properties: bytes) -> tuple[str, ...]:
    """The keys by which a record can be found: of a rollback record none."""
    if _is_rollback(sys_flag):
        return ()
    (unique,) = find_values((properties,), b"", _UNIQ_KEY)
    (keys,) = find_values((properties,), b"", _KEYS)
    found = filter(None, (unique, *keys.split(b" ")))
    return tuple(key.decode(errors="replace") for key in found)


def _is_rollback(sys_flag: int) -> bool:
    return sys_flag & _ROLLBACK == _ROLLBACK


class Keys(NamedTuple):
    """Keys of records, in the order of the log: four columns."""

    topics: list[Topic]
    keys: list[bytes]
    phy_offsets: list[int]  # positions of the records
    store_timestamps: list[int]  # ms

    def add(self, dispatches: Sequence[Dispatch]) -> None:
        """Add the keys of the records behind: those that `index_keys` gives of each."""
        found = (each for each in dispatches if not _is_rollback(each.sys_flag))
        for beside, together in itertools.groupby(found, attrgetter("beside")):
            topics: list[Topic] = []
            own: list[bytes] = []
            positions: list[int] = []
            timestamps: list[int] = []
            for each in together:
                count = len(each.properties)
                own += each.properties
                positions += each.positions
                topics += [each.queue[0]] * count
                timestamps += [each.store_timestamp] * count
            self.add_columns(own, beside, topics, positions, timestamps)

    def add_columns(
        self,
        own: Sequence[bytes],
        beside: bytes,
        topics: Sequence[Topic],
        positions: Sequence[int],
        timestamps: Sequence[int],
    ) -> None:
        """The same of records with these properties, none of which is a rollback."""
        keys = find_values(own, beside, _UNIQ_KEY)
        if mentions(b"".join(own), _KEYS) or mentions(beside, _KEYS) or not all(keys):
            others = find_values(own, beside, _KEYS)
            rows = [
                (topic, key, position, timestamp)
                for topic, first, more, position, timestamp in zip(
                    topics, keys, others, positions, timestamps, strict=True
                )
                for key in (first, *more.split(b" "))
                if key
            ]
            columns: Iterable[Iterable[Any]] = zip(*rows, strict=True)
        else:  # as those of most batches: one key each
            columns = topics, keys, positions, timestamps

        mine: tuple[list[Any], ...] = self
        for column, added in zip(mine, columns, strict=False):  # no rows have no columns
            column += added

    def hashed(self) -> list[Key]:
        """Each with its hash: `mqspec.fast.index_run` has those of many."""
        rows = zip(*self, strict=True)
        return [Key(key_hash(topic, key.decode(errors="replace")), *at) for topic, key, *at in rows]

    def not_indexed(self, header: IndexHeader) -> Keys:
        """Those that are not in the files yet, of which the last has this header."""
        first = bisect_left(
            self.phy_offsets, True, key=lambda at: not is_indexed_already(header, at)
        )
        topics, keys, phy_offsets, store_timestamps = self
        return Keys(topics[first:], keys[first:], phy_offsets[first:], store_timestamps[first:])


def key_hash(topic: Topic, key: str) -> int:
    """The hash of a key in a topic, not negative: Java's of "topic#key", as an absolute value
    (the least integer, which has none, counts as 0)."""
    # The unique keys of one client differ in their last characters only.
    code = abs(string_hash(key[-8:], hash_before(topic, key[:-8])))
    return 0 if code > INT_MAX else code


@lru_cache(maxsize=4096)
def hash_before(topic: Topic, head: str) -> int:
    """Java's hash of a topic, "#", and the beginning of a key, signed."""
    return string_hash(f"{topic}#{head}")


def is_indexed_already(header: IndexHeader, position: int) -> bool:
    """Whether the record at a position has its entries. Of the one that was indexed last it is
    not known, and when it is dispatched again it has them twice (RECOV-011)."""
    return position < header.end_phy_offset


class Added(NamedTuple):
    """What a run of keys adds to a file."""

    header: IndexHeader
    entries: list[IndexEntry]  # one a key, from the old header's `index_count` on
    slots: dict[int, int]  # the slots that have another head now


def put_keys(
    header: IndexHeader, slot_count: int, slot: Callable[[int], int], keys: Iterable[Key]
) -> Added:
    """The entries for keys, each the head of its slot's chain. `slot` is what a slot held
    before, for all keys in a file that has room for them."""
    begin_timestamp, end_timestamp, begin_phy_offset, end_phy_offset, used, count = header
    entries: list[IndexEntry] = []
    slots: dict[int, int] = {}
    for hash_, position, store_timestamp in keys:
        number = hash_ % slot_count
        head = slots.get(number) or slot(number)
        chained = head if 0 < head <= count else 0
        seconds = 0
        if begin_timestamp > 0:
            seconds = max(0, min((store_timestamp - begin_timestamp) // 1000, INT_MAX))
        if count == FIRST_ENTRY:
            begin_timestamp, begin_phy_offset = store_timestamp, position
        end_timestamp, end_phy_offset = store_timestamp, position
        used += not chained
        entries.append(IndexEntry(hash_, position, seconds, chained))
        slots[number] = count
        count += 1

    grown = IndexHeader(
        begin_timestamp, end_timestamp, begin_phy_offset, end_phy_offset, used, count
    )
    return Added(grown, entries, slots)


def is_time_matched(header: IndexHeader, begin_ms: int, end_ms: int) -> bool:
    """Whether a file may have records of a time, from `begin_ms` to `end_ms`."""
    return begin_ms <= header.end_timestamp and header.begin_timestamp <= end_ms


def select_phy_offset(
    header: IndexHeader,
    slot: int,
    entry: Callable[[int], IndexEntry],
    hash_: int,
    begin_ms: int,
    end_ms: int,
) -> Iterator[int]:
    """Positions of the records of a file whose key has a hash, newest first. `slot` is what the
    slot of the hash holds, `entry` reads an entry."""
    number, following = 0, slot if header.index_count > FIRST_ENTRY else 0
    while 0 < following <= header.index_count and following != number:
        number = following
        found = entry(number)
        stored_at = header.begin_timestamp + found.time_diff * 1000
        if found.time_diff < 0:
            return
        if found.key_hash == hash_ and begin_ms <= stored_at <= end_ms:
            yield found.phy_offset
        if stored_at < begin_ms:
            return
        following = found.prev_index


def is_covered(header: IndexHeader, index_msg_timestamp: int) -> bool:
    """Whether a file is on disk as it should be, for all that the checkpoint says. The others
    are removed when the last stop was not clean."""
    return 0 < header.end_timestamp <= index_msg_timestamp
