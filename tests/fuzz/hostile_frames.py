"""Frames that no client writes: real ones, damaged, and requests made of anything.

Everything comes from a seed, so that what a run did can be done again.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from mqspec.wire.codec import Decoder, FrameError, RemotingCommand, Serializer, encode
from mqspec.wire.codes import RequestCode

sys.path.append(str(Path(__file__).parent.parent / "wire"))

from golden_frames import CAPTURED, REQUESTS, RESPONSES

REAL: Final = [
    bytes.fromhex(text) for frames in (REQUESTS, RESPONSES, CAPTURED) for text in frames.values()
]
NUMBERS: Final = (
    *("0", "1", "-1", "4", "32", "2147483647", "-2147483648", "9223372036854775807"),
    *("99999999999999999999", "1e9", "0x10", "NaN"),
)
WORDS: Final = (
    *("T", "G", "C", "%RETRY%G", "%DLQ%G", "TBW102", "SCHEDULE_TOPIC_XXXX", "*", "true", "null"),
    *("TAG", "SQL92", "{}", "1;2"),
    *("a || b", "\0", "\u20ac", "a" * 128, "k\x01v\x02", "", " 1"),
)
NAMES: Final = (
    *("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "topic", "queueId"),
    *("consumerGroup", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "subscription"),
    *("expressionType", "subVersion", "suspendTimeoutMillis", "timestamp", "group"),
    *("readQueueNums", "writeQueueNums", "perm", "producerGroup", "brokerName", "brokerAddr"),
    *("clusterName", "brokerId", "bodyCrc32", "compressed", "namespace", "key", "value"),
    *("offset", "delayLevel", "originTopic", "popTime", "invisibleTime", "extraInfo"),
    *("pollTime", "bornTime", "initMode", "order", "commitLogOffset", "tranStateTableOffset"),
    *("msgId", "commitOrRollback", "beginTimestamp", "endTimestamp", "maxNum", "clientID"),
    *("cluster", "attributes", "isForce"),
)
KEYS: Final = (
    *("clientID", "consumerDataSet", "producerDataSet", "groupName", "subscriptionDataSet"),
    *("topic", "subString", "tagsSet", "codeSet", "topicConfigSerializeWrapper"),
    *("topicConfigTable", "acks", "dataVersion", "mqSet", "queueId", "brokerName"),
    *("consumerGroup", "clientId", "queueDatas"),
)


class Hostile:
    """An endless supply of frames."""

    def __init__(self, seed: int, codes: tuple[int, ...] = tuple(RequestCode)) -> None:
        self._random = Random(seed)
        self._codes = codes

    def frame(self) -> bytes:
        """One frame, or what is to be taken for one."""
        random = self._random
        frame = random.choice(REAL) if random.random() < 0.5 else self._request()
        for _ in range(random.choice((0, 0, 0, 1, 1, 2, 8))):
            frame = self._damaged(frame)
        if random.random() < 0.9:
            frame = _repaired(frame, random)
        return frame

    def batches(self, frames: int, frames_max: int = 50) -> Iterator[tuple[int, bytes]]:
        """That many frames, in batches of which all but the last frame can be read: what
        follows an unreadable one would not be looked at."""
        batch: list[bytes] = []
        for left in reversed(range(frames)):
            frame = self.frame()
            batch.append(frame)
            if len(batch) == frames_max or not left or not _is_readable(frame):
                yield len(batch), b"".join(batch)
                batch = []

    def _request(self) -> bytes:
        random = self._random
        fields = {
            random.choice(NAMES): random.choice(NUMBERS + WORDS)
            for _ in range(random.randrange(14))
        }
        return encode(
            RemotingCommand(
                random.choice(self._codes),
                fields,
                self._body(),
                random.choice((0, 0, 0, 0, 2)),
                version=random.choice((0, 36, 37, 400, 479, 30_000)),
                serializer=random.choice(list(Serializer)),
            )
        )

    def _body(self) -> bytes:
        random = self._random
        match random.randrange(4):
            case 0:
                return b""
            case 1:
                return random.randbytes(random.randrange(200))
            case 2:
                head = struct.pack(">iiiii", random.randrange(-9, 99), 0, 0, 0, 5)
                return head + b"hello" + struct.pack(">h", random.randrange(-9, 9))
            case _:
                return json.dumps(self._value(4)).encode()

    def _value(self, depth: int) -> object:
        random = self._random
        kind = random.randrange(6 if depth else 4)
        if kind == 4:
            return [self._value(depth - 1) for _ in range(random.randrange(4))]
        if kind == 5:
            keys = (random.choice(KEYS) for _ in range(random.randrange(6)))
            return {key: self._value(depth - 1) for key in keys}
        return (None, random.choice(WORDS), random.choice((0, -1, 1 << 40, 1e300)), True)[kind]

    def _damaged(self, frame: bytes) -> bytes:
        random, data = self._random, bytearray(frame)
        at = random.randrange(len(data) + 1)
        end = min(len(data), at + random.choice((1, 2, 4, 30)))
        match random.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1 if at < len(data):
                data[at] = random.choice((0, 1, 0x16, 0x7F, 0x80, 0xFF, ord('"'), ord("{")))
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = random.randbytes(end - at)
            case 4:
                data[at:at] = data[at:end] * 3
            case 5:
                data = data[:at] + random.choice(REAL)[at:]
            case _:
                old, new = random.choice(NUMBERS + WORDS), random.choice(NUMBERS + WORDS)
                data = data.replace(f'"{old}"'.encode(), f'"{new}"'.encode())
        return bytes(data)


def _repaired(frame: bytes, random: Random) -> bytes:
    """The frame with lengths that fit, so that what is behind them is looked at."""
    if len(frame) < 8:
        return frame
    kind, header = frame[4], int.from_bytes(frame[5:8], "big")
    if kind > 1 or not 0 < header <= len(frame) - 8:
        kind, header = random.randrange(2), len(frame) - 8
    return struct.pack(">iI", len(frame) - 4, kind << 24 | header) + frame[8:]


def _is_readable(frame: bytes) -> bool:
    try:
        return len(list(Decoder().feed(frame))) == 1
    except FrameError:
        return False
