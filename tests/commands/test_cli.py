"""The command: what every subcommand has in common."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pytest

from mqspec.cli import main
from mqspec.commands import allocate


def test_a_file_that_cannot_be_written_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "below"

    def run(_: argparse.Namespace) -> int:
        return target.write_text("")

    monkeypatch.setattr(allocate, "run", run)
    assert main(["allocate"]) == 2
    assert capsys.readouterr().err.startswith(f"mqspec: {target}: Not a directory; ")


def test_no_runs_at_once_check_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "MC_Retry", "--jobs", "0"]) == 2
    assert capsys.readouterr().err == "mqspec: --jobs: 0 runs at once; take 1 or more\n"


def test_a_shell_completes_commands_and_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "bash"])
    assert ended.value.code == 0
    script = (
        capsys.readouterr().out
        + """
for words in "mqspec conf" "mqspec allocate --virt"; do
    COMP_WORDS=($words); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=$words
    _shtab_mqspec
    echo "${COMPREPLY[@]}"
done
"""
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["conform", "--virtual-nodes"]


def test_a_failure_that_names_no_file_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: argparse.Namespace) -> int:
        raise OSError("of ours")

    monkeypatch.setattr(allocate, "run", run)
    with pytest.raises(OSError, match="of ours"):
        main(["allocate"])
