"""What lies in a file system of Hadoop's, and no folder of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from recorded_cluster import unpacked
from test_audit_command import recorded

from mqaudit import audit
from mqaudit.kept.log import log_batches
from mqaudit.session import spark_errors
from mqrules import UserError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs, a store and logs."""
    folder = unpacked(tmp_path_factory.mktemp("apart"))
    (folder / "runs").mkdir()
    recorded(1).save(folder / "runs" / "run.jsonl")
    return folder


@pytest.fixture(scope="module")
def elsewhere(spark: SparkSession, folder: Path) -> str:
    """The folder under a name that only Spark knows, which mounts it once for all."""
    spark.conf.set("fs.viewfs.mounttable.apart.link./data", folder.as_uri())
    return "viewfs://apart/data"


@pytest.mark.parametrize("pattern", ["runs", "r*/*.jsonl"])
def test_a_history_is_read_from_anywhere(
    spark: SparkSession, folder: Path, elsewhere: str, pattern: str
) -> None:
    report = audit(spark, f"{elsewhere}/{pattern}").report
    assert report.violated
    assert report.checks == audit(spark, str(folder / "runs")).report.checks


@pytest.mark.parametrize("kept", ["store", "logs"])
def test_what_must_lie_in_a_folder_says_so(spark: SparkSession, elsewhere: str, kept: str) -> None:
    with pytest.raises(UserError, match=f"^{elsewhere}/{kept}.*lies in no folder.*mount or copy"):
        audit(spark, f"{elsewhere}/{kept}")


def test_a_log_that_is_not_there_is_no_damage(spark: SparkSession, tmp_path: Path) -> None:
    """A worker that does not see it says so, and the audit says that a worker does not."""
    missing = str(tmp_path / "client.log")
    with pytest.raises(FileNotFoundError):
        [*log_batches(missing, 8)]

    reading = spark.range(1).mapInArrow(lambda rows: log_batches(missing, 8), "kind string")
    with (
        pytest.raises(UserError, match=f"^here: a worker does not see {missing}"),
        spark_errors("here"),
    ):
        reading.collect()
