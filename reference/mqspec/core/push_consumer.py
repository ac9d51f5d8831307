"""The push consumer's pulls: which queues there are, what an answer means, when to ask again.

"Push" is pull: the broker holds a pull that finds nothing, and answers as soon as a message
arrives. Membership and slices are in rebalance, progress in offset_commit.

Facts: client/impl/consumer/{DefaultMQPushConsumerImpl,PullAPIWrapper,
ConsumeMessageConcurrentlyService}.java, client/impl/MQClientAPIImpl.java, 5.3.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from mqspec.core.group import SubscriptionData
from mqspec.core.metadata import Perm
from mqspec.core.response import ResponseCode
from mqspec.core.route import MASTER_ID, TopicRouteData
from mqspec.core.types import MessageQueue, Topic

BROKER_SUSPEND_MAX_TIME_MS: Final = 15_000  # how long a broker may hold a pull
CONSUMER_TIMEOUT_MS_WHEN_SUSPEND: Final = 30_000  # how long the client waits for it
PULL_BATCH_SIZE: Final = 32
PULL_BATCH_SIZE_IN_BYTES: Final = 256 * 1024
CONSUME_AGAIN_DELAY_MS: Final = 5_000  # of a message that failed and stayed here
PAUSED_DELAY_MS: Final = 1_000  # of a pull while the consumer is paused
MAX_RECONSUME_TIMES: Final = 16  # unless configured: then a message is parked
CONSUME_TIMEOUT_MS: Final = 15 * 60_000  # of one message, and between two looks for such
CLEAN_EXPIRED_MSG_MAX: Final = 16  # of one queue, each time
CLEAN_EXPIRED_MSG_DELAY_LEVEL: Final = 3
RESET_OFFSET_WAIT_MS: Final = 10_000  # between dropping queues and going on elsewhere in them


CONFIG_RANGES: Final = {
    "consume_message_batch_max_size": (1, 1024),
    "pull_batch_size": (1, 1024),
}
"""What settings may be, from and to (DefaultMQPushConsumerImpl.checkConfig)."""


class PullStatus(Enum):
    """What the answer to a pull means to a client."""

    FOUND = "messages"
    NO_NEW_MSG = "none yet"
    NO_MATCHED_MSG = "none that the subscription wants, up to the next offset"
    OFFSET_ILLEGAL = "the queue does not hold that offset: the next offset is one it has"
    FLOW_CONTROL = "the broker asks to come back later"
    FAILED = "anything else"


_STATUS: Final[Mapping[int, PullStatus]] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
    ResponseCode.FLOW_CONTROL: PullStatus.FLOW_CONTROL,
}

PULL_AGAIN_DELAY_MS: Final = {
    PullStatus.FOUND: 0,
    PullStatus.NO_NEW_MSG: 0,
    PullStatus.NO_MATCHED_MSG: 0,
    PullStatus.FLOW_CONTROL: 20,
    PullStatus.FAILED: 1_000,
}
"""When to pull again; after OFFSET_ILLEGAL the queue is dropped, and started on anew."""


def pull_status(code: int) -> PullStatus:
    """What a response code means."""
    return _STATUS.get(code, PullStatus.FAILED)


def find_broker_in_subscribe(broker_addrs: Mapping[int, str], broker_id: int) -> int | None:
    """Which of a broker and its replicas, by their ids, is asked where that one is to be: it, or
    of a replica the next one, or any (MQClientInstance.findBrokerAddressInSubscribe)."""
    candidates = (broker_id, *([broker_id + 1] if broker_id != MASTER_ID else []))
    there = (candidate for candidate in candidates if candidate in broker_addrs)
    return next(there, min(broker_addrs, default=None))


def subscribe_queues(topic: Topic, route: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Where messages of the topic may be: the readable queues."""
    return tuple(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & Perm.READ
        for queue_id in range(data.read_queue_nums)
    )


def is_wanted(subscription: SubscriptionData, tags: str | None) -> bool:
    """Subscription!IsWanted. Whether the subscription names exactly this tag, which the broker
    knows by hash only (SUBS-015)."""
    return not subscription.tags_set or tags in subscription.tags_set


def acknowledged(count: int, *, success: bool, ack_index: int | None) -> int:
    """How many of `count` messages are consumed, counted from the first: with success those up
    to and including `ack_index`, or all."""
    if not success:
        return 0
    return count if ack_index is None else max(0, min(ack_index + 1, count))


def first_expired(
    msg_tree_map: Sequence[int], consume_start_ms: Mapping[int, int], timeout_ms: int, now_ms: int
) -> int | None:
    """The first message of a process queue, by its offset, where the listener has it for longer
    than `timeout_ms`. Later ones are not looked at: they hold nothing back (scenario G)."""
    if not msg_tree_map:
        return None
    started = consume_start_ms.get(msg_tree_map[0])
    return msg_tree_map[0] if started is not None and now_ms - started > timeout_ms else None
