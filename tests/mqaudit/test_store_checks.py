"""Stores packed by hand, apart from the reference's own code: damage is found exactly."""

from __future__ import annotations

import json
import mmap
import shutil
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, Filter

from mqaudit import AuditReport, audit, findings, plain
from mqaudit.datasource import (
    CommitLogSource,
    ConsumeQueueSource,
    Pieces,
    PlainLogSource,
    PlainUnitsSource,
)
from mqaudit.report import CheckReport, Judgement
from mqaudit.segments import LOG_COLUMNS, UNIT_BYTES, log_batches, parts
from mqaudit.store import register, views_over
from mqaudit.store_checks import (
    BEYOND,
    CRC,
    DENSITY,
    INVISIBLE,
    LOG,
    POINTS,
    SEGMENTS,
    STORE_CHECKS,
    TWICE,
)
from mqrules import rules

SEGMENT_BYTES = 4096
QUEUE_FILE_BYTES = 100 * 20

Unit: TypeAlias = tuple[int, int, int]


@dataclass
class Store:
    """A store in memory: the bytes of its log, and the units of its queues."""

    log: bytearray = field(default_factory=lambda: bytearray(SEGMENT_BYTES))
    end: int = 0
    queues: dict[tuple[str, int], list[Unit]] = field(default_factory=dict)

    def put(self, topic: str = "T", queue: int = 0, offset: int | None = None, **given: Any) -> int:
        """Append a record, with its unit. Returns the record's position."""
        units = self.queues.setdefault((topic, queue), [])
        number = len(units) if offset is None else offset
        record = self.record(topic, queue, number, self.end, **given)
        if self.end % SEGMENT_BYTES + len(record) + 8 > SEGMENT_BYTES:
            room = SEGMENT_BYTES - self.end % SEGMENT_BYTES
            self.write(self.end, struct.pack(">iI", room, 0xCBD43194))
            self.end += room
            self.log.extend(bytes(SEGMENT_BYTES))
            record = self.record(topic, queue, number, self.end, **given)
        self.write(self.end, record)
        position = self.end
        units.append((position, len(record), 0))
        self.end += len(record)
        return position

    @staticmethod
    def record(
        topic: str,
        queue: int,
        offset: int,
        position: int,
        body: bytes = b"hello",
        sys_flag: int = 0,
        version: int = 1,
    ) -> bytes:
        born = bytes(16 if sys_flag & 16 else 4) + struct.pack(">i", 1)
        stored = bytes(16 if sys_flag & 32 else 4) + struct.pack(">i", 2)
        magic, length = ((0xDAA320A7, ">b"), (0xDAA320AB, ">h"))[version - 1]
        properties = b"KEYS\x01k\x02"
        rest = (
            struct.pack(">Iiiiqqiq", magic, zlib.crc32(body) & 0x7FFFFFFF, queue, 7, offset,
                        position, sys_flag, 1_700_000_000_000)
            + born + struct.pack(">q", 1_700_000_000_001) + stored
            + struct.pack(">iqi", 3, 0, len(body)) + body
            + struct.pack(length, len(topic)) + topic.encode()
            + struct.pack(">h", len(properties)) + properties
        )  # fmt: skip
        return struct.pack(">i", len(rest) + 4) + rest

    def write(self, at: int, octets: bytes) -> None:
        self.log[at : at + len(octets)] = octets

    def save(self, root: Path, abort: bool = False) -> None:
        (root / "commitlog").mkdir(parents=True)
        for start in range(0, len(self.log), SEGMENT_BYTES):
            segment = self.log[start : start + SEGMENT_BYTES]
            (root / "commitlog" / f"{start:020}").write_bytes(segment)
        for (topic, queue), units in self.queues.items():
            folder = root / "consumequeue" / topic / str(queue)
            folder.mkdir(parents=True)
            octets = b"".join(struct.pack(">qiq", *unit) for unit in units)
            (folder / f"{0:020}").write_bytes(octets.ljust(QUEUE_FILE_BYTES, b"\0"))
        if abort:
            (root / "abort").touch()


def filled() -> Store:
    """Two queues of two topics over three segments."""
    store = Store()
    for number in range(40):
        store.put("T", number % 2)
        store.put("U", 0, body=b"x" * number, sys_flag=48, version=2)
    return store


Expected: TypeAlias = set[tuple[str, str, int]]


