"""`mqspec store check`: each kind of damage is found where it is, and nothing more."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from store_images import SMALL, UNIT, Contents, contents, image_of, message, new_store

from mqrules import UserError
from mqspec.core.log import Span
from mqspec.core.record import Record, encode_record
from mqspec.store import ConfigFile
from mqspec.store.check import CheckReport, check

APACHE = Path(__file__).parent / "data" / "apache-5.3.3.zip"
FIRST = "0" * 20
QUEUES = 2


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of 40 messages in two queues and some segments, cleanly stopped."""
    root = tmp_path / "store"
    store = new_store(root)
    store.open()
    for i in range(40):
        store.put(message(f"k{i}", queue_id=i % QUEUES, pad=40))
    store.close()
    offsets = ConfigFile(root / "config" / "consumerOffset.json")
    offsets.persist({"offsetTable": {"T@G": {0: 7, 1: 20}}})
    offsets.persist({"offsetTable": {"T@G": {0: 8, 1: 20}}})
    return root


def write(path: Path, at: int, data: bytes) -> None:
    with path.open("rb+") as file:
        file.seek(at)
        file.write(data)


def in_log(root: Path, position: int, data: bytes) -> None:
    start = position - position % SMALL.segment_size
    write(root / "commitlog" / f"{start:020}", position - start, data)


def set_unit(root: Path, queue_id: int, offset: int, unit: tuple[int, int, int]) -> None:
    start = offset - offset % SMALL.consume_queue_units
    file = root / "consumequeue" / "T" / str(queue_id) / f"{20 * start:020}"
    write(file, 20 * (offset - start), UNIT.pack(*unit))


def unit_of(root: Path, queue_id: int, offset: int) -> tuple[int, int, int]:
    return contents(root).queues["T", queue_id][offset]


def found(report: CheckReport) -> list[tuple[str, str, int | None]]:
    """Check, why, and the position or the queue offset."""
    return [(each.check, each.why, each.position) for each in report.findings]


# Nothing to find


def test_a_clean_store_gives_nothing(root: Path) -> None:
    before = image_of(root)
    report = check(root)
    assert report.findings == ()
    assert (report.running, report.records, report.units) == (False, 40, 40)
    assert report.index_entries == 40
    assert not report.recovery.abnormal
    assert report.recovery.commit_log == Span(0, contents(root).end)
    assert image_of(root) == before


def test_a_store_of_apache_gives_nothing(tmp_path: Path) -> None:
    with zipfile.ZipFile(APACHE) as archive:
        archive.extractall(tmp_path)
    before = image_of(tmp_path)
    clean = check(tmp_path / "clean")
    assert (clean.findings, clean.records, clean.units) == ((), 59, 59)
    assert clean.index_entries == 108
    killed = check(tmp_path / "crash")
    assert [each.check for each in killed.findings] == ["unclean stop"]
    assert killed.recovery.abnormal
    assert image_of(tmp_path) == before


KEEP_OPEN = """
import sys
from pathlib import Path
from mqspec.core.record import Record
from mqspec.store import MessageStore, StoreConfig
store = MessageStore(Path(sys.argv[1]), StoreConfig(2048, 8, False, 16, 64), lambda: 10**7)
store.open()
store.put(Record("T", b"live", b""))
print("open", flush=True)
sys.stdin.read()
"""


def test_records_of_a_deleted_topic_are_nobodys_though_it_was_made_again(root: Path) -> None:
    shutil.rmtree(root / "config")
    store = new_store(root)
    store.open()
    store.delete_topic("T")
    for _ in range(2):
        store.put(message("again", queue_id=1))
    store.close()
    assert check(root).findings == ()
    (root / "config" / "deletedTopics.json").unlink()
    assert {each.check for each in check(root).findings} == {"records without a unit"}


