"""A topic of a live cluster as a Spark data source: on the reference, and on Apache 5.3.3."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from serving import serving

from mqaudit import audit
from mqaudit.kept import events
from mqaudit.kept.live import batches, spans
from mqaudit.session import session
from mqconform.apache import Apache
from mqconform.cluster import Cluster
from mqconform.target import free_ports
from mqrules import UserError
from mqspec.client.message import Message
from mqspec.client.producer import Producer

TOPIC = "Live"
TRACES = "RMQ_SYS_TRACE_TOPIC"


@pytest.fixture(scope="session")  # the process has one: who ended it would end everybody's
def spark() -> Iterator[SparkSession]:
    spark = session("local[2]", little=True)
    events.register(spark)
    yield spark
    spark.stop()


@pytest.fixture(scope="module", params=["reference", "apache"])
def nameserver(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    home = tmp_path_factory.mktemp(request.param)
    if request.param == "reference":
        with serving(home / "store") as address:
            yield address
    else:
        with Apache(home, brokers=2) as apache:
            Cluster(apache.nameserver).wait(2)
            yield str(apache.nameserver)


async def send(nameserver: str, topic: str, keys: range) -> None:
    async with Producer(nameserver, "LiveProducers") as producer:
        for key in keys:
            await producer.send(Message(topic, f"body {key}".encode(), tags="A", keys=f"K{key}"))


def keys_of(frame: DataFrame) -> list[str]:
    return sorted(
        part.removeprefix("KEYS\x01")
        for row in frame.select("properties").collect()
        for part in bytes(row.properties).decode().split("\x02")
        if part.startswith("KEYS\x01")
    )


def test_a_batch_holds_each_message_once_with_its_place(
    spark: SparkSession, nameserver: str
) -> None:
    asyncio.run(send(nameserver, TOPIC, range(100)))
    live = spark.read.format("rocketmq-topic").option("nameserver", nameserver).load(TOPIC)
    assert keys_of(live) == sorted(f"K{n}" for n in range(100))
    assert live.rdd.getNumPartitions() == len(spans(nameserver, [TOPIC])) >= 8

    rows = live.collect()
    places = {(row.broker, row.queue_id, row.queue_offset) for row in rows}
    assert len(places) == 100
    for broker, queue_id in {place[:2] for place in places}:
        offsets = sorted(place[2] for place in places if place[:2] == (broker, queue_id))
        assert offsets == list(range(len(offsets)))
    assert {bytes(row.body) for row in rows} == {f"body {n}".encode() for n in range(100)}
    assert {row.topic for row in rows} == {TOPIC}


def test_a_batch_ends_where_it_was_planned_to(nameserver: str) -> None:
    topic = TOPIC + "Planned"
    asyncio.run(send(nameserver, topic, range(40)))
    planned = spans(nameserver, [topic])
    asyncio.run(send(nameserver, topic, range(40, 80)))
    assert sum(batch.num_rows for batch in batches(nameserver, planned)) == 40


def test_a_stream_goes_on_where_it_was_stopped(
    spark: SparkSession, nameserver: str, tmp_path: Path
) -> None:
    """What came while nobody followed is told once, as is what came before."""
    topic = TOPIC + "Stream"
    stream = spark.readStream.format("rocketmq-topic").option("nameserver", nameserver).load(topic)
    for first in (0, 30):
        asyncio.run(send(nameserver, topic, range(first, first + 30)))
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "told"))
        )
        query.awaitTermination()
        told = keys_of(spark.read.parquet(str(tmp_path / "told")))
        assert told == sorted(f"K{n}" for n in range(first + 30))


async def send_traced(nameserver: str, topic: str, twice: int) -> None:
    """Twenty messages, and the traces of a member that got each once, and one of them twice."""
    async with Producer(nameserver, "LiveProducers") as producer:
        ids = [(await producer.send(Message(topic, b"x"))).message_id for _ in range(20)]
        for at, one in enumerate([*ids, ids[twice]]):
            request, now = f"{one[:-4]}{at:04X}", 1_800_000_000_000 + at
            before = ["SubBefore", now, "Region", "G", request, one, 0, "key"]
            after = ["SubAfter", request, one, 1, "true", "key", 0, now + 1, "G"]
            texts = ("\x01".join(map(str, context)) + "\x02" for context in (before, after))
            await producer.send(Message(TRACES, "".join(texts).encode()))


def test_the_topics_of_a_live_cluster_are_judged_by_its_traces(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = TOPIC + "Traced"
    with serving(tmp_path_factory.mktemp("traced") / "store") as nameserver:
        asyncio.run(send_traced(nameserver, topic, twice=7))
        report = audit(spark, f"rocketmq://{nameserver}/{topic},{TRACES}").report
    checks = {check.name: check for check in report.checks}
    assert report.coverage["kept deliveries"] == 21
    assert report.unread == ()
    repeated = checks["repeated"]
    assert (repeated.examined, repeated.held) == (21, 20)
    assert repeated.sources == ("store", "message trace")
    assert repeated.findings[0].first["topic"] == topic
    with pytest.raises(UserError, match="names no topic"):
        audit(spark, f"rocketmq://{nameserver}")


def test_a_topic_that_is_not_known_is_one_line(spark: SparkSession, nameserver: str) -> None:
    with pytest.raises(UserError, match="knows no topic 'Nowhere'"):
        spans(nameserver, ["Nowhere"])
    read = spark.read.format("rocketmq-topic").option("nameserver", nameserver)
    with pytest.raises(Exception, match="knows no topic 'Nowhere'"):
        read.load("Nowhere").count()


def test_a_nameserver_that_is_not_there_is_one_line() -> None:
    (port,) = free_ports(1)
    with pytest.raises(UserError, match="does not answer"):
        spans(f"127.0.0.1:{port}", [TOPIC])
