"""What a client is told of a cluster: the recorder's addresses in place of the brokers'.

The answers to requests for a route (105) and for a cluster (106) name brokers by address. All
else in them, and all other answers, go on as they came.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from mqspec.core.types import MessageQueue
from mqspec.wire.bodies import BodyError, dumps, loads

_HEAD: Final = struct.Struct(">II")  # the length of what follows; the serializer and header length

StandIn = Callable[[str, int, str], str]
"""(broker name, broker id, real address) to the address that clients are given."""


def rewritten(body: bytes, stand_in: StandIn) -> bytes:
    """The body of an answer to 105 or 106, each broker's address replaced.

    Raises BodyError where it is no such body.
    """
    told = _object(loads(body))
    table = told.get("brokerAddrTable")
    brokers = table.values() if isinstance(table, dict) else told.get("brokerDatas") or ()
    for broker in brokers:
        name = _object(broker).get("brokerName")
        addresses = _object(broker.get("brokerAddrs") or {})
        # JSON for older clients has numbers as keys, without quotes.
        key = int if _has_bare_keys(body) else str
        broker["brokerAddrs"] = {
            key(one): stand_in(str(name), int(one), str(address))
            for one, address in addresses.items()
        }
    return dumps(told)


def queues_of(topic: str, body: bytes) -> list[MessageQueue]:
    """The queues of an answer to 105 that may be read, in order. Raises BodyError."""
    told = _object(loads(body))
    return sorted(
        MessageQueue(topic, str(one["brokerName"]), queue_id)
        for one in map(_object, told.get("queueDatas") or ())
        for queue_id in range(int(one.get("readQueueNums", 0)))
    )


def with_body(frame: bytes, body: bytes) -> bytes:
    """The frame with another body, its header as it was."""
    _, word = _HEAD.unpack_from(frame)
    header = frame[_HEAD.size : _HEAD.size + (word & 0xFFFFFF)]
    return _HEAD.pack(4 + len(header) + len(body), word) + header + body


def _has_bare_keys(body: bytes) -> bool:
    return b'"brokerAddrs":{"' not in body.replace(b" ", b"")


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise BodyError(f"an object is expected, not {value!r:.40}")
    return value  # type: ignore[return-value]
