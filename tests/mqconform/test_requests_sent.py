"""Requests are those of real clients, but where a case says in what they are not.

`python tests/mqconform/test_requests_sent.py` writes anew what the cases say
(mqconform/data/departures.json): read what changed.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import pytest

from mqconform import requests, transcript
from mqconform.catalogue import DEPARTURES, declared, departures, departures_of, forms
from mqconform.cluster import Cluster
from mqconform.command import run_pytest
from mqconform.history import Recorder
from mqconform.plugin import Suite
from mqconform.reference import Reference
from mqconform.requests import Request, Subscription
from mqconform.scene import Scene
from mqconform.stage import Stage
from mqconform.transcript import Transcript

ALL = 100_000  # frames to keep of a case: a report needs the last ones only
CLIENT_ID = re.compile(rb'"clientID": ?"([^"]+)"')  # of a heartbeat
PROXYS_OWN = {"14 with setZeroIfNotFound"}  # RocketMQ's proxy asks so, for clients of gRPC


def of(request: Request, *, one_way: bool = False) -> tuple[str, ...]:
    return departures(request.code, request.fields, request.body, one_way)


def transcripts(reference: Reference) -> dict[str, Transcript]:
    """The frames of all cases."""
    cluster = Cluster(reference.nameserver)
    cluster.wait(2)
    suite = Suite(reference.target, cluster)
    with mock.patch.object(transcript, "_KEPT", ALL):
        run_pytest([], suite)
    return {name: scene.transcript for name, scene in suite.scenes.items()}


def found_in(of_cases: Mapping[str, Transcript]) -> dict[str, set[str]]:
    """In what the requests of all cases depart."""
    found = {name: departures_of(transcript) for name, transcript in of_cases.items()}
    return {name: departs for name, departs in found.items() if departs}


def client_ids(transcript: Transcript) -> set[bytes]:
    """The ids that a case's heartbeats have."""
    sent = (exchange.raw for exchange in transcript.exchanges if exchange.sent)
    return set(itertools.chain.from_iterable(CLIENT_ID.findall(raw) for raw in sent))


def test_forms_were_recorded_of_two_versions() -> None:
    for code in (11, 14, 15, 34, 35, 38, 41, 42, 103, 105, 310, 320):
        assert len(forms()[code]) >= 2


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (requests.unregister("", "G"), "clientID empty"),
        (requests.unregister("one", "G").without("clientID"), "without clientID"),
        (requests.create_topic("T", 1, 1).having(perm="six"), "perm text"),
        (requests.route("T").having(mood="good"), "with mood"),
        (requests.heartbeat(None, "G"), "without body.clientID"),
        (requests.send("T").having(i=""), "i empty"),
        (requests.register_broker("B", "a:1", {}, cluster="C").without("brokerId"),
            "without brokerId"),
        (Request(9999), "was never recorded"),
    ],
)  # fmt: skip
def test_what_no_client_sends_is_told(request_: Request, said: str) -> None:
    assert said in of(request_)


def test_what_clients_send_one_way_is_told_where_it_is_not() -> None:
    end = requests.end_transaction("P", 1, 2, 8).having(bname="broker-a")
    assert of(end, one_way=True) == ()
    assert of(end) == ("not one way",)


def test_preparation_sends_what_real_clients_send(tmp_path: Path) -> None:
    with Reference(tmp_path) as reference:
        cluster = Cluster(reference.nameserver)
        cluster.wait(2)
        stage = Stage(None, cluster.wait)
        scene = Scene("mqtest-1", reference.target, cluster, stage, Recorder("mqtest"))
        topic, group = scene.topic(2, everywhere=True), scene.group()
        scene.send(topic, tag="A")
        assert scene.max_offset(topic) == 1
        assert len(scene.read_all(topic, group)) == len(scene.pull(requests.pull(topic, group)))
        assert scene.committed(group, topic) is None
        member = scene.connect()
        member.call(requests.heartbeat("one", group, [Subscription(topic, "A || B")]))
        assert scene.members(group) == ["one"]
        assert departures_of(scene.transcript) == PROXYS_OWN
        scene.close()


@pytest.fixture(scope="module")
def of_cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Transcript]]:
    """The frames of all cases, from one run."""
    with Reference(tmp_path_factory.mktemp("reference")) as reference:
        yield transcripts(reference)


def test_a_case_says_in_what_its_requests_depart(of_cases: Mapping[str, Transcript]) -> None:
    assert found_in(of_cases) == declared()


def test_no_two_cases_have_a_client_of_one_id(of_cases: Mapping[str, Transcript]) -> None:
    """A broker may hang up on the one for the other: each is a process of its own to it."""
    ids = {name: client_ids(transcript) for name, transcript in of_cases.items()}
    users = Counter(itertools.chain.from_iterable(ids.values()))
    shared = {each for each, cases in users.items() if cases > 1}
    assert {name: found & shared for name, found in ids.items() if found & shared} == {}
    assert len(users) > 100


def main() -> None:
    with tempfile.TemporaryDirectory() as home, Reference(Path(home)) as reference:
        found = {
            name: sorted(said) for name, said in sorted(found_in(transcripts(reference)).items())
        }
    DEPARTURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found)} cases", file=sys.stderr)


if __name__ == "__main__":
    main()
