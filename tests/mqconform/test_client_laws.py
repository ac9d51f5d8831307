"""Laws over all that a client did: each says no to frames that break it, and yes to others."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mqconform import requests
from mqconform.clients.door import Call
from mqconform.clients.laws import LAWS
from mqconform.clients.member import Member
from mqconform.clients.play import Play
from mqconform.frame import frame, json_header, parse_frame
from mqconform.records import with_store_ports
from mqspec.core.record import Host, Record, encode_record

PLAY = cast(Play, SimpleNamespace(group="G"))
BEAT = json.dumps({"clientID": "C", "consumerDataSet": [{"groupName": "G"}]}).encode()


def call(
    at: float,
    code: int,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
    by_client: bool = True,
) -> Call:
    request = parse_frame(frame(json_header(code, fields, opaque=7), body))
    return Call(at, "broker-a", 0, request, by_client)


def commit(at: float, offset: int) -> Call:
    fields = {"topic": "T", "queueId": "0", "commitOffset": str(offset)}
    return call(at, requests.UPDATE_CONSUMER_OFFSET, fields)


def twice_open() -> Call:
    again = call(2, requests.PULL_MESSAGE)
    again.open_opaques = frozenset({7})
    return again


def notice(at: float) -> Call:
    code = requests.NOTIFY_CONSUMER_IDS_CHANGED
    return call(at, code, {"consumerGroup": "G"}, by_client=False)


def reset(at: float) -> Call:
    return call(at, requests.RESET_CONSUMER_CLIENT_OFFSET, by_client=False)


def moved(at: float, answered_at: float) -> Call:
    pull = call(at, requests.PULL_MESSAGE, QUERIES)
    pull.answer, pull.answered_at = parse_frame(frame(json_header(21, {}, 7, flag=1))), answered_at
    return pull


ASKS_LIST = requests.GET_CONSUMER_LIST_BY_GROUP
QUERIES = {"topic": "T", "queueId": "0"}


@pytest.mark.parametrize(
    ("name", "calls", "why"),
    [
        ("open_requests_have_opaques_of_their_own", [call(1, 11), call(2, 11)], None),
        ("open_requests_have_opaques_of_their_own", [call(1, 11), twice_open()], "opaque 7 again"),
        ("commits_do_not_go_back", [commit(1, 5), commit(2, 5), commit(3, 6)], None),
        ("commits_do_not_go_back", [commit(1, 5), commit(2, 4)], "4 is committed after 5"),
        (
            "commits_do_not_go_back",
            [commit(1, 5), call(2, requests.QUERY_CONSUMER_OFFSET, QUERIES), commit(3, 4)],
            None,
        ),
        ("commits_do_not_go_back", [reset(1), commit(2, 5), commit(9, 4)], None),
        ("commits_do_not_go_back", [reset(1), commit(30, 5), commit(31, 4)], "4 is committed"),
        ("commits_do_not_go_back", [moved(1, 29), commit(28, 5), commit(31, 4)], None),
        ("commits_do_not_go_back", [moved(1, 2), commit(30, 5), commit(31, 4)], "4 is committed"),
        ("notices_are_heard", [notice(1), call(2, ASKS_LIST)], None),
        ("notices_are_heard", [call(0, ASKS_LIST), notice(1)], "no list of members"),
        ("notices_are_heard", [notice(1), call(9, ASKS_LIST)], "no list of members"),
        ("heartbeats_come_in_time", [call(at, 34, body=BEAT) for at in (0, 30, 60)], None),
        (
            "heartbeats_come_in_time",
            [call(at, 34, body=BEAT) for at in (0, 60)],
            "no heartbeat for 60",
        ),
    ],
)
def test_a_law(name: str, calls: Iterable[Call], why: str | None) -> None:
    door: Any = SimpleNamespace(calls=list(calls))
    member = Member(door, cast(Any, None))
    problems = [problem for problem in LAWS[name].judge(PLAY, member) if problem]
    if why is None:
        assert problems == []
    else:
        assert problems
        assert why in problems[0].why


def test_records_are_shown_at_the_port_of_a_door() -> None:
    def stored(port: int) -> bytes:
        host = Host.parse("127.0.0.1", port)
        return b"".join(
            encode_record(Record("T", body, queue_offset=n, store_host=host))
            for n, body in enumerate((b"", b"two", b"x" * 300))
        )

    assert with_store_ports(stored(10911), {10911: 1234, 1: 2}) == stored(1234)
    assert with_store_ports(stored(10911), {1: 2}) == stored(10911)
    assert with_store_ports(b"no record", {1: 2}) == b"no record"
