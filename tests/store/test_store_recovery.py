"""The store after a stop: what is there again, and what a damaged one answers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_images import (
    SMALL,
    Clock,
    Contents,
    Image,
    contents,
    image_of,
    keys,
    message,
    mixed,
    new_store,
    violations,
    write_image,
)

from mqrules import UserError
from mqspec.core.log import Span
from mqspec.core.record import Record, decode_properties, decode_record, tags_code
from mqspec.store import ConfigFile, MessageStore, StoreConfig
from mqspec.store.mapped_file import MappedFileQueue

DATA = Path(__file__).parent / "data"
APACHE = StoreConfig(1 << 20, 300, max_hash_slot_num=500, max_index_num=2000)


def filled(root: Path, count: int = 20, queues: int = 2) -> MessageStore:
    store = new_store(root)
    store.open()
    for i in range(count):
        store.put(message(f"k{i}", queue_id=i % queues))
    return store


# A real store


@pytest.fixture(params=["crash", "clean"])
def apache_store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with zipfile.ZipFile(DATA / "apache-5.3.3.zip") as archive:
        archive.extractall(tmp_path)
    root: Path = tmp_path / request.param
    return root


def test_a_store_of_apache_is_read(apache_store: Path) -> None:
    before = image_of(apache_store)
    store = new_store(apache_store, APACHE)
    report = store.open()
    assert report.abnormal == (apache_store.name == "crash")
    assert report.commit_log == Span(0, 17624)
    assert report.redispatched == 0
    lines = (apache_store.parent / "manifest.jsonl").read_text().splitlines()
    sends = [json.loads(line) for line in lines]
    checked = 0
    for send in sends:
        if send.get("kind", "").split("(")[0] not in {"normal", "unicode", "selector", "binary"}:
            continue
        (data,) = store.get(send["topic"], send["queueId"], send["queueOffset"], 1).records
        record = decode_record(data)
        assert isinstance(record, Record)
        assert record.message_id == send["offsetMsgId"]
        assert len(record.body) == send["bodyLen"]
        assert decode_properties(record.properties).get("TAGS") == send["tags"]
        checked += 1
    assert checked == 36
    after = image_of(apache_store)
    queues = [name for name in before if name.startswith(("consumequeue", "commitlog"))]
    kept = [name for name in queues if name in after]
    assert all(before[name] == after[name] for name in kept)
    assert all(not any(before[name]) for name in set(queues) - set(kept))


def test_a_compressed_body_is_kept_as_it_is(apache_store: Path) -> None:
    store = new_store(apache_store, APACHE)
    store.open()
    record = decode_record(store.get("SampleA", 0, 6, 1).records[0])
    assert isinstance(record, Record)
    assert len(zlib.decompress(record.body)) == 9000


def test_units_are_dispatched_again_as_apache_wrote_them(apache_store: Path) -> None:
    """Tag hashes, and the delivery times of the schedule topic, are byte for byte the same."""
    before = image_of(apache_store)
    shutil.rmtree(apache_store / "consumequeue")
    (apache_store / "abort").touch()
    store = new_store(apache_store, APACHE)
    # 3 of the 59 records are prepared or enter queues that broker plugins write.
    assert store.open().redispatched > 50
    store.close()
    after = image_of(apache_store)
    for name in before:
        if name.startswith("consumequeue"):
            assert after[name] == before[name], name


def test_config_files_of_apache_are_read(apache_store: Path) -> None:
    offsets = ConfigFile(apache_store / "config" / "consumerOffset.json")
    table = offsets.load()["offsetTable"]
    assert table["SampleA@SamplePartialCG"] == {"0": 3, "1": 1}
    topics = ConfigFile(apache_store / "config" / "topics.json").load()["topicConfigTable"]
    assert topics["SampleA"]["readQueueNums"] == 4
    offsets.persist({"offsetTable": {"SampleA@CG": {0: 8, 1: 6}}})
    assert "{\n\t\t\t0:8,\n\t\t\t1:6\n\t\t}" in offsets.path.read_text()
    assert offsets.load() == {"offsetTable": {"SampleA@CG": {"0": 8, "1": 6}}}


# Clean stops and kills


def test_a_clean_stop_and_a_start_change_nothing(tmp_path: Path) -> None:
    store = filled(tmp_path, 60)
    read = keys(store, 0), keys(store, 1)
    store.close()
    assert not (tmp_path / "abort").exists()
    again = new_store(tmp_path)
    report = again.open()
    assert (report.abnormal, report.redispatched) == (False, 0)
    assert report.scan_from > 0
    assert (keys(again, 0), keys(again, 1)) == read
    assert again.put(message("next", queue_id=1)).queue_offset == 30


PUT_UNTIL_KILLED = """
import sys
from pathlib import Path
from mqspec.core.record import Record
from mqspec.store import MessageStore, StoreConfig
store = MessageStore(Path(sys.argv[1]), StoreConfig(4096, 20, False, 16, 64), lambda: 1)
store.open()
for i in range(1_000_000):
    result = store.put(Record("T", str(i).encode(), queue_id=i % 3))
    print(i, result.queue_offset, flush=True)
