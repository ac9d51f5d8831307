"""A cluster's links and its members, by hand: what each says, and what it is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from typing import Any, Final

from mqrecord.observer import Observer
from mqrecord.seen import Row, Server
from mqspec.core.record import Record, encode_properties, encode_record
from mqspec.wire.codec import Flag, RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

GROUP, TOPIC = "G", "T"
QUEUES: Final = 4
PLACE: Final = 1_000  # of the first message, in the broker's log
BROKER: Final = Server("broker-a", 0, "10.0.0.2:10911")
REPLICA: Final = Server("broker-a", 1, "10.0.0.3:10911")


class Cluster:
    """Links to broker-a and the nameserver, driven by hand; `rows` is what was told."""

    def __init__(self) -> None:
        self.observer = Observer()
        self.rows: list[Row] = []
        self.now_ms = 0.0
        self._numbers, self._opaques = count(), count()

    def link(self, server: Server = BROKER) -> int:
        number = next(self._numbers)
        self.rows += self.observer.linked(number, server, f"10.0.0.1:{number}", self.now_ms)
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

    def __init__(
        self, cluster: Cluster, client_id: str, expression: str = "*", is_sql: bool = False
    ) -> None:
        self.cluster, self.client_id = cluster, client_id
        self.nameserver, self.link = cluster.link(Server()), cluster.link()
        tags = [] if expression == "*" or is_sql else expression.split(" || ")
        wanted = {"topic": TOPIC, "subString": expression, "tagsSet": tags, "codeSet": []}
        group = {"groupName": GROUP, "messageModel": "CLUSTERING", "subscriptionDataSet": [wanted]}
        beat = {"clientID": client_id, "consumerDataSet": [group], "producerDataSet": []}
        self.beat = json.dumps(beat).encode()
        self.ask(RequestCode.HEART_BEAT, body=self.beat)
        self.told_route()

    def told_route(self, queues: int = QUEUES) -> None:
        route = {
            "brokerDatas": [],
            "queueDatas": [{"brokerName": "broker-a", "readQueueNums": queues, "perm": 6}],
        }
        asked = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC}
        opaque = self.cluster.ask(self.nameserver, *asked)
        self.cluster.answer(self.nameserver, opaque, body=json.dumps(route).encode())

    def ask(self, code: int, fields: Mapping[str, object] | None = None, **more: Any) -> int:
        return self.cluster.ask(self.link, code, fields, **more)

    def told_members(self, *ids: str) -> None:
        opaque = self.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
        body = json.dumps({"consumerIdList": ids}).encode()
        self.cluster.answer(self.link, opaque, body=body)

    def begins(self, queue_id: int, offset: int = 0) -> None:
        opaque = self.ask(RequestCode.QUERY_CONSUMER_OFFSET, self._at(queue_id))
        self.cluster.answer(self.link, opaque, {"offset": offset})

    def pulls(
        self, queue_id: int, offset: int, *tags: str, moved: int | None = None, commits: int = 0
    ) -> None:
        """A pull, which may carry a commit, and its answer: messages with tags; none is none."""
        sys_flag = 3 if commits else 2
        more = {"queueOffset": offset, "sysFlag": sys_flag, "commitOffset": commits}
        opaque = self.ask(RequestCode.PULL_MESSAGE, self._at(queue_id) | more)
        if moved is not None:
            moved_to = {"nextBeginOffset": moved}
            self.cluster.answer(self.link, opaque, moved_to, code=ResponseCode.PULL_OFFSET_MOVED)
            return
        if tags:
            self.gets(opaque, queue_id, {offset + at: tag for at, tag in enumerate(tags)})

    def gets(
        self, opaque: int, queue_id: int, tags: Mapping[int, str], times: int = 0, **more: str
    ) -> None:
        """An answer to a pull: messages at offsets, by their tags; given back so many times, and
        with more properties."""
        records = [
            Record(
                TOPIC,
                b"body",
                encode_properties({"UNIQ_KEY": f"u{offset}", "TAGS": tag} | more).encode(),
                queue_id,
                queue_offset=offset,
                physical_offset=PLACE + offset,
                reconsume_times=times,
            )
            for offset, tag in tags.items()
        ]
        body = b"".join(map(encode_record, records))
        self.cluster.answer(self.link, opaque, {"nextBeginOffset": max(tags) + 1}, body)

    def commits(self, queue_id: int, offset: int) -> None:
        fields = self._at(queue_id) | {"commitOffset": offset}
        self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields, one_way=True)

    def leaves(self) -> None:
        fields = {"clientID": self.client_id, "consumerGroup": GROUP}
        self.ask(RequestCode.UNREGISTER_CLIENT, fields)

    def ends(self, by_client: bool = True) -> None:
        for link in (self.nameserver, self.link):
            self._unlinked(link, by_client)

    def is_ended(self) -> None:
        """Its broker ends its connection."""
        self._unlinked(self.link, by_client=False)

    def _unlinked(self, link: int, by_client: bool) -> None:
        told = self.cluster.observer.unlinked(link, by_client, self.cluster.now_ms)
        self.cluster.rows += told

    def _at(self, queue_id: int) -> dict[str, object]:
        return {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id}
