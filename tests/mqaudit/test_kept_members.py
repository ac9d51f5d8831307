"""What members did, by logs of clients and brokers: cut off and back again, and of one id."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from mqaudit.kept import events
from mqaudit.kept.judging import kept, reports
from mqaudit.kept.members import Life, further
from mqaudit.report import Judgement

START = datetime(2026, 11, 28, 8, 15, tzinfo=timezone(timedelta(hours=8)))
MQ = "MessageQueue [topic=T, brokerName=b, queueId={}]"
ADDRESS = "127.0.0.1:7"
SCAN = (
    "SCAN: remove expired channel from ConsumerManager consumerTable. "
    f"channel={ADDRESS}, consumerGroup=G"
)


def channel(client: str, address: str = ADDRESS) -> str:
    return (
        f"ClientChannelInfo [channel=[id: 0x48f6d992, L:/127.0.0.1:1 - R:/{address}], "
        f"clientId={client}, language=JAVA, version=479, lastUpdateTimestamp=1]"
    )


def took(client: str, address: str = ADDRESS) -> str:
    named = channel(client, address)
    return f"new consumer connected, group: G CONSUME_PASSIVELY CLUSTERING channel: {named}"


def closed(client: str, address: str = ADDRESS) -> str:
    return (
        f"NETTY EVENT: remove not active channel[{channel(client, address)}] from "
        "ConsumerGroupInfo groupChannelTable, consumer group: G"
    )


class Log:
    """A log in a folder of its own, written by seconds since the start."""

    def __init__(self, folder: Path, name: str, pid: int | None = None) -> None:
        self._file = folder / name / f"{'broker' if pid is None else 'rocketmq_client'}.log"
        self._file.parent.mkdir()
        self._pid, self._lines = pid, list[str]()

    def at(self, second: float, *messages: str) -> Log:
        time = START + timedelta(seconds=second)
        said = time.strftime("%Y-%m-%d %H:%M:%S")
        ms = time.microsecond // 1000
        head = f"{said} INFO X - "
        if self._pid is not None:
            head = f"{said}.{ms:03} INFO  [{self._pid}] [X] [o.a#?:?] - "
        self._lines += (head + message for message in messages)
        self._file.write_text("\n".join([*self._lines, ""]), encoding="utf-8")
        return self

    def comes(self, second: float, client: str, *queues: int) -> Log:
        """A member starts, and gets its queues."""
        created = f"Created a new client Instance, InstanceIndex:0, ClientID:{client}, ClientConfig"
        assigned = [f"doRebalance, G, add a new mq, {MQ.format(queue)}" for queue in queues]
        return self.at(second, f"{created}:{{}}", "the consumer [G] start OK.", *assigned)

    def commits(self, second: float, client: str, offset: int, queue: int = 0) -> Log:
        said = f"[persistAll] Group: G ClientId: {client} updateConsumeOffsetToBroker"
        return self.at(second, f"{said} {MQ.format(queue)} {offset}")

    def gives_up(self, second: float, queue: int) -> Log:
        return self.at(second, f"doRebalance, G, remove unnecessary mq, {MQ.format(queue)}")

    def leaves(self, second: float) -> Log:
        return self.at(second, "the consumer [G] shutdown OK")


def told(spark: SparkSession, folder: Path, one_clock: bool = True) -> DataFrame:
    events.register(spark)
    files = [str(file) for file in folder.rglob("*.log")]
    found = kept(spark, [], files, one_clock)
    assert found is not None
    return found.events


def of(rows: DataFrame, client: str) -> list[tuple[str, int | None]]:
    found = rows.where(rows.client_id == client).orderBy("process", "seq").collect()
    return [(row.kind, row.queue_id) for row in found]


@pytest.mark.parametrize("said", [SCAN, closed("a@1#1")])
def test_a_member_that_was_cut_off_in_its_silence_came_back(
    spark: SparkSession, tmp_path: Path, said: str
) -> None:
    """It has what it had when it was cut off, and not what it had given up before. Its address was
    another's before it."""
    one = Log(tmp_path, "one", 1).comes(0, "a@1#1", 0, 1).gives_up(3, 1).commits(5, "a@1#1", 1)
    one.commits(155, "a@1#1", 2).leaves(160)
    broker = Log(tmp_path, "broker").at(-10, took("b@2#2")).at(0, took("a@1#1")).at(125, said)
    broker.at(156, took("c@3#3"))
    assert of(told(spark, tmp_path), "a@1#1") == [
        ("join", None),
        ("assign", 0),
        ("assign", 1),
        ("revoke", 1),
        ("commit", 0),
        ("crash", None),
        ("join", None),
        ("assign", 0),
        ("commit", 0),
        ("leave", None),
    ]


