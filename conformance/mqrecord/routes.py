"""What a client is told of a cluster: the recorder's addresses in place of the brokers'.

The answers to requests for a route (105) and for a cluster (106) name brokers by address. All
else in them, and all other answers, go on as they came.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from mqspec.wire.bodies import BodyError, dumps, loads

_HEAD: Final = struct.Struct(">II")  # the length of what follows; the serializer and header length

StandIn = Callable[[str, int, str], str]
"""(broker name, broker id, real address) to the address that clients are given."""


def rewritten(body: bytes, stand_in: StandIn) -> bytes:
    """The body of an answer to 105 or 106, each broker's address replaced.

    Raises BodyError where it is no such body.
    """
    # JSON for older clients has numbers as keys, without quotes.
    key = str if b'"brokerAddrs":{"' in body else int
    told = _object(loads(body))
    table = told.get("brokerAddrTable")
    brokers = table.values() if isinstance(table, dict) else told.get("brokerDatas") or ()
    for broker in brokers:
        name = _object(broker).get("brokerName")
        addresses = _object(broker.get("brokerAddrs") or {})
        broker["brokerAddrs"] = {
            key(one): stand_in(str(name), int(one), str(address))
            for one, address in addresses.items()
        }
    return dumps(told)


def with_body(frame: bytes, body: bytes) -> bytes:
    """The frame with another body, its header as it was."""
    _, word = _HEAD.unpack_from(frame)
    header = frame[_HEAD.size : _HEAD.size + (word & 0xFFFFFF)]
    return _HEAD.pack(4 + len(header) + len(body), word) + header + body


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BodyError(f"an object is expected, not {value!r:.40}")
    return value
