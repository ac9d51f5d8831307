"""Assignment: which queues of a topic a member consumes, where the broker is asked to say.

A member may leave the allocation to a broker (setClientRebalance(false)), which computes it with
the members that it knows itself and the same strategies (core.allocation); and it hears in which
mode to consume: to pull, or to pop, which an administrator sets for each topic and group. Those
who pop may share queues: all of them by default, or each its own and those of the next members.

Facts: QueryAssignmentProcessor.java, MessageRequestModeManager.java (5.3.3), and what 5.3.3
answered over the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from mqspec.core.allocation import AVG, AVG_BY_CIRCLE, AllocationError, Strategy, allocate
from mqspec.core.group import MessageModel
from mqspec.core.log import RETRY_TOPIC_PREFIX
from mqspec.core.metadata import BrokerConfig, MetadataState, find_subscription_group
from mqspec.core.response import Refusal, ResponseCode
from mqspec.core.step import Change, Step
from mqspec.core.types import ClientId, Group, MessageQueue, Topic, string_order

ALL_QUEUES: Final = -1  # the queue id of who pops from all queues of a broker
SERVER_STRATEGIES: Final[Mapping[str | None, Strategy]] = {
    strategy.name: strategy for strategy in (AVG, AVG_BY_CIRCLE)
}


class MessageRequestMode(StrEnum):
    """How the members of a group ask for messages of a topic."""

    PULL = "PULL"
    POP = "POP"


@dataclass(frozen=True, slots=True)
class SetMessageRequestMode:
    """How a group asks for the messages of a topic. Sharing is for those who pop: with how many
    members each shares its queues; 0 or less, or almost all: with all."""

    topic: Topic
    consumer_group: Group
    mode: MessageRequestMode = MessageRequestMode.PULL
    pop_share_queue_num: int = 0


@dataclass(slots=True)
class AssignmentState:
    """What administrators set; it is in messageRequestMode.json too."""

    message_request_mode_map: dict[Topic, Mapping[Group, SetMessageRequestMode]] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class QueryAssignment:
    """A member asks for its queues of a topic."""

    topic: Topic
    consumer_group: Group
    message_model: MessageModel
    client_id: ClientId = ""
    strategy_name: str | None = None


@dataclass(frozen=True, slots=True)
class MessageQueueAssignment:
    """One queue, and how to ask for its messages."""

    message_queue: MessageQueue
    mode: MessageRequestMode


def check_request_mode(
    state: MetadataState, config: BrokerConfig, event: SetMessageRequestMode, now_ms: int
) -> Step:
    """Whether a mode may be set; on the way the group may be created (ASSIGN-006). Result: a
    Refusal or None."""
    if event.topic.startswith(RETRY_TOPIC_PREFIX):
        remark = "retry topic is not allowed to set mode"
        return Step(result=Refusal(ResponseCode.NO_PERMISSION, remark))
    if event.topic not in state.topic_config_table:
        remark = f"topic[{event.topic}] not exist"
        return Step(result=Refusal(ResponseCode.TOPIC_NOT_EXIST, remark))
    found = find_subscription_group(state, config, event.consumer_group, now_ms)
    if found.result is None:
        remark = "subscription group does not exist"
        return Step(result=Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark))
    return Step(found.changes)


def set_message_request_mode(state: AssignmentState, event: SetMessageRequestMode) -> Step:
    """An administrator says how a group asks for the messages of a topic."""
    modes = {**state.message_request_mode_map.get(event.topic, {}), event.consumer_group: event}
    return Step((Change("message_request_mode_map", event.topic, modes),))


def message_request_mode(
    state: AssignmentState, topic: Topic, group: Group
) -> SetMessageRequestMode:
    """How a group asks for the messages of a topic; it pulls, unless it is told otherwise."""
    modes = state.message_request_mode_map.get(topic, {})
    return modes.get(group) or SetMessageRequestMode(topic, group)


def do_load_balance(
    event: QueryAssignment,
    mode: SetMessageRequestMode,
    mq_all: Sequence[MessageQueue] | None,
    cid_all: Sequence[ClientId | None] | None,
) -> list[MessageQueueAssignment] | None:
    """The queues of a member: of the topic's (None: it has no route) and among the group's ids
    (None: the broker knows no member). In broadcasting, all of them.

    None, which the member takes for no answer, where one of the two is missing, the strategy is
    none that brokers know, or it cannot be computed (ASSIGN-003).
    """
    if mq_all is None:
        return None
    queues: Sequence[MessageQueue] = mq_all
    if event.message_model is MessageModel.CLUSTERING:
        strategy = SERVER_STRATEGIES.get(event.strategy_name)
        if cid_all is None or strategy is None:
            return None
        ids = sorted((cid for cid in cid_all if cid is not None), key=string_order)
        try:
            if mode.mode is MessageRequestMode.POP:
                share = mode.pop_share_queue_num
                queues = allocate_for_pop(strategy, event, sorted(mq_all), ids, share)
            else:
                group, client_id = event.consumer_group, event.client_id
                queues = allocate(strategy, group, client_id, sorted(mq_all), ids)
        except AllocationError:
            return None
    return [MessageQueueAssignment(mq, mode.mode) for mq in dict.fromkeys(queues)]


def allocate_for_pop(
    strategy: Strategy,
    event: QueryAssignment,
    mq_all: list[MessageQueue],
    cid_all: list[ClientId],
    share: int,
) -> list[MessageQueue]:
    """The queues of a member that pops; both lists sorted. Raises AllocationError (ASSIGN-005)."""
    if share <= 0 or share >= len(cid_all) - 1:
        return [replace(mq, queue_id=ALL_QUEUES) for mq in mq_all]
    group, client_id = event.consumer_group, event.client_id
    own = allocate(strategy, group, client_id, mq_all, cid_all)
    if client_id not in cid_all:
        return own
    index = cid_all.index(client_id)
    if len(cid_all) > len(mq_all):
        return [mq_all[index % len(mq_all)]]  # so that each has one
    following = (cid_all[(index + i) % len(cid_all)] for i in range(1, share + 1))
    return own + [mq for cid in following for mq in allocate(strategy, group, cid, mq_all, cid_all)]
