"""Membership: who belongs to a consumer group, as one broker sees it. Twin of Group.tla.

Every broker keeps a table of its own, filled by heartbeats, and brokers do not compare theirs:
two of them may disagree for a while, and a member reads the list of whichever it asks. What is
promised is that a change is told to the members at once (GROUP-003, GROUP-005); the notice is
one-way and may be lost, and a member that falls silent is removed without one (GROUP-006), so
that only the members' own timer makes the group converge (REBAL-001).

A member is a connection ("channel"), not an id: two connections of one id are two entries
(GROUP-002), and that is how scenario A begins.

Facts: broker/client/{ConsumerManager,ConsumerGroupInfo,ProducerManager,
DefaultConsumerIdsChangeListener}.java, 5.3.3; each seen on 5.3.3 over the wire.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias

from mqspec.core.response import Answer, ResponseCode
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import ClientId, Group, Topic

Channel: TypeAlias = Hashable
"""A connection, under whatever name the shell gives it."""

CHANNEL_EXPIRED_TIMEOUT_MS: Final = 120_000  # without a heartbeat, strictly more
SCAN_INTERVAL_MS: Final = 10_000
HEARTBEAT_INTERVAL_MS: Final = 30_000  # of a client


class ConsumeType(StrEnum):
    """Which kind of consumer the group last said that it is."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """Whether the members share the messages, or each gets them all."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """Where a group begins on a queue for which no offset is stored. Those that old clients
    only have mean the same as the first."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """What a group wants of one topic."""

    topic: Topic
    sub_string: str = "*"
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[int] = frozenset()  # Java hashes of the tags
    sub_version: int = 0  # ms: when the member made it; the newest wins
    expression_type: str = "TAG"


@dataclass(frozen=True, slots=True)
class ClientChannelInfo:
    """Who is at the other end of a channel."""

    client_id: ClientId | None  # None: its heartbeat named none, and is counted all the same
    language: str
    version: int
    last_update_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupInfo:
    """A consumer group: its channels, and one subscription table for all of them."""

    channel_info_table: Mapping[Channel, ClientChannelInfo]
    subscription_table: Mapping[Topic, SubscriptionData]
    consume_type: ConsumeType | None
    message_model: MessageModel | None
    consume_from_where: ConsumeFromWhere | None


@dataclass(slots=True)
class GroupState:
    """What one broker knows of clients; nothing of it survives the broker's end."""

    consumer_table: dict[Group, ConsumerGroupInfo] = field(default_factory=dict)
    producer_table: dict[Group, Mapping[Channel, ClientChannelInfo]] = field(default_factory=dict)
    heartbeat_table: dict[Group, int] = field(default_factory=dict)  # the last fingerprint


# Events


@dataclass(frozen=True, slots=True)
class RegisterConsumer:
    """One entry of a heartbeat's consumerDataSet, from one channel."""

    group: Group
    channel: Channel
    info: ClientChannelInfo
    subscriptions: tuple[SubscriptionData, ...] | None  # None: a heartbeat withoutSub
    consume_type: ConsumeType | None = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel | None = MessageModel.CLUSTERING  # None: as good as that
    consume_from_where: ConsumeFromWhere | None = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET


@dataclass(frozen=True, slots=True)
class RegisterProducer:
    """One entry of a heartbeat's producerDataSet, from one channel."""

    group: Group
    channel: Channel
    info: ClientChannelInfo


# Sends


