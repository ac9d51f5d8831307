"""A broker's options and what it is doing: 25, 26, 28 and 315
(AdminBrokerProcessor.java, StoreStatsService.java, 5.3.3)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mqspec.broker.carrying import carry
from mqspec.core import stats
from mqspec.core.flow_control import ACK, END_TRANSACTION, LITE_PULL, PULL, QUERY, SEND, Pool
from mqspec.core.metadata import BrokerConfig, DataVersion
from mqspec.core.response import Answer, Refusal
from mqspec.core.stats import ItemKey, StatsName, Tps
from mqspec.core.step import Change, Step
from mqspec.options import to_properties, updated
from mqspec.service import Served, answered, clock_ms, options_to_set, refused
from mqspec.store.message_store import StoreConfig
from mqspec.transport import Connection
from mqspec.wire.bodies import dumps, to_body, to_plain
from mqspec.wire.codec import VERSION, RemotingCommand

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

NEVER_UPDATED: Final = frozenset({"configBlackList", "brokerConfigPath"})
"""What request 25 may not set (BrokerConfig.configBlackList, 5.3.3)."""

_QUEUES: Final[dict[str, Pool]] = {
    "sendThreadPoolQueue": SEND,
    "pullThreadPoolQueue": PULL,
    "litePullThreadPoolQueue": LITE_PULL,
    "queryThreadPoolQueue": QUERY,
    "ackThreadPoolQueue": ACK,
}


def update_broker_config(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> Served:
    """25. What is not an option is ignored (ADMIN-011)."""
    properties = options_to_set(request, NEVER_UPDATED)
    if isinstance(properties, Refusal):
        return refused(request, properties)
    config = updated(broker.config, properties)
    store_config = updated(broker.store_config, properties)
    changes = _take(broker, config, store_config, permits="brokerPermission" in properties)
    return broker.registrar.once_registered(bool(changes), connection, request, request.response())


def _take(
    broker: Broker, config: BrokerConfig, store_config: StoreConfig, *, permits: bool
) -> Sequence[Change]:
    """Take other options; of the store's those of retention count at once, others are only shown.
    Where they are told what the broker `permits`, all topics' routes are another version, also
    if it is what it permitted before."""
    broker.config = broker.registrar.config = config
    broker.store_config = store_config
    broker.store.update_config(config.limits, store_config)
    broker.usual_sends.forget()
    if not permits:
        return ()
    version = broker.metadata.topic_data_version.next(clock_ms())
    step = carry(broker, "metadata", Step((Change("topic_data_version", None, version),)))
    broker.registrar.register_soon(broker.metadata, broker.metadata.topic_config_table)
    return step.changes


def get_broker_config(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """26."""
    body = to_properties(broker.config, broker.store_config)
    fields = {"version": dumps(to_plain(DataVersion())).decode()}
    return request.response(ext_fields=fields, body=body.encode())


def get_broker_runtime_info(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """28. A name to a text each; of what is counted in ways of its own the real one says more."""
    table = _identity(broker) | _positions(broker) | _traffic(broker) | _queues(broker)
    return request.response(body=dumps({"table": table}))


def _identity(broker: Broker) -> dict[str, str]:
    up = timedelta(milliseconds=clock_ms() - broker.stats.boot_ms)
    minutes, seconds = divmod(up.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return {
        "brokerVersionDesc": "V5_3_3",
        "brokerVersion": str(VERSION),
        "brokerActive": "true",
        "bootTimestamp": str(broker.stats.boot_ms),
        "startAcceptSendRequestTimeStamp": "0",
        "runtime": f"[ {up.days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
    }


def _positions(broker: Broker) -> dict[str, str]:
    disk = shutil.disk_usage(broker.store.root)
    total, free = _bytes(disk.total), _bytes(disk.total - disk.used)
    ratio = str(broker.store.disk_used_percent / 100)
    broker.store.reput()  # who asks looks
    state = broker.store.positions
    first, end = state.commit_log
    oldest = broker.store.look_message_by_offset(first)
    delays = {
        f"scheduleMessageOffset_{level}": f"{offset},{_schedule_max(broker, level)}"
        for level, offset in broker.delay.offset_table.items()
    }
    return delays | {
        "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
        "commitLogDiskRatio": ratio,
        "consumeQueueDiskRatio": ratio,
        "commitLogMinOffset": str(first),
        "commitLogMaxOffset": str(end),
        "earliestMessageTimeStamp": str(oldest.store_timestamp if oldest else -1),
        "remainHowManyDataToFlush": _bytes(end - state.flushed_where),
        "dispatchBehindBytes": str(broker.store.undispatched_bytes),
        "dispatchMaxBuffer": "0",
        "pageCacheLockTimeMills": "0",  # one thread appends, and waits for no lock
    }


def _schedule_max(broker: Broker, level: int) -> int:
    return broker.store.max_offset("SCHEDULE_TOPIC_XXXX", level - 1)


def _bytes(size: float) -> str:
    """As people read it (MixAll.humanReadableByteCount, 5.3.3)."""
    if size < 1024:
        return f"{size} B"
    prefixes = iter("KMGTPE")
    while size >= 1024:
        size, prefix = size / 1024, next(prefixes)
    return f"{size:.1f} {prefix}iB"


def _traffic(broker: Broker) -> dict[str, str]:
    stats, cluster = broker.stats, broker.config.cluster_name
    put_key = ItemKey(StatsName.BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC, cluster)
    get_key = ItemKey(StatsName.BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC, cluster)
    counts, state = stats.counts(), stats.state
    size = sum(traffic.size for traffic in stats.put.values())
    all_put = counts[ItemKey(StatsName.BROKER_PUT_NUMS, cluster)]
    put_tps = _three(stats.tps(StatsName.BROKER_PUT_NUMS, cluster))
    get_tps = _three(stats.tps(StatsName.BROKER_GET_NUMS, cluster))
    return {
        "msgPutTotalYesterdayMorning": str(state.yesterday_morning.get(put_key, 0)),
        "msgPutTotalTodayMorning": str(state.today_morning.get(put_key, 0)),
        "msgPutTotalTodayNow": str(counts[put_key].value),
        "msgGetTotalYesterdayMorning": str(state.yesterday_morning.get(get_key, 0)),
        "msgGetTotalTodayMorning": str(state.today_morning.get(get_key, 0)),
        "msgGetTotalTodayNow": str(counts[get_key].value),
        "putTps": put_tps,
        "getTransferredTps": get_tps,
        "putMessageTimesTotal": str(all_put.steps),
        "putMessageSizeTotal": str(size),
        "putMessageAverageSize": str(size / all_put.value if all_put.value else 0.0),
    }


def _three(tps: Tps) -> str:
    return " ".join(map(str, tps))


def _queues(broker: Broker) -> dict[str, str]:
    table: dict[str, str] = {}
    for name, pool in _QUEUES.items():
        size, wait_ms = broker.dispatcher.waiting(pool)
        table |= {
            f"{name}Size": str(size),
            f"{name}HeadWaitTimeMills": str(wait_ms),
            f"{name}Capacity": str(pool.capacity),
        }
    table["EndTransactionQueueSize"] = str(broker.dispatcher.waiting(END_TRANSACTION)[0])
    table["EndTransactionThreadPoolQueueCapacity"] = str(END_TRANSACTION.capacity)
    return table


def view_broker_stats_data(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """315."""
    name, key = (request.ext_fields.get(each, "null") for each in ("statsName", "statsKey"))
    item = stats.counted(broker.stats.counts(), name, key)
    if isinstance(item, Answer):
        return answered(request, item)
    return request.response(body=to_body(stats.broker_stats_data(broker.stats.state, item)))
