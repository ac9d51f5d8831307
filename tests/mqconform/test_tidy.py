"""What a run makes or sets is gone, or put back, also after an interrupt; --exclusive is asked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqconform import requests
from mqconform.cluster import Cluster
from mqconform.connection import Connection, eventually
from mqconform.frame import Frame
from mqconform.reference import serve
from mqconform.requests import Request
from mqconform.scene import config_of
from mqconform.target import Address
from mqconform.transcript import Transcript
from mqspec.cli import main

OFF = "auto_create_topic_enable = false\nauto_create_subscription_group = false\n"
SOME = "options or sql92 or kv_config or order_of or chosen_by or deleted or sent_back or subscri"
OWN = ("RMQ_SYS", "rmq_sys", "TRANS_CHECK")  # what a broker makes for itself when it is used


@pytest.fixture(params=["", OFF], ids=["by use", "by creation"])
def nameserver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Address]:
    config = tmp_path / "config.toml"
    config.write_text(request.param, encoding="utf-8")
    words = ("--brokers", "2", "--nameserver-port", "0", "--broker-port", "0")
    more = ("--store", str(tmp_path / "store"), "--config", str(config))
    process, listening = serve(tmp_path / "log", *words, *more)
    with process:
        yield listening["nameserver"]
        process.terminate()


def ask(server: Address, request: Request) -> Frame:
    with Connection(server, Transcript()) as connection:
        return connection.call(request)


def state(nameserver: Address) -> dict[str, Any]:
    """What can be seen of a cluster: its topics, groups, offsets, options, KV config and routes."""
    cluster = Cluster(nameserver)
    cluster.find()
    seen: dict[str, Any] = {"brokers": cluster.brokers}
    for name, broker in cluster.brokers.items():
        for code, table in ((21, "topicConfigTable"), (201, "subscriptionGroupTable"),
                            (43, "offsetTable")):  # fmt: skip
            names = ask(broker, Request(code)).json()[table]
            seen[f"{name} {table}"] = sorted(n for n in names if not n.startswith(OWN))
        with Connection(broker, Transcript()) as connection:
            seen[f"{name} options"] = config_of(connection)
    with Connection(nameserver, Transcript()) as connection:
        seen["options"] = config_of(connection, requests.GET_NAMESRV_CONFIG)
    names = ask(nameserver, Request(206)).json()["topicList"]
    seen["routes"] = sorted(n for n in names if not n.startswith(OWN))
    answer = ask(nameserver, Request(219, {"namespace": "ORDER_TOPIC_CONFIG"}))
    seen["order"] = answer.json()["table"] if answer.code == 0 else {}
    return seen


def test_nothing_is_left(
    nameserver: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = state(nameserver)
    words = ["-k", SOME, "--exclusive", "--prefix", "own"]
    assert main(["conform", str(nameserver), *words, "--evidence", "evidence"]) == 0
    assert state(nameserver) == before
    verdicts = [json.loads(line)["verdict"] for line in Path("evidence").read_text().splitlines()]
    assert verdicts.count("held") > 50


def test_nothing_is_left_after_an_interrupt(nameserver: Address, tmp_path: Path) -> None:
    before = state(nameserver)
    command = [sys.executable, "-m", "mqspec.cli", "conform", str(nameserver), "--exclusive"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert eventually(lambda: state(nameserver)["routes"] != before["routes"])
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "not run" in said  # the report of what there was so far, be it of no case yet
    assert state(nameserver) == before


def test_what_touches_others_is_asked_for(
    nameserver: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["-k", "options or chosen_by_their_properties", "--evidence", "evidence"]
    assert main(["conform", str(nameserver), *words]) == 0
    found = [json.loads(line) for line in Path("evidence").read_text().splitlines()]
    whys = {one["detail"].get("why", "") for one in found if one["verdict"] == "not claimed"}
    assert whys == {"exclusive: say --exclusive where nobody else uses the target"}
    assert all(one["verdict"] != "held" for one in found if one["rule"] == "ADMIN-011")
