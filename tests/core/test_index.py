"""The index: hashes, chains, and what a query takes from them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqspec.core.index import (
    IndexEntry,
    IndexHeader,
    Key,
    Keys,
    index_keys,
    is_covered,
    is_indexed_already,
    is_time_matched,
    key_hash,
    put_keys,
    select_phy_offset,
)
from mqspec.core.java import INT_MAX
from mqspec.core.log import Dispatch
from mqspec.core.record import SysFlag, decode_properties, string_hash
from mqspec.fast.index_run import Run, key_hashes, put_run


@pytest.mark.parametrize(
    ("properties", "keys"),
    [
        (b"", ()),
        (b"UNIQ_KEY\x01u\x02", ("u",)),
        (b"KEYS\x01a  b a\x02UNIQ_KEY\x01u\x02", ("u", "a", "b", "a")),
    ],
)
def test_keys(properties: bytes, keys: tuple[str, ...]) -> None:
    for flag in (0, SysFlag.PREPARED, SysFlag.COMMIT):
        assert index_keys(flag, properties) == keys
    assert index_keys(SysFlag.ROLLBACK, properties) == ()


PARTS = ("UNIQ_KEY", "KEYS", "XKEYS", "\x01", "\x02", " ", "a", "\u043a")
PROPERTIES = st.builds(
    lambda text, broken: text.encode() + broken,
    st.lists(st.sampled_from(PARTS)).map("".join),
    st.sampled_from([b"", b"\xd0", b"\xff\x02"]),
)
UNIQUE = st.text("kl", min_size=1).map(lambda key: f"UNIQ_KEY\x01{key}\x02A\x011\x02".encode())


@given(PROPERTIES)
def test_keys_are_those_of_the_properties(properties: bytes) -> None:
    known = decode_properties(properties)
    keys = [known.get("UNIQ_KEY", ""), *known.get("KEYS", "").split(" ")]
    assert index_keys(0, properties) == tuple(filter(None, keys))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["T", "U"]),
            st.sampled_from([0, SysFlag.PREPARED, SysFlag.ROLLBACK]),
            st.lists(UNIQUE | PROPERTIES, min_size=1),
            st.sampled_from([b"", b"\x02UNIQ_KEY\x01u", b"\x02KEYS\x01k"]),
        )
    )
    | st.lists(
        st.tuples(st.just("T"), st.just(0), st.lists(UNIQUE, min_size=1), st.just(b"")), min_size=1
    ),
    st.integers(0, 9),
)
def test_keys_of_records_together_are_those_of_each(
    batches: list[tuple[str, int, list[bytes], bytes]], indexed: int
) -> None:
    dispatches, expected, position = [], [], 0
    for at, (topic, flag, properties, beside) in enumerate(batches):
        positions = range(position, position + len(properties))
        position += len(properties)
        columns = positions, [1] * len(properties), [0] * len(properties)
        dispatches.append(Dispatch((topic, 0), 0, True, *columns, at, flag, properties, beside))
        for place, each in zip(positions, properties, strict=True):
            if place >= indexed:
                expected += [(topic, key, place, at) for key in index_keys(flag, each + beside)]
    waiting = Keys([], [], [], [])
    waiting.add(dispatches)
    found = waiting.not_indexed(IndexHeader(end_phy_offset=indexed))
    rows = zip(*found, strict=True)
    assert [(topic, key.decode(errors="replace"), *at) for topic, key, *at in rows] == expected


@pytest.mark.parametrize("topic", ["T", "a-longer-topic", "%RETRY%g"])
@pytest.mark.parametrize("key", ["", "k", "FD00000A", "ключ", "\U0001f600" * 300, "polygenelubric"])
def test_a_hash_is_that_of_java(topic: str, key: str) -> None:
    assert key_hash(topic, key) == abs(string_hash(f"{topic}#{key}"))


def test_the_least_integer_counts_as_0() -> None:
    topic, key = "T", "#=&6-;'"
    assert string_hash(f"{topic}#{key}") == -(1 << 31)
    assert key_hash(topic, key) == 0


class File:
    """An index file of one slot, in memory."""

    def __init__(self, header: IndexHeader) -> None:
        self.header, self.slot = header, 0
        self.entries: dict[int, IndexEntry] = {}

    def put(self, hash_: int, position: int, at: int) -> IndexEntry:
        return self.put_all([Key(hash_, position, at)])[0]

    def put_all(self, keys: list[Key]) -> list[IndexEntry]:
        first = self.header.index_count
        self.header, entries, slots = put_keys(self.header, 1, lambda _: self.slot, keys)
        self.entries |= dict(enumerate(entries, first))
        self.slot = slots[0]
        return entries

    def find(self, hash_: int, begin: int = 0, end: int = 1 << 62) -> list[int]:
        entry = self.entries.__getitem__
        return list(select_phy_offset(self.header, self.slot, entry, hash_, begin, end))


def test_a_chain_leads_from_the_newest_entry_to_the_oldest() -> None:
    file = File(IndexHeader())
    assert file.find(7) == []
    assert file.put(7, 100, 5_000) == IndexEntry(7, 100, 0, 0)
    assert file.put(8, 200, 6_999) == IndexEntry(8, 200, 1, 1)
    assert file.put(7, 300, 9_000) == IndexEntry(7, 300, 4, 2)
    assert file.header == IndexHeader(5_000, 9_000, 100, 300, 1, 4)
    assert file.find(7) == [300, 100]
    assert file.find(7, begin=5_001) == [300]
    assert file.find(7, end=8_999) == [100]
    assert file.find(7, begin=9_000, end=9_000) == [300]
    assert file.find(9) == []


def test_the_first_entry_of_a_later_file_counts_from_the_file_before() -> None:
    header = IndexHeader(5_000, 9_000, 100, 300, 1, 4).following()
    assert header == IndexHeader(9_000, 9_000, 300, 300, 0, 1)
    file = File(header)
    assert file.put(7, 400, 12_000).time_diff == 3
    assert file.header == IndexHeader(12_000, 12_000, 400, 400, 1, 2)


def test_time_differences_stay_in_their_field() -> None:
    file = File(IndexHeader())
    file.put(7, 100, 5_000)
    assert file.put(7, 200, 1_000).time_diff == 0
    assert file.put(7, 300, 1 << 60).time_diff == (1 << 31) - 1


def test_a_slot_that_points_behind_the_entries_is_empty() -> None:
    header, (entry,), slots = put_keys(IndexHeader(), 10, lambda _: 5, [Key(7, 100, 1_000)])
    assert (entry.prev_index, header.hash_slot_count, slots) == (0, 1, {7: 1})


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 99_000)), min_size=1))
def test_a_run_of_keys_adds_what_they_add_one_by_one(keys: list[tuple[int, int]]) -> None:
    run = [Key(hash_, 100 * i, at) for i, (hash_, at) in enumerate(keys)]
    together, one_by_one = File(IndexHeader()), File(IndexHeader())
    together.put_all(run)
    for key in run:
        one_by_one.put_all([key])
    assert vars(together) == vars(one_by_one)


KEYS = st.one_of(
    st.text(st.characters(codec="utf-16"), min_size=1, max_size=40),
    st.text("ab\0", min_size=1, max_size=40),
    st.text("ab\0\u043a\uffff", min_size=1, max_size=40),
    st.sampled_from(["k", "K7F00000100002A13", "#=&6-;'", "long" * 100]),
)


@given(st.lists(st.tuples(st.sampled_from(["T", "%RETRY%g", "тема"]), KEYS), min_size=1))
def test_hashes_of_a_run_are_those_of_its_keys(run: list[tuple[str, str]]) -> None:
    topics, texts = zip(*run, strict=True)
    keys = [text.encode() for text in texts]
    assert key_hashes(topics, keys).tolist() == [key_hash(*each) for each in run]


SLOTS = 7
TIMES = st.one_of(st.integers(0, 99_000), st.integers(0, 1 << 60))
HEADERS = st.builds(
    IndexHeader, TIMES, TIMES, st.integers(0, 99), st.integers(0, 99), st.integers(0, 7)
)


@given(
    HEADERS,
    st.sampled_from([1, 2, 50]),
    st.lists(st.integers(-1, 70), min_size=SLOTS, max_size=SLOTS),
    st.lists(st.tuples(st.integers(0, 20) | st.just(INT_MAX), TIMES), min_size=1),
)
def test_a_run_in_bulk_is_what_its_keys_are_one_by_one(
    header: IndexHeader, count: int, held: list[int], keys: list[tuple[int, int]]
) -> None:
    """Entry by entry, with slots that are met again, that point behind the entries (of a damaged
    file), and times that go back."""
    header = header._replace(index_count=count)
    run = [Key(hash_, 100 * i, at) for i, (hash_, at) in enumerate(keys)]
    grown, entries, slots = put_keys(header, SLOTS, held.__getitem__, run)
    columns = Run(*(np.array(column) for column in zip(*run, strict=True)))
    added = put_run(header, SLOTS, np.array(held).__getitem__, columns)
    assert added.header == grown
    assert added.entries == b"".join(struct.pack(">iqii", *entry) for entry in entries)
    assert dict(zip(added.slots.tolist(), added.heads.tolist(), strict=True)) == slots


def test_a_chain_that_leads_to_itself_ends() -> None:
    entry = IndexEntry(7, 100, 0, 1)
    header = IndexHeader(1, 1, 100, 100, 1, 2)
    assert list(select_phy_offset(header, 1, lambda _: entry, 7, 0, 9)) == [100]


def test_a_damaged_slot_leads_as_far_as_to_the_place_of_the_next_entry() -> None:
    """IndexFile.selectPhyOffset, 5.3.3: what is left there of an older file counts."""
    header, left = IndexHeader(1, 1, 100, 100, 1, 2), IndexEntry(7, 200, 0, 0)
    for slot, found in ((0, []), (-1, []), (2, [200]), (3, [])):
        assert list(select_phy_offset(header, slot, lambda _: left, 7, 0, 9)) == found


@pytest.mark.parametrize(
    ("begin", "end", "matched"), [(0, 9, False), (0, 10, True), (20, 30, True), (21, 30, False)]
)
def test_a_file_is_of_a_time(begin: int, end: int, matched: bool) -> None:
    assert is_time_matched(IndexHeader(10, 20), begin, end) is matched


def test_the_record_that_was_indexed_last_may_be_indexed_again() -> None:
    header = IndexHeader(end_phy_offset=100)
    assert [is_indexed_already(header, at) for at in (99, 100, 101)] == [True, False, False]


def test_the_checkpoint_covers_full_files() -> None:
    assert [is_covered(IndexHeader(1, end), 50) for end in (0, 50, 51)] == [False, True, False]
