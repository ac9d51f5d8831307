"""Heartbeats as conversations: a client says which groups it is a member of.

On the way groups and their retry topics are created, members are told of each other, and the
expressions that groups filter by are kept.

Facts: ClientManageProcessor.java (5.3.3), and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mqspec.core import consumer_filter, group
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import Carry, Conversation
from mqspec.core.metadata import create_retry_topic, find_subscription_group
from mqspec.core.pull import is_rejected
from mqspec.core.response import Answer, ResponseCode
from mqspec.core.types import ClientId, Group, Topic


class Consumer(NamedTuple):
    """A group that the client consumes with."""

    register: group.RegisterConsumer
    subscribed: tuple[Topic, ...]
    unit_mode: bool


class Heartbeat(NamedTuple):
    """Request 34."""

    info: group.ClientChannelInfo
    channel: group.Channel
    consumers: Sequence[Consumer] = ()
    producers: Sequence[Group] = ()
    fingerprint: int = 0  # of the subscriptions; 0: of version 1


def heart_beat(broker: BrokerStates, event: Heartbeat, now_ms: int) -> Conversation[Answer]:
    """A group that may not be is skipped, and the answer is 0 all the same (GROUP-051)."""
    consumers = [
        one for one in event.consumers if not is_rejected(broker.config, one.register.consume_type)
    ]
    named = (one.register.group for one in consumers)
    heard = group.note_heartbeat(broker.groups, named, event.fingerprint)
    is_sub_change: bool = yield Carry(broker.groups, heard)

    for consumer in consumers:
        yield from _register(broker, consumer, now_ms)

    for name in event.producers:
        if event.info.client_id is None:
            remark = "the heartbeat of a producer has no clientID"
            return Answer(ResponseCode.SYSTEM_ERROR, remark)
        producer = group.RegisterProducer(name, event.channel, event.info)
        yield Carry(broker.groups, group.register_producer(broker.groups, producer))

    fields = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": str(is_sub_change).lower()}
    return Answer(ext_fields=fields)


def _register(broker: BrokerStates, consumer: Consumer, now_ms: int) -> Conversation[None]:
    event = consumer.register
    found = yield Carry(
        broker.metadata,
        find_subscription_group(broker.metadata, broker.config, event.group, now_ms),
    )
    if found is None:
        return
    yield Carry(
        broker.metadata,
        create_retry_topic(
            broker.metadata,
            found,
            now_ms,
            subscribed=consumer.subscribed,
            unit_mode=consumer.unit_mode,
        ),
    )
    yield Carry(broker.groups, group.register_consumer(broker.groups, event))
    if event.subscriptions is not None:
        kept = consumer_filter.register(broker.filters, event.group, event.subscriptions, now_ms)
        yield Carry(broker.filters, kept)


def consumer_list(broker: BrokerStates, name: Group) -> list[ClientId | None] | Answer:
    """Request 38: the client ids of a group's members. A group without members is an error, not
    an empty list (GROUP-008)."""
    ids = group.consumer_id_list(broker.groups, name)
    if ids is None:
        return Answer(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    return ids
