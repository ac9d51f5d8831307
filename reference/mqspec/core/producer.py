"""The producer's side of a send: which queue, when to try another one, which broker to avoid.
Twin of Publish.tla, with publish.

A send is tried on up to three queues (SEND-027). Where an answer does not come, the message may
be stored and is sent again all the same: that is one way in which it is stored twice (SEND-026).

Facts: client/impl/producer/{DefaultMQProducerImpl,TopicPublishInfo}.java,
client/producer/{DefaultMQProducer,MessageBatch}.java, client/Validators.java,
client/latency/{MQFaultStrategy,LatencyFaultToleranceImpl}.java, 5.3.3.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqspec.core.java import INT_MAX
from mqspec.core.metadata import Perm
from mqspec.core.record import string_hash
from mqspec.core.response import ResponseCode
from mqspec.core.route import MASTER_ID, TopicRouteData
from mqspec.core.step import Change, Step
from mqspec.core.types import BrokerName, MessageQueue, Topic

RETRY_TIMES_WHEN_SEND_FAILED: Final = 2  # after the first try
SEND_MSG_TIMEOUT_MS: Final = 3_000  # of all tries together
DEFAULT_TOPIC_QUEUE_NUMS: Final = 4  # of a topic that is created by a send
MAX_MESSAGE_SIZE: Final = 4 << 20  # bytes of a body, before it is compressed
COMPRESS_MSG_BODY_OVER_HOWMUCH: Final = 4096  # bytes: a body of so many is compressed
BACK_PRESSURE_FOR_ASYNC_SEND_NUM: Final = 10_000  # messages that are sent and not answered
BACK_PRESSURE_FOR_ASYNC_SEND_SIZE: Final = 100 << 20  # bytes of their bodies

TOPIC_MAX_LENGTH: Final = 127
_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_-]+")

NOT_ALLOWED_SEND_TOPICS: Final = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
"""Topics that brokers alone write to (TopicValidator.java)."""

RETRY_RESPONSE_CODES: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""The answers after which a send is tried again; any other failure is the caller's."""

STORED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)
"""The answers that say that the message is stored, the last three: less safely than asked."""

# A send that took at least so many ms: its broker is avoided for so many ms.
LATENCY_MAX: Final = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
NOT_AVAILABLE_DURATION: Final = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
ISOLATION_LATENCY_MS: Final = 10_000  # what a send that failed counts as


@dataclass(frozen=True, slots=True)
class FaultItem:
    """How a broker's last send went."""

    current_latency_ms: int
    start_timestamp_ms: int  # from when on it is available again
    reachable: bool = True


@dataclass(slots=True)
class ProducerState:
    """What a producer remembers from send to send."""

    send_which_queue: dict[Topic, int] = field(default_factory=dict)  # the last turn taken
    fault_item_table: dict[BrokerName, FaultItem] = field(default_factory=dict)


def check_message(topic: Topic, body: bytes, body_bytes_max: int = MAX_MESSAGE_SIZE) -> str | None:
    """Why a producer refuses a message before anything is sent; None: it does not."""
    if not _TOPIC.fullmatch(topic) or len(topic) > TOPIC_MAX_LENGTH:
        return f"the topic {topic!r:.140} is not 1 to {TOPIC_MAX_LENGTH} letters, digits or %|_-"
    if topic in NOT_ALLOWED_SEND_TOPICS:
        return f"the topic {topic} is the broker's own"
    if not body:
        return "the body is empty"
    if len(body) > body_bytes_max:
        return f"the body has {len(body)} bytes, at most {body_bytes_max} are sent"
    return None


def check_batch(messages: Sequence[tuple[Topic, Mapping[str, str]]]) -> str | None:
    """Why these messages, by topic and properties, cannot be one batch; None: they can."""
    if not messages:
        return "the batch has no message"
    first, properties = messages[0]
    if any("DELAY" in each for _, each in messages):
        return "a batch has no delayed messages"
    if first.startswith("%RETRY%"):
        return "a batch is not sent to a retry topic"
    if any(topic != first for topic, _ in messages):
        return "the messages of a batch are of one topic"
    if any(each.get("WAIT") != properties.get("WAIT") for _, each in messages):
        return "the messages of a batch wait for the disk, or none of them does"
    return None


