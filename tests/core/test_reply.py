"""Who gets a reply, and what is said of one that nobody gets."""

from __future__ import annotations

from mqspec.core.group import ClientChannelInfo, GroupState
from mqspec.core.reply import find_requester, not_taken, pushed_properties
from mqspec.core.response import Refusal, ResponseCode

REPLY = "CORRELATION_ID\x01c\x02REPLY_TO_CLIENT\x01one\x02"


def info(client_id: str | None, last_update_ms: int) -> ClientChannelInfo:
    return ClientChannelInfo(client_id, "JAVA", 479, last_update_ms)


def test_the_connection_that_was_heard_of_last_gets_it() -> None:
    state = GroupState(
        producer_table={
            "P": {"old": info("one", 1), "other": info("two", 9)},
            "Q": {"new": info("one", 2), "nameless": info(None, 9)},
        }
    )
    assert find_requester(state, REPLY) == "new"


def test_nobody_gets_it() -> None:
    state = GroupState(producer_table={"P": {"c": info("two", 1)}})
    assert find_requester(state, "CORRELATION_ID\x01c\x02") == Refusal(
        ResponseCode.SYSTEM_ERROR, "reply message properties[REPLY_TO_CLIENT] is null"
    )
    remark = "push reply message fail, channel of <one> not found."
    assert find_requester(state, REPLY) == Refusal(ResponseCode.SYSTEM_ERROR, remark)
    assert not_taken(REPLY) == Refusal(ResponseCode.SYSTEM_ERROR, "push reply message to onefail.")


def test_what_is_pushed_says_when() -> None:
    assert pushed_properties(REPLY, 7).strip("\x02").split("\x02") == [
        *REPLY.strip("\x02").split("\x02"),
        "PUSH_REPLY_TIME\x017",
    ]
