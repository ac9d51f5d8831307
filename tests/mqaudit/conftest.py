"""One Spark session for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import browser
from pyspark.sql import SparkSession

from mqaudit import command
from mqaudit.session import session
from mqaudit.sweep import command as sweep_command

__all__ = ["browser"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark = session("local[2]", little=True)
    yield spark
    spark.stop()


@pytest.fixture
def shared_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands' session is the tests', which they must not stop."""
    monkeypatch.setattr(spark, "stop", lambda: None)
    for each in (command, sweep_command):
        monkeypatch.setattr(each, "session", lambda master, *, little: spark)