class Guarded(mmap.mmap):
    """A file in memory behind which nothing is mapped: find looks at one octet more."""

    def find(self, *wanted: Any) -> int:
        assert wanted[2] < len(self)
        return super().find(*wanted)


def test_nothing_is_looked_at_behind_the_end_of_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing was mapped behind it, the process died."""
    filled().save(tmp_path)

    def mapped(path: str) -> mmap.mmap:
        with Path(path).open("rb") as file:
            return Guarded(file.fileno(), 0, access=mmap.ACCESS_READ)

    monkeypatch.setattr("mqaudit.segments.mapped", mapped)
    last = sorted((tmp_path / "commitlog").iterdir())[-1]
    (part,) = parts(last, 1 << 20)
    assert sum(batch.num_rows for batch in log_batches(part, ["kind"])) > 0


def clean(store: Store) -> Expected:
    return set()


def torn_tail(store: Store) -> Expected:
    position = store.put()
    store.queues["T", 0].pop()
    store.write(position + 40, bytes(store.end - position - 40))
    store.log[position] = 1
    return {(LOG.name, "torn", position)}


def garbage_in_the_middle(store: Store) -> Expected:
    position, size, _ = store.queues["T", 0][5]
    store.write(position, b"\xff" * size)
    return {
        (LOG.name, "unreadable", position),
        (DENSITY.name, "gap", store.queues["T", 0][6][0]),
        (POINTS.name, "nowhere", position),
    }


def length_that_leads_elsewhere(store: Store) -> Expected:
    """A body said to be longer than all of the log; what is in front of it is as it was."""
    position, _, _ = store.queues["T", 0][5]
    store.write(position + 84, struct.pack(">i", 1 << 30))
    return {
        (LOG.name, "unreadable", position),
        (DENSITY.name, "gap", store.queues["T", 0][6][0]),
        (POINTS.name, "nowhere", position),
    }


def topic_longer_than_its_record(store: Store) -> Expected:
    position, _, _ = store.queues["T", 0][5]
    store.log[position + 93] = 100
    return {
        (LOG.name, "unreadable", position),
        (DENSITY.name, "gap", store.queues["T", 0][6][0]),
        (POINTS.name, "nowhere", position),
    }


def topic_that_is_no_text(store: Store) -> Expected:
    position, _, _ = store.queues["T", 0][5]
    store.log[position + 94] = 0xFF
    return {
        (DENSITY.name, "gap", store.queues["T", 0][6][0]),
        (POINTS.name, "elsewhere", position),
    }


def page_of_zeros(store: Store) -> Expected:
    position, size, _ = store.queues["U", 0][5]
    store.write(position, bytes(size))
    return {
        (LOG.name, "unreadable", position),
        (DENSITY.name, "gap", store.queues["U", 0][6][0]),
        (POINTS.name, "nowhere", position),
    }


def damaged_body(store: Store) -> Expected:
    position, _, _ = store.queues["T", 1][3]
    store.log[position + 90] ^= 1
    return {(CRC.name, "damaged", position)}


def no_blank(store: Store) -> Expected:
    last = max(p for units in store.queues.values() for p, _, _ in units if p < SEGMENT_BYTES)
    (size,) = (s for units in store.queues.values() for p, s, _ in units if p == last)
    store.write(last + size, bytes(8))
    return {(SEGMENTS.name, "unclosed", 0)}


def offset_left_out(store: Store) -> Expected:
    store.queues["T", 0].append((0, 0x7FFFFFFF, 0))  # a blank unit keeps the place
    position = store.put("T", 0)
    return {(DENSITY.name, "gap", position), (POINTS.name, "gap", position)}


def offset_given_twice(store: Store) -> Expected:
    position = store.put("T", 0, offset=3)
    return {(DENSITY.name, "back", position), (POINTS.name, "elsewhere", position)}


def queue_starts_again(store: Store) -> Expected:
    position = store.put("T", 0, offset=0)
    store.queues["T", 0].pop()
    return {(DENSITY.name, "restart", position), (INVISIBLE.name, "invisible", position)}


def topic_made_anew(store: Store) -> Expected:
    former = store.queues.pop(("U", 0))
    position = store.put("U", 0)
    expected = {(INVISIBLE.name, "former", position) for position, _, _ in former}
    return expected | {(DENSITY.name, "restart", position)}


def unit_behind_the_log(store: Store) -> Expected:
    store.queues["T", 0].append((store.end, 100, 0))
    return {(BEYOND.name, "beyond", store.end)}


def log_gone(store: Store) -> Expected:
    """Not a record is left, and the units of all of them are."""
    units = [unit for units in store.queues.values() for unit in units]
    store.write(0, bytes(store.end))
    return {(BEYOND.name, "beyond", position) for position, _, _ in units}


def unit_to_nowhere(store: Store) -> Expected:
    position, size, _ = store.queues["T", 0][2]
    store.queues["T", 0][2] = (position + 1, size, 0)
    return {(POINTS.name, "nowhere", position + 1), (INVISIBLE.name, "invisible", position)}


def unit_to_another_record(store: Store) -> Expected:
    position, _, _ = store.queues["T", 0][2]
    other = store.queues["T", 1][2]
    store.queues["T", 0][2] = other
    return {
        (POINTS.name, "elsewhere", other[0]),
        (INVISIBLE.name, "invisible", position),
        (TWICE.name, "again", other[0]),
    }


def unit_with_another_size(store: Store) -> Expected:
    position, size, _ = store.queues["T", 0][2]
    store.queues["T", 0][2] = (position, size + 1, 0)
    return {(POINTS.name, "elsewhere", position)}


def two_units_of_a_record_that_has_its_own(store: Store) -> Expected:
    """Both are wrong, and the record's own is not."""
    position, size, _ = store.queues["U", 0][3]
    wrong = store.queues["T", 0][2], store.queues["T", 1][7]
    store.queues["T", 0][2] = store.queues["T", 1][7] = (position, size, 0)
    lost = {(INVISIBLE.name, "invisible", unit[0]) for unit in wrong}
    return lost | {(POINTS.name, "elsewhere", position), (TWICE.name, "again", position)}


