"""Deviations: what an entry explains, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqrules import UserError
from mqrules.deviation import read_deviations

FILE = """
[[deviation]]
target = "apache"
version = "5.3.3"
case = "test_it"
rule = "RECOV-008"
seen = "4 instead of 3"
fails = '^AssertionError: assert 4 == 3'
frames = "00"
"""


def test_a_deviation_explains_the_failure_that_it_tells_of_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_text(FILE)
    (deviation,) = read_deviations(path)
    assert deviation.explains(AssertionError("assert 4 == 3\n +  where 4 = max_offset('T')"))
    assert not deviation.explains(AssertionError("assert 5 == 3"))
    assert not deviation.explains(ConnectionError("assert 4 == 3"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("^Assert", "(", "'fails' is not a pattern"),
        ("^AssertionError: assert 4 == 3", ".*", "'fails' is a pattern of any failure"),
        ("fails", "fials", "fials"),
        ("[[deviation]]", "[[", "not a deviations file"),
    ],
)
def test_a_file_that_is_wrong_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "target.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(UserError, match=message):
        read_deviations(path)
