"""A second prover is asked what Z3 was asked, and a disagreement shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mqprove import command
from mqprove.prover import Statement
from mqprove.second import Comparison, Exported, ask_cvc5, compare, exported, write
from mqprove.theorems import THEOREMS
from mqrules import UserError
from mqspec.cli import main
from mqspec.core import allocation

DEALT = next(theorem for theorem in THEOREMS if theorem.name == "circle-dealt")
GOALS = Statement.of(DEALT, allocation).goals
FALSE = replace(
    DEALT, claim=lambda group: group.member("i").takes(group.number("k", below=group.queues))
)


def test_both_prove_what_holds() -> None:
    found = [compare(obligation) for obligation in exported(DEALT, GOALS)]
    assert len(found) >= 2
    assert [(each.exported.z3, each.cvc5) for each in found] == [("unsat", "unsat")] * len(found)


def test_neither_proves_what_is_false() -> None:
    *_, claim = exported(FALSE, Statement.of(FALSE, allocation).goals)
    assert claim.what == "the claim"
    assert "unsat" not in (claim.z3, ask_cvc5(claim.text))


def test_a_file_says_what_was_asked(tmp_path: Path) -> None:
    obligations = list(exported(DEALT, GOALS))
    write(obligations, tmp_path / "smt")
    files = sorted((tmp_path / "smt").iterdir())
    assert len(files) == len(obligations)
    assert all(ask_cvc5(file.read_text()) == "unsat" for file in files)


def test_a_folder_that_is_a_file_is_one_clear_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UserError, match=r"file: cannot be written to"):
        write([], file)


@pytest.mark.parametrize(
    ("z3", "cvc5", "agree", "disagree"),
    [
        ("unsat", "unsat", True, False),
        ("unsat", "sat", False, True),
        ("sat", "unsat", False, True),
        ("unsat", "unknown", False, False),
        ("unknown", "unknown", False, False),
    ],
)
def test_no_answer_is_neither(z3: str, cvc5: str, agree: bool, disagree: bool) -> None:
    made = Comparison(Exported("a-theorem", "the claim", 1, "", z3), cvc5)
    assert (made.agree, made.disagree) == (agree, disagree)


def test_a_disagreement_fails_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "compare", lambda obligation: Comparison(obligation, "sat"))
    code = main(["prove", "--theorem", "circle-dealt", "--export", str(tmp_path)])
    assert code == 1
    assert "DISAGREE" in capsys.readouterr().out
