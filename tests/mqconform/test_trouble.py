"""Runs that cannot come to their end: of that, nothing is a violation of any rule."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from patched import reference
from rich.console import Console

from mqconform import connection, report, requests, stage
from mqconform.case import Status
from mqconform.cluster import Cluster, cluster_info
from mqconform.command import run_pytest
from mqconform.connection import Connection
from mqconform.frame import RESPONSE, frame, json_header, parse_frame
from mqconform.plugin import Selection, Suite
from mqconform.progress import lines, progress
from mqconform.reference import serve
from mqconform.target import Address, CommandError, Commands, Lifecycle, Target, free_ports
from mqconform.transcript import Transcript
from mqrules import UserError, Verdict, read_evidence
from mqspec.cli import main
from mqspec.service import Dispatcher
from mqspec.wire.codes import RequestCode

HEARTBEATS = "heartbeat_makes or two_connections or member_leaves"


def statuses(suite: Suite) -> dict[str, Status]:
    """Of the cases that were chosen."""
    return {result.name: suite.results[result.name].status for result in suite.chosen}


# What is no nameserver


Answer = tuple[int, bytes]


@contextmanager
def answering(*answers: Answer) -> Iterator[Address]:
    """A server that gives a client one after the other, and the last one again and again."""

    def answer() -> None:
        client, _ = server.accept()
        left = chain(answers, repeat(answers[-1]))
        with client:
            while raw := client.recv(1 << 16):
                code, body = next(left)
                header = json.loads(json_header(code, None, parse_frame(raw).opaque, RESPONSE))
                client.sendall(frame(json.dumps(header | {"remark": "why not"}).encode(), body))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        yield Address(*server.getsockname())
        thread.join()


NONE = (
    *(b"", b"{}", b"null", b"[]", b"\xff", b'{"brokerAddrTable":null}'),
    b'{"brokerAddrTable":{"b":{"brokerName":"b"}}}',
    b'{"brokerAddrTable":{"b":{"brokerAddrs":{"0":5}}}}',
    b'{"brokerAddrTable":{"b":{"brokerAddrs":{"0":"127.0.0.1:99999"}}}}',
)


@pytest.mark.parametrize("body", NONE, ids=repr)
def test_an_answer_that_is_no_list_of_brokers_is_shown(body: bytes) -> None:
    with answering((0, body)) as address, pytest.raises(UserError) as refused:
        Cluster(address).find()
    assert f"{address}: answers what is no list of brokers: {body!r}" in str(refused.value)


@pytest.mark.parametrize(("code", "hint"), [(1, ""), (3, ", as a broker does")])
def test_an_answer_that_says_no_is_shown(code: int, hint: str) -> None:
    with answering((code, b"")) as address, pytest.raises(UserError) as refused:
        Cluster(address).find()
    assert f"answers code {code} 'why not', and no list of brokers{hint};" in str(refused.value)


@pytest.mark.parametrize("failures", [1, 8])
def test_a_list_of_brokers_that_a_registration_came_between_is_asked_again(failures: int) -> None:
    listed = b'{"brokerAddrTable":{}}'
    with (
        answering(*[(1, b"")] * failures, (0, listed)) as address,
        Connection(address, Transcript()) as nameserver,
    ):
        assert cluster_info(nameserver).body == listed


def test_a_broker_that_cannot_be_reached_is_named() -> None:
    (port,) = free_ports(1)
    table = {"brokerAddrTable": {"b": {"brokerAddrs": {"0": f"127.0.0.1:{port}"}}}}
    with (
        answering((0, json.dumps(table).encode())) as address,
        pytest.raises(UserError, match=f"can be reached; tried: b at 127.0.0.1:{port};"),
    ):
        Cluster(address).find()


# A target that is gone


def run_until(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[subprocess.Popen[str]], Any]
) -> Suite:
    """A run whose first case that asks who is a member does that to the reference's process."""
    process, listening = serve(
        tmp_path / "log",
        *("--store", str(tmp_path / "store"), "--nameserver-port", "0", "--broker-port", "0"),
    )
    asked = requests.consumer_list

    def ending(group: str) -> requests.Request:
        end(process)
        return asked(group)

    monkeypatch.setattr(requests, "consumer_list", ending)
    monkeypatch.setattr(connection, "DEADLINE_S", 1.0)
    monkeypatch.setattr(stage, "AT_A_TIME", 1)
    try:
        cluster = Cluster(listening["nameserver"])
        cluster.find()
        suite = Suite(Target("gone", "0", listening["nameserver"]), cluster)
        run_pytest(["-k", HEARTBEATS], suite)
    finally:
        process.kill()
        process.wait()
    return suite


