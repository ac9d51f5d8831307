"""The `mqspec` command: one line on bad input, and an extra that is named."""

from __future__ import annotations

import sys

import pytest

from mqspec import cli


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    for name in ("allocate", "serve", "check", "prove", "conform", "audit", "verify"):
        assert name in shown


def test_a_user_error_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "MC_Nothing"]) == 2
    assert capsys.readouterr().err == (
        "mqspec: MC_Nothing: no such model; see `mqspec check --list`\n"
    )


def test_a_command_that_lacks_its_extra_names_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    for name in [name for name in sys.modules if name.startswith("mqprove")]:
        monkeypatch.delitem(sys.modules, name)
    assert cli.main(["prove"]) == 2
    assert "run: pip install 'mqspec[proofs]'" in capsys.readouterr().err
