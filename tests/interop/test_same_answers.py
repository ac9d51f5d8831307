"""Wrong requests: the reference answers them with the code with which Apache RocketMQ 5.3.3 does.

Each request of a table is sent as it should be, then with one of its fields, or of the keys of
its body, missing or something else. Both get the same requests in the same order. Where the
codes may differ it is said why, and they do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypeAlias

from serving import of_both

from mqconform import requests
from mqconform.cluster import Cluster
from mqconform.connection import Connection, SilentError, eventually
from mqconform.requests import Request, Subscription
from mqconform.scene import done
from mqconform.target import Address
from mqconform.transcript import Transcript

ANSWER_S: Final = 8.0  # one or two are not answered
NOTHING_FOUND: Final = 210  # 5.3.3 says so too while another pop has not let go of the queue yet
POPS: Final = 20  # asked until then
MISSING: Final = object()
FIELDS: Final = (
    *(MISSING, "", " 5 ", "1.5", "-1", "+3", "9223372036854775808", "abc", "true", "a b"),
    *("x" * 300, "SCHEDULE_TOPIC_XXXX"),
)
KEYS: Final[Sequence[object]] = (MISSING, None, "", 0, "abc", [], {}, True)
BODIES: Final = (b"", b"{", b"{}", b"abc")

_NOT_THERE: Final = "5.3.3 reads what is not there"
DIFFERENCES: Final = {
    "pull without subscription: subVersion is missing": _NOT_THERE,
    "pull and commit: commitOffset is missing": _NOT_THERE,  # and does not answer
    "correction: topic is missing": "5.3.3 does not need it before any offset is stored",
    "lock: mqSet is null": _NOT_THERE,
    "units: topic is 'SCHEDULE_TOPIC_XXXX'": "5.3.3 makes a queue when it looks for one",
    "*heartbeat: ????????DataSet is null": _NOT_THERE,
    "create topics: topicConfigList is {}": "5.3.3 takes an object for a list of one",
    "check: subscriptionData is [[]]": "5.3.3 takes a list for an object",
    "create group: groupRetryPolicy is [[]]": "5.3.3 takes a list for an object",
    "check: subscriptionData is {}": "5.3.3 takes a subscription without a topic",
    "register: brokerName is missing": "5.3.3 has a broker without a name then",
    "register: clusterName is missing": "5.3.3 has a cluster without a name then",
}
"""What differs, and why."""


@dataclass(frozen=True)
class World:
    """What requests are about: a topic with three messages, and a group with a member."""

    topic: str
    group: str
    broker_name: str
    position: int  # of the first message, in the log
    half: tuple[int, int]  # the queue offset and the position of a half message
    handle: str  # of the first message, as it was popped


Making: TypeAlias = Callable[[World], Request]
Codes: TypeAlias = Mapping[str, int | str]


def about(code: int, **fields: str) -> Making:
    """A request about the topic and the group of a world."""

    def made(world: World) -> Request:
        values = {"TOPIC": world.topic, "GROUP": world.group}
        return Request(code, {name: values.get(value, value) for name, value in fields.items()})

    return made


TO_BROKER: Final[Mapping[str, Making]] = {
    # First: 5.3.3 fails for good once an offset of a group without a name is stored.
    "correction": lambda w: requests.correction_offset(w.topic, w.group),
    "send": lambda w: requests.send(w.topic, properties={"KEYS": "k"}),
    "send of code 10": lambda w: requests.send_v1(requests.send(w.topic)),
    "send to retry": lambda w: requests.send(f"%RETRY%{w.group}").having(l=3, j=1),
    "batch": lambda w: requests.send_batch(w.topic, [b"a", b"b"]),
    "half": lambda w: requests.send_half(w.topic, w.group),
    "end": lambda w: requests.end_transaction(w.group, *w.half, requests.COMMIT),
    "pull": lambda w: requests.pull(w.topic, w.group),
    "pull without subscription": lambda w: requests.pull(w.topic, w.group, subscription=None),
    "pull and commit": lambda w: requests.pull(w.topic, w.group, 1, commit=1),
    "query": lambda w: requests.query_message(w.topic, "k"),
    "view": lambda w: requests.view_message(w.position),
    "units": lambda w: requests.query_consume_queue(w.topic, 0, 9),
    "query offset": lambda w: requests.query_offset(w.group, w.topic),
    "commit": lambda w: requests.commit_offset(w.group, w.topic, 1),
    "reset": lambda w: requests.reset_offset(w.group, w.topic),
    "reset to offset": lambda w: requests.reset_offset(w.group, w.topic, queueId=0, offset=1),
    "clone": lambda w: requests.clone_offset(w.group, f"N-{w.group}", w.topic),
    "max": lambda w: requests.max_offset(w.topic),
    "min": lambda w: requests.min_offset(w.topic),
    "earliest": lambda w: requests.earliest_time(w.topic),
    "search": lambda w: requests.search_offset(w.topic, 0).having(boundaryType="upper"),
    "create topic": lambda w: requests.create_topic(f"N-{w.topic}", 2, 2),
    "create topics": lambda w: requests.create_topics((f"N-{w.topic}", 3), (f"M-{w.topic}", 1)),
    "topic": lambda w: requests.topic_config(w.topic),
    "create group": lambda w: requests.create_group(f"N-{w.topic}"),
    "create groups": lambda w: requests.create_groups(f"N-{w.topic}", f"M-{w.topic}"),
    "group": lambda w: requests.group_config(w.group),
    "forbidden": lambda w: requests.group_forbidden(w.group, w.topic),
    "allow": lambda w: requests.group_forbidden(w.group, w.topic, readable=True),
    "subscription": lambda w: requests.query_subscription(w.group, w.topic),
    "status": lambda w: requests.consumer_status(w.group, w.topic, "x"),
    "modes": lambda _: Request(requests.GET_ALL_MESSAGE_REQUEST_MODE),
    "members": lambda w: requests.consumer_list(w.group),
    "send back": lambda w: requests.send_back(w.group, w.topic, w.position, 1, 16),
    "lock": lambda w: requests.lock(w.group, "C", (w.topic, w.broker_name, 0)),
    "unlock": lambda w: requests.unlock(w.group, "C", (w.topic, w.broker_name, 0)),
    "heartbeat": lambda w: requests.heartbeat("H", w.group, [Subscription(w.topic)]),
    "producer's heartbeat": lambda w: requests.producer_heartbeat("H", w.group),
    "check": lambda w: requests.check_client_config(w.group, w.topic, "a > 1", "SQL92"),
    "pop": lambda w: requests.pop(w.topic, w.group),
    "peek": lambda w: requests.peek(w.topic, w.group),
    "ack": lambda w: requests.ack(w.topic, w.group, w.handle, 0),
    "change": lambda w: requests.change_invisible_time(w.topic, w.group, w.handle, 0, 1000),
    "notification": lambda w: requests.notification(w.topic, w.group),
    "polling info": lambda w: requests.polling_info(w.topic, w.group),
    "recall": about(requests.RECALL_MESSAGE, topic="TOPIC", recallHandle="x", producerGroup="P"),
    "topic stats": about(requests.GET_TOPIC_STATS_INFO, topic="TOPIC"),
    "consumers": about(requests.GET_CONSUMER_CONNECTION_LIST, consumerGroup="GROUP"),
    "producers": about(requests.GET_PRODUCER_CONNECTION_LIST, producerGroup="GROUP"),
    "progress": about(requests.GET_CONSUME_STATS, consumerGroup="GROUP", topic="TOPIC"),
    "groups of topic": about(requests.QUERY_TOPIC_CONSUME_BY_WHO, topic="TOPIC"),
    "topics of group": about(requests.QUERY_TOPICS_BY_CONSUMER, group="GROUP"),
    "running info": about(requests.GET_CONSUMER_RUNNING_INFO, consumerGroup="GROUP", clientId="x"),
    "count": about(requests.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey="TOPIC"),
    "unregister": lambda w: requests.unregister("C", w.group),
    "delete group": lambda w: requests.delete_group(w.group, clean_offset=True),
    "delete topic": lambda w: requests.delete_topic(w.topic),
}
TO_NAMESERVER: Final[Mapping[str, Making]] = {
    "route": lambda w: requests.route(w.topic),
    "put": about(requests.PUT_KV_CONFIG, namespace="N", key="k", value="v"),
    "get": about(requests.GET_KV_CONFIG, namespace="N", key="k"),
    "delete": about(requests.DELETE_KV_CONFIG, namespace="N", key="k"),
    "register": lambda w: requests.register_broker("b", "127.0.0.1:1", {"t": 4}, cluster="c"),
    "topics of cluster": about(requests.GET_TOPICS_BY_CLUSTER, cluster="c"),
    "wipe": about(requests.WIPE_WRITE_PERM_OF_BROKER, brokerName="b"),
    "unregister broker": lambda w: requests.unregister_broker("b", "127.0.0.1:1", cluster="c"),
}
CHANGE_THEIR_WORLD: Final = {
    *("end", "commit", "reset", "reset to offset", "ack", "change", "pop", "lock"),
    *("unregister", "delete group", "delete topic"),
}


def variants(request: Request) -> Iterator[tuple[str, Request]]:
    """A request, and what is made of it; each with what it is."""
    yield "as it is", request
    for name in request.fields:
        for value in FIELDS:
            wrong = request.without(name) if value is MISSING else request.having(**{name: value})
            yield f"{name} is {'missing' if value is MISSING else repr(value)}", wrong
    if not request.body:
        return
    for body in BODIES:
        yield f"the body is {body!r}", replace(request, body=body)
    try:
        data: dict[str, Any] = json.loads(request.body)
    except ValueError:
        return
    for key in data:
        for other in KEYS:
            kept = {name: value for name, value in data.items() if name != key}
            changed = kept if other is MISSING else kept | {key: other}
            said = "missing" if other is MISSING else json.dumps(other)
            yield f"{key} is {said}", replace(request, body=json.dumps(changed).encode())


class Asked:
    """A nameserver with one broker, and what they answered."""

    def __init__(self, nameserver: Address) -> None:
        self._nameserver = nameserver
        cluster = Cluster(nameserver)
        cluster.wait(1)
        ((self._broker_name, self._broker),) = cluster.brokers.items()
        self.codes: dict[str, int | str] = {}

    def all(self) -> dict[str, int | str]:
        """The codes of all answers."""
        for name, making in TO_BROKER.items():
            self._ask(self._broker, name, making)
        for name, making in TO_NAMESERVER.items():
            self._ask(self._nameserver, name, making)
        return self.codes

    def _ask(self, address: Address, name: str, making: Making) -> None:
        label = "".join(filter(str.isalnum, name))
        with Connection(self._broker, Transcript()) as member:
            world = self._world(member, label)
            for number, (what, wrong) in enumerate(variants(making(world))):
                # A broker closes the connection of who is in a group and sends no heartbeat for two
                # minutes (GROUP-006), which on a busy machine all requests of a name may take.
                done(member.call(requests.heartbeat("C", world.group, [Subscription(world.topic)])))
                code = (
                    self._code_in_another(address, f"{label}-{number}", making, what)
                    if name in CHANGE_THEIR_WORLD
                    else self._code(address, wrong)
                )
                self.codes[f"{name}: {what}"] = code

    def _code_in_another(
        self, address: Address, label: str, making: Making, what: str
    ) -> int | str:
        with Connection(self._broker, Transcript()) as member:
            another = self._world(member, label)
            return self._code(address, dict(variants(making(another)))[what])

    def _code(self, address: Address, request: Request) -> int | str:
        with Connection(address, Transcript()) as connection:
            try:
                for _ in range(POPS):
                    code = connection.answer(connection.ask(request), ANSWER_S).code
                    if code != NOTHING_FOUND:
                        break
                return code
            except SilentError:
                return "no answer"

    def _world(self, member: Connection, name: str) -> World:
        call = member.call
        topic, group = f"T-{name}", f"G-{name}"
        done(call(requests.create_topic(topic, 4, 4)))
        done(call(requests.heartbeat("C", group, [Subscription(topic)])))
        sent = [done(call(requests.send(topic, properties={"KEYS": "k"}))) for _ in range(3)]
        assert eventually(lambda: call(requests.max_offset(topic)).number("offset") == 3)
        half = done(call(requests.send_half(topic, group)))
        popped = done(call(requests.pop(topic, group, count=1)))
        times = (popped.fields[field] for field in ("popTime", "invisibleTime", "reviveQid"))
        handle = " ".join(("0", *times, "0", self._broker_name, "0", "0"))
        place = half.number("queueOffset"), position(half.fields["msgId"])
        first = position(sent[0].fields["msgId"])
        return World(topic, group, self._broker_name, first, place, handle)


def position(message_id: str) -> int:
    return int(message_id[-16:], 16)


def test_wrong_requests_are_answered_as_apache_answers_them(tmp_path: Path) -> None:
    theirs, answered = of_both(tmp_path, lambda nameserver: Asked(nameserver).all())
    assert answered.keys() == theirs.keys()
    assert len(answered) > 2000
    assert {0, 1, 17, 26, 29} <= set(theirs.values())
    assert judged(theirs, answered) == ({}, [])


def judged(theirs: Codes, ours: Codes) -> tuple[Mapping[str, object], list[str]]:
    """What differs and may not, with both codes; and what should differ and does not."""
    found = {what: (code, ours[what]) for what, code in theirs.items() if code != ours[what]}
    used = {each for each in DIFFERENCES for what in found if fnmatchcase(what, each)}
    unknown = {
        what: codes
        for what, codes in found.items()
        if not any(fnmatchcase(what, each) for each in used)
    }
    return unknown, sorted(DIFFERENCES.keys() - used)


def test_what_differs_is_seen() -> None:
    theirs: dict[str, int | str] = {"pop: topic is missing": 1, "lock: mqSet is null": 1}
    unknown, stale = judged(theirs, dict.fromkeys(theirs, 0))
    assert unknown == {"pop: topic is missing": (1, 0)}
    assert "lock: mqSet is null" not in stale
    assert judged(theirs, theirs) == ({}, sorted(DIFFERENCES))


def test_a_request_is_varied_field_by_field_and_key_by_key() -> None:
    made = dict(variants(Request(1, {"a": "x"}, b'{"k":1}')))
    assert made["a is missing"] == Request(1, {}, b'{"k":1}')
    assert made["a is ' 5 '"].fields == {"a": " 5 "}
    assert made["k is null"].body == b'{"k": null}'
    assert made["k is missing"].body == made["the body is b'{}'"].body == b"{}"
    assert len(made) == 1 + len(FIELDS) + len(BODIES) + len(KEYS)
