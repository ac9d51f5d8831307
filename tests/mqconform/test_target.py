"""Targets: addresses, target files, and what cannot be tested."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from mqconform import target
from mqconform.target import (
    Address,
    CommandError,
    Commands,
    free_ports,
    parse_address,
    read_target,
)
from mqrules import UserError
from mqspec.cli import main

COMPLETE = """
name = "mine"
version = "1"
nameserver = "127.0.0.1:9876"
stop = ["{python}", "-c", "open('{home}/stopped', 'w')"]
kill = ["{python}", "-c", "open('{home}/killed', 'w')"]
start = ["{python}", "-c", "open('{home}/started', 'w')"]
store = "{home}"
tls = true
secured = "127.0.0.1:10911"
access_key = "me"
secret_key = "mine"
"""


def test_a_target_file_opens_the_restart_cases(tmp_path: Path) -> None:
    file = tmp_path / "target.toml"
    file.write_text(COMPLETE.format(python=sys.executable, home=tmp_path))
    target = read_target(file)
    assert (str(target), target.nameserver) == ("mine:1", Address("127.0.0.1", 9876))
    assert target.store == tmp_path
    assert target.tls
    assert target.secured
    assert target.secured.address == Address("127.0.0.1", 10911)
    assert (target.secured.access_key, target.secured.secret_key) == ("me", "mine")
    assert target.lifecycle
    target.lifecycle.stop()
    target.lifecycle.kill()
    target.lifecycle.start()
    assert {"stopped", "killed", "started"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("name = 1", "string expected"),
        ('name = "x"', "'version' is missing"),
        ('name = "x"\nversion = "1"\nnameserver = "x"', "not an address"),
        ('name = "x"\nversion = "1"\nnameserver = "h:1"\nstop = ["s"]', "belong together"),
        (
            'name = "x"\nversion = "1"\nnameserver = "h:1"\nstore = "/no/store"',
            "target.toml, store: no directory '/no/store'",
        ),
        ("name =", "not a target file"),
        ('name = "\xff"', "not a target file"),
    ],
)
def test_a_wrong_target_file_is_refused_in_one_line(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "target.toml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=what) as refused:
        read_target(file)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["/bin/false"], "/bin/false ended with 1"),
        (["/none/such"], "/none/such cannot be run: No such file"),
        (["/bin/sleep", "300"], "/bin/sleep does not return within 0.1 s; each must return"),
    ],
)
@pytest.mark.parametrize("field", ["stop", "kill", "start"])
def test_a_command_that_does_not_work_is_named_with_its_field(
    monkeypatch: pytest.MonkeyPatch, field: str, command: list[str], what: str
) -> None:
    monkeypatch.setattr(target, "COMMAND_S", 0.1)
    commands = Commands(Path("mine.toml"), command, command, command)
    with pytest.raises(CommandError, match=f"mine.toml, {field}: {what}"):
        getattr(commands, field)()


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:65536", "host:x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not an address"):
        parse_address(text)


def test_free_ports_are_distinct() -> None:
    ports = free_ports(8, below=2)
    assert len({*ports, *(port - 2 for port in ports)}) == 16


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nowhere"], "nowhere: not an address"),
        ([], "target: one is needed"),
        (["apache:4.9"], "apache:4.9: no version"),
        (["rocketmq-rust:one"], "rocketmq-rust:one: no version"),
        (["reference", "--rule", "NONE-001"], "NONE-001: no such rule"),
        (["--list", "-k", "no_such_case"], "cases: none is selected"),
        # Before a target is looked for:
        (["nowhere", "-k", "no_such_case"], "cases: none is selected"),
        (["reference", "--history", __file__], "a file stands where histories go"),
        (["reference", "--history", f"{__file__}/below"], f"{__file__}/below: "),
        (["reference", "--evidence", f"{__file__}/below"], f"{__file__}: "),
        (["reference", "--evidence", "/"], "/: Is a directory"),
        (["reference", "--junit", "/"], "/: Is a directory"),
        (["reference", "--json", "/"], "/: Is a directory"),
        (["reference", "--page", f"{__file__}/below"], f"{__file__}: "),
        (["reference", "--prefix", "a b"], "--prefix a b: is no prefix of names"),
        (["reference", "--prefix", ""], "--prefix : is no prefix of names"),
        *(
            (["reference", "--map", wrong], f"--map {wrong}: is not HOST:PORT=HOST:PORT")
            for wrong in ("here", "a:1", "a:1=b", "a:1=b:0")
        ),
        # A target that is given with --list is looked at:
        (["nowhere", "--list"], "nowhere: not an address"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    line: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["conform", *words]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1


def test_nobody_listens_there(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    assert main(["conform", f"127.0.0.1:{port}"]) == 2
    assert "no nameserver there" in capsys.readouterr().err


def test_a_nameserver_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert main(["conform", f"127.0.0.1:{server.getsockname()[1]}"]) == 2
    said = capsys.readouterr().err
    assert "does not answer" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("choice", [("--rule", "GROUP-002"), ("-k", "two_connections_of_one_id")])
def test_the_list_of_cases(choice: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--list", *choice]) == 0
    _, *cases = capsys.readouterr().out.splitlines()
    assert any("test_two_connections_of_one_id_are_two_members" in line for line in cases)
    assert all("GROUP-002" in line and "MUST" in line for line in cases)
