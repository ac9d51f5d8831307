"""Metrics of a cluster's brokers over HTTP, for Prometheus.

Names and labels are those of the real broker (BrokerMetricsConstant.java and
DefaultStoreMetricsConstant.java, 5.3.3), beside what prometheus_client says of the process.
Everything is read when it is asked for: nothing is counted twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Final, Self

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mqrules import UserError
from mqspec.broker import Broker
from mqspec.cluster import Cluster
from mqspec.core.flow_control import ACK, PULL, SEND, Pool
from mqspec.core.log import RETRY_TOPIC_PREFIX
from mqspec.core.metadata import is_system_topic
from mqspec.core.offset_commit import OffsetKey
from mqspec.service import clock_ms

HOST: Final = "127.0.0.1"
REQUEST_BYTES_MAX: Final = 16_384
REQUEST_S: Final = 5.0  # how long a request may take to arrive

_NODE: Final = ("cluster", "node_type", "node_id")
_TOPIC: Final = (*_NODE, "topic", "is_retry", "is_system")
_GROUP: Final = (*_NODE, "topic", "consumer_group", "is_retry", "is_system")
_POOLS: Final[tuple[tuple[str, Pool], ...]] = (("send", SEND), ("pull", PULL), ("ack", ACK))


class Metrics:
    """`async with Metrics(cluster, port) as metrics: metrics.url`. Port 0: any free one."""

    def __init__(self, cluster: Cluster, port: int) -> None:
        self._port = port
        self._registry = CollectorRegistry()
        self._registry.register(_Brokers(cluster))
        ProcessCollector(registry=self._registry)
        self._server: asyncio.Server

    @property
    def url(self) -> str:
        """Where Prometheus finds them."""
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}/metrics"

    async def __aenter__(self) -> Self:
        """Listen. Raises UserError where that is not possible."""
        try:
            self._server = await asyncio.start_server(
                self._serve, HOST, self._port, limit=REQUEST_BYTES_MAX
            )
        except OSError as error:
            raise UserError(
                f"{HOST}:{self._port}",
                f"cannot listen: {error.strerror}",
                "choose another port, or 0 for a free one",
            ) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head.decode("latin-1")))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not one who wants metrics
        finally:
            writer.close()

    def _answer(self, head: str) -> bytes:
        request, *fields = head.split("\r\n")
        method, path, *_ = (*request.split(" "), "", "")
        if method != "GET":
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"")
        if path.partition("?")[0] != "/metrics":
            return _response(HTTPStatus.NOT_FOUND, "text/plain", b"metrics are at /metrics\n")
        accept = [value for name, _, value in (f.partition(":") for f in fields)
                  if name.lower() == "accept"]  # fmt: skip
        encode, content_type = choose_encoder(accept[0] if accept else "")
        return _response(HTTPStatus.OK, content_type, encode(self._registry))


def _response(status: HTTPStatus, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


class _Brokers(Collector):
    """What all brokers of a cluster show."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def describe(self) -> Iterable[Metric]:
        return ()  # or it would be asked before the brokers run

    def collect(self) -> Iterator[Metric]:
        brokers = self._cluster.brokers
        yield from _traffic(brokers)
        yield from _tables(brokers)
        yield from _progress(brokers)
        yield from _storage(brokers)


def _traffic(brokers: Iterable[Broker]) -> Iterator[Metric]:
    messages_in = CounterMetricFamily(
        "rocketmq_messages_in", "messages that producers sent", labels=_TOPIC
    )
    bytes_in = CounterMetricFamily(
        "rocketmq_throughput_in", "bytes of the records of these", labels=_TOPIC
    )
    messages_out = CounterMetricFamily(
        "rocketmq_messages_out", "messages that consumers got", labels=_GROUP
    )
    bytes_out = CounterMetricFamily(
        "rocketmq_throughput_out", "bytes of the records of these", labels=_GROUP
    )
    for broker in brokers:
        for topic, traffic in broker.stats.put.items():
            labels = (*_node(broker), topic, *_kind(broker, topic))
            messages_in.add_metric(labels, traffic.messages)
            bytes_in.add_metric(labels, traffic.size)
        for (topic, group), traffic in broker.stats.got.items():
            of_group = (*_node(broker), topic, group, *_kind(broker, topic))
            messages_out.add_metric(of_group, traffic.messages)
            bytes_out.add_metric(of_group, traffic.size)
    yield from (messages_in, bytes_in, messages_out, bytes_out)


