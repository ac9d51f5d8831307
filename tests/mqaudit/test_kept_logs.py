"""Logs of clients and brokers: real ones are read whole, torn ones as far as they go."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from recorded_cluster import unpacked

from mqaudit.kept import events
from mqaudit.kept.copies import distinct
from mqaudit.kept.log import DAMAGE, LINES, log_batches
from mqaudit.kept.log_source import logs_below
from mqaudit.kept.members import Process, matched

HEAD = "2026-11-28 08:15:25.459 INFO  [15561] [RebalanceService] [o.a.r.c.i.c.RebalanceImpl#?:?] - "
BROKER_HEAD = "2026-11-28 08:15:25 INFO HeartbeatThread_1 - "
MQ = "MessageQueue [topic=T, brokerName=b, queueId=2]"
ALL = "MessageQueue [topic=T, brokerName=b, queueId=-1]"
ASSIGN = f"doRebalance, G, add a new mq, {MQ}"
AT_MS = 1_795_824_925_459
CHANNEL = (
    "ClientChannelInfo [channel=[id: 0x48f6d992, L:/127.0.0.1:1 - R:/127.0.0.1:2], "
    "clientId=10.0.0.1@7#8, language=JAVA, version=479, lastUpdateTimestamp=1]"
)
SUBSCRIPTION = (
    "SubscriptionData [classFilterMode=false, topic=T, subString=A || B, tagsSet=[B, A], "
    "codeSet=[65, 66], subVersion=1, expressionType=TAG]"
)
REQUEST = f"PullRequest [consumerGroup=G, messageQueue={MQ}, nextOffset=5]"

# A message of each kind, as 5.3.3 writes it, and what it tells.
MESSAGES: list[tuple[str, dict[str, Any]]] = [
    (ASSIGN, {"kind": "assign", "client_group": "G", "topic": "T", "broker": "b", "queue_id": 2}),
    (f"doRebalance, G, add a new pop mq, {ALL}", {"kind": "pops", "queue_id": -1}),
    (f"doRebalance, G, remove unnecessary pop mq, {ALL}", {"kind": "pops no more"}),
    (f"doRebalance, G, remove unnecessary mq, {MQ}", {"kind": "revoke", "queue_id": 2}),
    (
        f"doRebalance, G, truncateMessageQueueNotMyTopic remove unnecessary mq, {MQ}",
        {"kind": "revoke", "queue_id": 2},
    ),
    (f"Fix Offset, G, remove unnecessary mq, {MQ} Droped: true", {"kind": "revoke"}),
    (f"doRebalance, G, add a new mq failed, {MQ}, because lock failed", {"kind": "failed to own"}),
    ("doRebalance, G T, get consumer id list failed", {"kind": "no members", "topic": "T"}),
    ("doRebalance, G, but the topic[T] not exist.", {"kind": "no topic", "topic": "T"}),
    (
        f"[persistAll] Group: G ClientId: c@1#2 updateConsumeOffsetToBroker {MQ} 19",
        {"kind": "commit", "client_id": "c@1#2", "value": 19, "queue_id": 2},
    ),
    (
        f"[persist] Group: G ClientId: c@1#2 updateConsumeOffsetToBroker {MQ} 19",
        {"kind": "commit", "value": 19},
    ),
    ("the consumer [G] start OK.", {"kind": "join", "client_group": "G"}),
    ("the consumer [G] shutdown OK", {"kind": "leave", "client_group": "G"}),
    (
        "the consumer [G] start beginning. messageModel=CLUSTERING, isUnitMode=false",
        {"kind": "start"},
    ),
    (
        "client rebalanced result changed. allocateMessageQueueStrategyName=AVG, group=G, topic=T, "
        "clientId=c@1#2, mqAllSize=4, cidAllSize=2, rebalanceResultSize=1, "
        f"rebalanceResultSet=[{MQ}]",
        {"kind": "rebalanced", "client_id": "c@1#2", "value": 2},
    ),
    (
        "receive broker's notification[127.0.0.1:1], the consumer group: G changed, rebalance "
        "immediately",
        {"kind": "notified", "address": "127.0.0.1:1"},
    ),
    (
        "invoke reset offset operation from broker. brokerAddr=127.0.0.1:1, topic=T, group=G, "
        "timestamp=-1",
        {"kind": "reset", "value": -1},
    ),
    (
        f"the pull request offset illegal, {REQUEST} PullResult [pullStatus=OFFSET_ILLEGAL, "
        "nextBeginOffset=0, minOffset=0, maxOffset=0, msgFoundList=0]",
        {"kind": "illegal offset", "queue_id": 2},
    ),
    (
        "the cached message count exceeds the threshold 1000, so do flow control, minOffset=1, "
        f"maxOffset=1001, count=1001, size=1 MiB, pullRequest={REQUEST}, flowControlTimes=1",
        {"kind": "flow control", "client_group": "G", "queue_id": 2},
    ),
    (
        "the queue's messages, span too long, so do flow control, minOffset=1, maxOffset=3000, "
        f"maxSpan=2999, pullRequest={REQUEST}, flowControlTimes=1",
        {"kind": "flow control"},
    ),
    (f"the message queue locked OK, Group: G {MQ}", {"kind": "locked"}),
    (f"the message queue locked Failed, Group: G {MQ}", {"kind": "not locked"}),
    (f"the message queue unlock OK, Group: G {MQ}", {"kind": "unlocked"}),
    (
        "send heart beat to broker[broker-a 0 127.0.0.1:1] success",
        {"kind": "broker", "broker": "broker-a", "address": "127.0.0.1:1"},
    ),
    ("send heart beat to broker[broker-a 0 127.0.0.1:1] failed", {"kind": "broker"}),
    (
        "Created a new client Instance, InstanceIndex:0, ClientID:c@1#2, ClientConfig:{}",
        {"kind": "client", "client_id": "c@1#2"},
    ),
    ("buffer full12 ,context is TraceContext{}", {"kind": "trace left out"}),
    ("send trace data failed, the traceData is Pub", {"kind": "trace left out"}),
]
BROKER_MESSAGES: list[tuple[str, dict[str, Any]]] = [
    (
        "The broker[broker-a, 10.0.0.1:10911] boot success. serializeType=JSON and name server is "
        "10.0.0.2:9876",
        {"kind": "broker", "broker": "broker-a", "address": "10.0.0.1:10911"},
    ),
    (
        f"new consumer connected, group: G CONSUME_PASSIVELY CLUSTERING channel: {CHANNEL}",
        {"kind": "member", "client_id": "10.0.0.1@7#8", "address": "127.0.0.1:2"},
    ),
    (
        f"unregister a consumer[G] from consumerGroupInfo {CHANNEL}",
        {"kind": "unregistered", "client_id": "10.0.0.1@7#8"},
    ),
    (
        f"NETTY EVENT: remove not active channel[{CHANNEL}] from ConsumerGroupInfo "
        "groupChannelTable, consumer group: G",
        {"kind": "cut off", "client_group": "G", "client_id": "10.0.0.1@7#8"},
    ),
    (
        "SCAN: remove expired channel from ConsumerManager consumerTable. channel=127.0.0.1:2, "
        "consumerGroup=G",
        {"kind": "cut off", "client_group": "G", "address": "127.0.0.1:2"},
    ),
    (
        f"subscription changed, add new topic, group: G {SUBSCRIPTION}",
        {"kind": "subscribed", "topic": "T", "tag": "A || B"},
    ),
    (
        f"subscription changed, group: G OLD: {SUBSCRIPTION.replace('A || B', '*')} "
        f"NEW: {SUBSCRIPTION}",
        {"kind": "subscribed", "topic": "T", "tag": "A || B"},
    ),
    (
        "[reset-offset] reset offset started by 127.0.0.1:5. topic=T, group=G, timestamp=-2, "
        "isForce=true",
        {"kind": "reset", "value": -2},
    ),
    (
        'Reset offset, topic=T, group=G, queues={"offsetTable":{}}',
        {"kind": "reset", "client_group": "G"},
    ),
]


def read(file: Path) -> list[dict[str, Any]]:
    """What a log tells, without what is nothing."""
    rows = [row for batch in log_batches(str(file)) for row in batch.to_pylist()]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def told(tmp_path: Path, *lines: str) -> list[dict[str, Any]]:
    file = tmp_path / "rocketmq_client.log"
    file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return read(file)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("recorded"))


def test_real_logs_tell_who_came_owned_and_went(recorded: Path) -> None:
    kinds = {
        log.parent.name: Counter(row["kind"] for row in read(log))
        for log in (recorded / "logs").rglob("*.log")
    }
    assert not any("damage" in found for found in kinds.values())
    assert kinds["broker"]["member"] == 3
    assert kinds["broker"]["broker"] == 1
    assert (kinds["broker"]["unregistered"], kinds["broker"]["cut off"]) == (2, 1)
    for member, left in (("first", 1), ("second", 0), ("third", 1)):
        assert kinds[member]["join"] == 1, member
        assert kinds[member]["leave"] == left, member
        assert kinds[member]["assign"] == 5, member
    assert kinds["producer"].keys() == {"client", "broker"}


@pytest.mark.parametrize(("message", "expected"), MESSAGES)
def test_a_line_of_a_client(tmp_path: Path, message: str, expected: dict[str, Any]) -> None:
    (row,) = told(tmp_path, HEAD + message)
    assert row | expected == row
    assert (row["source"], row["line"], row["time_ms"]) == ("client log", 1, AT_MS)
    assert (row["process"], row["pid"]) == (f"{tmp_path}@15561", 15561)


@pytest.mark.parametrize(("message", "expected"), BROKER_MESSAGES)
def test_a_line_of_a_broker(tmp_path: Path, message: str, expected: dict[str, Any]) -> None:
    (row,) = told(tmp_path, BROKER_HEAD + message)
    assert row | expected == row
    assert (row["source"], row["time_ms"]) == ("broker log", AT_MS // 1000 * 1000)
    assert row["process"] == str(tmp_path)


def test_each_line_of_the_table_is_tried() -> None:
    """Each kind, from each kind of log."""
    tried = {(e["kind"], "client log") for _, e in MESSAGES}
    tried |= {(e["kind"], "broker log") for _, e in BROKER_MESSAGES}
    assert {(line.kind, line.source.value) for line in LINES} == tried


def test_other_lines_and_stack_traces_tell_nothing(tmp_path: Path) -> None:
    assert not told(
        tmp_path,
        f"{HEAD}register consumeMessageHook Hook, ConsumeMessageTraceHook",
        "org.apache.rocketmq.remoting.exception.RemotingSendRequestException: send request failed",
        "\tat org.apache.rocketmq.client.impl.MQClientAPIImpl.sendMessage(Unknown Source)",
        "",
    )


def test_a_line_that_is_cut_anywhere_tells_nothing_wrong(tmp_path: Path) -> None:
    """Cut before its message begins to tell, it tells nothing; from there on it is damage."""
    line = HEAD + ASSIGN
    begins = len(HEAD) + len("doRebalance,")
    for cut in range(1, len(line)):
        rows = told(tmp_path, HEAD + ASSIGN, line[:cut], HEAD + ASSIGN)
        assert [row["kind"] for row in (rows[0], rows[-1])] == ["assign", "assign"]
        between = rows[1:-1]
        assert all(row["kind"] == "damage" for row in between), cut
        if cut >= begins:
            assert [row["line"] for row in between] == [2], cut


def test_a_line_written_into_another_is_read_and_the_other_is_damage(tmp_path: Path) -> None:
    rows = told(tmp_path, f"{HEAD}doRebalance, G, add a n{HEAD}{ASSIGN}")
    assert [row["kind"] for row in rows] == ["damage", "assign"]
    assert [row["line"] for row in rows] == [1, 1]


def test_what_is_no_text_stops_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"\xff\xfe\0\n" + (HEAD + ASSIGN).encode() + b"\n\xff" * 3)
    assert [row["kind"] for row in read(file)] == ["assign"]
    file.write_text(HEAD.replace("11-28", "13-45") + ASSIGN)
    assert [row["kind"] for row in read(file)] == ["damage"]


def test_rolled_logs_are_of_the_same_process_and_a_torn_one_ends_where_it_is_torn(
    tmp_path: Path,
) -> None:
    """Of a packed file that was cut, its whole lines are told, and that it ends there."""
    (tmp_path / "other_days").mkdir()
    rolled = tmp_path / "other_days" / "rocketmq_client-1.log.gz"
    lines = "".join(f"{HEAD}{ASSIGN} {'x' * (n % 7)}\n" for n in range(2000))
    packed = gzip.compress((f"{HEAD}{ASSIGN}\n" * 3 + lines).encode())
    rolled.write_bytes(packed)
    whole = read(rolled)
    assert {row["process"] for row in whole} == {f"{tmp_path}@15561"}
    assert Counter(row["kind"] for row in whole)["assign"] == 3 + 286  # those without an x

    rolled.write_bytes(packed[: len(packed) // 2])
    torn = read(rolled)
    assert torn[-1]["kind"] == "damage"
    assert torn[-1]["damage"].startswith("the file ends here: ")
    assert [row["kind"] for row in torn[:3]] == ["assign"] * 3

    rolled.write_bytes(b"no gzip at all")
    (row,) = read(rolled)
    assert (row["kind"], row["line"]) == ("damage", 1)


def test_logs_are_a_data_source(spark: SparkSession, recorded: Path) -> None:
    events.register(spark)
    logs = spark.read.format("rocketmq-log").load(str(recorded / "logs"))
    assert logs.where("kind = 'assign'").count() == 15
    one = spark.read.format("rocketmq-log").option("zoneHours", 0)
    first = one.load(str(recorded / "logs" / "first" / "rocketmq_client.log"))
    moved = first.where("kind = 'join'").head()
    told = logs.where("kind = 'join'").orderBy("time_ms").head()
    assert moved is not None
    assert told is not None
    assert moved.time_ms - told.time_ms == 8 * 3600 * 1000


def test_logs_below_a_folder_are_found_by_their_names(tmp_path: Path) -> None:
    names = ("a.log", "other_days/a-1.log.gz", "a.log.1", "notes.txt", "a.log.bak")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [file.relative_to(tmp_path).as_posix() for file in logs_below([str(tmp_path)])]
    assert found == ["a.log", "other_days/a-1.log.gz"]


def test_a_sender_of_traces_is_matched_with_the_log_of_its_process() -> None:
    here = frozenset({"10.0.0.1"})
    processes = [
        Process("one", 7, here),
        Process("two", 8, frozenset({"10.0.0.2"})),
        Process("three", 8, frozenset({"10.0.0.3"})),
        Process("large", 65536 + 9, here),
        Process("no pid", None, here),
    ]
    found = matched(
        ["10.0.0.1@7#A", "fd00::1@7#B", "10.0.0.3@8#C", "fd00::1@8#D", "fd00::1@9#E", "x@5#F", "?"],
        processes,
    )
    assert found == {
        "10.0.0.1@7#A": "one",
        "fd00::1@7#B": "one",
        "10.0.0.3@8#C": "three",  # by its address; the next could be either
        "fd00::1@9#E": "large",
    }


def packed(path: Path, octets: bytes) -> str:
    path.write_bytes(gzip.compress(octets))
    return str(path)


def plain(path: Path, octets: bytes) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(octets)
    return str(path)


def test_copies_of_a_log_are_left_out(tmp_path: Path) -> None:
    """Copies: with another name, packed, torn, and of a time when less was written."""
    whole = (unpacked(tmp_path) / "logs" / "first" / "rocketmq_client.log").read_bytes()
    log = plain(tmp_path / "a" / "rocketmq_client.log", whole)
    copies = [
        plain(tmp_path / "b" / "rocketmq_client.log", whole),
        packed(tmp_path / "a" / "copy.log.gz", whole),
        plain(tmp_path / "a" / "yesterday.log", whole[: len(whole) // 2]),
        packed(tmp_path / "a" / "yesterday.log.gz", whole[: len(whole) // 3]),
    ]
    copies.append(packed(tmp_path / "a" / "torn.log.gz", whole))
    Path(copies[-1]).write_bytes(Path(copies[-1]).read_bytes()[:-9])

    assert distinct([log, *copies]) == ([log], copies)
    for paths in ([*copies, log], [copies[2], log, copies[3]], [copies[3], copies[2]]):
        kept, left = distinct(paths)
        assert len(kept) == 1
        assert sorted(kept + left) == sorted(paths)
        lines = {path: sum(row["kind"] != DAMAGE for row in read(Path(path))) for path in paths}
        assert lines[kept[0]] == max(lines.values())


def test_logs_that_only_begin_alike_are_kept(tmp_path: Path) -> None:
    """And the parts of one that was rolled, and those that are empty."""
    line = f"{HEAD}{ASSIGN}\n".encode()
    logs = [
        plain(tmp_path / "one.log", line + b"then one\n"),
        plain(tmp_path / "other.log", line + b"then another\n"),
        packed(tmp_path / "other.1.log.gz", line + b"then another one\n"),
        plain(tmp_path / "empty.log", b""),
        plain(tmp_path / "empty too.log", b""),
        plain(tmp_path / "later.log", b"then one\n"),
    ]
    assert distinct(logs) == (logs, [])
    assert distinct([]) == ([], [])
