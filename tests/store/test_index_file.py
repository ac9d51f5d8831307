"""The index in its files: queries, several files, recovery, and the bytes of Apache's."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from store_images import SMALL, Clock, image_of, key_of, message, new_store, write_image

from mqrules import UserError
from mqspec.core.log import Dispatch
from mqspec.core.record import Record, decode_record
from mqspec.store import MessageStore, StoreConfig, index_file
from mqspec.store.index_file import IndexService, IndexSize

APACHE = StoreConfig(1 << 20, 300, max_hash_slot_num=500, max_index_num=2000)
EVER = (1 << 63) - 1
DATA = Path(__file__).parent / "data" / "apache-5.3.3.zip"


def found(store: MessageStore, key: str, topic: str = "T", count: int = 64) -> list[str]:
    records = [decode_record(data) for data in store.query(topic, key, count, 0, EVER).records]
    return [key_of(record) for record in records if isinstance(record, Record)]


def opened(root: Path, config: StoreConfig = SMALL, clock: Clock | None = None) -> MessageStore:
    store = new_store(root, config, clock)
    store.open()
    return store


def put(store: MessageStore, body: str, keys: str, topic: str = "T") -> None:
    store.put(Record(topic, body.encode(), f"KEYS\x01{keys}\x02".encode()))


def test_messages_are_found_by_key(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, "one", "a b")
    put(store, "two", "b c")
    put(store, "other", "b", topic="U")
    assert [found(store, key) for key in "abcd"] == [["one"], ["one", "two"], ["two"], []]
    assert found(store, "b", topic="U") == ["other"]
    assert found(store, "b", count=1) == ["two"]
    store.close()


def test_a_query_says_how_far_the_index_is(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.query("T", "a", 1, 0, EVER) == ((), 0, 0)
    put(store, "one", "a")
    put(store, "two", "b")
    second = store.get("T", 0, 1, 1).records[0]
    record = decode_record(second)
    assert isinstance(record, Record)
    result = store.query("T", "b", 1, 0, EVER)
    assert result == ((second,), record.store_timestamp, record.physical_offset)
    assert store.query("T", "c", 1, 0, EVER) == ((), 0, 0)
    store.close()


def test_a_full_file_is_followed_by_another(tmp_path: Path) -> None:
    config = StoreConfig(1 << 16, 300, max_hash_slot_num=4, max_index_num=10)
    store = opened(tmp_path, config)
    for n in range(25):
        put(store, f"m{n}", f"all k{n}")
    store.catch_up()
    files = sorted((tmp_path / "index").iterdir())
    assert len(files) == 6  # 50 entries, of which a file holds 9
    assert {path.stat().st_size for path in files} == {40 + 4 * 4 + 10 * 20}
    assert found(store, "all") == [f"m{n}" for n in range(25)]
    assert [found(store, f"k{n}") for n in (0, 12, 24)] == [["m0"], ["m12"], ["m24"]]
    assert found(store, "all", count=7) == [f"m{n}" for n in range(18, 25)]
    store.close()


@pytest.mark.parametrize("kill", [False, True], ids=["clean stop", "kill"])
def test_a_start_leaves_every_message_findable(tmp_path: Path, kill: bool) -> None:
    config = StoreConfig(1 << 12, 300, max_hash_slot_num=4, max_index_num=30)
    store = opened(tmp_path / "a", config, clock := Clock())
    for n in range(40):
        put(store, f"m{n}", f"k{n}")
    store.flush()
    before = {path.name for path in (tmp_path / "a" / "index").iterdir()}
    if kill:
        shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("lock"))
    store.close()
    root = tmp_path / ("b" if kill else "a")
    store = opened(root, config, clock)
    for n in range(40):
        # The last record of the file before the one that is made again is in both (RECOV-011).
        times = 2 if kill and n == 28 else 1
        assert found(store, f"k{n}") == [f"m{n}"] * times
    after = {path.name for path in (root / "index").iterdir()}
    assert len(before) == 2
    assert len(before - after) == kill  # the file that was not full is made again
    put(store, "more", "k1")
    assert found(store, "k1") == ["m1", "more"]
    store.close()


@pytest.mark.parametrize("kind", ["crash", "clean"])
def test_the_index_is_built_as_apache_builds_it(tmp_path: Path, kind: str) -> None:
    with zipfile.ZipFile(DATA) as archive:
        archive.extractall(tmp_path)
    root = tmp_path / kind
    (apache,) = (root / "index").iterdir()
    expected = apache.read_bytes()
    apache.unlink()
    (root / "abort").touch()  # all records are dispatched again
    store = opened(root, APACHE)
    store.close()
    (ours,) = (root / "index").iterdir()
    assert ours.read_bytes() == expected


@pytest.mark.parametrize("waiting", [1, 3, 512])
def test_files_are_the_same_however_many_records_are_taken_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    """One by one and in bulk, over the ends of files, with keys that come again."""

    def files(root: Path, run_min: int, count: int) -> list[bytes]:
        monkeypatch.setattr(index_file, "RUN_MIN", run_min)
        monkeypatch.setattr(index_file, "WAITING_MAX", count)
        service = IndexService(root, IndexSize(16, 64), Clock())
        service.load(abnormal=False, index_msg_timestamp=0)
        for n in range(200):
            keys = f"KEYS\x01all k{n} \u043a{n % 7}\x02UNIQ_KEY\x01u{n}\x02".encode()
            topic, rollback = f"T{n % 3}", 12 * (n % 10 == 9)
            at = 5_000 + 700 * n
            place = (100 * n,), (100,)
            service.add((Dispatch((topic, 0), n, True, *place, (0,), at, rollback, (keys,)),))
        service.build()
        service.close()
        return [path.read_bytes() for path in sorted(root.iterdir())]

    one_by_one = files(tmp_path / "a", 1 << 30, 1)
    assert len(one_by_one) == 12
    assert files(tmp_path / "b", 1, waiting) == one_by_one


def test_messages_of_apache_are_found_by_key(tmp_path: Path) -> None:
    with zipfile.ZipFile(DATA) as archive:
        archive.extractall(tmp_path)
    store = opened(tmp_path / "clean", APACHE)
    assert found(store, "shared", topic="SampleA") == ["a-0", "a-6", "a-12", "a-18"]
    unique = "FD0000000000000000000000000000024E0230946E0968ED86AD0002"
    assert found(store, unique, topic="SampleA") == ["a-2"]
    store.close()


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.put(message("a"))
    store.close()
    (path,) = (tmp_path / "index").iterdir()
    other = StoreConfig(
        SMALL.segment_size, SMALL.consume_queue_units, max_hash_slot_num=16, max_index_num=65
    )
    with pytest.raises(UserError, match=path.name):
        new_store(tmp_path, other).open()


def test_an_empty_file_is_removed(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, "a", "k")
    store.close()
    empty = tmp_path / "index" / "99990101000000000"
    empty.touch()
    store = opened(tmp_path)
    assert not empty.exists()
    assert found(store, "k") == ["a"]
    store.close()


def test_a_start_does_not_wait_for_the_index(tmp_path: Path) -> None:
    store = opened(tmp_path / "a")
    for i in range(30):
        put(store, f"k{i}", f"k{i}")
    again = opened(write_image(tmp_path / "b", image_of(tmp_path / "a")))
    put(again, "k30", "k30")
    again.catch_up(10)
    (file,) = (tmp_path / "b" / "index").iterdir()
    assert int.from_bytes(file.read_bytes()[36:40], "big") == 10 + 1
    again.catch_up(1000)
    put(again, "k31", "k31")
    for i in range(32):
        assert found(again, f"k{i}") == [f"k{i}"]