@pytest.mark.skipif(sys.platform != "linux", reason="a lock is seen from outside on Linux only")
def test_a_running_store_is_seen_to_run(root: Path) -> None:
    command = [sys.executable, "-c", KEEP_OPEN, str(root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "open\n"
        report = check(root)
        assert (report.running, report.findings, report.records) == (True, (), 41)
        process.kill()
    after = check(root)
    assert not after.running
    assert [each.check for each in after.findings] == ["unclean stop"]


# Damage of each kind


def _flipped_body(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    record = log.log[5]
    in_log(root, record.physical_offset + record.size - 30, b"\xff")
    return [("damaged bodies", "its CRC is wrong", record.physical_offset)]


def _destroyed_record(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    record = log.log[5]
    in_log(root, record.physical_offset, bytes(record.size))
    why = "no record, and the log goes on after it"
    return [("unreadable log", why, record.physical_offset)]


def _torn_tail(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    record = log.log[-1]
    in_log(root, record.physical_offset + 10, bytes(record.size - 10))
    return [("unreadable log", "a torn tail, which recovery drops", record.physical_offset)]


def _lost_tail(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    record = log.log[-1]
    in_log(root, record.physical_offset, bytes(record.size))
    return [
        ("units beyond the log", "beyond the end of the log", record.physical_offset),
        *_late_checkpoint(log),
        (
            "index entries that point elsewhere",
            f"no record begins at {record.physical_offset}",
            _last_entry(root),
        ),
    ]


def _late_checkpoint(log: Contents) -> list[tuple[str, str, int | None]]:
    last, covered = log.log[-2].store_timestamp, log.log[-1].store_timestamp
    return [
        ("checkpoint", f"{name} {covered} is later than the last record, {last}", at)
        for at, name in ((0, "physic_msg_timestamp"), (8, "logics_msg_timestamp"))
    ]


def _last_entry(root: Path) -> int:
    (file,) = (root / "index").iterdir()
    data = file.read_bytes()
    count = int.from_bytes(data[36:40], "big")
    return len(data) - 20 * (SMALL.max_index_num - (count - 1))


def _unclosed_segment(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    last = [r for r in log.log if r.physical_offset < SMALL.segment_size][-1]
    end = last.physical_offset + last.size
    in_log(root, end, bytes(SMALL.segment_size - end))
    return [("unclosed segments", "not closed, though another segment follows", end)]


def _offset_left_out(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    record = log.log[-1]
    in_log(root, record.physical_offset + 20, (25).to_bytes(8, "big"))
    set_unit(root, 1, 19, (0, 0x7FFFFFFF, 0))
    return [
        ("gaps in queue offsets", "queue offsets were left out", record.physical_offset),
        ("records without a unit", "has no unit", record.physical_offset),
    ]


def _lost_unit(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    set_unit(root, 0, 9, (0, 0, 0))
    why = "has no unit: there is a blank one"
    return [("records without a unit", why, log.log[18].physical_offset)]


def _blank_unit(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    set_unit(root, 0, 0, (0, 0x7FFFFFFF, 0))
    why = "has no unit: there is a blank one"
    return [("records without a unit", why, log.log[0].physical_offset)]


def _lost_queue(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    shutil.rmtree(root / "consumequeue" / "T" / "1")
    why = "has no unit: its ConsumeQueue is lost"
    lost = [record for record in log.log if record.queue_id == 1]
    return [("records without a unit", why, record.physical_offset) for record in lost]


def _queue_behind(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    set_unit(root, 0, 19, (0, 0, 0))
    return [("records without a unit", "has no unit", log.log[38].physical_offset)]


def _wrong_size(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    position, size, code = unit_of(root, 1, 3)
    set_unit(root, 1, 3, (position, size + 1, code))
    return [("units that point elsewhere", "its size is not that of the record there", position)]


def _wrong_tags_code(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    position, size, code = unit_of(root, 1, 3)
    set_unit(root, 1, 3, (position, size, code + 1))
    why = "its tags code is not that of the record there"
    return [("units that point elsewhere", why, position)]


def _wrong_position(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    position, size, code = unit_of(root, 1, 3)
    set_unit(root, 1, 3, (position + 1, size, code))
    return [("units that point elsewhere", "no record begins there", position + 1)]


def _of_another_queue(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    unit = unit_of(root, 0, 3)
    set_unit(root, 1, 3, unit)
    return [("units that point elsewhere", "the record there is another", unit[0])]


def _twice(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    unit = unit_of(root, 0, 3)
    set_unit(root, 0, 4, unit)
    return [("records with two units", "another unit points to the same record", unit[0])]


def _torn_checkpoint(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    (root / "checkpoint").write_bytes(b"")
    return [("checkpoint", "missing or torn: an abnormal start walks the whole log", None)]


def _damaged_index(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    (file,) = (root / "index").iterdir()
    at = _last_entry(root)
    write(file, at, bytes(4))
    where = log.log[-1].physical_offset
    why = f"the record at {where} has no key of this hash"
    return [("index entries that point elsewhere", why, at)]


def _damaged_offsets(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{')
    return [("config files", "not a JSON object: a start takes its .bak", None)]


def _missing_offsets(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    (root / "config" / "consumerOffset.json").unlink()
    return [("config files", "missing: a start takes its .bak", None)]


def _offset_behind_the_end(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    file = ConfigFile(root / "config" / "consumerOffset.json")
    file.persist({"offsetTable": {"T@G": {0: 21, "first": 1}, "U@G": {3: 1}}})
    return [
        ("consumer offsets", "T@G committed 21, beyond the queue's end, 20", None),
        ("consumer offsets", "T@G has an offset in 'first', which is no queue", None),
        ("consumer offsets", "U@G committed 1, beyond the queue's end, 0", None),
    ]


def _stray_file(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    (root / "commitlog" / "notes.txt").write_text("x")
    return [("files", "not a store file", None)]


def _short_file(root: Path, log: Contents) -> list[tuple[str, str, int | None]]:
    last = sorted((root / "consumequeue" / "T" / "0").iterdir())[-1]
    last.write_bytes(last.read_bytes()[:100])
    size = SMALL.consume_queue_units * 20
    lost = [r for r in log.log if r.queue_id == 0 and r.queue_offset >= int(last.name) // 20]
    return [
        ("files", f"100 bytes long, the others {size}", None),
        *(("records without a unit", "has no unit", r.physical_offset) for r in lost),
    ]


@pytest.mark.parametrize(
    "damage",
    [
        _flipped_body,
        _destroyed_record,
        _torn_tail,
        _lost_tail,
        _unclosed_segment,
        _offset_left_out,
        _lost_unit,
        _blank_unit,
        _lost_queue,
        _queue_behind,
        _wrong_size,
        _wrong_tags_code,
        _wrong_position,
        _of_another_queue,
        _twice,
        _torn_checkpoint,
        _damaged_index,
        _damaged_offsets,
        _missing_offsets,
        _offset_behind_the_end,
        _stray_file,
        _short_file,
    ],
)
def test_damage_is_found_and_nothing_more(
    root: Path, damage: Callable[[Path, Contents], list[tuple[str, str, int | None]]]
) -> None:
    wanted = damage(root, contents(root))
    before = image_of(root)
    assert found(check(root)) == wanted
    assert image_of(root) == before


def test_a_missing_segment_is_found(root: Path) -> None:
    gone = root / "commitlog" / f"{SMALL.segment_size:020}"
    gone.unlink()
    first, *_ = check(root).findings
    assert (first.file, first.why) == (f"commitlog/{gone.name}", "the file is missing")
    assert "the file is missing" in check(root).recovery.refused


def test_old_records_behind_the_end_are_found(root: Path) -> None:
    """As Apache 5.3.3 leaves them when it recovers (RECOV-008)."""
    log = contents(root)
    lost = encode_record(Record("T", b"x", queue_offset=99, physical_offset=log.end + 100))
    in_log(root, log.end + 100, bytes(lost))
    assert found(check(root))[0] == (
        "unreadable log",
        "no record, and the log goes on after it",
        log.end,
    )


def test_what_a_start_would_do_is_what_it_does(root: Path) -> None:
    last = contents(root).log[-1]
    in_log(root, last.physical_offset + 10, bytes(last.size - 10))
    set_unit(root, 0, 19, (0, 0, 0))
    (root / "abort").touch()
    plan = check(root).recovery
    assert plan.commit_log == Span(0, last.physical_offset)
    assert (plan.written, plan.dropped) == ({("T", 0): 1}, {("T", 1): 1})
    report = new_store(root).open()
    assert (report.abnormal, report.scan_from) == (plan.abnormal, plan.scan_from)
    assert (report.commit_log, report.redispatched) == (plan.commit_log, 1)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a store"):
        check(tmp_path)
    (tmp_path / "photos").mkdir()
    with pytest.raises(UserError, match="not a store"):
        check(tmp_path)


# The command


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mqspec.cli", "store", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_command_says_what_is_wrong_and_where(root: Path) -> None:
    clean = run(str(root))
    assert (clean.returncode, clean.stderr) == (0, "")
    assert "40 records, 40 units, 40 index entries" in clean.stdout
    assert clean.stdout.endswith("nothing found\n")
    position, size, code = unit_of(root, 1, 3)
    set_unit(root, 1, 3, (position, size + 1, code))
    damaged = run(str(root))
    assert damaged.returncode == 1
    assert f"at {position}, T/1 offset 3: its size is not that of the record" in damaged.stdout
    machine = run(str(root), "--json")
    assert machine.returncode == 1
    (finding,) = json.loads(machine.stdout)["findings"]
    assert finding["rule"] == "RECOV-003"
    assert finding["file"] == f"consumequeue/T/1/{FIRST}"
    assert (finding["position"], finding["queue"], finding["queue_offset"]) == (position, "T/1", 3)


def test_delay_levels_of_the_broker_s_own_are_given(tmp_path: Path) -> None:
    """A unit of a delayed message holds when it is due, and no file says by which levels."""
    store = new_store(tmp_path / "store", replace(SMALL, message_delay_level="7s 8s"))
    store.open()
    store.put(Record("SCHEDULE_TOPIC_XXXX", b"later", b"DELAY\x012\x02", queue_id=1))
    store.close()
    assert run(str(store.root), "--message-delay-level", "7s 8s").returncode == 0
    usual = run(str(store.root))
    assert usual.returncode == 1
    assert "tags code" in usual.stdout
    wrong = run(str(store.root), "--message-delay-level", "soon")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("mqspec: messageDelayLevel: 'soon' is not a list of delays")


def test_the_command_refuses_what_is_no_store(tmp_path: Path) -> None:
    done = run(str(tmp_path))
    assert done.returncode == 2
    assert "not a store: it has no commitlog" in done.stderr
