"""Options that a running broker is given, by request 25: what they change is what they change at
Apache RocketMQ 5.3.3. Both get the same requests, with each option and without it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from serving import of_both

from mqconform import requests
from mqconform.cluster import Cluster
from mqconform.connection import Connection, eventually
from mqconform.frame import Frame
from mqconform.records import parse_records
from mqconform.requests import Request, Subscription
from mqconform.scene import done
from mqconform.target import Address
from mqconform.transcript import Transcript

LITE_PULL_MESSAGE: Final = 361
MESSAGES: Final = 80  # in the topic, each with the same key
TOPIC: Final = "T"
TOLD: Final = ("MSG_REGION", "TRACE_ON", "queueId", "forbiddenType")

Seen: TypeAlias = tuple[object, ...]
Options: TypeAlias = Mapping[str, object]
Asking: TypeAlias = Callable[[Connection], list[Frame]]


def one(request: Request) -> Asking:
    """A request, and its answer."""
    return lambda connection: [connection.call(request)]


def send_and_pull(connection: Connection) -> list[Frame]:
    """A message, and how it is stored."""
    sent = connection.call(requests.send("S", b"body", properties={"KEYS": "x"}))
    if sent.code:
        return [sent]
    offset = sent.number("queueOffset")
    pull = requests.pull("S", "G", offset, count=1, suspend_ms=5000)
    return [sent, done(connection.call(pull))]


def pull_by_group(connection: Connection) -> list[Frame]:
    """A group whose consumers pull by themselves: who is a member, and who is not."""
    heartbeat = requests.heartbeat("C", "ACTIVE", [Subscription(TOPIC)])
    body = heartbeat.body.replace(b"CONSUME_PASSIVELY", b"CONSUME_ACTIVELY")
    asked = [
        requests.pull(TOPIC, "ACTIVE"),
        requests.pull(TOPIC, "TOOLS_CONSUMER"),
        replace(heartbeat, body=body),
        requests.pull(TOPIC, "ACTIVE"),
        requests.consumer_list("ACTIVE"),
        requests.unregister("C", "ACTIVE"),
    ]
    return [connection.call(request) for request in asked]


def reply(connection: Connection) -> list[Frame]:
    """A reply that nobody waits for, and whether it is stored."""
    sent = requests.send(TOPIC, b"reply", properties={"REPLY_TO_CLIENT": "nobody"})
    answer = connection.call(replace(sent, code=requests.SEND_REPLY_MESSAGE_V2))
    return [replace(answer, fields={"noted": str("msgId" in answer.fields)})]


def pass_over(connection: Connection) -> list[Frame]:
    """How many messages that are not wanted a pull of one looks at."""
    answer = connection.call(requests.pull(TOPIC, "G", subscription="nothing", count=1))
    return [replace(answer, fields={"noted": answer.fields["nextBeginOffset"]})]


PULL: Final = requests.pull(TOPIC, "G", count=64)
BATCH: Final = requests.send_batch("S", [bytes(60), bytes(60)])
BY_UNIQUE_KEY: Final = requests.query_message(TOPIC, "k", 64).having(_UNIQUE_KEY_QUERY="true")
LATER: Final = 4_102_444_800_123  # ms: in 2100

WITH: Final[Sequence[tuple[Options, Sequence[Asking]]]] = (
    ({"regionId": "elsewhere", "traceOn": "false"}, (send_and_pull, reply)),
    (
        {"startAcceptSendRequestTimeStamp": LATER},
        (send_and_pull, one(BATCH), one(requests.send_batch("", [b"a"])), reply),
    ),
    ({"maxMessageSize": 100}, (one(requests.send("S", bytes(101))), send_and_pull, one(BATCH))),
    ({"maxTransferCountOnMessageInMemory": 7}, (one(PULL),)),
    ({"maxTransferBytesOnMessageInMemory": 2000}, (one(PULL),)),
    ({"maxFilterMessageSize": 20}, (pass_over,)),
    ({"maxMsgsNumBatch": 5}, (one(requests.query_message(TOPIC, "k", 64)), one(BY_UNIQUE_KEY))),
    ({"defaultQueryMaxNum": 9}, (one(requests.query_message(TOPIC, "k", 64)), one(BY_UNIQUE_KEY))),
    ({"storeReplyMessageEnable": "false"}, (reply,)),
    ({"litePullMessageEnable": "false"}, (one(PULL), one(replace(PULL, code=LITE_PULL_MESSAGE)))),
    ({"rejectPullConsumerEnable": "true"}, (pull_by_group, one(PULL))),
)
"""Options, and what is asked with and without them."""


def answers(nameserver: Address) -> list[tuple[Options, list[Seen], list[Seen]]]:
    """What one of the two says to all, without each option and with it."""
    cluster = Cluster(nameserver)
    cluster.wait(1)
    (broker,) = cluster.brokers.values()
    found = []
    with Connection(broker, Transcript()) as connection:
        call = connection.call
        for topic in (TOPIC, "S"):
            done(call(requests.create_topic(topic, 1, 1)))
        for group in ("G", "ACTIVE"):
            done(call(requests.create_group(group)))
        for _ in range(MESSAGES):
            # With a key of its own: those of 5.3.3 are as long as its address.
            done(call(requests.send(TOPIC, properties={"KEYS": "k", "UNIQ_KEY": "u"})))
        query = requests.query_message(TOPIC, "k", 64)
        assert eventually(lambda: len(parse_records(call(query).body)) == 64)
        for options, asked in WITH:
            before = done(call(Request(requests.GET_BROKER_CONFIG))).body.decode()
            own = dict(line.split("=", 1) for line in before.splitlines() if "=" in line)
            unset = {name: own[name] for name in options}
            seen: list[list[Seen]] = []
            for given in (unset, options, unset):
                done(call(requests.update_broker_config(**given)))
                seen.append([view(each) for asks in asked for each in asks(connection)])
            assert seen[0] == seen[2]
            found.append((options, seen[0], seen[1]))
    return found


def view(answer: Frame) -> Seen:
    """What is compared of an answer: no key that a broker makes, no port, no line of Java."""
    remark = re.sub(r"127\.0\.0\.1(:\d+)?", "HOST", answer.remark or "")
    remark = re.sub(r"^java\.lang\.RuntimeException: |, org\.apache\..*", "", remark)
    told = {name: value for name, value in answer.fields.items() if name in TOLD}
    records = parse_records(answer.body) if answer.body[4:8] == b"\xda\xa3\x20\xa7" else []
    last = dict(records[-1].properties) if records else {}
    last.pop("UNIQ_KEY", None)
    return answer.code, remark, told, answer.fields.get("noted"), len(records), last


def test_options_change_what_they_change_at_apache(tmp_path: Path) -> None:
    theirs, ours = of_both(tmp_path, answers)
    assert ours == theirs
    assert len(theirs) == len(WITH)
    assert [options for options, without, given in theirs if without == given] == []
