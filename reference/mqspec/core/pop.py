"""POP: the broker hands out messages one by one, and brings back what is not acknowledged.

The twin of Pop.tla. A pop reads a queue from the group's offset on, moves that offset behind
what it read, and leaves a checkpoint in the revive log: its messages are invisible to the group
until their time is up. An acknowledgement is a message of the same log. The revive service
reads that log; messages of a checkpoint that are not acknowledged when their time is up are put
into the group's retry topic, which the group pops as well.

Promised: every message is delivered at least once (POP-002), none to a second consumer while it
is invisible (POP-001), and one that was acknowledged in time not again (POP-003). An
acknowledgement that comes too late is answered like any other and has no effect (POP-006).
Not promised: an end. The broker counts deliveries and gives up on no message (POP-012).

The offset must never be on disk before the checkpoint: what lies between them would be lost.

Facts: PopMessageProcessor.java, AckMessageProcessor.java, ChangeInvisibleTimeProcessor.java,
PopReviveService.java (5.3.3, without its options popConsumerKVServiceEnable and
enablePopBufferMerge, which are off), and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from mqspec.core.extra_info import ReceiptHandle, normal_topic, pop_retry_topic
from mqspec.core.group import SubscriptionData
from mqspec.core.log import RETRY_TOPIC_PREFIX, Span, TopicQueue
from mqspec.core.metadata import (
    BrokerConfig,
    MetadataState,
    Perm,
    TopicConfig,
    find_subscription_group,
)
from mqspec.core.offset_commit import OffsetKey, OffsetState
from mqspec.core.record import (
    Host,
    Record,
    decode_properties,
    encode_properties,
    noted_properties,
)
from mqspec.core.response import SEE_FAQ, Refusal, ResponseCode
from mqspec.core.revive_log import (
    ACK_TIME_INTERVAL_MS,
    REVIVE_GROUP,
    AckMsg,
    CheckPointKey,
    PopCheckPoint,
    ReviveMessage,
    revive_topic,
)
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.subscription import (
    ALL,
    TAG,
    SubscriptionError,
    build_subscription_data,
    condition_of,
)
from mqspec.core.types import Group, Topic

MAX_MSG_NUMS: Final = 32
LATE_MS: Final = 500  # how long after its own deadline a request is still looked at
REVIVE_DELAY_MS: Final = 2_000  # how long a checkpoint waits for acknowledgements on their way
CK_REWRITE_INTERVALS_S: Final = (
    *(10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480),
    *(540, 600, 1200, 1800, 3600, 7200),
)
"""How much later a checkpoint is tried again whose revival failed: once, twice, ..."""

INIT_MIN: Final = 0  # ConsumeInitMode
FIRST_POP_TIME: Final = "1ST_POP_TIME"
POP_CK: Final = "POP_CK"


class PoppedCheckPoint(NamedTuple):
    """A checkpoint of the revive log, with what has been acknowledged of it."""

    check_point: PopCheckPoint
    revive_offset: int  # its own place in the queue of the revive topic
    acked: frozenset[int] = frozenset()

    @property
    def unacked(self) -> tuple[int, ...]:
        """The offsets of the messages that are still out."""
        return tuple(offset for offset in self.check_point.offsets if offset not in self.acked)


@dataclass(slots=True)
class PopState:
    """What the broker has read of its revive log; all of it can be read again."""

    check_points: dict[tuple[int, CheckPointKey], PoppedCheckPoint] = field(default_factory=dict)
    """By queue of the revive topic and key: those that are not done."""
    scan_offset: dict[int, int] = field(default_factory=dict)
    """By queue of the revive topic: the next offset to read."""


@dataclass(frozen=True, slots=True)
class Pop:
    """A consumer asks for messages of a topic, wherever they are."""

    group: Group
    topic: Topic
    queue_id: int  # below 0: all
    max_msg_nums: int
    invisible_time: int  # ms
    poll_time: int  # ms: how long to wait for messages
    born_time: int  # ms
    init_mode: int
    exp_type: str
    exp: str
    order: bool
    attempt_id: str | None
    consumer: str  # host:port


class Popped(NamedTuple):
    """What a read of one queue gave."""

    topic: Topic
    queue_id: int
    start_offset: int
    offsets: tuple[int, ...]  # of the messages
    next_begin_offset: int


def check_pop(state: MetadataState, config: BrokerConfig, event: Pop, now_ms: int) -> Step:
    """Whether the topic may be popped; on the way the group may be created. Result: the
    SubscriptionData to filter by, or a Refusal.

    In the order of 5.3.3.
    """
    if now_ms - event.born_time - event.poll_time > LATE_MS:
        remark = f"the broker[{config.host}] pop message is timeout too much"
        return Step(result=Refusal(ResponseCode.POLLING_TIMEOUT, remark))
    if refusal := _check_broker(config, "pop"):
        return Step(result=refusal)
    if event.max_msg_nums > MAX_MSG_NUMS:
        remark = f"the broker[{config.host}] pop message's num is greater than {MAX_MSG_NUMS}"
        return Step(result=Refusal(ResponseCode.INVALID_PARAMETER, remark))
    if not config.timer_wheel_enable:
        remark = (
            f"the broker[{config.host}] pop message is forbidden because timerWheelEnable is false"
        )
        return Step(result=Refusal(ResponseCode.SYSTEM_ERROR, remark))
    step = check_peek(
        state, config, event.topic, event.queue_id, event.group, event.consumer, now_ms
    )
    if step.result:
        return step
    try:
        wanted = _said(event, event.topic, event.exp)
        if wanted.expression_type != TAG:
            condition_of(wanted)
    except SubscriptionError:
        remark = "parse the consumer's subscription failed"
        refusal = Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)
        return Step(step.changes, result=refusal)
    return Step(step.changes, result=wanted)


def brought_by(
    event: Pop, wanted: SubscriptionData | Refusal, *, is_v2: bool
) -> tuple[SubscriptionData, ...]:
    """The subscriptions that a pop brings, of its topic and of all of that's retry topic, once the
    topic may be popped: an expression is read afterwards (ADMIN-027)."""
    if isinstance(wanted, Refusal) and wanted.code is not ResponseCode.SUBSCRIPTION_PARSE_FAILED:
        return ()
    retry = pop_retry_topic(event.topic, event.group, is_v2)
    try:
        return _said(event, event.topic, event.exp), _said(event, retry, ALL)
    except SubscriptionError:
        return ()


def _said(event: Pop, topic: Topic, expression: str) -> SubscriptionData:
    """What an expression means; all, where the pop has none. Raises SubscriptionError."""
    exp_type = event.exp_type if event.exp else TAG
    return build_subscription_data(topic, expression, expression_type=exp_type)


def _check_broker(config: BrokerConfig, what: str = "peeking") -> Refusal | None:
    """Whether messages may be read here at all."""
    if config.broker_permission & Perm.READ:
        return None
    remark = f"the broker[{config.host}] {what} message is forbidden"
    return Refusal(ResponseCode.NO_PERMISSION, remark)


def check_peek(
    state: MetadataState,
    config: BrokerConfig,
    topic_name: Topic,
    queue_id: int,
    group: Group,
    consumer: str,
    now_ms: int,
) -> Step:
    """What pops, notifications and polling infos have in common. Result: a Refusal or None."""
    if refusal := _check_broker(config):
        return Step(result=refusal)
    topic = state.topic_config_table.get(topic_name)
    refusal = check_topic(topic, topic_name)
    if refusal or topic is None:
        return Step(result=refusal)
    if not topic.perm & Perm.READ:
        remark = f"the topic[{topic_name}] peeking message is forbidden"
        return Step(result=Refusal(ResponseCode.NO_PERMISSION, remark))
    if queue_id >= topic.read_queue_nums:
        remark = _illegal_queue(topic, queue_id, consumer)
        return Step(result=Refusal(ResponseCode.INVALID_PARAMETER, remark))
    found = find_subscription_group(state, config, group, now_ms)
    if found.result is None:
        remark = f"subscription group [{group}] does not exist, {SEE_FAQ}"
        return Step(result=Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark))
    if not found.result.consume_enable:
        remark = f"subscription group no permission, {group}"
        return Step(found.changes, result=Refusal(ResponseCode.NO_PERMISSION, remark))
    return Step(found.changes)


def check_topic(topic: TopicConfig | None, name: Topic) -> Refusal | None:
    """Whether there is such a topic."""
    if topic:
        return None
    remark = f"topic[{name}] not exist, apply first please! {SEE_FAQ}"
    return Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)


def check_ack_queue(
    state: MetadataState, topic_name: Topic, queue_id: int, consumer: str
) -> Refusal | None:
    """Whether there is the queue whose message is acknowledged, or changed."""
    topic = state.topic_config_table.get(topic_name)
    refusal = check_topic(topic, topic_name)
    if refusal or topic is None or 0 <= queue_id < topic.read_queue_nums:
        return refusal
    remark = _illegal_queue(topic, queue_id, consumer)
    return Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)


def check_ack_offset(topic: Topic, queue_id: int, offset: int, queue: Span) -> Refusal | None:
    """Whether an acknowledgement names a message: that behind the last one is accepted too."""
    if queue.min <= offset <= queue.max:
        return None
    remark = (
        f"offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{queue.min}~{queue.max}"
    )
    return Refusal(ResponseCode.NO_MESSAGE, remark)


def _illegal_queue(topic: TopicConfig, queue_id: int, consumer: str) -> str:
    return (
        f"queueId[{queue_id}] is illegal, topic:[{topic.topic_name}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{consumer}]"
    )


class Places(NamedTuple):
    """The queues that a pop reads, in this order, by topic and queue id."""

    first: tuple[TopicQueue, ...]
    if_not_full: tuple[TopicQueue, ...]


def places(metadata: MetadataState, config: BrokerConfig, event: Pop, random_q: int) -> Places:
    """Where a pop looks: in the retry topic before the topic itself, now and then, or else
    behind it; an ordered one never there. `random_q` is a random number below 100."""
    normal = _asked_for(metadata, event.topic, event.queue_id, random_q)
    if event.order:
        return Places(normal, ())
    is_v2 = config.enable_retry_topic_v2
    if is_v2 and config.retrieve_message_from_pop_retry_topic_v1 and random_q % 2 == 0:
        is_v2 = False  # a group's messages of before the change are found too
    retry = _queues(metadata, pop_retry_topic(event.topic, event.group, is_v2), random_q)
    return _in_turn(normal, retry, retry_first=random_q < config.pop_from_retry_probability)


def peek_places(
    metadata: MetadataState,
    config: BrokerConfig,
    topic: Topic,
    group: Group,
    queue_id: int,
    random_q: int,
) -> Places:
    """Where a peek looks: in the retry topic first one time in five."""
    normal = _asked_for(metadata, topic, queue_id, random_q)
    retry_topic = pop_retry_topic(topic, group, config.enable_retry_topic_v2)
    retry = _queues(metadata, retry_topic, random_q)
    return _in_turn(normal, retry, retry_first=random_q % 5 == 0)


def _in_turn(
    normal: tuple[TopicQueue, ...], retry: tuple[TopicQueue, ...], *, retry_first: bool
) -> Places:
    return Places(retry + normal, ()) if retry_first else Places(normal, retry)


def _asked_for(
    metadata: MetadataState, topic: Topic, queue_id: int, random_q: int
) -> tuple[TopicQueue, ...]:
    return ((topic, queue_id),) if queue_id >= 0 else _queues(metadata, topic, random_q)


def _queues(metadata: MetadataState, topic: Topic, random_q: int) -> tuple[TopicQueue, ...]:
    config = metadata.topic_config_table.get(topic)
    count = config.read_queue_nums if config else 0
    return tuple((topic, (random_q + i) % count) for i in range(count))


# Actions


def init_offset(offsets: OffsetState, key: OffsetKey, init_mode: int, queue: Span) -> Step:
    """Where a group begins that has no offset yet: at the first message of a
    retry topic, of a queue whose first message is still there, and where the group asks for
    that; else at the last one (POP-011). Result: the offset to read from."""
    stored = offsets.offset_table.get(key, -1)
    if stored >= 0:
        return Step(result=stored)
    is_young = queue.min == 0
    if init_mode == INIT_MIN or key.topic.startswith(RETRY_TOPIC_PREFIX) or is_young:
        offset = queue.min
    else:
        offset = queue.max - 1
    return Step((Change("offset_table", key, offset),), result=offset)


def pop_message(event: Popped, pop: Pop, pop_time: int, broker_name: str) -> Step:
    """Pop!PopMessage. Messages of a queue are handed out. The change, of the group's offset, is
    applied once the result, the checkpoint, is in the revive log. A read that found only
    messages that do not match needs none."""
    key = OffsetKey(event.topic, pop.group, event.queue_id)
    change = Change("offset_table", key, event.next_begin_offset)
    if not event.offsets:
        return Step((change,))
    name = CheckPointKey(
        event.topic, pop.group, event.queue_id, event.start_offset, pop_time, broker_name
    )
    return Step((change,), result=PopCheckPoint(name, pop.invisible_time, event.offsets))


def ack_message(
    topic: Topic,
    group: Group,
    queue_id: int,
    offsets: tuple[int, ...],
    handle: ReceiptHandle,
    batch: bool = False,
) -> AckMsg:
    """Pop!AckMessage. What goes to the revive log for an acknowledgement."""
    key = _key_of(topic, group, queue_id, handle)
    return AckMsg(key, handle.invisible_time, offsets, batch)


class ChangeInvisibleTime(NamedTuple):
    """A consumer wants more time for a message, or less."""

    topic: Topic
    group: Group
    queue_id: int
    offset: int
    handle: ReceiptHandle
    invisible_time: int  # ms, from now on


def change_invisible_time(event: ChangeInvisibleTime, now_ms: int) -> tuple[PopCheckPoint, AckMsg]:
    """Pop!ChangeInvisibleTime. What goes to the revive log, in this order: a checkpoint of the
    one message, then its acknowledgement at the old one. A crash in between repeats the
    message; the other order would lose it.

    The new checkpoint is later than the old one, also where the clock says that it is not, or
    both would be one (of 5.3.3, a change in the millisecond of its pop loses the message).
    """
    new = _key_of(event.topic, event.group, event.queue_id, event.handle)._replace(
        start_offset=event.offset, pop_time=max(now_ms, event.handle.pop_time + 1)
    )
    ack = ack_message(event.topic, event.group, event.queue_id, (event.offset,), event.handle)
    return PopCheckPoint(new, event.invisible_time, (event.offset,)), ack


def is_too_long(config: BrokerConfig, invisible_time: int) -> bool:
    """Whether 5.3.3 refuses to change the invisible time of a message to this, in ms: its new
    checkpoint would wait for longer than a message may (POP-043)."""
    return invisible_time - ACK_TIME_INTERVAL_MS > 1000 * config.timer_max_delay_sec


def consume_revive_message(
    state: PopState, revive_qid: int, offset: int, message: ReviveMessage | None
) -> Step:
    """Pop!ConsumeReviveMessage. The next message of the revive log is read. An acknowledgement
    without a checkpoint has no effect, nor has one of a message that its checkpoint lacks."""
    scanned = Change("scan_offset", revive_qid, offset + 1)
    if message is None:
        return Step((scanned,))
    key = (revive_qid, message.key)
    if isinstance(message, PopCheckPoint):
        return Step((scanned, Change("check_points", key, PoppedCheckPoint(message, offset))))
    held = state.check_points.get(key)
    if held is None:
        return Step((scanned,))
    merged = held._replace(acked=held.acked | frozenset(message.offsets))
    return Step((scanned, Change("check_points", key, merged if merged.unacked else REMOVED)))


def scanned(state: PopState, revive_qid: int, offset: int) -> Step:
    """The revive log is read up to an offset, also where the last of it said nothing."""
    if state.scan_offset[revive_qid] == offset:
        return Step()
    return Step((Change("scan_offset", revive_qid, offset),))


def is_due(held: PoppedCheckPoint, now_ms: int) -> bool:
    """The guard of Pop!Revive: the messages' time is up, and what acknowledgement was given
    before that has had time to arrive."""
    return now_ms - held.check_point.revive_time > REVIVE_DELAY_MS


def is_forgotten(metadata: MetadataState, check_point: PopCheckPoint) -> bool:
    """Whether there is nobody any more to revive messages for."""
    key = check_point.key
    return (
        normal_topic(key.topic, key.group) not in metadata.topic_config_table
        or key.group not in metadata.subscription_group_table
    )


def revive(revive_qid: int, held: PoppedCheckPoint) -> Step:
    """Pop!Revive. A checkpoint is done: all its messages are acknowledged, in the retry topic,
    or in a checkpoint of their own (re_put_ck)."""
    return Step((Change("check_points", (revive_qid, held.check_point.key), REMOVED),))


def revived_message(
    check_point: PopCheckPoint, message: Record, config: BrokerConfig, host: Host
) -> Record:
    """The copy of a message that was not acknowledged, for the group's retry topic, which
    brings it back to whoever pops next."""
    topic, group = check_point.key.topic, check_point.key.group
    if not topic.startswith(RETRY_TOPIC_PREFIX):
        topic = pop_retry_topic(topic, group, config.enable_retry_topic_v2)
    properties = decode_properties(message.properties)
    if message.reconsume_times == 0 or FIRST_POP_TIME not in properties:
        properties[FIRST_POP_TIME] = str(check_point.key.pop_time)
    return structs.replace(
        message,
        topic=topic,
        queue_id=0,
        properties=noted_properties(message, properties),
        reconsume_times=message.reconsume_times + 1,
        born_host=host,
        store_host=host,
        prepared_transaction_offset=0,
    )


def re_put_ck(check_point: PopCheckPoint, offset: int) -> PopCheckPoint:
    """The checkpoint of a message whose revival failed, to try again later: each time later,
    and without end."""
    times = min(check_point.re_put_times, len(CK_REWRITE_INTERVALS_S) - 1)
    return PopCheckPoint(
        check_point.key._replace(start_offset=offset),
        check_point.invisible_time + 1000 * CK_REWRITE_INTERVALS_S[times],
        (offset,),
        check_point.re_put_times + 1,
    )


def commit_revive_offset(
    state: PopState, offsets: OffsetState, cluster: str, revive_qid: int
) -> Step:
    """All of the revive log before the first checkpoint that is not
    done is not needed any more. As the real one counts: the offset of the last message that is
    not needed, not of the first that is.

    The change is one of the consumer offsets.
    """
    pending = (
        held.revive_offset for (queue, _), held in state.check_points.items() if queue == revive_qid
    )
    done = min(pending, default=state.scan_offset.get(revive_qid, 0)) - 1
    key = OffsetKey(revive_topic(cluster), REVIVE_GROUP, revive_qid)
    if done <= offsets.offset_table.get(key, -1):
        return Step()
    return Step((Change("offset_table", key, done),))


def restart(offsets: OffsetState, config: BrokerConfig, queues: Mapping[int, Span]) -> PopState:
    """Pop!Restart. The revive log is read again from its committed offsets on. `queues` are
    those of the revive topic."""
    topic = revive_topic(config.cluster_name)
    return PopState(
        scan_offset={
            revive_qid: max(
                queue.min,
                offsets.offset_table.get(OffsetKey(topic, REVIVE_GROUP, revive_qid), -1) + 1,
            )
            for revive_qid, queue in queues.items()
        }
    )


def retry_message(
    message: Record, topic: Topic, handle: ReceiptHandle, actual_topic: bool = False
) -> Record:
    """A message of a retry topic as a pop answers it: with its own topic, and the handle."""
    if actual_topic:
        return message
    properties = decode_properties(message.properties)
    properties.setdefault(POP_CK, str(handle))
    return structs.replace(
        message, topic=topic, properties=encode_properties(properties).encode(errors="replace")
    )


def _key_of(topic: Topic, group: Group, queue_id: int, handle: ReceiptHandle) -> CheckPointKey:
    return CheckPointKey(
        topic, group, queue_id, handle.ck_queue_offset, handle.pop_time, handle.broker_name
    )