@pytest.mark.parametrize(
    ("cut_s", "said"),
    [
        (30, SCAN),  # not silent for long
        (125, SCAN.replace(ADDRESS, "127.0.0.1:8")),  # another member
        (125, SCAN.replace("=G", "=H")),  # of another group
        (160, closed("a@1#1")),  # as it left
    ],
)
def test_a_member_that_was_not_has_not(
    spark: SparkSession, tmp_path: Path, cut_s: int, said: str
) -> None:
    one = Log(tmp_path, "one", 1).comes(0, "a@1#1", 0).commits(5, "a@1#1", 1)
    one.commits(155, "a@1#1", 2).leaves(160)
    Log(tmp_path, "broker").at(0, took("a@1#1")).at(cut_s, said)
    kinds = [kind for kind, _ in of(told(spark, tmp_path), "a@1#1")]
    assert kinds == ["join", "assign", "commit", "commit", "leave"]


def twins(folder: Path) -> None:
    """Both work at queue 0."""
    for name, pid, since in (("one", 1, 0), ("two", 2, 10)):
        log = Log(folder, name, pid).comes(since, "x@same", 0)
        log.commits(20 + pid, "x@same", pid).commits(40 + pid, "x@same", pid).leaves(60 + pid)
    Log(folder, "broker").at(0, took("x@same")).at(10, took("x@same", "127.0.0.1:8"))


def test_two_members_of_one_id_are_told_to_be_two(spark: SparkSession, tmp_path: Path) -> None:
    twins(tmp_path)
    found = kept(spark, [], [str(file) for file in tmp_path.rglob("*.log")], one_clock=True)
    assert found is not None
    names = {row.client_id for row in found.events.select("client_id").distinct().collect()}
    assert names == {"x@same", "x@same #2"}
    _, checks = reports(found, examples=0)
    said = {check.name: {one.why for one in check.findings} for check in checks}
    assert said["equal client ids"] == {"another member had its id, and both worked at one queue"}
    # What one commits is lower than the other one's, and never than its own.
    assert not [check.name for check in checks if check.count(Judgement.VIOLATED)]


def test_one_id_at_two_clocks_is_not_compared(spark: SparkSession, tmp_path: Path) -> None:
    twins(tmp_path)
    rows = told(spark, tmp_path, one_clock=False)
    assert {row.client_id for row in rows.select("client_id").distinct().collect()} == {"x@same"}


@pytest.mark.parametrize(
    ("lives", "ranks"),
    [
        ([(0, 10), (11, 20)], [1, 1]),  # one after the other
        ([(0, 10), (10, 20)], [1, 2]),
        ([(0, 10), (5, 20), (12, 30)], [1, 2, 1]),  # the first place is free again
        ([(0, 30), (5, 10), (7, 20), (12, 30)], [1, 2, 3, 2]),
    ],
)
def test_ranks_of_one_id(lives: list[tuple[int, int]], ranks: list[int]) -> None:
    given = [Life(first, last, f"p{n}", "x") for n, (first, last) in enumerate(lives)]
    named = further([*given, Life(0, 100, "p0", "another")])
    found = [named.get((f"p{n}", "x"), "x #1") for n in range(len(lives))]
    assert [int(name.partition("#")[2]) for name in found] == ranks
