"""What an operator has cleaned before its time: 306, 316 and 329
(AdminBrokerProcessor.java, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqspec.core.metadata import unused_topics
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def clean_expired_consume_queue(
    _: Broker, connection: Connection, request: RemotingCommand
) -> RemotingCommand:
    """306. There is nothing to clean: a queue without messages is as short as it can be, and how
    far it had come is not forgotten, as 5.3.3 does (CLEAN-004)."""
    return request.response()


def clean_unused_topic(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """316. Queues of topics that the broker does not have, and that are not the system's."""
    for topic in unused_topics(broker.metadata, broker.config, broker.store.topics):
        broker.store.delete_topic(topic)
    return request.response()


def delete_expired_commit_log(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """329. What is old goes at any hour, for some rounds of cleaning (CLEAN-002)."""
    broker.store.delete_files_manually()
    return request.response()
