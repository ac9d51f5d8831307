"""The producer's side of a send: which queue, and when to try another one.

A send is tried on up to three queues. Where an answer does not come, the message may be stored
and is sent again all the same: that is one way in which it is stored twice.

Facts: client/impl/producer/{DefaultMQProducerImpl,TopicPublishInfo}.java,
client/producer/DefaultMQProducer.java, 5.3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mqspec.core.metadata import Perm
from mqspec.core.response import ResponseCode
from mqspec.core.route import MASTER_ID, TopicRouteData
from mqspec.core.types import BrokerName, MessageQueue, Topic

TIMES_MAX: Final = 3  # the first try and two more
SEND_TIMEOUT_MS: Final = 3_000  # of all tries together
DEFAULT_TOPIC_QUEUE_NUMS: Final = 4  # of a topic that comes to be by being sent to

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
    queues: Sequence[MessageQueue], turn: int, last_broker: BrokerName | None
) -> MessageQueue:
    """The queue whose turn it is; after a failure the next one on another broker, if any."""
    following = (queues[(turn + i) % len(queues)] for i in range(len(queues)))
    others = (queue for queue in following if queue.broker_name != last_broker)
    return next(others, queues[turn % len(queues)])