"""


def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PUT_UNTIL_KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(200)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    acknowledged = [line.split() for line in lines if line.endswith("\n")]
    store = new_store(tmp_path, StoreConfig(4096, 20, False, 16, 64))
    assert store.open().abnormal
    assert not violations(contents(tmp_path))
    for i, offset in acknowledged:
        record = decode_record(store.get("T", int(i) % 3, int(offset), 1).records[0])
        assert isinstance(record, Record)
        assert record.body == i.encode()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    store = filled(tmp_path)
    before = image_of(tmp_path)
    with pytest.raises(UserError, match="in use"):
        new_store(tmp_path).open()
    opening = (
        "import sys\nfrom pathlib import Path\nfrom mqspec.store import MessageStore, StoreConfig\n"
        "MessageStore(Path(sys.argv[1]), StoreConfig(2048, 8, False, 16, 64), lambda: 1).open()"
    )
    other = subprocess.run(
        [sys.executable, "-c", opening, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert other.returncode == 1
    assert "the store is in use" in other.stderr
    assert image_of(tmp_path) == before
    store.close()
    new_store(tmp_path).open()


# Torn and lost files


def test_a_torn_tail_is_dropped_and_its_offset_given_again(tmp_path: Path) -> None:
    store = filled(tmp_path / "a", 5, queues=1)
    last = contents(tmp_path / "a").log[-1]
    image = image_of(tmp_path / "a")
    segment = bytearray(image["commitlog/" + "0" * 20])
    segment[last.physical_offset + last.size - 1] ^= 1
    segment[last.physical_offset + 88] ^= 1
    image["commitlog/" + "0" * 20] = bytes(segment)
    store = new_store(write_image(tmp_path / "b", image))
    store.open()
    assert keys(store) == ["k0", "k1", "k2", "k3"]
    again = store.put(message("new", pad=2))
    assert (again.queue_offset, again.message_ids) == (4, last.message_id)


def test_a_blank_at_the_end_of_the_log_is_written_over(tmp_path: Path) -> None:
    store = new_store(tmp_path / "a")
    store.open()
    store.put(message("a", pad=1500))
    store.put(message("b", pad=1500))
    image = image_of(tmp_path / "a")
    del image[f"commitlog/{SMALL.segment_size:020}"]
    store = new_store(write_image(tmp_path / "b", image))
    end = store.open().commit_log.max
    assert keys(store) == ["a"]
    store.put(message("c"))
    assert contents(tmp_path / "b").log[-1].physical_offset == end < SMALL.segment_size


@pytest.mark.parametrize("lost", ["consumequeue", "consumequeue/T", "consumequeue/T/1"])
def test_a_lost_consume_queue_is_made_again_after_a_clean_stop(tmp_path: Path, lost: str) -> None:
    store = filled(tmp_path, 60)
    read = keys(store, 0), keys(store, 1)
    store.close()
    shutil.rmtree(tmp_path / lost)
    again = new_store(tmp_path)
    assert again.open().redispatched in (30, 60)
    assert (again.min_offset("T", 1), again.max_offset("T", 1)) == (0, 30)
    assert (keys(again, 0), keys(again, 1)) == read


def test_blank_units_hide_nothing(tmp_path: Path) -> None:
    store = filled(tmp_path, 3)
    store.close()
    blank = bytes.fromhex("00000000000000007fffffff0000000000000000")
    file = tmp_path / "consumequeue" / "T" / "7" / ("0" * 20)
    file.parent.mkdir()
    file.write_bytes((blank * 3).ljust(SMALL.consume_queue_units * 20, b"\0"))
    again = new_store(tmp_path)
    again.open()
    assert again.put(message("a", queue_id=7)).queue_offset == 3
    assert keys(again, 7) == ["a"]


def test_a_queue_that_begins_late_is_filled_with_blank_units(tmp_path: Path) -> None:
    """As after old segments expired: the first unit that is written has offset 10."""
    store = filled(tmp_path / "a", 30, queues=1)
    store.close()
    image = image_of(tmp_path / "a")
    first = contents(tmp_path / "a").log
    start = next(r for r in first if r.physical_offset >= SMALL.segment_size)
    image.pop("commitlog/" + "0" * 20)
    left = {n: d for n, d in image.items() if not n.startswith("consumequeue")}
    store = new_store(write_image(tmp_path / "b", left))
    report = store.open()
    assert report.commit_log.min == SMALL.segment_size
    assert store.min_offset("T", 0) == start.queue_offset
    assert keys(store)[0] == f"k{start.queue_offset}"
    store.close()
    again = new_store(tmp_path / "b")
    again.open()
    assert again.min_offset("T", 0) == start.queue_offset
    assert again.get("T", 0, 0, 1).next_begin_offset == start.queue_offset


def test_an_abnormal_start_walks_from_what_the_checkpoint_covers(tmp_path: Path) -> None:
    clock = Clock()
    store = new_store(tmp_path / "a", clock=clock)
    store.open()
    for i in range(40):
        store.put(message(f"k{i}"))
    store.flush()
    clock.now += 10_000
    for i in range(40, 80):
        store.put(message(f"k{i}"))
    report = new_store(write_image(tmp_path / "b", image_of(tmp_path / "a"))).open()
    assert report.abnormal
    assert report.scan_from == 0  # less than three seconds before the checkpoint: not trusted
    store.flush()
    store.put(message("last"))
    third = new_store(write_image(tmp_path / "c", image_of(tmp_path / "a")))
    assert third.open().scan_from > 0
    assert keys(third) == [*(f"k{i}" for i in range(80)), "last"]


# Crashes of the machine: any page that is not on disk may be lost


class Machine:
    """A store on a disk whose content between flushes is known."""

    def __init__(self, root: Path) -> None:
        self.root, self.lives, self.sent = root, 0, 0
        self.store = new_store(root / "0")
        self.store.open()
        self.durable: Image = {}
        self.flushed: list[str] = []
        self.cut: set[str] = set()

    def put(self, queue_id: int, pad: int) -> None:
        self.store.put(message(f"k{self.sent}", queue_id, pad=pad))
        self.sent += 1

    def flush(self, thorough: bool) -> None:
        if thorough:
            self.store.flush()
        else:
            self.store.flush_commit_log()
        for name, data in image_of(self.store.root).items():
            if thorough or name.startswith("commitlog"):
                self.durable[name] = data
        self.flushed = contents(self.store.root).keys

    def crash(self, lost: list[bool]) -> tuple[Contents, Contents]:
        """Returns what lay in the files before the crash and after recovery."""
        current = image_of(self.store.root)
        before = contents(self.store.root)
        self.lives += 1
        left = mixed(self.durable, current, lost)
        self.store = new_store(write_image(self.root / str(self.lives), left))
        self.store.open()
        after = contents(self.store.root)
        self.cut |= set(before.keys) - set(after.keys)
        self.durable = image_of(self.store.root)
        return before, after


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 1), st.integers(0, 400)),
        st.tuples(st.just("flush"), st.booleans()),
        st.tuples(st.just("crash"), st.lists(st.booleans(), max_size=24)),
    ),
    max_size=30,
)


@given(steps=steps)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_after_every_crash_the_rules_of_recovery_hold(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    for action, *arguments in [*steps, ("crash", [True, False] * 12), ("crash", [])]:
        if action != "crash":
            getattr(machine, action)(*arguments)
            continue
        before, after = machine.crash(*arguments)
        assert before.keys[: len(after.keys)] == after.keys  # RECOV-001
        assert set(machine.flushed) <= set(after.keys)  # RECOV-002
        assert not violations(after)  # RECOV-003 to RECOV-005
        assert not machine.cut & set(after.keys)  # RECOV-008
        for queue_id in (0, 1):
            wanted = [
                k for k, r in zip(after.keys, after.log, strict=True) if r.queue_id == queue_id
            ]
            assert keys(machine.store, queue_id) == wanted  # RECOV-009
    shutil.rmtree(machine.root)


def test_a_recovery_that_keeps_the_old_tail_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RECOV-008 can be broken: the second of three records is lost, and written again."""
    monkeypatch.setattr(MappedFileQueue, "truncate", lambda self, end: None)
    machine = Machine(tmp_path)
    for pad in (150, 150, 150):
        machine.put(0, pad)
    machine.durable = {
        name: data
        for name, data in image_of(machine.store.root).items()
        if name.startswith("commitlog")
    }
    second, third = contents(machine.store.root).log[1:]
    name = "commitlog/" + "0" * 20
    torn = bytearray(machine.durable[name])
    torn[second.physical_offset : third.physical_offset] = bytes(second.size)
    machine.durable[name] = bytes(torn)
    machine.crash([True] * 24)
    assert "k2" in machine.cut
    machine.put(0, 150)
    _, after = machine.crash([])
    assert "k2" in after.keys