def killed(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (killed, "serves no connection any more"),
        (lambda process: process.send_signal(signal.SIGSTOP), "answers nothing any more"),
    ],
    ids=["killed", "stopped"],
)
def test_a_target_that_is_gone_ends_the_run_and_violates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[..., Any], how: str
) -> None:
    suite = run_until(tmp_path, monkeypatch, end)
    (ran,) = (name for name, status in statuses(suite).items() if status is Status.BLOCKED)
    assert how in str(suite.trouble)
    assert f"seen in {ran};" in str(suite.trouble)
    assert suite.results[ran].why == f"by nameserver at {suite.target.nameserver}"
    assert set(statuses(suite).values()) <= {Status.PASSED, Status.BLOCKED, Status.NOT_RUN}
    assert Status.NOT_RUN in statuses(suite).values()


class Stubborn:
    """A broker that does not come back."""

    def stop(self) -> None:
        pass

    kill = stop

    def start(self) -> None:
        raise UserError("broker", "does not start")


def run_restarts(store: Path, lifecycle: Lifecycle, keyword: str) -> Suite:
    with reference(store) as address:
        cluster = Cluster(address)
        cluster.wait(2)
        target = Target("mine", "0", address, lifecycle, exclusive=True)
        suite = Suite(target, cluster)
        run_pytest(["-k", keyword], suite)
    return suite


def test_a_broker_that_does_not_come_back_is_a_finding(tmp_path: Path) -> None:
    suite = run_restarts(tmp_path, Stubborn(), "members_are_forgotten")
    assert set(statuses(suite).values()) == {Status.FAILED}
    assert suite.trouble is None


def test_a_command_that_does_nothing_is_not(tmp_path: Path) -> None:
    wrong = Commands(Path("mine.toml"), ["/bin/false"], ["/bin/false"], ["/bin/false"])
    suite = run_restarts(tmp_path, wrong, f"members_are_forgotten or {HEARTBEATS}")
    assert isinstance(suite.trouble, CommandError)
    for name, status in statuses(suite).items():
        waits = "members_are_forgotten" in name
        assert status is (Status.NOT_RUN if waits else Status.PASSED), name
    assert not report.is_failure(suite.results.values(), suite.stale)


# A run that is interrupted, or does not begin


def test_an_interrupted_run_reports_what_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process, interrupts = Dispatcher._process, iter([signal.SIGINT])

    def holds(dispatcher: Any, client: Any, request: Any) -> Any:
        if request.code != RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            return process(dispatcher, client, request)
        for number in interrupts:  # once: the case that is held keeps the run waiting
            os.kill(os.getpid(), number)
        return None

    monkeypatch.setattr(Dispatcher, "_process", holds)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # xdist ignores it
    evidence, histories = tmp_path / "evidence.jsonl", tmp_path / "history"
    outputs = ("--evidence", str(evidence), "--history", str(histories))
    try:
        with reference(tmp_path / "store") as address:
            Cluster(address).wait(2)
            assert main(["conform", str(address), "-k", HEARTBEATS, *outputs]) == 2
    finally:
        signal.signal(signal.SIGINT, before)
    said = capsys.readouterr()
    assert "not run" in said.out
    assert said.err == "mqspec: interrupt: not all cases were run\n"
    found = {record.subject: record.verdict for record in read_evidence(evidence)}
    assert found["test_a_heartbeat_makes_a_member"] is Verdict.NOT_RUN
    assert Verdict.VIOLATED not in found.values()
    assert len(list(histories.iterdir())) == 1


def test_a_module_that_cannot_be_imported_says_why(tmp_path: Path) -> None:
    module = tmp_path / "test_broken.py"
    module.write_text("import no_such_module\n")
    selection = Selection()
    run_pytest(["--collect-only", str(module)], selection)
    why = "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"
    assert why in str(selection.trouble)


# How far it is


class Waited(io.StringIO):
    """A stream that tells when a line has come."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Event()

    def flush(self) -> None:
        self.came.set()


def test_lines_come_though_no_case_ends(run: Callable[..., Suite]) -> None:
    stream = Waited()
    (result,) = run("heartbeat_makes").chosen
    with lines(7, stream, 0.01) as done:
        assert stream.came.wait(10)
        assert stream.getvalue().startswith("0 of 7 cases, 0 s\n")
        done(result)
        stream.came.clear()
        assert stream.came.wait(10)
        stream.came.clear()
        assert stream.came.wait(10)
    assert "1 of 7 cases" in stream.getvalue()


def test_the_bar_counts_the_cases_that_were_chosen() -> None:
    stream = io.StringIO()
    with progress("mine", 7, Console(file=stream, force_terminal=True)):
        pass
    assert "0/7" in stream.getvalue()
