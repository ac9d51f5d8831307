"""The file of expressions: what a broker finds again, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqrules import UserError
from mqspec.broker.config_files import ConfigFiles
from mqspec.core.consumer_filter import ConsumerFilterData, ConsumerFilterState, FilterKey

KEPT = ConsumerFilterState(
    {FilterKey("T", "G"): ConsumerFilterData("a = '\"'", "SQL92", 5, born_time=10, dead_time=20)}
)


def test_expressions_are_found_again(tmp_path: Path) -> None:
    assert ConfigFiles(tmp_path).load_filters(0) == ConsumerFilterState()
    ConfigFiles(tmp_path).persist_filters(KEPT)
    assert ConfigFiles(tmp_path).load_filters(30) == KEPT


def test_what_has_not_changed_is_not_written_again(tmp_path: Path) -> None:
    files, path = ConfigFiles(tmp_path), tmp_path / "config" / "consumerFilter.json"
    files.persist_filters(ConsumerFilterState())
    path.unlink()
    files.persist_filters(ConsumerFilterState())
    assert not path.exists()
    files.persist_filters(KEPT)
    assert path.exists()


def test_what_is_no_text_keeps_nothing_else_from_the_disk(tmp_path: Path) -> None:
    """A heartbeat may name half a surrogate pair, which UTF-8 has no bytes for."""
    half = ConsumerFilterData("a = '\ud800'", "SQL92", 5, born_time=10, dead_time=20)
    both = ConsumerFilterState({**KEPT.filter_data, FilterKey("\ud800", "G"): half})
    ConfigFiles(tmp_path).persist_filters(both)
    assert ConfigFiles(tmp_path).load_filters(30).filter_data.items() >= KEPT.filter_data.items()


def test_a_file_that_no_broker_wrote_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    path = tmp_path / "config" / "consumerFilter.json"
    path.write_text('{"filterDataByTopic": {"T": {"groupFilterData": {"G": 1}}}}')
    with pytest.raises(UserError, match="not what a broker writes"):
        ConfigFiles(tmp_path).load_filters(0)
