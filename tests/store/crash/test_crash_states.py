"""Crashes of the machine: whatever they leave of what was not synced, the store recovers."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from crash_disk import EVERYTHING, FATES, Chance, Fate, RecordingDisk
from store_images import (
    Clock,
    Contents,
    Image,
    batch,
    contents,
    key_of,
    keys,
    message,
    units,
    violations,
    write_image,
)

from mqrules import UserError
from mqspec.store import ConfigFile, MessageStore, PutStatus, StoreConfig, commit_log, index_file
from mqspec.store.commit_log import CommitLog
from mqspec.store.deleted_topics import DeletedTopics

QUEUES = 2
ACTIONS = 19  # of a life
FULL = 0.4  # the chance that there is no room on a disk that is full now and then
DELETED = "U"  # a topic that is deleted now and then, and made again
OFFSETS = Path("config", "consumerOffset.json")
MEMORY = Path("/dev/shm")


# Bytes that the log writes by a call: the records of a life are of 110 to 2,600.
ALL_BY_CALL, BOTH, ALL_THROUGH_MAP = 0, 600, 1 << 20


@pytest.fixture(autouse=True)
def _both_ways_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "BY_CALL_MIN", BOTH)
    monkeypatch.setattr(index_file, "RUN_MIN", 3)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A directory, in memory where there is one: syncs are not what is measured here."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as path:
        yield Path(path)


@dataclass
class Wanted:
    """What must be there after a crash: the first `acknowledged` messages of `log`, maybe without
    the first `expired` ones, and maybe with further ones; of each queue a maximum offset that is
    no less than in `ends`; of the config file, the content that was persisted or the next one.
    And of the topic that is deleted all but the `dead`, or, while it is deleted again, all but
    the `dying`."""

    log: list[str] = field(default_factory=list)
    acknowledged: int = 0
    expired: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    persisted: int = 0
    persisting: int = 0
    dead: frozenset[str] = frozenset()
    dying: frozenset[str] = frozenset()

    def copy(self) -> Wanted:
        return replace(self, log=list(self.log))


@dataclass
class Explored:
    """What a walk through crash states met."""

    states: set[int] = field(default_factory=set)  # hashes of distinct ones
    consume_queue_ahead: list[tuple[Image, Wanted]] = field(default_factory=list)
    in_recovery: int = 0
    refused: int = 0  # puts
    failures: list[str] = field(default_factory=list)

    def check_all(
        self, scratch: Path, life: Life, name: str, actions: int, lies: frozenset[str]
    ) -> list[tuple[Image, Wanted]]:
        """Run a life, and recover each new state that its crashes left. Returns those that held."""
        held = []
        try:
            life.run(actions, lies)
        except AssertionError as error:
            self.failures.append(f"{name}, before a crash: {error!r}")
        finally:
            shutil.rmtree(life.root)
            self.refused += life.refused
        for left, wanted, recovering in life.crashes:
            state = hash(frozenset(left.items()))
            if state in self.states:
                continue
            self.states.add(state)
            self.in_recovery += recovering
            root = scratch / f"left{len(self.states)}"
            try:
                again = len(self.states) % 4 == 0
                if check(root, left, wanted, life.config, again):
                    self.consume_queue_ahead.append((left, wanted))
                held.append((left, wanted))
            except (AssertionError, UserError) as error:
                self.failures.append(f"{name}: {error!r}")
            shutil.rmtree(root, ignore_errors=True)
        return held


class Life:
    """A store at work, from an image to the next crash. It samples crashes as it goes. `full` is
    the chance that what needs more of the disk finds it full, but for starts and stops."""

    def __init__(
        self,
        root: Path,
        image: Image,
        wanted: Wanted,
        config: StoreConfig,
        random: Random,
        full: float = 0,
    ) -> None:
        self.full, self.refused = full, 0
        self.wanted, self.config, self.random = wanted.copy(), config, random
        self.crashes: list[tuple[Image, Wanted, bool]] = []  # the last: while it recovered
        self.recovering = True
        self.clock = Clock(1_000_000 + 10_000 * len(wanted.log))
        root.mkdir(exist_ok=True)
        self.root = write_image(root, image)
        self.image = image

    def run(self, actions: int, lies: frozenset[str]) -> None:
        self.disk = RecordingDisk(self.root, self.image, lies)
        self.disk.moment = self._sample
        self._open()
        offsets = ConfigFile(self.root / OFFSETS, self.disk)
        for _ in range(actions):
            self.disk.room = self._find_room
            try:
                self._act(offsets)
            except OSError:
                if not self.full:
                    raise
        self._close()

    def _act(self, offsets: ConfigFile) -> None:
        match self.random.choices("pbgfaiocrdt", (50, 10, 10, 5, 10, 20, 8, 3, 4, 4, 10))[0]:
            case "p":
                self._put(1)
            case "b":
                self._put(self.random.randint(2, 4))
            case "g":
                self._group_commit()
            case "f":
                self.store.flush()
                self._acknowledge()
            case "a":
                self.store.commit_commit_log()
                self.store.flush_commit_log()
                self._acknowledge()
            case "i":
                self.store.catch_up()
            case "o":
                self.wanted.persisting += 1
                offsets.persist({"offsetTable": {"T@G": {0: self.wanted.persisting}}})
                self.wanted.persisted = self.wanted.persisting
            case "c":
                self.clock.now += 5_000  # so that checkpoints cover something
            case "d":
                self._clean()
            case "t":
                self._delete_topic()
            case "r":
                self._close()
                self._acknowledge()
                self._open()

    def _find_room(self) -> None:
        if self.full and self.random.random() < self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _close(self) -> None:
        self.disk.room = lambda: None
        self.store.close()

    def _open(self) -> None:
        self.recovering = True
        self.store = MessageStore(self.root, self.config, self.clock, self.disk)
        self.store.open()
        self.recovering = False
        found = contents(self.root, self.config)
        self.wanted.log, self.wanted.expired = found.keys, 0
        self.wanted.dead = self.wanted.dying = dead_of(self.store, found, self.wanted)
        self._acknowledge()

    def _put(self, count: int) -> None:
        if self._append(count) and self.config.sync_flush:
            self._acknowledge()

    def _group_commit(self) -> None:
        """Some puts are for one sync, and some more come while it is under way."""
        settle, self.store.settle = self.store.settle, lambda: PutStatus.PUT_OK
        try:
            for _ in range(2):
                self._append(1)
                match self.random.choice("td...."):
                    case "t":
                        self._delete_topic()
                    case "d":
                        self._clean()
            count, span = len(self.wanted.log), self.store.unflushed
            self._append(1)
            self.store.sync_commit_log(span)
            self.store.note_flushed(span.max)
        finally:
            self.store.settle = settle
        if self.config.sync_flush:
            self.wanted.acknowledged = count

    def _append(self, count: int) -> bool:
        """Whether it was taken."""
        topic, queue_id = self.random.choice((("T", 0), ("T", 1), (DELETED, 0)))
        first = len(self.wanted.log)
        sent = [f"{topic}{first + i}x{self.random.randrange(10**6)}" for i in range(count)]
        self.wanted.log += sent
        pad = self.random.choice((0, 200, 900, 2500 // count))
        is_taken = bool(self.store.put_batch(batch(sent, queue_id, pad, topic=topic)).end)
        if not is_taken:
            del self.wanted.log[first:]
            self.refused += 1
        return is_taken

    def _clean(self) -> None:
        self.wanted.expired = len(self.wanted.log)
        self.store.clean()

    def _delete_topic(self) -> None:
        self.wanted.dying = frozenset(key for key in self.wanted.log if key.startswith(DELETED))
        self.store.delete_topic(DELETED)
        self.wanted.dead = self.wanted.dying

    def _acknowledge(self) -> None:
        self.wanted.acknowledged = len(self.wanted.log)
        self.wanted.ends = {q: self.store.max_offset("T", q) for q in range(QUEUES)}

    def _sample(self) -> None:
        for fate in self._fates():
            self.crashes.append((self.disk.crash(fate), self.wanted.copy(), self.recovering))

    def _fates(self) -> Iterator[Fate]:
        chance = self.random.random()
        if self.recovering:
            yield self.random.choice(FATES)
        if chance < 0.7:
            yield Chance(self.random, self.random.choice((0.2, 0.5, 0.9)), chance)
        if chance < 0.5:
            yield self.random.choice(FATES)


def check(root: Path, image: Image, wanted: Wanted, config: StoreConfig, again: bool) -> bool:
    """Recover a crash state, and see that nothing is missing and the store goes on, `again`
    after another start, too. Returns whether a ConsumeQueue was ahead of the log."""
    write_image(root, image)
    left = units(root, 0)
    store = MessageStore(root, config, Clock(10**9))
    store.open()
    found = contents(root, config)
    assert set(found.keys) <= set(wanted.log), "RECOV-001"
    first = wanted.log.index(found.keys[0]) if found.log else min(wanted.expired, len(wanted.log))
    last = first + len(found.log)
    assert found.keys == wanted.log[first:last], "RECOV-001"
    assert first <= wanted.expired, "RECOV-002"
    assert last >= wanted.acknowledged, "RECOV-002"
    dead = dead_of(store, found, wanted)
    found.log = [one for one in found.log if key_of(one) not in dead]
    assert not violations(found), violations(found)
    expected = serves(store, found)
    for queue_id in range(QUEUES):
        assert store.max_offset("T", queue_id) >= wanted.ends.get(queue_id, 0), "RECOV-002"
        end = store.max_offset("T", queue_id)
        assert store.put(message(f"new{queue_id}", queue_id)).queue_offset == end, "LOG-002"
        expected[queue_id].append(f"new{queue_id}")
    made_again = [*keys(store, topic=DELETED), "new"]
    store.put(message("new", topic=DELETED))
    store.close()
    if again:
        store = MessageStore(root, config, Clock(10**9))
        assert not store.open().abnormal
        for queue_id, wanted_keys in expected.items():
            assert keys(store, queue_id) == wanted_keys, "RECOV-014"
        assert keys(store, topic=DELETED) == made_again, "ADMIN-017"
        store.close()
    table = ConfigFile(root / OFFSETS).load().get("offsetTable", {"T@G": {"0": 0}})
    assert wanted.persisted <= table["T@G"]["0"] <= wanted.persisting, "RECOV-020"
    return any(unit[0] >= found.end for queue in left.values() for unit in queue.values())


def dead_of(store: MessageStore, found: Contents, wanted: Wanted) -> frozenset[str]:
    """The messages in the log that went with the deleted topic: see that it serves the others."""
    served = keys(store, topic=DELETED)
    left = [key_of(record) for record in found.log if record.topic == DELETED]
    for dead in (wanted.dying, wanted.dead):
        if served == [key for key in left if key not in dead]:
            return dead
    raise AssertionError(f"ADMIN-017: {served} of {left}, {wanted.dead}, {wanted.dying}")


def serves(store: MessageStore, found: Contents) -> dict[int, list[str]]:
    """See that each queue serves its messages of the log, and nothing else; returns them."""
    expected: dict[int, list[str]] = {}
    for queue_id in range(QUEUES):
        records = [one for one in found.log if (one.topic, one.queue_id) == ("T", queue_id)]
        offsets = [record.queue_offset for record in records]
        span = range(store.min_offset("T", queue_id), store.max_offset("T", queue_id))
        assert offsets == list(span), "RECOV-003"
        expected[queue_id] = [key_of(record) for record in records]
        assert keys(store, queue_id) == expected[queue_id], "RECOV-009"
    return expected


def config_of(sync_flush: bool, pool: bool = False) -> StoreConfig:
    """Files so small that a life has many."""
    return StoreConfig(8192, 26, sync_flush, 16, 256, transient_store_pool_enable=pool)


def explore(
    scratch: Path,
    seeds: range,
    sync_flush: bool,
    lies: frozenset[str] = frozenset(),
    full: float = 0,
) -> Explored:
    """Two lives of a store, one a seed: the second begins with what a crash of the first left.
    And each crash that was sampled."""
    explored = Explored()
    for seed in seeds:
        random = Random(seed)
        config = config_of(sync_flush, pool=not sync_flush and seed % 2 == 1)
        first = Life(scratch / f"first{seed}", {}, Wanted(), config, random, full)
        held = explored.check_all(scratch, first, f"seed {seed}, first life", ACTIONS, lies)
        if held:
            second = Life(scratch / f"second{seed}", *random.choice(held), config, random, full)
            explored.check_all(scratch, second, f"seed {seed}, second life", ACTIONS, lies)
    return explored


def go_on_with_sync_flush(
    scratch: Path, before: Explored, lives: int, lies: frozenset[str] = frozenset()
) -> Explored:
    """Short lives of stores whose ConsumeQueues are ahead of the log."""
    explored, random = Explored(), Random(0)
    for number, (image, wanted) in enumerate(random.sample(before.consume_queue_ahead, lives)):
        life = Life(scratch / f"life{number}", image, wanted, config_of(sync_flush=True), random)
        explored.check_all(scratch, life, "synchronous flush after asynchronous", 3, lies)
    return explored


# Distinct states at least: with synchronous flush 5,000 in the tests together.
SEEDS, SYNC_STATES = (range(7), range(10, 17), range(20, 27)), 1_220
ASYNC_STATES = 700


@pytest.mark.parametrize("seeds", SEEDS)
def test_with_sync_flush_no_crash_takes_what_was_acknowledged(scratch: Path, seeds: range) -> None:
    explored = explore(scratch, seeds, sync_flush=True)
    assert not explored.failures
    assert len(explored.states) >= SYNC_STATES
    assert explored.in_recovery > 0


def test_a_consume_queue_ahead_of_the_log_is_cut_back(scratch: Path) -> None:
    """A broker with asynchronous flush, where what was flushed counts as acknowledged, leaves
    ConsumeQueues ahead of the log. One with synchronous flush goes on there, and crashes again:
    while it recovers, and later. By itself it dispatches what is on disk already."""
    before = explore(scratch, range(100, 105), sync_flush=False)
    assert not before.failures
    assert len(before.states) >= ASYNC_STATES
    assert len(before.consume_queue_ahead) >= 50
    explored = go_on_with_sync_flush(scratch, before, 56)
    assert not explored.failures
    assert len(explored.consume_queue_ahead) >= 150
    assert explored.in_recovery > 0
    assert len(explored.states) + len(SEEDS) * SYNC_STATES >= 5_000


@pytest.mark.parametrize("sync_flush", [True, False])
def test_a_full_disk_takes_nothing_that_was_acknowledged(scratch: Path, sync_flush: bool) -> None:
    explored = explore(scratch, range(40, 46), sync_flush, full=FULL)
    assert not explored.failures
    assert len(explored.states) >= 800
    assert explored.refused >= 20


def test_what_a_full_disk_did_not_take_and_was_acknowledged_is_found(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = CommitLog.append

    def seems_to(self: CommitLog, *what: Any) -> None:
        with contextlib.suppress(OSError):
            append(self, *what)

    monkeypatch.setattr(CommitLog, "append", seems_to)
    explored = explore(scratch, range(40, 42), sync_flush=True, full=FULL)
    assert any("RECOV-002" in failure for failure in explored.failures)


def test_a_deletion_that_found_no_room_and_was_kept_is_found(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(self: DeletedTopics, topic: str, end: int) -> None:
        self._ends[topic] = end
        self._persist(self._ends)

    monkeypatch.setattr(DeletedTopics, "add", add)
    explored = explore(scratch, range(40, 46), sync_flush=True, full=FULL)
    assert any("RECOV-003" in failure for failure in explored.failures)


@pytest.mark.parametrize(
    ("lie", "rule", "by_call_min"),
    [
        ("sync", "RECOV-002", ALL_BY_CALL),
        ("sync", "RECOV-002", ALL_THROUGH_MAP),
        ("sync_directory", "RECOV-002", BOTH),
        ("write", "RECOV-020", BOTH),
    ],
)
def test_a_sync_that_is_left_out_is_found(
    scratch: Path, lie: str, rule: str, by_call_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_log, "BY_CALL_MIN", by_call_min)
    explored = explore(scratch, range(1), sync_flush=True, lies=frozenset({lie}))
    assert any(rule in failure for failure in explored.failures)


def test_old_units_that_are_left_are_found(scratch: Path) -> None:
    """Where what recovery cuts off a ConsumeQueue is not on disk, old units come back."""
    before = explore(scratch, range(100, 101), sync_flush=False)
    explored = go_on_with_sync_flush(scratch, before, 2, frozenset({"clear"}))
    assert any("RECOV-003" in failure for failure in explored.failures)


@pytest.mark.parametrize(
    ("left_out", "does_not", "sync_flush"),
    [
        ("unindexed", lambda _, dispatches: dispatches, True),
        ("queues_left", lambda *_: [], True),
        ("truncate", lambda *_: None, False),
    ],
)
def test_a_deletion_that_is_not_kept_is_found(
    scratch: Path,
    left_out: str,
    does_not: Callable[..., object],
    sync_flush: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DeletedTopics, left_out, does_not)
    explored = explore(scratch, range(100, 103), sync_flush)
    assert any("ADMIN-017" in failure for failure in explored.failures)


@pytest.mark.parametrize("by_call_min", [ALL_BY_CALL, ALL_THROUGH_MAP])
def test_a_kill_loses_nothing(
    scratch: Path, by_call_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the files as a reader sees them nothing is missing, whatever was synced."""
    monkeypatch.setattr(commit_log, "BY_CALL_MIN", by_call_min)
    config = StoreConfig(
        segment_size=8192, consume_queue_units=26, max_hash_slot_num=16, max_index_num=256
    )
    disk = RecordingDisk(scratch, {}, frozenset({"sync", "sync_directory", "write"}))
    store = MessageStore(scratch, config, Clock(), disk)
    store.open()
    store.put(message("k"))
    seen = disk.crash(EVERYTHING)
    assert {path: (scratch / path).read_bytes() for path in seen} == seen
    assert contents(scratch, config).keys == ["k"]
