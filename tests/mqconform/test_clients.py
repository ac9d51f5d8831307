"""Clients under test: the reference's own keeps the rules, and wrong ones are caught by theirs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from wrong_clients import CLIENTS

from mqconform.case import Result, Status
from mqconform.clients.program import Command
from mqconform.clients.running import run
from mqconform.clients.scenarios import SCENARIOS
from mqconform.cluster import Cluster
from mqconform.connection import eventually
from mqconform.reference import Reference
from mqconform.report import is_failure
from mqconform.started import BROKERS
from mqspec.cli import main

PROGRAM = Path(__file__).parent / "wrong" / "client.py"
PLACES = "{nameserver} {topic} {group} {mode} {id}"
CLIENT = f"{sys.executable} {PROGRAM} {PLACES}"
Verdicts = dict[tuple[str, str], str]  # by scenario and rule


@pytest.fixture
def verdicts(tmp_path: Path) -> Callable[..., tuple[int, Verdicts]]:
    """The exit code and the verdicts of a run, with some arguments."""

    def run(client: str, *words: str) -> tuple[int, Verdicts]:
        report = tmp_path / "report.json"
        code = main(["conform", "--client", client, "--json", str(report), *words])
        cases = json.loads(report.read_text(encoding="utf-8"))["cases"]
        return code, {(case["name"], *case["rules"]): case["status"] for case in cases}

    return run


def test_the_reference_keeps_the_rules(
    verdicts: Callable[..., tuple[int, Verdicts]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqconform.clients.running.AT_ONCE", 8)  # no JVM is among them
    code, found = verdicts("reference", "--quick")
    assert code == 0
    assert set(found.values()) == {"passed"}
    assert ("two_members_of_one_id", "REBAL-001") in found


def test_a_wrong_client_is_caught_by_the_rule_that_it_breaks(
    verdicts: Callable[..., tuple[int, Verdicts]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqconform.clients.play.SETTLE_S", 5.0)
    name = "few-opaques"
    rule = CLIENTS[name].area
    code, found = verdicts(f"{CLIENT} {name}", "--rule", rule)
    assert code == 1
    assert found["open_requests_have_opaques_of_their_own", rule] == "failed"


WRONG = {
    "one-queue-more": "two_members_share_eight_queues",
    "commits-what-came": "a_message_stays_unfinished",
    "goes-on-behind": "a_message_fails_in_order",
    "takes-all-tags": "tags_of_one_hash",
    "whatever-came-of-it": "a_popped_message_is_finished_or_not",
}  # and the scenario that shows it


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[Result]]:
    """What became of wrong clients, side by side on one cluster: most of their time is waiting."""
    home = tmp_path_factory.mktemp("wrong")

    def play(name: str) -> Sequence[Result]:
        (home / name).mkdir()
        scenarios = [SCENARIOS[WRONG[name]]]
        command = Command(f"{CLIENT} {name}")
        results, trouble = run(scenarios, command, cluster, home / name, name, lambda _: None)
        assert trouble is None
        return results

    with (
        Reference(home, ()) as reference,
        ThreadPoolExecutor() as pool,
        pytest.MonkeyPatch.context() as patch,
    ):
        cluster = Cluster(reference.nameserver)
        cluster.wait(BROKERS)
        patch.setattr("mqconform.clients.play.SETTLE_S", 5.0)
        return dict(zip(WRONG, pool.map(play, WRONG), strict=True))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_clients_are_caught_side_by_side(
    name: str, played: Mapping[str, Sequence[Result]]
) -> None:
    case = CLIENTS[name].area, WRONG[name]
    found = {(*result.case.rules, result.name): result.status for result in played[name]}
    assert found[case] is Status.FAILED
    assert is_failure(played[name], ())


@pytest.mark.parametrize(
    ("client", "says"),
    [
        ("no-such-program {nameserver} {topic} {group}", "cannot be started: No such file"),
        ("false {nameserver} {topic} {group}", "ended by itself: exit code 1"),
        ("true {nameserver}", "has no {topic} and no {group}"),
        ("it's {nameserver}", "is no command"),
    ],
)
def test_what_is_no_client_is_told_in_one_line(
    client: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conform", "--client", client]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_program_that_never_comes_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqconform.clients.play.COME_S", 1.0)
    client = (
        f"{sys.executable} -c 'import signal; signal.pause()' {{nameserver}} {{topic}} {{group}}"
    )
    assert main(["conform", "--client", client]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "connects to nobody within 1 s" in line


def test_a_target_is_not_for_clients(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "127.0.0.1:9876", "--client", CLIENT]) == 2
    assert "target: is not for --client" in capsys.readouterr().err


def test_what_is_interrupted_leaves_no_process_and_reports_what_ran(tmp_path: Path) -> None:
    client = f"{sys.executable} -X {tmp_path} -m mqspec.client.program {PLACES}"
    words = ["conform", "--client", client, "-k", "two_members_share"]
    process = subprocess.Popen(
        [sys.executable, "-m", "mqspec.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert eventually(lambda: len(running(str(tmp_path))) == 2, 60)  # two members, not the look
    process.terminate()
    said, wrong = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "not run" in said
    assert "run: it was interrupted" in wrong
    assert running(str(tmp_path)) == []


def running(word: str) -> list[int]:
    """The members that run with a word among theirs."""
    found = subprocess.run(
        ["pgrep", "-f", f"{word}.*program 127"], capture_output=True, text=True, check=False
    )
    return [int(line) for line in found.stdout.split()]
