"""Routes as clients are told them: the same, but for the addresses."""

from __future__ import annotations

import json

import pytest

from mqrecord.routes import rewritten, with_body
from mqspec.wire.bodies import BodyError, dumps
from mqspec.wire.codec import Decoder, RemotingCommand, Serializer, encode

ROUTE = {
    "brokerDatas": [
        {"brokerAddrs": {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}, "brokerName": "b"}
    ],
    "filterServerTable": {},
    "queueDatas": [{"brokerName": "b", "perm": 6, "readQueueNums": 2, "writeQueueNums": 4}],
}


def stand_in(broker: str, broker_id: int, address: str) -> str:
    return f"recorder:{broker}-{broker_id}-{address[-7]}"


def test_addresses_are_replaced_and_nothing_else() -> None:
    told = json.loads(rewritten(dumps(ROUTE), stand_in))
    addresses = {"0": "recorder:b-0-1", "1": "recorder:b-1-2"}
    expected = ROUTE | {"brokerDatas": [{"brokerAddrs": addresses, "brokerName": "b"}]}
    assert told == expected


def test_keys_stay_bare_for_clients_that_read_no_others() -> None:
    body = dumps(ROUTE).replace(b'"0":', b"0:").replace(b'"1":', b"1:")
    assert b'{0:"recorder:b-0-1",1:"recorder:b-1-2"}' in rewritten(body, stand_in)


def test_the_brokers_of_a_cluster_are_replaced_too() -> None:
    brokers = {"b": {"brokerAddrs": {"0": "10.0.0.1:10911"}, "brokerName": "b", "cluster": "C"}}
    told = json.loads(rewritten(dumps({"brokerAddrTable": brokers}), stand_in))
    assert told["brokerAddrTable"]["b"]["brokerAddrs"] == {"0": "recorder:b-0-1"}


@pytest.mark.parametrize("serializer", list(Serializer))
def test_a_frame_keeps_its_header(serializer: Serializer) -> None:
    answer = RemotingCommand(0, {"x": "y"}, b"old", 1, 77, serializer=serializer)
    (read,) = Decoder().feed(with_body(encode(answer), b"another"))
    assert (read.opaque, read.ext_fields, read.body) == (77, {"x": "y"}, b"another")


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"brokerDatas":[3]}'])
def test_what_is_no_route_is_told(body: bytes) -> None:
    with pytest.raises(BodyError):
        rewritten(body, stand_in)