def unit_missing(store: Store) -> Expected:
    position, _, _ = store.queues["T", 0].pop()
    return {(INVISIBLE.name, "invisible", position)}


def queue_missing(store: Store) -> Expected:
    units = store.queues.pop(("U", 0))
    return {(INVISIBLE.name, "no queue", position) for position, _, _ in units}


def prepared_message(store: Store) -> Expected:
    """A prepared record takes neither a queue offset nor a unit."""
    store.put("T", 0, offset=0, sys_flag=4)
    store.queues["T", 0].pop()
    return set()


def killed(store: Store) -> Expected:
    """Not recovered yet: the log's tail was lost, and another was not dispatched."""
    position, _, _ = store.queues["T", 1].pop()
    store.queues["T", 0].append((store.end + 50, 100, 0))
    gone = (store.end - 1, 1, 0)
    store.queues["U", 0].append(gone)
    return {
        (INVISIBLE.name, "unrecovered", position),
        (BEYOND.name, "unrecovered", store.end + 50),
        (POINTS.name, "unrecovered", gone[0]),
    }


CASES: dict[str, Callable[[Store], Expected]] = {
    case.__name__: case
    for case in (
        clean,
        torn_tail,
        garbage_in_the_middle,
        length_that_leads_elsewhere,
        topic_longer_than_its_record,
        topic_that_is_no_text,
        page_of_zeros,
        damaged_body,
        no_blank,
        offset_left_out,
        offset_given_twice,
        queue_starts_again,
        topic_made_anew,
        unit_behind_the_log,
        log_gone,
        unit_to_nowhere,
        unit_to_another_record,
        unit_with_another_size,
        two_units_of_a_record_that_has_its_own,
        unit_missing,
        queue_missing,
        prepared_message,
        killed,
    )
}


@dataclass
class Judged:
    spark: SparkSession
    report: AuditReport
    expected: dict[str, Expected]
    root: Path


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """One audit of all stores, and what was to be found in each."""
    root = tmp_path_factory.mktemp("stores")
    expected = {}
    for name, damage in CASES.items():
        store = filled()
        expected[name] = damage(store)
        store.save(root / name, abort=name == "killed")
    return Judged(spark, audit(spark, str(root), examples=1000).report, expected, root)


def found_in(checks: Iterable[CheckReport], case: str) -> Expected:
    """What was found in one of the stores."""
    keys = {(c.name, o.why): key for c in STORE_CHECKS for key, o in c.outcomes.items()}
    return {
        (
            check.name,
            keys[check.name, finding.why],
            int(place["physical_offset" if "physical_offset" in place else "segment"]),
        )
        for check in checks
        for finding in check.findings
        for place in finding.examples
        if str(place["store"]).endswith(f"/{case}") and keys[check.name, finding.why] != "last"
    }


