"""Pulls: 11 and 361 (PullMessageProcessor.java, 5.3.3), held ones too."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from mqspec.broker.carrying import carry
from mqspec.broker.held import HeldPull, hold
from mqspec.core.group import SubscriptionData
from mqspec.core.log import GetMessageStatus, GetResult
from mqspec.core.long_polling import PullRequest
from mqspec.core.offset_commit import (
    OffsetKey,
    commit_offset,
    commit_pull_offset,
    query_then_erase_reset_offset,
)
from mqspec.core.pull import Pull, PullSysFlag, check_pull, is_suspended, response_code
from mqspec.core.record import Record, decode_record
from mqspec.core.response import Refusal
from mqspec.core.subscription import (
    ALL,
    TAG,
    is_matched_by_commit_log,
    is_matched_by_consume_queue,
)
from mqspec.service import clock_ms, refused
from mqspec.transport import Connection
from mqspec.wire.codec import Int, RemotingCommand
from mqspec.wire.codes import RequestCode
from mqspec.wire.headers import Long, read

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


class PullHeader(msgspec.Struct, rename="camel", gc=False):
    """The fields of 11 and 361."""

    consumer_group: str
    topic: str
    queue_id: Int
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    commit_offset: Long = 0
    suspend_timeout_millis: Long = 0
    subscription: str = ALL
    sub_version: Long = 0  # ms
    expression_type: str = TAG


def pull_message(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> RemotingCommand | None:
    """11 and 361. None where the pull is held."""
    header = read(request, PullHeader)
    pull = Pull(
        group=header.consumer_group,
        topic=header.topic,
        queue_id=header.queue_id,
        queue_offset=header.queue_offset,
        max_msg_nums=header.max_msg_nums,
        sys_flag=header.sys_flag,
        commit_offset=header.commit_offset,
        suspend_timeout_ms=header.suspend_timeout_millis,
        subscription=header.subscription,
        sub_version=header.sub_version,
        expression_type=header.expression_type,
        consumer=connection.peer,
        channel=connection,
        is_lite=request.code == RequestCode.LITE_PULL_MESSAGE,
    )
    return _pull(
        broker, HeldPull(connection, request, pull, partial(_pull_again, broker)), is_first=True
    )


def _pull_again(broker: Broker, held: HeldPull) -> RemotingCommand | None:
    return _pull(broker, held, is_first=False)


def _pull(broker: Broker, held: HeldPull, is_first: bool) -> RemotingCommand | None:
    pull, request = held.pull, held.request
    now_ms = clock_ms()
    step = check_pull(broker.metadata, broker.groups, broker.filters, broker.config, pull, now_ms)
    wanted = carry(broker, "metadata", step).result
    if isinstance(wanted, Refusal):
        return refused(request, wanted)
    assert isinstance(wanted, SubscriptionData)
    if pull.sys_flag & PullSysFlag.SUBSCRIPTION:
        carry(broker, "brought", broker.brought.note(pull.group, pull.topic, now_ms))
    found = _reset(broker, pull) or broker.store.get(
        pull.topic,
        pull.queue_id,
        pull.queue_offset,
        pull.max_msg_nums,
        # The store need not look at each message where all are wanted.
        None if wanted.sub_string == ALL else partial(is_matched_by_consume_queue, wanted),
        None if wanted.expression_type == TAG else partial(is_wanted_record, wanted),
    )
    code = response_code(found.status, pull.queue_offset)
    if is_first:
        if pull.sys_flag & PullSysFlag.COMMIT_OFFSET:
            key = _key(pull)
            carry(broker, "offsets", commit_offset(broker.offsets, key, pull.commit_offset))
        if is_suspended(code, pull):
            deadline_ms = now_ms + pull.suspend_timeout_ms
            hold(
                broker,
                (pull.topic, pull.queue_id),
                PullRequest(held, pull.queue_offset, wanted, deadline_ms),
            )
            return None
    carry(
        broker, "offsets", commit_pull_offset(broker.offsets, _key(pull), found.next_begin_offset)
    )
    body = b"".join(found.records)
    if body:
        broker.stats.got[pull.topic, pull.group].add(len(found.records), len(body))
    else:
        broker.stats.missed.times += 1
    topic = broker.metadata.topic_config_table.get(pull.topic)
    group = broker.metadata.subscription_group_table.get(pull.group)
    fields = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(found.next_begin_offset),
        "minOffset": str(found.min_offset),
        "maxOffset": str(found.max_offset),
        "topicSysFlag": str(topic.topic_sys_flag if topic else 0),
        "groupSysFlag": str(group.group_sys_flag if group else 0),
    }
    return request.response(code, found.status, fields, body)


def is_wanted_record(wanted: SubscriptionData, data: bytes) -> bool:
    """Whether a record, as it lies in the log, is one that the subscription wants."""
    record = decode_record(data)
    return isinstance(record, Record) and is_matched_by_commit_log(wanted, record.properties)


def _reset(broker: Broker, pull: Pull) -> GetResult | None:
    """What a pull finds that an administrator's reset waited for."""
    step = carry(broker, "offsets", query_then_erase_reset_offset(broker.offsets, _key(pull)))
    if step.result is None:
        return None
    queue = (pull.topic, pull.queue_id)
    minimum, maximum = broker.store.min_offset(*queue), broker.store.max_offset(*queue)
    return GetResult(GetMessageStatus.OFFSET_RESET, step.result, minimum, maximum)


def _key(pull: Pull) -> OffsetKey:
    return OffsetKey(pull.topic, pull.group, pull.queue_id)
