"""How a request ended: the codes that clients act on, and answers and refusals as values.

The codes are those of ResponseCode.java and RemotingSysResponseCode.java (5.3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import msgspec

NOT_SET: Final = "not set any response code"
"""The remark of an answer that was made before it was known what it says."""


class ResponseCode(IntEnum):
    """How it ended."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    TRANSACTION_FAILED = 4
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    TOPIC_EXIST_ALREADY = 18
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    FILTER_DATA_NOT_EXIST = 27
    FILTER_DATA_NOT_LATEST = 28
    INVALID_PARAMETER = 29
    NO_BUYER_ID = 204
    NOT_IN_CURRENT_UNIT = 205
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    NO_MESSAGE = 208
    POLLING_FULL = 209
    POLLING_TIMEOUT = 210
    FLOW_CONTROL = 215
    ILLEGAL_OPERATION = 604
    GO_AWAY = 1500


def is_success(code: int) -> bool:
    """Whether the answer with this code says that it was done."""
    return code == ResponseCode.SUCCESS


SEE_FAQ: Final = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""Ends the remarks about a topic or a group that a user forgot to create (FAQUrl.java)."""


class Answer(msgspec.Struct, frozen=True):
    """How a request is answered."""

    code: ResponseCode = ResponseCode.SUCCESS
    remark: str | None = None
    ext_fields: Mapping[str, str] = {}
    body: bytes = b""


class Refusal(Answer, frozen=True):
    """A request is not carried out. Clients show the remark to their users."""


class Thrown(Refusal, frozen=True):
    """What the real one throws where it refuses this: its answer is made by what catches it, and
    has no field of the processor's."""

    code: ResponseCode = ResponseCode.SYSTEM_ERROR