Units = dict[int, tuple[int, int, int]]


def _gap(units: Units) -> None:
    del units[1]


def _record_without_unit(units: Units) -> None:
    del units[2]


def _two_units_for_a_record(units: Units) -> None:
    units[3] = units[2]


def _unit_behind_the_log(units: Units) -> None:
    units[3] = (10**6, 100, 0)


def _unit_of_the_wrong_size(units: Units) -> None:
    units[1] = (units[1][0], 7, 0)


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (_gap, "RECOV-003"),
        (_record_without_unit, "RECOV-003"),
        (_two_units_for_a_record, "RECOV-004"),
        (_unit_behind_the_log, "RECOV-005"),
        (_unit_of_the_wrong_size, "RECOV-003"),
    ],
)
def test_the_check_says_no(tmp_path: Path, damage: Callable[[Units], None], rule: str) -> None:
    filled(tmp_path, 3, queues=1)
    found = contents(tmp_path)
    assert not violations(found)
    damage(found.queues["T", 0])
    assert rule in violations(found)


# What is refused, in one line, with nothing changed


def _wrong_length(root: Path) -> str:
    os.truncate(root / "commitlog" / ("0" * 20), 1000)
    return "a file of 1000 bytes, expected 2048"


def _torn_consume_queue(root: Path) -> str:
    os.truncate(root / "consumequeue" / "T" / "0" / ("0" * 20), 30)
    return "a file of 30 bytes, expected 160"


