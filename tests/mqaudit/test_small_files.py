"""The small files of a store: what cannot be read of them is named, and what can be is read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from recorded_cluster import unpacked

from mqaudit import audit
from mqaudit.small_files import progress, unread
from mqspec.store.check import check

OFFSETS = "config/consumerOffset.json"
JSON_WHY = "not a JSON object: a start takes its .bak"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("kept")) / "store"


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Path:
    root = tmp_path / "store"
    shutil.copytree(kept, root)
    return root


def told(store: Path) -> list[tuple[str, str, int]]:
    """Which files cannot be read, why, and how often."""
    return [(str(one.first["file"]), one.why, one.count) for one in unread([f"file:{store}"])]


def test_a_whole_store_has_nothing_that_cannot_be_read(store: Path) -> None:
    assert told(store) == []
    assert len([*progress(str(store))]) == len([*progress(f"file:{store}")]) > 0


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe" + path.read_bytes())


def a_list(path: Path) -> None:
    path.write_text("[1, 2]")


@pytest.mark.parametrize("damage", [torn, emptied, zeroed, no_text, a_list])
@pytest.mark.parametrize("name", ["consumerOffset.json", "topics.json"])
def test_a_damaged_table_is_named(store: Path, name: str, damage: Callable[[Path], None]) -> None:
    before = [*progress(str(store))]
    damage(store / "config" / name)
    assert told(store) == [(f"config/{name}", JSON_WHY, 1)]
    assert [*progress(str(store))] == before  # of the .bak


@pytest.mark.parametrize("name", ["subscriptionGroup.json", "delayOffset.json"])
def test_a_damaged_table_without_another_is_named(store: Path, name: str) -> None:
    (store / "config" / name).write_text('{"offsetTable":{1:')
    assert told(store) == [(f"config/{name}", "not a JSON object", 1)]


def test_both_of_a_table_are_named(store: Path) -> None:
    torn(store / OFFSETS)
    torn(store / f"{OFFSETS}.bak")
    assert told(store) == [
        (OFFSETS, "not a JSON object, and its .bak is none", 1),
        (f"{OFFSETS}.bak", "not a JSON object", 1),
    ]
    assert [*progress(str(store))] == []


def test_a_directory_in_the_place_of_a_table(store: Path) -> None:
    (store / OFFSETS).unlink()
    (store / OFFSETS).mkdir()
    assert told(store) == [(OFFSETS, "not readable (Is a directory): a start takes its .bak", 1)]


def test_a_table_that_is_gone_and_a_torn_checkpoint(store: Path) -> None:
    (store / OFFSETS).unlink()
    (store / "checkpoint").write_bytes(bytes(39))
    assert told(store) == [
        (OFFSETS, "missing: a start takes its .bak", 1),
        ("checkpoint", "torn: an abnormal start walks the whole log", 1),
    ]
    (store / "checkpoint").write_bytes(bytes(40))
    assert len(told(store)) == 1


@pytest.mark.parametrize(
    ("table", "count", "entry"),
    [
        ([], 1, "offsetTable"),
        ({"T@G": 7}, 1, "T@G"),
        ({"T@G": {"0": "7"}}, 1, "T@G 0"),
        ({"T@G": {"0": 7, "1": True, "2": None}}, 2, "T@G 1"),
        ({"T@G": {"-1": 7, "0": 2**63}}, 2, "T@G -1"),
        ({"T": {"0": 7}}, 1, "T 0"),
    ],
)
def test_entries_that_are_none_are_counted(
    store: Path, table: object, count: int, entry: str
) -> None:
    (store / OFFSETS).write_text(json.dumps({"offsetTable": table}))
    (one,) = unread([str(store)])
    assert (one.count, one.first["entry"]) == (count, entry)


def test_a_table_that_is_empty_is_whole(store: Path) -> None:
    """Its .bak, which is not, is not asked: a start does not ask it either."""
    (store / OFFSETS).write_text("{}")
    assert told(store) == [] == [*progress(str(store))]
    assert {one.check for one in check(store).findings} == {"checkpoint"}  # it has none


def test_the_audit_names_it(spark: SparkSession, store: Path) -> None:
    torn(store / OFFSETS)
    report = audit(spark, str(store)).report
    (one,) = (one for one in report.unread if one.source == "store")
    assert (one.first["file"], one.why) == (OFFSETS, JSON_WHY)