@dataclass(frozen=True, slots=True)
class NotifyConsumerIdsChanged:
    """Code 40, one-way: `group` has other members now. Nobody tells whether it arrived."""

    channel: Channel
    group: Group


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection."""

    channel: Channel


# Actions


def register_consumer(state: GroupState, event: RegisterConsumer) -> Step:
    """Group!RegisterConsumer. A heartbeat enters or refreshes a member (GROUP-001).

    The whole group, the newcomer too, is notified if the channel is new, or a topic came to or
    went from the subscription table (GROUP-003); not if a known channel gives another id
    (GROUP-004) or a newer subscription to a known topic. Result: whether the group was notified.
    """
    old = state.consumer_table.get(event.group)
    channels = dict(old.channel_info_table) if old else {}
    subscriptions = dict(old.subscription_table) if old else {}
    known = channels.get(event.channel)
    changed = known is None
    if known and known.client_id == event.info.client_id:
        channels[event.channel] = _heard_again(known, event.info)
    else:
        channels[event.channel] = event.info
    if event.subscriptions is not None:
        before, subscriptions = subscriptions, _merge(subscriptions, event.subscriptions)
        changed = changed or subscriptions.keys() != before.keys()
    # The last heartbeat says what the group is, whatever the other members said.
    info = ConsumerGroupInfo(
        channels,
        subscriptions,
        event.consume_type,
        event.message_model,
        event.consume_from_where,
    )
    notices = _notices(event.group, info) if changed else ()
    return Step((Change("consumer_table", event.group, info),), notices, changed)


def note_heartbeat(state: GroupState, groups: Iterable[Group], fingerprint: int) -> Step:
    """A heartbeat names groups, which need not exist. Its fingerprint, 0 before version 2,
    stands for all that its client subscribes. Result: whether the last one of a group had
    another, or it has none: the client of version 2 that hears so sends its subscriptions again
    (GROUP-059)."""
    last = {group: state.heartbeat_table.get(group) for group in groups}
    changes = tuple(
        Change("heartbeat_table", group, fingerprint)
        for group, before in last.items()
        if before != fingerprint
    )
    others = any(before not in (None, fingerprint) for before in last.values())
    return Step(changes, result=not fingerprint or others)


def unregister_consumer(state: GroupState, group: Group, channel: Channel) -> Step:
    """Group!UnregisterConsumer. A member says that it leaves; the rest is notified (GROUP-005).

    The channel decides who leaves, whatever id the request names (GROUP-007).
    """
    info = state.consumer_table.get(group)
    return _without(group, info, channel) if info else Step()


def register_producer(state: GroupState, event: RegisterProducer) -> Step:
    """A heartbeat enters or refreshes a producer, which stays who it was (GROUP-061); nobody is
    notified."""
    channels = dict(state.producer_table.get(event.group, {}))
    known = channels.get(event.channel)
    channels[event.channel] = _heard_again(known, event.info) if known else event.info
    return Step((Change("producer_table", event.group, channels),))


def unregister_producer(state: GroupState, group: Group, channel: Channel) -> Step:
    """A producer says that it leaves."""
    channels = state.producer_table.get(group, {})
    return Step(_without_producers(group, channels, (channel,)))


def close_channel(state: GroupState, channel: Channel) -> Step:
    """Group!CloseChannel. The connection ended, failed or was idle: its member has left every
    group, and the rest of each is notified at once (GROUP-005)."""
    steps = [
        _without(group, info, channel)
        for group, info in state.consumer_table.items()
        if channel in info.channel_info_table
    ]
    producers = [
        change
        for group, channels in state.producer_table.items()
        for change in _without_producers(group, channels, (channel,))
    ]
    changes = (change for step in steps for change in step.changes)
    return Step((*changes, *producers), tuple(send for step in steps for send in step.sends))


def scan_not_active_channel(state: GroupState, now_ms: int) -> Step:
    """Group!ScanNotActiveChannel. Every 10 s: a channel without a heartbeat for more than 120 s
    is closed and its member removed, and nobody is told (GROUP-006): the others notice only by
    their own timer."""
    changes: list[Change] = []
    closed: dict[Channel, None] = {}
    for group, info in state.consumer_table.items():
        expired = _expired(info.channel_info_table, now_ms)
        if expired:
            changes.append(_left(group, info, expired))
            closed |= dict.fromkeys(expired)
    for group, channels in state.producer_table.items():
        expired = _expired(channels, now_ms)
        changes += _without_producers(group, channels, expired)
        closed |= dict.fromkeys(expired)
    return Step(tuple(changes), tuple(Close(channel) for channel in closed))


# Queries


def consumer_id_list(state: GroupState, group: Group) -> list[ClientId | None] | None:
    """The ids of a group in no promised order, an id as often as it has channels (GROUP-002).

    None where the group has no member: an error to who asks, not an empty list (GROUP-008).
    """
    info = state.consumer_table.get(group)
    return [member.client_id for member in info.channel_info_table.values()] if info else None


def subscription(state: GroupState, group: Group, topic: Topic) -> SubscriptionData | None:
    """The group's one subscription to `topic`: the newest that a heartbeat gave (GROUP-009)."""
    info = state.consumer_table.get(group)
    return info.subscription_table.get(topic) if info else None


def _merge(
    table: Mapping[Topic, SubscriptionData], heard: tuple[SubscriptionData, ...]
) -> dict[Topic, SubscriptionData]:
    """The table after a heartbeat: its topics and no others, of each the newest version."""
    merged: dict[Topic, SubscriptionData] = {}
    for new in heard:
        old = merged.get(new.topic) or table.get(new.topic)
        merged[new.topic] = new if old is None or new.sub_version > old.sub_version else old
    return merged


def _heard_again(known: ClientChannelInfo, now: ClientChannelInfo) -> ClientChannelInfo:
    return replace(known, last_update_ms=now.last_update_ms)


def _without(group: Group, info: ConsumerGroupInfo, channel: Channel) -> Step:
    change = _left(group, info, (channel,))
    left = change.value
    return Step((change,), _notices(group, left) if isinstance(left, ConsumerGroupInfo) else ())


def _left(group: Group, info: ConsumerGroupInfo, gone: Collection[Channel]) -> Change:
    rest = {c: member for c, member in info.channel_info_table.items() if c not in gone}
    if not rest:
        return Change("consumer_table", group, REMOVED)
    left = replace(info, channel_info_table=rest)
    return Change("consumer_table", group, left)


def _without_producers(
    group: Group, channels: Mapping[Channel, ClientChannelInfo], gone: Collection[Channel]
) -> tuple[Change, ...]:
    rest = {c: member for c, member in channels.items() if c not in gone}
    if len(rest) == len(channels):
        return ()
    return (Change("producer_table", group, rest if rest else REMOVED),)


def _expired(channels: Mapping[Channel, ClientChannelInfo], now_ms: int) -> list[Channel]:
    deadline = now_ms - CHANNEL_EXPIRED_TIMEOUT_MS
    return [channel for channel, member in channels.items() if member.last_update_ms < deadline]


def _notices(group: Group, info: ConsumerGroupInfo) -> tuple[NotifyConsumerIdsChanged, ...]:
    """To every channel of the group; none where each member gets everything anyway (GROUP-010)."""
    if info.message_model is MessageModel.BROADCASTING:
        return ()
    return tuple(NotifyConsumerIdsChanged(channel, group) for channel in info.channel_info_table)


def consumers_of(state: GroupState, group: Group) -> ConsumerGroupInfo | Answer:
    """The members of a group that is to be shown, or the answer where it has none (ADMIN-007)."""
    remark = f"the consumer group[{group}] not online"
    return state.consumer_table.get(group) or Answer(ResponseCode.CONSUMER_NOT_ONLINE, remark)


def producers_of(state: GroupState, group: Group) -> Mapping[Channel, ClientChannelInfo] | Answer:
    """The producers of a group that is to be shown, or the answer where it has none (ADMIN-008)."""
    channels = state.producer_table.get(group)
    if channels is None:
        return Answer(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
    return channels