@pytest.mark.parametrize("case", CASES)
def test_damage_is_found_and_nothing_more(judged: Judged, case: str) -> None:
    assert found_in(judged.report.checks, case) == judged.expected[case]


def in_parts(judged: Judged, part_bytes: int) -> list[CheckReport]:
    """The checks of all stores, of which each log and file of units is read in small parts."""
    spark, logs, units, roots = judged.spark, [], [], []
    for case in CASES:
        root = judged.root / case
        roots.append(f"file:{root}")
        store = plain.Store(root)
        for segment in (root / "commitlog").iterdir():
            for part in parts(segment, part_bytes):
                batches = plain.log_rows(store, part)
                logs += [(*row.values(), roots[-1]) for b in batches for row in b.to_pylist()]
        for file in root.glob(f"consumequeue/*/*/{plain.FILE}"):
            topic, queue_id = file.parent.parent.name, int(file.parent.name)
            for part in parts(file, part_bytes // UNIT_BYTES * UNIT_BYTES):
                batch = plain.unit_rows(store, part, topic, queue_id)
                units += [(*row.values(), roots[-1]) for row in batch.to_pylist()]
    views = views_over(
        spark.createDataFrame(logs, PlainLogSource({}).schema()),
        spark.createDataFrame(units, PlainUnitsSource({}).schema()),
        roots,
    )
    return [
        report
        for check in STORE_CHECKS
        for report in findings.reports(findings.queried(check, views), [check], check.places, 1000)
    ]


@pytest.mark.parametrize("part_bytes", [333, 1000])
def test_parts_make_no_difference(judged: Judged, part_bytes: int) -> None:
    """Most records are the first or last of their queue in such a part: few runs are left."""
    checks = in_parts(judged, part_bytes)
    whole = {check.name: check for check in judged.report.checks}
    for check in checks:
        # Zeros over the border of two parts are no row of their own, but a hole behind a record.
        held = int(check.name == LOG.name and any("follow" in f.why for f in check.findings))
        assert check.examined + held == whole[check.name].examined
        assert check.held + held == whole[check.name].held
    for case in CASES:
        found, expected = found_in(checks, case), judged.expected[case]
        if case == "page_of_zeros":
            (torn,) = (one for one in found - expected or expected if one[0] == LOG.name)
            assert torn[1] in ("hole", "unreadable")
            found, expected = (
                {one for one in each if one[0] != LOG.name} for each in (found, expected)
            )
        assert found == expected


def test_coverage_and_rules(judged: Judged) -> None:
    assert judged.report.coverage["stores"] == len(CASES)
    assert judged.report.coverage["records"] > 80 * (len(CASES) - 2)
    seen = {(check.name, f.why) for check in judged.report.checks for f in check.findings}
    for check in STORE_CHECKS:
        assert check.promise in rules()
        for key, outcome in check.outcomes.items():
            assert (
                outcome.judgement == Judgement.HELD
                or (check.name, outcome.why) in seen
                or (check.name, key) == (LOG.name, "hole")  # between parts: see below
            )


def test_a_store_of_which_one_half_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    """Without any segment each unit is beyond the log; a folder that is no queue is passed over."""
    filled().save(tmp_path)
    shutil.rmtree(tmp_path / "commitlog")
    (tmp_path / "consumequeue/T/lost+found").mkdir()
    (tmp_path / "consumequeue/T/lost+found" / f"{0:020}").touch()
    report = audit(spark, str(tmp_path)).report
    assert report.coverage == {"stores": 1, "records": 0, "units": 80}
    (beyond,) = report.violated
    assert (beyond.rule, beyond.count) == ("RECOV-005", 80)


def test_a_segment_read_in_parts_is_the_segment(judged: Judged) -> None:
    columns = list(LOG_COLUMNS)
    for case in ("clean", "torn_tail", "garbage_in_the_middle"):
        for segment in sorted((judged.root / case / "commitlog").iterdir()):
            whole, cut = (
                [
                    row
                    for part in parts(segment, part_bytes)
                    for batch in log_batches(part, columns)
                    for row in batch.to_pylist()
                ]
                for part_bytes in (SEGMENT_BYTES, 333)
            )
            key = "physical_offset"
            assert sorted(whole, key=lambda r: r[key]) == sorted(cut, key=lambda r: r[key])
            assert whole


def test_a_hole_over_the_border_of_two_parts(spark: SparkSession) -> None:
    """The part after it begins with the first record that it finds: the chain shows the gap."""
    log = spark.createDataFrame(
        [("s", 0, 0, 100, "record", 1), ("s", 0, 100, 100, "run", 2), ("s", 0, 300, 99, "run", 9)],
        "store string, segment long, physical_offset long, size long, kind string, n long",
    )
    extent = spark.createDataFrame([("s", 0)], "store string, last_segment long")
    instances = findings.queried(LOG, {"log": log, "extent": extent})
    (report,) = findings.reports(instances, [LOG], LOG.places)
    (finding,) = report.findings
    assert (finding.why, finding.first["physical_offset"]) == (LOG.outcomes["hole"].why, 100)


def test_columns_and_filters_reach_the_reader(spark: SparkSession, judged: Judged) -> None:
    register(spark)
    clean_store = str(judged.root / "clean")
    log = spark.read.format("rocketmq-commitlog").option("columns", "topic,body_size")
    frame = log.option("pushdown", True).load(clean_store).where("topic = 'U'")
    assert frame.columns == ["topic", "body_size"]
    assert frame.selectExpr("sum(body_size)").first() == (sum(range(40)),)
    stores = spark.read.format("rocketmq-commitlog").option("columns", "store").load(clean_store)
    assert stores.count() > 80
    units = spark.read.format("rocketmq-consumequeue").option("pushdown", True)
    assert units.load(clean_store).where("topic = 'T' AND queue_id = 1").count() == 20


def test_files_that_a_filter_leaves_out_are_not_read(judged: Judged) -> None:
    source = ConsumeQueueSource({"path": str(judged.root / "clean"), "pushdown": "true"})
    reader = source.reader(source.schema())
    others: list[Filter] = [EqualTo(("size",), 100)]
    filters: list[Filter] = [EqualTo(("topic",), "T"), EqualTo(("queue_id",), 1), *others]
    assert list(reader.pushFilters(filters)) == others
    (partition,) = reader.partitions()
    assert isinstance(partition, Pieces)
    (piece,) = partition.pieces
    assert piece.part.path.endswith(f"consumequeue/T/1/{0:020}")
    batches: Iterator[Any] = reader.read(partition)
    assert [batch.num_rows for batch in batches] == [20]


def test_small_files_are_read_together_and_large_ones_in_parts(judged: Judged) -> None:
    paths = json.dumps([str(judged.root / name) for name in CASES])
    for source in (CommitLogSource({"paths": paths}), ConsumeQueueSource({"paths": paths})):
        (partition,) = source.reader(source.schema()).partitions()
        assert isinstance(partition, Pieces)
        assert len(partition.pieces) > len(CASES)
    (segment, *_) = (judged.root / "clean" / "commitlog").iterdir()
    assert [(p.start, p.end) for p in parts(segment, 3000)] == [(0, 3000), (3000, 4096)]


def test_a_frame_may_be_filtered_again_and_again(spark: SparkSession, judged: Judged) -> None:
    """Without `pushdown`, that is: with it Spark would forget what the first filter left out."""
    register(spark)
    units = spark.read.format("rocketmq-consumequeue").load(str(judged.root / "clean"))
    assert units.where("queue_id = 1").count() == 20
    assert units.where("topic = 'U'").count() == 40
    assert units.count() == 80


def test_every_field_of_a_record(tmp_path: Path) -> None:
    store = Store()
    store.put("A" * 200, 3, offset=9, body=b"body", sys_flag=48, version=2)
    store.save(tmp_path)
    (part,) = parts(tmp_path / "commitlog" / f"{0:020}", SEGMENT_BYTES)
    (row,) = [r for b in log_batches(part, list(LOG_COLUMNS)) for r in b.to_pylist()]
    assert row == {
        "kind": "record",
        "segment": 0,
        "physical_offset": 0,
        "size": 91 + 24 + 1 + 200 + 4 + 7,
        "topic": "A" * 200,
        "queue_id": 3,
        "queue_offset": 9,
        "flag": 7,
        "sys_flag": 48,
        "born_timestamp_ms": 1_700_000_000_000,
        "store_timestamp_ms": 1_700_000_000_001,
        "reconsume_times": 3,
        "prepared_transaction_offset": 0,
        "store_host": ":::2",
        "body_size": 4,
        "crc_held": True,
        "properties": b"KEYS\x01k\x02",
        "body": b"body",
    }