def publish_queues(
    topic: Topic, route: TopicRouteData, queues_max: int | None = None
) -> list[MessageQueue]:
    """Where a message of the topic may go: writable queues on brokers with a master.

    For a topic that does not exist yet `route` is its template's, and `queues_max` what each
    broker is to make of it.
    """
    masters = {data.broker_name for data in route.broker_datas if MASTER_ID in data.broker_addrs}
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
        if data.perm & Perm.WRITE and data.broker_name in masters
        for queue_id in range(data.write_queue_nums)[:queues_max]
    ]


def select_one_message_queue(
    state: ProducerState,
    queues: Sequence[MessageQueue],
    last_broker: BrokerName | None,
    now_ms: int | None = None,
) -> Step:
    """Publish!SelectOneMessageQueue. Whose turn it is, of the queues of one topic, which are at
    least one. Result: the queue.

    After a failure it is one of another broker, if there is any. With latency-fault avoidance,
    where `now_ms` is given, one of a broker that is available goes first, then one of a broker
    that is reachable. A queue that is passed over has had its turn.
    """
    topic = queues[0].topic
    turn = state.send_which_queue.get(topic, -1)

    def elsewhere(queue: MessageQueue) -> bool:
        return queue.broker_name != last_broker

    def available(queue: MessageQueue) -> bool:
        item = state.fault_item_table.get(queue.broker_name)
        return item is None or now_ms is None or now_ms >= item.start_timestamp_ms

    def reachable(queue: MessageQueue) -> bool:
        item = state.fault_item_table.get(queue.broker_name)
        return item is None or item.reachable

    filters: list[tuple[Callable[[MessageQueue], bool], ...]] = [(elsewhere,)]
    if now_ms is not None:
        filters = [(available, elsewhere), (reachable, elsewhere)]
    for wanted in filters:
        for _ in queues:
            turn += 1
            queue = _whose_turn(queues, turn)
            if all(is_wanted(queue) for is_wanted in wanted):
                return Step((Change("send_which_queue", topic, turn),), result=queue)
    turn += 1
    return Step((Change("send_which_queue", topic, turn),), result=_whose_turn(queues, turn))


def _whose_turn(queues: Sequence[MessageQueue], turn: int) -> MessageQueue:
    """Java counts turns in an int, which wraps, and drops its sign."""
    return queues[turn % (INT_MAX + 1) % len(queues)]


def is_tried_again(code: int | None, *, retries_not_store_ok: bool = False) -> bool:
    """Whether another try follows one that was answered with this code, or not at all (None),
    as long as tries and time are left. With `retries_not_store_ok` a message that is stored less
    safely than asked is sent again, to be stored there, too (retryAnotherBrokerWhenNotStoreOK)."""
    if code in STORED:
        return retries_not_store_ok and code != ResponseCode.SUCCESS
    return code is None or code in RETRY_RESPONSE_CODES


def update_fault_item(
    state: ProducerState,
    broker: BrokerName,
    latency_ms: int,
    now_ms: int,
    *,
    isolation: bool = False,
    reachable: bool = True,
) -> Step:
    """Publish!UpdateFaultItem. A send to the broker ended after so many ms; with `isolation` it
    failed there, and where the broker itself refused it, it is not `reachable`. A broker that is
    avoided already is so for no shorter: only time ends that."""
    counted = ISOLATION_LATENCY_MS if isolation else latency_ms
    old = state.fault_item_table.get(broker)
    start_ms = max(now_ms + not_available_duration(counted), old.start_timestamp_ms if old else 0)
    return Step((Change("fault_item_table", broker, FaultItem(latency_ms, start_ms, reachable)),))


def not_available_duration(latency_ms: int) -> int:
    """For how many ms a broker is avoided that took so many to answer."""
    at = bisect_right(LATENCY_MAX, latency_ms)
    return NOT_AVAILABLE_DURATION[at - 1] if at else 0


def select_by_hash(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """The queue of a key: one and the same while the queues stay (SelectMessageQueueByHash)."""
    code = string_hash(key)
    rest = abs(code) % len(queues)  # Java's remainder has the dividend's sign, and abs drops it
    return queues[rest]
