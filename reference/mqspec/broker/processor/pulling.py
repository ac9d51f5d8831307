"""Pulls: 11 and 361 (PullMessageProcessor.java, 5.3.3), held ones too."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from mqspec.broker.conversing import served_at_once
from mqspec.broker.held import HeldPull
from mqspec.core import pull
from mqspec.core.pull import Pull
from mqspec.core.subscription import (
    ALL,
    TAG,
)
from mqspec.service import clock_ms
from mqspec.transport import Connection
from mqspec.wire.codec import Int, RemotingCommand
from mqspec.wire.codes import RequestCode
from mqspec.wire.headers import Long, integer, read

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
    if "maxMsgBytes" in request.ext_fields:  # of newer clients only, so not with the others
        integer(request, "maxMsgBytes")  # it must be one; 5.3.3 does not look at it
    event = Pull(
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
        broker, HeldPull(connection, request, event, partial(_pull_again, broker)), is_first=True
    )


def _pull_again(broker: Broker, held: HeldPull) -> RemotingCommand | None:
    return _pull(broker, held, is_first=False)


def _pull(broker: Broker, held: HeldPull, is_first: bool) -> RemotingCommand | None:
    talk = pull.pull_message(broker, held.pull, held, clock_ms(), is_first=is_first)
    return served_at_once(broker, held.request, talk)
