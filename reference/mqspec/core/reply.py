"""Request-reply: a producer waits for what a consumer of its message says to it.

The request is an ordinary message, which names its producer's client id and a correlation id.
The consumer sends its reply to the broker that it got the request from, and the broker pushes
it to the requester over the requester's own connection. The reply is stored too, in a topic of
the cluster which nobody reads: a requester that is gone does not get it later.

Facts: ReplyMessageProcessor.java (5.3.3), and what 5.3.3 answered.
"""

from __future__ import annotations

from typing import Final

from mqspec.core.group import Channel, GroupState
from mqspec.core.log import PutResult
from mqspec.core.metadata import BrokerConfig
from mqspec.core.publish import PUT_CODES, stamp
from mqspec.core.record import Record, decode_properties, encode_properties, find_property
from mqspec.core.response import Answer, Refusal, ResponseCode

REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"  # the requester's client id
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"  # ms

_NOT_STORED: Final = {"msgId": "0", "queueOffset": "0"}


def stamp_properties(config: BrokerConfig, properties: str) -> str:
    """Of a reply, with what the broker adds before it pushes and stores it (REPLY-003)."""
    return encode_properties({**decode_properties(properties), **stamp(config)})


def find_requester(state: GroupState, properties: str) -> Channel | Refusal:
    """Who waits for a reply with these properties: the connection over which a producer of that
    client id last said that it is there."""
    client_id = find_property(properties, REPLY_TO_CLIENT)
    if not client_id:
        return _failed(f"reply message properties[{REPLY_TO_CLIENT}] is null")
    channels = [
        (info.last_update_ms, channel)
        for members in state.producer_table.values()
        for channel, info in members.items()
        if info.client_id == client_id
    ]
    if not channels:
        return _failed(f"push reply message fail, channel of <{client_id}> not found.")
    return max(channels, key=lambda found: found[0])[1]


def not_taken(properties: str) -> Refusal:
    """The requester is there, and did not take its reply."""
    client_id = find_property(properties, REPLY_TO_CLIENT)
    return _failed(f"push reply message to {client_id}fail.")


def answer(
    config: BrokerConfig, refusal: Refusal | None, record: Record, put: PutResult | None
) -> Answer:
    """The answer to the requests 324 and 325: whether the reply was taken, and where it is stored,
    if it is."""
    fields = dict(stamp(config))
    if not refusal:
        fields |= _NOT_STORED | {"queueId": str(record.queue_id)}
    if put and put.status in PUT_CODES:
        fields |= _place(put, record)
    if refusal:
        return Answer(refusal.code, refusal.remark, fields)
    return Answer(ext_fields=fields)


def pushed_properties(properties: str, now_ms: int) -> str:
    """Of a reply, as it is pushed."""
    return encode_properties(decode_properties(properties) | {PUSH_REPLY_TIME: str(now_ms)})


def _failed(remark: str) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_ERROR, remark)


def _place(put: PutResult, record: Record) -> dict[str, str]:
    return {
        "msgId": put.message_ids,
        "queueId": str(record.queue_id),
        "queueOffset": str(put.queue_offset),
    }
