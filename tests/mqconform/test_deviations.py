"""The deviations that are listed of each version, and runs that did not come to their end."""

from __future__ import annotations

from collections import Counter
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from mqconform.command import run_pytest
from mqconform.plugin import Selection
from mqrules import Deviation, UserError
from mqrules.deviation import read_deviations

with as_file(files("mqconform") / "deviations") as listed:
    FILES = sorted(listed.glob("*.toml"))
    DEVIATIONS = [deviation for file in FILES for deviation in read_deviations(file)]

UNTOLD = [
    AssertionError("assert False"),
    AssertionError("code 1 'busy', not 0"),
    ConnectionError("closed"),
    TimeoutError("no answer"),
    UserError("broker-a", "does not answer"),
]  # failures that no entry tells of


class Interrupted(Selection):
    """Ctrl-C while the cases run."""

    def pytest_runtestloop(self) -> None:
        raise KeyboardInterrupt


def test_each_deviation_is_of_a_case_and_a_rule_of_it() -> None:
    selection = Selection()
    run_pytest(["--collect-only"], selection)
    assert len(DEVIATIONS) > len(FILES) > 1
    for deviation in DEVIATIONS:
        assert deviation.rule in selection.results[deviation.case].case.rules


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_is_of_one_version_and_has_a_case_once(file: Path) -> None:
    found = read_deviations(file)
    assert {f"{one.target}-{one.version}" for one in found} == {file.stem}
    assert max(Counter(one.case for one in found).values()) == 1


@pytest.mark.parametrize(
    "deviation", DEVIATIONS, ids=lambda deviation: f"{deviation.version}-{deviation.case}"
)
def test_a_deviation_explains_no_other_failure(deviation: Deviation) -> None:
    assert not any(deviation.explains(error) for error in UNTOLD)


def test_a_run_that_is_interrupted_is_none() -> None:
    selection = Interrupted()
    run_pytest(["-k", "heartbeat"], selection)
    assert "not all cases were run" in str(selection.trouble)
