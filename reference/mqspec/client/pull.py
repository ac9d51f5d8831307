"""What a client asks for as it pulls, and what it makes of the answer (PullAPIWrapper, 5.3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mqspec.client.instance import BrokerError, ClientInstance, int_field
from mqspec.client.message import MessageExt
from mqspec.core.group import SubscriptionData
from mqspec.core.pull import PullSysFlag
from mqspec.core.push_consumer import (
    BROKER_SUSPEND_MAX_TIME_MS,
    CONSUMER_TIMEOUT_MS_WHEN_SUSPEND,
    PullStatus,
    is_wanted,
    pull_status,
)
from mqspec.core.route import MASTER_ID
from mqspec.core.types import Group, MessageQueue
from mqspec.wire import bodies
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

ANY_SIZE: Final = (1 << 31) - 1  # of the messages of an answer, in bytes


@dataclass(frozen=True, slots=True)
class PullResult:
    """The answer to a pull. Messages that the subscription does not want are left out."""

    status: PullStatus
    next_begin_offset: int
    messages: Sequence[MessageExt] = ()


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What is pulled, for whom."""

    group: Group
    mq: MessageQueue
    subscription: SubscriptionData
    queue_offset: int
    max_msg_nums: int
    sys_flag: PullSysFlag
    sub_version: int = 0  # ms; of the heartbeat that the broker is to filter by
    commit_offset: int = 0
    suspend_ms: int = BROKER_SUSPEND_MAX_TIME_MS
    max_msg_bytes: int = ANY_SIZE


def pull_from(instance: ClientInstance, mq: MessageQueue) -> int:
    """Who is pulled next: whom the last answer named, the master at first, or who is there. Raises
    UnreachableError."""
    wanted = instance.pull_from_which_node.get(mq, MASTER_ID)
    return instance.find_in_subscribe(mq.broker_name, wanted)


async def pull(
    instance: ClientInstance,
    request: PullRequest,
    timeout_ms: int = CONSUMER_TIMEOUT_MS_WHEN_SUSPEND,
) -> PullResult:
    """Pull once. Raises BrokerError where the answer says that pulling failed, and what a
    request raises."""
    mq, subscription = request.mq, request.subscription
    broker_id, sys_flag = pull_from(instance, mq), request.sys_flag
    if broker_id != MASTER_ID:
        sys_flag &= ~PullSysFlag.COMMIT_OFFSET
    fields = {
        "consumerGroup": request.group,
        "topic": mq.topic,
        "queueId": str(mq.queue_id),
        "queueOffset": str(request.queue_offset),
        "maxMsgNums": str(request.max_msg_nums),
        "sysFlag": str(int(sys_flag)),
        "commitOffset": str(request.commit_offset),
        "suspendTimeoutMillis": str(request.suspend_ms),
        "subVersion": str(request.sub_version),
        "maxMsgBytes": str(request.max_msg_bytes),
        "expressionType": subscription.expression_type,
        "bname": mq.broker_name,
    }
    if request.sys_flag & PullSysFlag.SUBSCRIPTION:
        fields["subscription"] = subscription.sub_string
    lite = request.sys_flag & PullSysFlag.LITE_PULL
    code = RequestCode.LITE_PULL_MESSAGE if lite else RequestCode.PULL_MESSAGE
    command = RemotingCommand(code, fields)
    response = await instance.invoke(
        mq.broker_name, command, timeout_ms, broker_id, is_async=not lite
    )
    status = pull_status(response.code)
    if status is PullStatus.FAILED:
        raise BrokerError(response)
    if status is PullStatus.FLOW_CONTROL:
        return PullResult(status, request.queue_offset)
    suggested = response.ext_fields.get("suggestWhichBrokerId", "")
    instance.pull_from_which_node[mq] = int(suggested) if suggested.isdecimal() else MASTER_ID
    found = (MessageExt(record, mq) for record in bodies.decode_messages(response.body))
    return PullResult(
        status,
        int_field(response, "nextBeginOffset"),
        tuple(message for message in found if is_wanted(subscription, message.tags)),
    )
