"""One Spark session for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import browser
from pyspark.sql import SparkSession

from mqaudit.session import session

__all__ = ["browser"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark = session("local[2]", little=True)
    yield spark
    spark.stop()
