"""IndexRun: what `mqspec.core.index` does, for a long run of keys at once.

The entries and the slots are those that `key_hash` and `put_keys` give key by key; numpy gives
them at a small part of the price. It is a module of its own because numpy takes long to import:
a broker that has few messages at a time does without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mqspec.core.index import FIRST_ENTRY, IndexHeader, hash_before, key_hash
from mqspec.core.java import INT_MAX
from mqspec.core.types import Topic

Numbers: TypeAlias = npt.NDArray[np.int64]
Heads: TypeAlias = npt.NDArray[np.int32]  # of slots, big-endian

ENTRY = np.dtype(
    [("key_hash", ">i4"), ("phy_offset", ">i8"), ("time_diff", ">i4"), ("prev_index", ">i4")]
)
SLOT = np.dtype(">i4")
WIDTH_MAX = 256  # bytes of a key: a run that has a longer one is hashed key by key


class Run(NamedTuple):
    """Keys of records, in the order of the log: three columns."""

    key_hashes: Numbers
    phy_offsets: Numbers  # positions of the records
    store_timestamps: Numbers  # ms

    def cut(self, count: int) -> tuple[Run, Run]:
        """The first `count` of them, and the others."""
        return Run(*(each[:count] for each in self)), Run(*(each[count:] for each in self))


class AddedRun(NamedTuple):
    """What a run adds to a file, as it lies there."""

    header: IndexHeader
    entries: bytes
    slots: Numbers  # numbers of the slots that have another head now, ascending
    heads: Heads  # of these


def key_hashes(topics: Sequence[Topic], keys: Sequence[bytes]) -> Numbers:
    """`key_hash` of each key, none of which is empty, in its topic."""
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    width = int(lengths.max())
    text = b"".join(keys)
    if width > WIDTH_MAX or not text.isascii():
        texts = (key.decode(errors="replace") for key in keys)
        return np.array([key_hash(*each) for each in zip(topics, texts, strict=True)])
    if width > lengths.min():  # NULs in front do not change a hash
        text = b"".join([key.rjust(width, b"\0") for key in keys])
    powers = np.full(width + 1, 31, np.uint32)  # of 31, modulo 2**32
    powers[0] = 1
    np.cumprod(powers, dtype=np.uint32, out=powers)
    before = {topic: hash_before(topic, "") & 0xFFFFFFFF for topic in set(topics)}
    codes = np.fromiter(map(before.__getitem__, topics), np.uint32, len(keys))
    codes *= powers[lengths]
    rows = np.frombuffer(text, np.uint8).astype(np.uint32).reshape(-1, width)
    codes += np.einsum("ij,j->i", rows, powers[width - 1 :: -1].copy())  # @ takes twice as long
    hashes = np.abs(codes.view(np.int32).astype(np.int64))
    hashes[hashes > INT_MAX] = 0
    return hashes


def put_run(
    header: IndexHeader, slot_count: int, slots: Callable[[Numbers], Numbers], run: Run
) -> AddedRun:
    """`put_keys` for a run of one key at least. `slots` is what slots held before."""
    hashes, positions, timestamps = run
    count = header.index_count
    entries = np.arange(count, count + len(hashes))
    numbers = hashes % slot_count
    order = np.argsort(numbers, kind="stable")  # the entries of a slot come together
    by_slot = numbers[order]
    begins = np.ones(len(order), np.bool_)  # of slots
    begins[1:] = by_slot[1:] != by_slot[:-1]
    touched = by_slot[begins]
    before = np.empty_like(entries)
    before[1:] = entries[order[:-1]]
    before[begins] = slots(touched)
    chained = np.empty_like(entries)
    chained[order] = before
    chained[(chained < 0) | (chained > entries)] = 0
    begin_timestamps = np.full_like(entries, header.begin_timestamp)
    is_first = count == FIRST_ENTRY
    if is_first:
        begin_timestamps[1:] = timestamps[0]
    seconds = np.clip((timestamps - begin_timestamps) // 1000, 0, INT_MAX)
    seconds[begin_timestamps <= 0] = 0
    table = np.empty(len(entries), ENTRY)
    table["key_hash"] = hashes
    table["phy_offset"] = positions
    table["time_diff"] = seconds
    table["prev_index"] = chained
    grown = IndexHeader(
        int(timestamps[0]) if is_first else header.begin_timestamp,
        int(timestamps[-1]),
        int(positions[0]) if is_first else header.begin_phy_offset,
        int(positions[-1]),
        header.hash_slot_count + int(np.count_nonzero(chained == 0)),
        count + len(entries),
    )
    ends = np.ones(len(order), np.bool_)
    ends[:-1] = begins[1:]
    return AddedRun(grown, table.tobytes(), touched, entries[order[ends]].astype(SLOT))
