"""Load over TCP: requests that go out together, each answer looked at."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from mqspec.wire.codec import Decoder, RemotingCommand, encode
from mqspec.wire.codes import RequestCode

TIMEOUT_S: Final = 60.0
PULLED: Final = 32  # messages that one pull asks for
_TOGETHER: Final = 16  # requests in flight
_READ_BYTES: Final = 1 << 20


class Load:
    """One connection to a broker, which waits for all answers before it asks again."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._decoder = Decoder()

    def __enter__(self) -> Load:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, requests: Sequence[RemotingCommand]) -> list[RemotingCommand]:
        """The answers, of which each must have code 0."""
        answers: list[RemotingCommand] = []
        for begin in range(0, len(requests), _TOGETHER):
            together = requests[begin : begin + _TOGETHER]
            self._socket.sendall(b"".join(map(encode, together)))
            expected = len(answers) + len(together)
            while len(answers) < expected:
                data = self._socket.recv(_READ_BYTES)
                assert data, "the broker has closed the connection"
                answers += self._decoder.feed(data)
        for answer in answers:
            assert answer.code == 0, answer
        return answers


def create_topic(topic: str, queues: int) -> RemotingCommand:
    """17."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    return RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def send(topic: str, queue_id: int, number: int, body: bytes) -> RemotingCommand:
    """310, with the properties that a client gives a message; the number makes its keys."""
    fields = {
        "a": "Bench",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": "0",
        "g": "1",
        "h": "0",
        "i": f"KEYS\x01key{number}\x02UNIQ_KEY\x01{number:032X}\x02WAIT\x01true\x02TAGS\x01T\x02",
        "j": "0",
        "k": "false",
        "m": "false",
    }
    return RemotingCommand(RequestCode.SEND_MESSAGE_V2, fields, body)


def pull(topic: str, queue_id: int, offset: int) -> RemotingCommand:
    """11, which commits where it begins, as a consumer's does."""
    fields = {
        "consumerGroup": "Bench",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(PULLED),
        "sysFlag": "5",
        "commitOffset": str(offset),
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    return RemotingCommand(RequestCode.PULL_MESSAGE, fields)


def pulled(request: RemotingCommand, answer: RemotingCommand) -> int:
    """How many messages an answer to a pull has."""
    return int(answer.ext_fields["nextBeginOffset"]) - int(request.ext_fields["queueOffset"])
