"""What is told of what went over links: a script of requests and answers, and its events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from mqrecord.holds import LEAVING_MS, SILENT_MS
from mqrecord.observer import Observer
from mqrecord.seen import Row
from mqspec.core.record import Record, encode_properties, encode_record
from mqspec.wire.codec import Flag, RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

GROUP, TOPIC = "G", "T"
QUEUES = 4


class Cluster:
    """Links to broker-a and the nameserver, driven by hand; `rows` is what was told."""

    def __init__(self) -> None:
        self.observer = Observer()
        self.rows: list[Row] = []
        self.now_ms = 0.0
        self._numbers, self._opaques = count(), count()

    def link(self, broker: str | None = "broker-a") -> int:
        number = next(self._numbers)
        self.rows += self.observer.linked(number, broker, f"10.0.0.1:{number}")
        return number

    def ask(
        self,
        link: int,
        code: int,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        one_way: bool = False,
    ) -> int:
        opaque = next(self._opaques)
        named = {name: str(value) for name, value in (fields or {}).items()}
        flag = Flag.ONEWAY if one_way else Flag(0)
        request = RemotingCommand(code, named, body, flag, opaque)
        self.rows += self.observer.request(link, request, self.now_ms)
        return opaque

    def answer(
        self,
        link: int,
        opaque: int,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        code: int = ResponseCode.SUCCESS,
    ) -> None:
        named = {name: str(value) for name, value in (fields or {}).items()}
        answer = RemotingCommand(code, named, body, Flag.RESPONSE, opaque)
        self.rows += self.observer.answer(link, answer, self.now_ms)

    def after(self, ms: float) -> None:
        self.now_ms += ms
        self.rows += self.observer.tick(self.now_ms)

    def told(self, *names: str) -> list[tuple[Any, ...]]:
        """Some columns of what was told since this was last asked."""
        rows, self.rows = self.rows, []
        return [tuple(row.get(name) for name in names) for row in rows]


class Member:
    """A client that says what a real one says."""

    def __init__(self, cluster: Cluster, client_id: str, expression: str = "*") -> None:
        self.cluster, self.client_id = cluster, client_id
        self.nameserver, self.link = cluster.link(None), cluster.link()
        wanted = {"topic": TOPIC, "subString": expression, "tagsSet": [], "codeSet": []}
        group = {"groupName": GROUP, "messageModel": "CLUSTERING", "subscriptionDataSet": [wanted]}
        beat = {"clientID": client_id, "consumerDataSet": [group], "producerDataSet": []}
        self.ask(RequestCode.HEART_BEAT, body=json.dumps(beat).encode())
        route = {
            "brokerDatas": [],
            "queueDatas": [{"brokerName": "broker-a", "readQueueNums": QUEUES}],
        }
        opaque = cluster.ask(self.nameserver, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})
        cluster.answer(self.nameserver, opaque, body=json.dumps(route).encode())

    def ask(self, code: int, fields: Mapping[str, object] | None = None, **more: Any) -> int:
        return self.cluster.ask(self.link, code, fields, **more)

    def told_members(self, *ids: str) -> None:
        opaque = self.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
        body = json.dumps({"consumerIdList": ids}).encode()
        self.cluster.answer(self.link, opaque, body=body)

    def begins(self, queue_id: int, offset: int = 0) -> None:
        opaque = self.ask(RequestCode.QUERY_CONSUMER_OFFSET, self._at(queue_id))
        self.cluster.answer(self.link, opaque, {"offset": offset})

    def pulls(self, queue_id: int, offset: int, *tags: str, moved: int | None = None) -> None:
        more = {"queueOffset": offset, "sysFlag": 2, "commitOffset": 0}
        opaque = self.ask(RequestCode.PULL_MESSAGE, self._at(queue_id) | more)
        if moved is not None:
            moved_to = {"nextBeginOffset": moved}
            self.cluster.answer(self.link, opaque, moved_to, code=ResponseCode.PULL_OFFSET_MOVED)
            return
        records = [
            Record(
                TOPIC,
                b"body",
                encode_properties({"UNIQ_KEY": f"u{offset + at}", "TAGS": tag}).encode(),
                queue_id,
                queue_offset=offset + at,
            )
            for at, tag in enumerate(tags)
        ]
        body = b"".join(map(encode_record, records))
        self.cluster.answer(self.link, opaque, {"nextBeginOffset": offset + len(tags)}, body)

    def commits(self, queue_id: int, offset: int) -> None:
        fields = self._at(queue_id) | {"commitOffset": offset}
        self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields, one_way=True)

    def leaves(self) -> None:
        fields = {"clientID": self.client_id, "consumerGroup": GROUP}
        self.ask(RequestCode.UNREGISTER_CLIENT, fields)

    def ends(self, by_client: bool = True) -> None:
        for link in (self.nameserver, self.link):
            told = self.cluster.observer.unlinked(link, by_client, self.cluster.now_ms)
            self.cluster.rows += told

    def _at(self, queue_id: int) -> dict[str, object]:
        return {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id}


def test_a_member_joins_gets_finishes_and_commits() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    assert cluster.told("kind", "group", "tag") == [("join", "G", None), ("subscribe", "G", "*")]
    member.begins(0, 7)
    member.pulls(0, 7, "a", "b", "c")
    assert cluster.told("kind", "queue_offset", "value", "message_key") == [
        ("query_offset", None, 7, None),
        ("assign", None, None, None),
        ("receive", 7, None, "u7"),
        ("receive", 8, None, "u8"),
        ("receive", 9, None, "u9"),
    ]
    member.commits(0, 9)
    assert cluster.told("kind", "outcome", "queue_offset", "value") == [
        ("ack", "ok", 7, None),
        ("ack", "ok", 8, None),
        ("commit", "unknown", None, 9),
    ]


def test_what_a_client_drops_by_its_tag_was_not_received() -> None:
    cluster = Cluster()
    member = Member(cluster, "one", "a || c")
    member.begins(0)
    member.pulls(0, 0, "a", "b", "c")
    received = [row for row in cluster.told("kind", "queue_offset") if row[0] == "receive"]
    assert received == [("receive", 0), ("receive", 2)]


def test_a_queue_is_left_with_the_commit_after_a_list_gives_it_to_another() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    for queue_id in range(QUEUES):
        member.begins(queue_id)
    cluster.told()
    member.told_members("one", "two")  # averagely, the first two are its own
    assert cluster.told("kind") == []
    for queue_id in range(QUEUES):
        member.commits(queue_id, 5)
    assert cluster.told("kind", "queue_id") == [
        ("commit", 0),
        ("commit", 1),
        ("commit", 2),
        ("revoke", 2),
        ("commit", 3),
        ("revoke", 3),
    ]
    member.pulls(3, 0, "a")  # asked before it was through
    assert cluster.told("kind") == []


def test_who_goes_on_pulling_what_is_not_its_share_owns_it() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(3)
    member.told_members("one", "two")
    cluster.after(LEAVING_MS + 1)
    assert cluster.told("kind", "queue_id")[-1] == ("revoke", 3)
    cluster.after(LEAVING_MS)
    member.pulls(3, 0, "a")
    assert ("assign", 3) in cluster.told("kind", "queue_id")
    member.told_members("one", "two")  # by now it is known not to share averagely
    cluster.after(LEAVING_MS + 1)
    assert cluster.told("kind") == []


def test_a_silent_owner_has_left_its_queue() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0)
    cluster.after(SILENT_MS - 1)
    member.commits(0, 0)
    cluster.told()
    cluster.after(SILENT_MS - 1)
    assert cluster.told("kind") == []
    cluster.after(2)
    assert cluster.told("kind", "queue_id") == [("revoke", 0)]


def test_last_commits_may_come_behind_a_goodbye() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    for queue_id in (0, 1, 2):
        member.begins(queue_id)
    cluster.told()
    member.leaves()
    member.commits(0, 3)
    other = Member(cluster, "two")
    cluster.told()
    other.begins(1)
    assert cluster.told("kind", "client_id", "queue_id") == [
        ("query_offset", "two", 1),
        ("revoke", "one", 1),
        ("assign", "two", 1),
    ]
    member.ends()
    assert cluster.told("kind", "client_id", "queue_id") == [
        ("revoke", "one", 2),
        ("leave", "one", None),
    ]


def test_who_ends_without_a_goodbye_crashed_but_not_where_its_broker_did() -> None:
    cluster = Cluster()
    dead, cut = Member(cluster, "dead"), Member(cluster, "cut")
    cluster.told()
    dead.ends()
    assert cluster.told("kind", "client_id", "group") == [("crash", "dead", GROUP)]
    cut.ends(by_client=False)
    cluster.rows += cluster.observer.broker_lost("broker-a")
    cluster.rows += cluster.observer.broker_lost("broker-a")
    assert cluster.told("kind", "client_id", "peer") == [("crash", None, "broker-a")]
    cluster.link()
    assert cluster.told("kind", "peer") == [("restart", "broker-a")]


def test_two_clients_of_one_id_are_told_apart() -> None:
    cluster = Cluster()
    Member(cluster, "same")
    Member(cluster, "same")
    assert {who for (who,) in cluster.told("client_id")} == {"same", "same #2"}


@pytest.mark.parametrize("how", ["told", "by itself"])
def test_who_goes_on_elsewhere_is_told_so(how: str) -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0, 7)
    member.pulls(0, 7, "a")
    cluster.told()
    if how == "told":
        member.pulls(0, 8, moved=2)
    member.pulls(0, 2, "a")
    assert cluster.told("kind", "peer", "value", "queue_offset") == [
        ("query_offset", "one", 2, None),
        ("receive", None, None, 2),
    ]


def test_a_message_that_is_given_back_is_not_finished_by_a_commit() -> None:
    cluster = Cluster()
    member = Member(cluster, "one")
    member.begins(0)
    member.pulls(0, 0, "a", "b")
    cluster.told()
    fields = {"group": GROUP, "originMsgId": "u0", "offset": 0, "delayLevel": 0}
    cluster.answer(member.link, member.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields))
    member.commits(0, 2)
    assert cluster.told("kind", "outcome", "queue_offset") == [
        ("ack", "failed", 0),
        ("ack", "ok", 1),
        ("commit", "unknown", None),
    ]


SENDS = [
    ("TAGS\x01a\x02UNIQ_KEY\x01u\x02KEYS\x01k\x02", 0, [("ok", "u", 5)]),
    ("KEYS\x01k\x02", 0, [("ok", "k", 5)]),
    ("UNIQ_KEY\x01u\x02", ResponseCode.FLUSH_DISK_TIMEOUT, [("ok", "u", 5)]),
    ("UNIQ_KEY\x01u\x02", ResponseCode.SYSTEM_BUSY, [("failed", "u", None)]),
    ("UNIQ_KEY\x01u\x02DELAY\x013\x02", 0, [("ok", "u", None)]),
    ("UNIQ_KEY\x01u\x02TRAN_MSG\x01true\x02", 0, [("unknown", "u", None)]),
]


@pytest.mark.parametrize(("properties", "code", "said"), SENDS)
def test_a_send_is_invoked_and_then_what_came_of_it(
    properties: str, code: int, said: list[tuple[str, str, int | None]]
) -> None:
    cluster = Cluster()
    link = cluster.link()
    opaque = cluster.ask(link, RequestCode.SEND_MESSAGE_V2, {"b": TOPIC, "e": 1, "i": properties})
    assert cluster.told("kind", "outcome") == [("send", "invoked")]
    cluster.answer(link, opaque, {"queueId": 1, "queueOffset": 5}, code=code)
    assert cluster.told("outcome", "message_key", "queue_offset") == said


def test_of_a_send_without_an_answer_nothing_is_known() -> None:
    cluster = Cluster()
    link = cluster.link()
    fields = {"b": TOPIC, "e": 1, "i": "UNIQ_KEY\x01u\x02"}
    cluster.ask(link, RequestCode.SEND_MESSAGE_V2, fields, one_way=True)
    cluster.ask(link, RequestCode.SEND_MESSAGE_V2, fields)
    cluster.rows += cluster.observer.unlinked(link, True, 0)
    assert [went for (went,) in cluster.told("outcome")] == [
        "invoked",
        "unknown",
        "invoked",
        "unknown",
    ]


def test_what_cannot_be_read_is_counted() -> None:
    cluster = Cluster()
    link = cluster.link()
    cluster.ask(link, RequestCode.HEART_BEAT, body=b"{")
    cluster.ask(link, RequestCode.PULL_MESSAGE, {"consumerGroup": GROUP})
    assert cluster.observer.unread == 2
    assert cluster.rows == []
