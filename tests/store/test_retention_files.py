"""Old segments go, and what refers to them; a disk that is full takes no more."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from store_images import (
    SMALL,
    Clock,
    contents,
    image_of,
    keys,
    message,
    new_store,
    violations,
    write_image,
)

from mqspec.core.log import PutStatus
from mqspec.core.retention import MANUAL_ROUNDS
from mqspec.store import MessageStore
from mqspec.store.files import DISK

EVER = (1 << 63) - 1
DAY_MS = 86_400_000
NOW = 100 * DAY_MS
CONFIG = replace(SMALL, max_index_num=20, delete_when=";".join(map(str, range(24))))


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    """Segments of five days, 100 messages of two queues, and one that is left behind."""
    store = new_store(tmp_path, CONFIG, Clock(NOW))
    store.open()
    store.put(message("early", topic="Rare"))
    for n in range(100):
        store.put(message(f"k{n}", queue_id=n % 2))
    store.flush()
    return store


def age(root: Path, days: int) -> list[int]:
    """Make all segments but the last two old; where they begin."""
    paths = sorted((root / "commitlog").iterdir())[:-2]
    for path in paths:
        seconds = (NOW - days * DAY_MS) / 1000
        os.utime(path, (seconds, seconds))
    return [int(path.name) for path in paths]


def test_old_segments_go(store: MessageStore, tmp_path: Path) -> None:
    old = age(tmp_path, days=2)
    store.clean()
    assert len(old) > 3
    assert keys(store, 0)[0] == "k0"
    age(tmp_path, days=4)
    before = len(list(tmp_path.glob("consumequeue/T/0/*"))), len(list(tmp_path.glob("index/*")))
    store.clean()

    log_min = old[-1] + SMALL.segment_size
    assert sorted(int(path.name) for path in (tmp_path / "commitlog").iterdir())[0] == log_min
    left = [int(key[1:]) for key in keys(store, 0) + keys(store, 1)]
    assert sorted(left) == list(range(min(left), 100))
    assert store.min_offset("T", 0) == -(-min(left) // 2)
    after = len(list(tmp_path.glob("consumequeue/T/0/*"))), len(list(tmp_path.glob("index/*")))
    assert after[0] < before[0]
    assert after[1] < before[1]
    assert (store.min_offset("Rare", 0), store.max_offset("Rare", 0)) == (1, 1)
    assert store.get("T", 0, 0, 1).status == "OFFSET_TOO_SMALL"
    assert store.query("T", "k0", 1, 0, EVER).records == ()
    assert len(store.query("T", "k99", 1, 0, EVER).records) == 1


def test_old_segments_go_at_any_hour_once_an_operator_asks(tmp_path: Path) -> None:
    never = replace(CONFIG, delete_when="24")
    clock = Clock(NOW)
    store = new_store(tmp_path, never, clock)
    store.open()
    for n in range(100):
        store.put(message(f"k{n}"))
    old = age(tmp_path, days=4)
    store.clean()
    assert keys(store)[0] == "k0"
    store.delete_files_manually()
    store.clean()
    assert store.positions.commit_log.min == old[min(10, len(old)) - 1] + SMALL.segment_size
    for _ in range(MANUAL_ROUNDS - 1):
        store.clean()
    left = store.positions.commit_log
    for n in range(100):
        store.put(message(f"l{n}"))
    assert age(tmp_path, days=4)[0] == left.min
    store.clean()
    assert store.positions.commit_log.min == left.min


@pytest.mark.parametrize("kill", [False, True], ids=["clean stop", "kill"])
def test_a_start_finds_what_is_left(store: MessageStore, tmp_path: Path, kill: bool) -> None:
    age(tmp_path, days=4)
    store.clean()
    left = keys(store, 0), keys(store, 1)
    store.close()
    if kill:
        (tmp_path / "abort").touch()
    store = new_store(tmp_path, CONFIG, Clock(NOW))
    store.open()
    assert (keys(store, 0), keys(store, 1)) == left
    assert store.put(message("late", topic="Rare")).queue_offset == 1
    assert keys(store, topic="Rare") == ["late"]
    store.close()


def test_a_full_disk_takes_no_more(
    store: MessageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visible = keys(store, 0)
    for used, status in (
        (90, PutStatus.PUT_OK),
        (91, PutStatus.SERVICE_NOT_AVAILABLE),
        (86, PutStatus.SERVICE_NOT_AVAILABLE),
        (85, PutStatus.PUT_OK),
    ):
        monkeypatch.setattr(DISK, "used_percent", lambda _, used=used: used)
        store.clean()
        assert store.put(message("more", topic="U")).status is status
    # Young segments went, too: all but the last one.
    assert len(list((tmp_path / "commitlog").iterdir())) == 1
    assert keys(store, 0) == visible[len(visible) - len(keys(store, 0)) :]
    assert not violations(contents(tmp_path, CONFIG))
    assert keys(store, topic="U") == ["more", "more"]


def test_what_waits_for_a_flush_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would know its queue offset any more, and it would be given again (CLEAN-004)."""
    monkeypatch.setattr(DISK, "used_percent", lambda _: 86)
    store = new_store(tmp_path / "store", replace(CONFIG, sync_flush=True), Clock(NOW))
    store.open()
    store.put(message("seen"))
    store.settle = lambda: PutStatus.PUT_OK  # until the next flush
    store.put(message("waits"))
    for n in range(60):
        store.put(message(f"k{n}", topic="U"))
    store.clean()
    crashed = new_store(write_image(tmp_path / "copy", image_of(store.root)), CONFIG, Clock(NOW))
    crashed.open()
    assert crashed.max_offset("T", 0) == 2
    store.flush()
    store.clean()
    assert len(list((store.root / "commitlog").iterdir())) == 1
    assert store.max_offset("T", 0) == 2


def test_segments_go_that_the_index_did_not_reach(store: MessageStore, tmp_path: Path) -> None:
    store.close()
    (tmp_path / "abort").touch()
    store = new_store(tmp_path, CONFIG, Clock(NOW))
    store.open()  # the index is built anew, later
    age(tmp_path, days=4)
    store.clean()
    store.catch_up()
    for key in keys(store, 0) + keys(store, 1):
        (record,) = store.query("T", key, 1, 0, EVER).records
        assert f"KEYS\x01{key}".encode() in record
    store.close()


def test_how_full_the_disk_is_can_be_told(tmp_path: Path) -> None:
    assert 0 <= DISK.used_percent(tmp_path) <= 100
