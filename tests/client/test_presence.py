"""A broker that is reached again is told of the client; the log has those that fail."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mqspec.client.presence import Presence
from mqspec.client.tasks import Tasks
from mqspec.transport import ConnectionLostError
from mqspec.wire.bodies import HeartbeatData
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode


class Reached:
    """A broker that answers in a way, the connection to it, and the client that has that."""

    client_id, timeout_ms, peer = "c@1", 3_000, "127.0.0.1:10911"

    def __init__(self, answer: ResponseCode | Exception = ResponseCode.SUCCESS) -> None:
        self.answer = answer
        self.heard: list[int] = []

    async def request(self, request: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        self.heard.append(request.code)
        if isinstance(self.answer, Exception):
            raise self.answer
        return request.response(self.answer)

    async def to_all_brokers(self, request: RemotingCommand, *_: object, **known: object) -> None:
        self.heard.append(request.code)


def greeted(broker: Any, *before: str) -> int:
    """How often the client is known anew, where it did this before the broker is reached."""
    known: list[None] = []

    async def scene() -> None:
        tasks = Tasks()
        presence = Presence(broker, tasks, HeartbeatData, tuple, greeted=lambda: known.append(None))
        for deed in before:
            if (done := getattr(presence, deed)()) is not None:
                await done
        broker.heard.clear()
        presence.connected(broker)
        while tasks:
            await asyncio.sleep(0)

    asyncio.run(scene())
    return len(known)


def test_a_client_that_is_there_greets_and_one_that_comes_or_goes_does_not() -> None:
    broker = Reached()
    assert greeted(broker, "announce") == 1
    assert broker.heard == [RequestCode.HEART_BEAT]
    for before in ((), ("announce", "hush"), ("announce", "leave")):
        assert greeted(broker, *before) == 0
        assert broker.heard == []


@pytest.mark.parametrize("answer", [ResponseCode.SYSTEM_ERROR, ConnectionLostError("gone")])
def test_a_broker_that_does_not_take_the_greeting_is_told_of(
    answer: ResponseCode | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert greeted(Reached(answer), "announce") == 0
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("c@1: 127.0.0.1:10911 is not told: ")