def _tables(brokers: Iterable[Broker]) -> Iterator[Metric]:
    topics = GaugeMetricFamily("rocketmq_topic_number", "topics", labels=_NODE)
    groups = GaugeMetricFamily("rocketmq_consumer_group_number", "groups", labels=_NODE)
    producers = GaugeMetricFamily(
        "rocketmq_producer_connections", "connections of producer groups", labels=_NODE
    )
    consumers = GaugeMetricFamily(
        "rocketmq_consumer_connections",
        "connections of a consumer group",
        labels=(*_NODE, "consumer_group"),
    )
    waiting = GaugeMetricFamily(
        "rocketmq_processor_watermark", "requests that wait", labels=(*_NODE, "processor")
    )
    for broker in brokers:
        node = _node(broker)
        topics.add_metric(node, len(broker.metadata.topic_config_table))
        groups.add_metric(node, len(broker.metadata.subscription_group_table))
        producers.add_metric(node, sum(map(len, broker.groups.producer_table.values())))
        for group, info in broker.groups.consumer_table.items():
            consumers.add_metric((*node, group), len(info.channel_info_table))
        for name, pool in _POOLS:
            waiting.add_metric((*node, name), broker.dispatcher.waiting(pool)[0])
    yield from (topics, groups, producers, consumers, waiting)


def _progress(brokers: Iterable[Broker]) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "rocketmq_consumer_lag_messages", "messages behind the offset of a group", labels=_GROUP
    )
    latency = GaugeMetricFamily(
        "rocketmq_consumer_lag_latency", "ms since the first of these was stored", labels=_GROUP
    )
    for broker in brokers:
        behind: dict[tuple[str, str], list[OffsetKey]] = {}
        for key in broker.offsets.offset_table:
            behind.setdefault((key.topic, key.group), []).append(key)
        for (topic, group), keys in behind.items():
            labels = (*_node(broker), topic, group, *_kind(broker, topic))
            waits = [_wait(broker, key) for key in keys]
            lag.add_metric(labels, sum(count for count, _ in waits))
            latency.add_metric(labels, max(wait_ms for _, wait_ms in waits))
    yield from (lag, latency)


def _wait(broker: Broker, key: OffsetKey) -> tuple[int, int]:
    """How many messages of a queue a group has before it, and how long, ms, the first waits."""
    offset = broker.offsets.offset_table[key]
    count = max(0, broker.store.max_offset(key.topic, key.queue_id) - offset)
    stored_ms = broker.store.stored_at(key.topic, key.queue_id, offset) if count else -1
    return count, max(0, clock_ms() - stored_ms) if stored_ms > 0 else 0


def _storage(brokers: Iterable[Broker]) -> Iterator[Metric]:
    labels = (*_NODE, "storage_type", "storage_medium")
    size = GaugeMetricFamily("rocketmq_storage_size", "bytes of the CommitLog", labels=labels)
    unflushed = GaugeMetricFamily(
        "rocketmq_storage_flush_behind_bytes", "bytes that are not on disk", labels=labels
    )
    undispatched = GaugeMetricFamily(
        "rocketmq_storage_dispatch_behind_bytes",
        "bytes of the CommitLog that are not in ConsumeQueues",
        labels=labels,
    )
    for broker in brokers:
        state = broker.store.positions
        first, end = state.commit_log
        at = (*_node(broker), "local", "disk")
        size.add_metric(at, end - first)
        unflushed.add_metric(at, end - state.flushed_where)
        undispatched.add_metric(at, broker.store.undispatched_bytes)
    yield from (size, unflushed, undispatched)


def _node(broker: Broker) -> tuple[str, str, str]:
    return broker.config.cluster_name, "broker", broker.config.broker_name


def _kind(broker: Broker, topic: str) -> tuple[str, str]:
    is_retry = topic.startswith(RETRY_TOPIC_PREFIX)
    return str(is_retry).lower(), str(is_system_topic(broker.config, topic)).lower()