def _stray_file(root: Path) -> str:
    (root / "commitlog" / "notes.txt").write_text("x")
    return "not a store file"


def _odd_name(root: Path) -> str:
    (root / "commitlog" / ("0" * 20)).rename(root / "commitlog" / f"{100:020}")
    return "not a multiple of 2048"


def _missing_file(root: Path) -> str:
    names = [f"{start:020}" for start in (0, 2048, 4096)]
    for name in names[1:]:
        shutil.copy(root / "commitlog" / names[0], root / "commitlog" / name)
    (root / "commitlog" / names[1]).unlink()
    return f"{names[1]}: the file is missing"


@pytest.mark.parametrize(
    "damage", [_wrong_length, _torn_consume_queue, _stray_file, _odd_name, _missing_file]
)
def test_a_file_that_is_not_the_stores_is_refused(
    tmp_path: Path, damage: Callable[[Path], str]
) -> None:
    filled(tmp_path, 3).close()
    wanted = damage(tmp_path)
    before = image_of(tmp_path)
    with pytest.raises(UserError) as refusal:
        new_store(tmp_path).open()
    assert wanted in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert image_of(tmp_path) == before


def test_a_directory_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(UserError, match="not a store"):
        new_store(tmp_path).open()
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="not a directory"):
        new_store(tmp_path / "file").open()
    with pytest.raises(UserError, match="cannot be used"):
        new_store(tmp_path / "file" / "store").open()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "photos"]


def test_an_empty_last_segment_is_removed(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    (tmp_path / "commitlog" / f"{SMALL.segment_size:020}").touch()
    store = new_store(tmp_path)
    store.open()
    assert keys(store, 0) == ["k0", "k2"]


# Config files


def test_a_config_file_keeps_its_last_content(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path / "config" / "consumerOffset.json")
    assert file.load() == {}
    file.persist({"offsetTable": {"T@G": {0: 5}}})
    file.persist({"offsetTable": {"T@G": {0: 7}}})
    assert file.load()["offsetTable"]["T@G"] == {"0": 7}
    for damaged in (b"", b'{"offsetTable":{"T@', b"[]", b"\xff"):
        file.path.write_bytes(damaged)
        assert file.load()["offsetTable"]["T@G"] == {"0": 5}
    file.persist({"offsetTable": {}})
    assert file.load() == {"offsetTable": {}}
    assert ConfigFile(tmp_path / "config" / "consumerOffset.json.bak").load() != {}


def test_two_damaged_config_files_are_refused(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path / "topics.json")
    (tmp_path / "topics.json").write_text("{")
    (tmp_path / "topics.json.bak").write_text("{")
    with pytest.raises(UserError, match=r"topics\.json: neither it nor topics\.json\.bak"):
        file.load()
    assert (tmp_path / "topics.json").read_text() == "{"


def test_two_damaged_files_that_can_be_spared_are_set_aside(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path / "consumerOffset.json")
    (tmp_path / "consumerOffset.json").write_text("{")
    (tmp_path / "consumerOffset.json.bak").write_text("[")
    assert file.load(spare=True) == {}
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert left == {"consumerOffset.json.damaged": "{", "consumerOffset.json.bak.damaged": "["}
    assert file.load() == {}


def test_text_in_a_config_file_is_not_taken_for_keys(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path / "topics.json")
    table = {'a"1:2': {"12": "3:4"}, "{5:6": [1, None, True, {"x": "\\"}]}
    file.persist(table)
    assert file.load() == table


def test_hashes_are_those_of_java() -> None:
    assert tags_code("TagA") == 2598919
    assert tags_code("Aa") == tags_code("BB") == 2112
