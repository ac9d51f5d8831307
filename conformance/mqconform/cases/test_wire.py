"""The remoting protocol, with literal bytes: what any server must make of them."""

from __future__ import annotations

import base64
import hmac
import json
import ssl
import struct
from dataclasses import dataclass, replace

import pytest

from mqconform import requests
from mqconform.case import at_edges, case
from mqconform.cluster import READY_S
from mqconform.connection import Connection, eventually
from mqconform.frame import BINARY, FRAME_MAX, JSON, RESPONSE, Frame, frame, json_header
from mqconform.records import parse_records
from mqconform.requests import Request
from mqconform.scene import Scene, done

UNKNOWN = Request(9999)
BUSY = ("[REJECTREQUEST]", "[OVERLOAD]", "[TIMEOUT_CLEAN_QUEUE]", "[PCBUSY_CLEAN_QUEUE]",
        "[PC_SYNCHRONIZED]")  # fmt: skip
UNKNOWN_REMARK = " request type 9999 not supported"

# What no decoder can read. The frame is whole where a length says so, so that nothing is
# waited for.
UNDECODABLE = {
    "length_zero": bytes.fromhex("00000000"),
    "length_negative": bytes.fromhex("ffffffff"),
    "no_header": bytes.fromhex("00000004 00000000"),
    "header_longer_than_frame": bytes.fromhex("00000006 00000009 7b7d"),
    "unknown_serialize_type": bytes.fromhex("00000006 07000002 7b7d"),
    "header_not_json": bytes.fromhex("00000009 00000005") + b"hello",
    "header_json_null": bytes.fromhex("00000008 00000004") + b"null",
    "header_json_array": bytes.fromhex("00000006 00000002") + b"[]",
    "binary_header_cut_short": bytes.fromhex("00000009 01000005 0069000000"),
}


def victim(connection: Connection) -> Connection:
    """A connection on which a frame went well: on a fresh one Apache holds the first 11 bytes
    back, to find out whether a proxy speaks (HandshakeHandler, NettyRemotingServer.java)."""
    assert unharmed(connection)
    return connection


def unharmed(connection: Connection) -> bool:
    """Whether a connection that was open all the time is still served."""
    # A nameserver knows no such topic, a broker no such request.
    return connection.call(requests.route("nobody-asks-for-it")).code in (3, 17)


@case("WIRE-001", party="broker")
@pytest.mark.parametrize("opaque", [0, 7, -5, 2**31 - 1])
def test_a_response_carries_the_opaque_of_its_request(scene: Scene, opaque: int) -> None:
    scene.broker.write(frame(json_header(9999, {}, opaque)))
    assert scene.broker.answer(opaque).flag & RESPONSE


@case("WIRE-002", party="broker")
def test_an_unknown_code_is_answered_as_not_supported(scene: Scene) -> None:
    answer = scene.broker.call(UNKNOWN)
    assert answer.code == 3
    scene.worded(answer, UNKNOWN_REMARK)


@case("WIRE-003", party="broker")
def test_a_one_way_request_is_carried_out_and_not_answered(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    opaque = scene.broker.ask(requests.commit_offset(group, topic, 7), one_way=True)
    unknown = scene.broker.ask(UNKNOWN, one_way=True)
    assert scene.broker.is_quiet(opaque)
    assert scene.broker.is_quiet(unknown)
    assert scene.committed(group, topic) == 7


@case("WIRE-004", party="broker")
def test_a_binary_header_is_served(scene: Scene) -> None:
    topic = scene.topic()
    answer = scene.broker.call(requests.send(topic, b"binary"), serialize_type=BINARY)
    assert answer.code == 0
    assert answer.number("queueOffset") == 0
    answer = scene.broker.call(requests.pull(scene.name("T"), scene.group()), serialize_type=BINARY)
    assert answer.code == 17


@case("WIRE-004", party="broker", after="test_a_binary_header_is_served")
@pytest.mark.parametrize("is_reversed", [False, True], ids=["as_sent", "reversed"])
def test_every_field_of_a_binary_header_is_read(scene: Scene, is_reversed: bool) -> None:
    """As many as a send has, in either order, with a long value."""
    topic, group = scene.topic(2), scene.group()
    request = requests.send(topic, b"binary", 1, {"long": "v" * 20_000})
    request = request.having(h=77, j=2, l=16, n="broker")
    if is_reversed:
        request = replace(request, fields=dict(reversed(list(request.fields.items()))))
    assert scene.broker.call(request, serialize_type=BINARY).code == 0
    assert eventually(lambda: scene.max_offset(topic, 1) == 1)
    (record,) = scene.read_all(topic, group, 1)
    assert (record.flag, record.reconsume_times, record.body) == (77, 2, b"binary")
    assert record.properties["long"] == "v" * 20_000


@case("WIRE-005", party="broker")
@pytest.mark.parametrize("raw", UNDECODABLE.values(), ids=UNDECODABLE.keys())
def test_a_frame_that_cannot_be_decoded_closes_its_connection(scene: Scene, raw: bytes) -> None:
    hostile = victim(scene.connect())
    hostile.write(raw)
    assert hostile.is_closed()
    assert unharmed(scene.broker)


@case("WIRE-006", party="broker")
@at_edges("WIRE-006", "bytes of the frame")
def test_a_frame_that_is_too_long_closes_its_connection_at_once(
    scene: Scene, value: int, fits: bool
) -> None:
    connection = victim(scene.connect())
    connection.write(struct.pack(">i", value - 4))
    assert connection.is_quiet() if fits else connection.is_closed()
    assert unharmed(scene.broker)


@case("WIRE-007", party="broker")
@pytest.mark.parametrize("at", [1, 4, 8, 11, 12])
def test_a_frame_may_arrive_in_pieces(scene: Scene, at: int) -> None:
    raw = frame(json_header(9999, {}, 1))
    scene.broker.write(raw[:at])
    assert scene.broker.is_quiet(within=0.05)
    scene.broker.write(raw[at:])
    assert scene.broker.answer(1).code == 3


@case("WIRE-007", party="broker")
def test_several_frames_may_arrive_in_one_piece(scene: Scene) -> None:
    scene.broker.write(b"".join(frame(json_header(9999, {}, opaque)) for opaque in range(20)))
    assert [scene.broker.answer(opaque).code for opaque in range(20)] == [3] * 20


@case("WIRE-008", party="broker")
def test_a_torn_frame_does_no_harm(scene: Scene) -> None:
    raw = frame(json_header(9999, {}, 1))
    for end in (1, 6, len(raw) - 1):
        torn = scene.connect()
        torn.write(raw[:end])
        torn.close()
    assert unharmed(scene.broker)
    assert unharmed(scene.connect())


@dataclass(frozen=True)
class Odd:
    """An unusual header and the code that it is answered with."""

    header: bytes
    code: int


ODD = {
    "nothing": Odd(b"{}", 3),
    "no_version": Odd(b'{"code":9999,"language":"JAVA","opaque":1,"flag":0}', 3),
    "no_language": Odd(b'{"code":9999,"version":479,"opaque":1,"flag":0}', 3),
    "no_flag": Odd(b'{"code":9999,"language":"JAVA","version":479,"opaque":1}', 3),
    "unknown_language": Odd(b'{"code":9999,"language":"KLINGON","opaque":1,"flag":0}', 3),
    "extra_key": Odd(b'{"code":9999,"language":"JAVA","opaque":1,"flag":0,"more":[1]}', 3),
    "code_as_text": Odd(b'{"code":"9999","language":"JAVA","opaque":1,"flag":"0"}', 3),
    "number_in_ext_fields": Odd(
        b'{"code":38,"language":"JAVA","opaque":1,"flag":0,"extFields":{"consumerGroup":5}}', 1
    ),
}


@case("WIRE-009", party="broker")
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_an_unusual_header_is_tolerated(scene: Scene, odd: Odd) -> None:
    victim(scene.broker).write(frame(odd.header))
    assert scene.broker.any_answer().code == odd.code


@case("WIRE-010", party="broker")
def test_two_requests_of_one_opaque_are_both_answered(scene: Scene) -> None:
    raw = frame(json_header(9999, {}, 77))
    scene.broker.write(raw)
    scene.broker.write(raw)
    assert [scene.broker.answer(77).code for _ in range(2)] == [3, 3]


@case("WIRE-011", party="broker")
def test_a_response_that_nobody_asked_for_is_ignored(scene: Scene) -> None:
    scene.broker.write(frame(json_header(0, {}, 5, flag=RESPONSE)))
    assert scene.broker.is_quiet(5)
    assert unharmed(scene.broker)


@case("WIRE-012", party="broker")
def test_a_large_code_is_cut_in_a_binary_header(scene: Scene) -> None:
    answer = scene.broker.call(Request(200_050), serialize_type=BINARY)
    assert answer.code == 3
    scene.worded(answer, " request type 3442 not supported")


@case("WIRE-013", party="broker")
def test_what_is_too_much_is_refused_and_not_done(scene: Scene) -> None:
    topic, flood = scene.topic(), scene.connect()
    request = requests.send(topic, b"x" * 100)
    opaques = range(1, 2001)
    for opaque in opaques:
        flood.write(frame(json_header(request.code, request.fields, opaque), request.body))
    answers = [flood.answer(opaque) for opaque in opaques]
    assert flood.is_quiet(1), "each request is answered once"
    refused = [answer.remark or "" for answer in answers if answer.code == 2]
    assert all(remark.startswith(BUSY) for remark in refused)
    stored = {answer.number("queueOffset") for answer in answers if answer.code == 0}
    assert len(stored) + len(refused) == len(opaques)
    assert stored == set(range(len(stored)))
    assert eventually(lambda: scene.max_offset(topic) == len(stored))


MAIN_PORT_ONLY = {
    "pull": 11, "lite_pull": 361, "pop": 200_050, "peek": 200_052, "notification": 200_054,
    "polling_info": 200_055,
}  # fmt: skip


@case("WIRE-014", party="broker")
def test_the_fast_port_serves_what_never_waits(scene: Scene) -> None:
    topic, fast = scene.topic(), scene.connect(port_below=2)
    assert fast.call(requests.send(topic, b"fast")).code == 0
    assert eventually(lambda: fast.call(requests.max_offset(topic)).number("offset") == 1)
    assert fast.call(requests.heartbeat(scene.name("C"), scene.new_group())).code == 0
    assert fast.call(requests.query_offset(scene.new_group(), topic)).number("offset") == 0


@case("WIRE-014", party="broker", after="test_the_fast_port_serves_what_never_waits")
@pytest.mark.parametrize("code", MAIN_PORT_ONLY.values(), ids=MAIN_PORT_ONLY.keys())
def test_the_fast_port_does_not_serve_what_may_wait(scene: Scene, code: int) -> None:
    answer = scene.connect(port_below=2).call(Request(code))
    assert answer.code == 3
    scene.worded(answer, f" request type {code} not supported")


def clients(code: int, fields: dict[str, str], body: bytes = b"") -> dict[str, bytes]:
    """One request as clients of several languages, versions and serializers write it."""

    def written(language: object, version: int, **more: object) -> bytes:
        header = {"code": code, "language": language, "version": version, "opaque": 1, "flag": 0,
                  "extFields": fields} | more  # fmt: skip
        return frame(json.dumps(header).encode(), body)

    def binary(language: int, version: int) -> bytes:
        entries = b"".join(
            struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(value))
            + value.encode()
            for name, value in fields.items()
        )  # fmt: skip
        fixed = struct.pack(">hbhiiii", code, language, version, 1, 0, 0, len(entries))
        return frame(fixed + entries, body, BINARY)

    unknown = {**fields, "noSuchField": "1", "ns": "x", "nsd": "false", "bname": "b", "lo": "true"}
    return {
        "java_4_0": written("JAVA", 100, serializeTypeCurrentRPC="JSON"),
        "java_5_3_3": written("JAVA", 479, serializeTypeCurrentRPC="JSON"),
        "go": written("GO", 317, remark="", serializeTypeCurrentRPC="JSON"),
        "go_code_8": written(8, 317),
        "cpp": written("CPP", 275, remark=""),
        "node": written("NODE_JS", 0),
        "rust": written("RUST", 435, serializeTypeCurrentRPC="JSON"),
        "python": written("PYTHON", 1),
        "future": written("ZIG", 30_000, serializeTypeCurrentRPC="CBOR", extFields=unknown),
        "go_binary": binary(9, 317),
        "cpp_binary": binary(1, 275),
        "no_such_language_binary": binary(77, 30_000),
    }


CLIENTS = clients(0, {}).keys()


@case("WIRE-016", party="broker")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_of_any_language_is_served(scene: Scene, client: str) -> None:
    topic, group = scene.topic(), scene.group()

    def ask(request: Request) -> Frame:
        raw = clients(request.code, dict(request.fields), request.body)[client]
        while True:  # as any client does that is told of a busy server
            scene.broker.write(raw)
            if (answer := scene.broker.answer(1)).code != 2:
                return answer

    victim(scene.broker)
    stored = ask(requests.send(topic, b"hello", properties={"TAGS": "a"}))
    assert (stored.code, stored.fields["queueOffset"]) == (0, "0")
    assert eventually(lambda: scene.max_offset(topic) == 1)
    found = ask(requests.pull(topic, group))
    assert [record.body for record in parse_records(found.body)] == [b"hello"]
    assert ask(requests.commit_offset(group, topic, 1)).code == 0
    assert scene.committed(group, topic) == 1


def insecure() -> ssl.SSLContext:
    """Of a client that trusts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@case("WIRE-015", party="broker", claims="tls")
def test_tls_is_spoken_on_the_same_port(scene: Scene) -> None:
    topic, secure = scene.topic(), scene.connect(tls=insecure())
    scene.send(topic, b"x" * 100_000, broker=secure)
    assert secure.call(requests.max_offset(topic)).number("offset") == 1
    (record,) = scene.read_all(topic, scene.group())
    assert record.body == b"x" * 100_000


def signature(fields: dict[str, str], body: bytes, secret_key: str) -> str:
    """The base64 of the HMAC-SHA1 of the fields' values, by their names, and the body."""
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    return base64.b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()


class Secured:
    """A client of the broker that lets only users in."""

    def __init__(self, scene: Scene) -> None:
        self.user, self.secret = scene.secured.access_key, scene.secured.secret_key
        assert eventually(lambda: _is_there(scene), READY_S), "it may just have been started"
        self.host = scene.secured.address.host
        self.connection = scene.connect_secured()
        first = requests.send(scene.name("T"))
        takes = eventually(lambda: self.signed(first).code == 0, READY_S)
        assert takes, "it may not take messages yet"

    def signed(self, request: Request) -> Frame:
        """The answer to a request that is signed by us."""
        return self.ask(request.having(AccessKey=self.user))

    def ask(
        self,
        request: Request,
        secret: str | None = None,
        signed_body: bytes | None = None,
        serialize_type: int = JSON,
    ) -> Frame:
        """The answer to a request with a signature of its fields and of `signed_body`."""
        body = request.body if signed_body is None else signed_body
        mark = signature(dict(request.fields), body, secret or self.secret)
        signed = request.having(Signature=mark)
        return self.connection.call(signed, serialize_type=serialize_type)


def _is_there(scene: Scene) -> bool:
    try:
        return scene.connect_secured().call(UNKNOWN).code in (3, 16)
    except (OSError, AssertionError):
        return False


@case("WIRE-017", party="broker", claims="users")
def test_only_who_signs_as_a_user_is_let_in(scene: Scene) -> None:
    secured, send = Secured(scene), requests.send(scene.name("T"), b"signed")
    mine = send.having(AccessKey=secured.user)
    offset = requests.max_offset("T").having(AccessKey=secured.user)
    nobody = scene.name("U")
    for answer, code, remark in (
        (secured.ask(mine), 0, None),
        (secured.ask(mine.having(SecurityToken="token")), 0, None),
        (secured.ask(offset), 0, None),
        (secured.ask(offset, serialize_type=BINARY), 0, None),
        (secured.ask(send), 16, "username cannot be null."),
        (secured.ask(send.having(AccessKey=nobody)), 16, f"User:{nobody} is not found."),
        (secured.ask(mine, secret="wrong"), 16, "check signature failed."),
        (secured.ask(mine, signed_body=b"another"), 16, "check signature failed."),
        (secured.connection.call(mine), 16, "check signature failed."),
    ):
        assert answer.code == code
        if code:
            scene.worded(answer, remark)


@case("WIRE-018", party="broker", claims="users")
def test_what_a_broker_without_permissions_refuses(scene: Scene) -> None:
    secured, group = Secured(scene), scene.new_group()
    plain, ordered = scene.name("T"), scene.name("T")

    def permit(permission: int) -> None:
        assert secured.signed(requests.update_broker_config(brokerPermission=permission)).code == 0

    def refused(request: Request, remark: str = "") -> int:
        answer = secured.signed(request)
        if answer.code:
            scene.worded(answer, remark)
        return answer.code

    for topic, order in ((plain, False), (ordered, True)):
        assert secured.signed(requests.create_topic(topic, 1, 1).having(order=order)).code == 0
        assert secured.signed(requests.send(topic)).code == 0
    try:
        permit(4)
        assert refused(requests.send(plain)) == 0
        sending = f"the broker[{secured.host}] sending message is forbidden"
        assert refused(requests.send(ordered), sending) == 16
        assert secured.signed(requests.pull(plain, group)).code == 0
        permit(2)
        assert refused(requests.send(ordered)) == 0
        pulled = secured.signed(requests.pull(plain, group))
        assert (pulled.code, pulled.fields["forbiddenType"]) == (16, "1")
        scene.worded(pulled, f"the broker[{secured.host}] pulling message is forbidden")
        for asked, what in (
            (requests.pop(plain, group), "pop"),
            (requests.notification(plain, group), "peeking"),
            (requests.polling_info(plain, group), "peeking"),
        ):
            remark = f"the broker[{secured.host}] {what} message is forbidden"
            assert refused(asked, remark) == 16
    finally:
        permit(6)
    assert secured.signed(requests.pull(plain, group)).code == 0


@case("WIRE-050", party="nameserver")
def test_the_nameserver_does_not_support_an_unknown_code(scene: Scene) -> None:
    scene.nameserver.write(frame(json_header(9999, {}, -5)))
    answer = scene.nameserver.answer(-5)
    assert answer.code == 3
    scene.worded(answer, UNKNOWN_REMARK)


@case("WIRE-051", party="nameserver")
def test_the_nameserver_serves_a_binary_header(scene: Scene) -> None:
    unknown = requests.route(scene.name("T"))
    assert scene.nameserver.call(unknown, serialize_type=BINARY).code == 17
    assert scene.nameserver.is_quiet(scene.nameserver.ask(unknown, one_way=True))


@case("WIRE-052", party="nameserver")
@pytest.mark.parametrize("raw", UNDECODABLE.values(), ids=UNDECODABLE.keys())
def test_the_nameserver_closes_what_it_cannot_decode(scene: Scene, raw: bytes) -> None:
    hostile = victim(scene.connect_nameserver())
    hostile.write(raw)
    assert hostile.is_closed()
    assert unharmed(scene.nameserver)


NO_NUMBERS = ("", " 5 ", "1.5", "1e3", "0x1", "true", "9223372036854775808")


@case("WIRE-020", party="broker")
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_number_that_is_none_counts_as_missing(scene: Scene, value: str) -> None:
    topic, group = scene.topic(), scene.group()
    scene.send(topic)
    commit = requests.commit_offset(group, topic, 1)
    for name in ("queueId", "commitOffset"):
        missing = scene.broker.call(commit.without(name)).code
        assert scene.broker.call(commit.having(**{name: value})).code == missing != 0
    assert scene.committed(group, topic) is None
    v1 = requests.send_v1(requests.send(topic))
    done(scene.broker.call(v1.having(reconsumeTimes=value)))
    assert scene.broker.call(v1.having(queueId=value)).code == 1


@case("WIRE-020", "POP-049", party="broker")
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_queue_that_is_no_number_is_the_first_for_a_pop(scene: Scene, value: str) -> None:
    topic, group = scene.topic(2), scene.group()
    scene.send(topic)
    pop = requests.pop(topic, group).having(queueId=value)
    (record,) = parse_records(done(scene.broker.call(pop)).body)
    assert record.topic == topic


@case("WIRE-020", party="broker")
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_number_that_is_none_is_refused_in_pulls_and_sends(scene: Scene, value: str) -> None:
    topic, group = scene.topic(), scene.group()
    scene.send(topic)
    for name in ("j", "g"):  # reconsumeTimes and bornTimestamp
        assert scene.broker.call(requests.send(topic).having(**{name: value})).code == 1
    for name in ("commitOffset", "suspendTimeoutMillis", "subVersion"):
        assert scene.broker.call(requests.pull(topic, group).having(**{name: value})).code == 1
    scene.send(topic)
    assert scene.max_offset(topic) == 2


@case("WIRE-020", party="broker")
@pytest.mark.parametrize("born", [1_000_000_000_000, 2**62], ids=["now", "far"])
def test_a_send_that_is_refused_takes_none_with_it(scene: Scene, born: int) -> None:
    """Of sends that are alike and come together."""
    topic = scene.topic()
    scene.send(topic)  # from now on the broker has met such sends
    times = (born, 2**63, born)
    asked = [scene.broker.ask(requests.send(topic).having(g=time)) for time in times]
    assert [scene.broker.answer(opaque).code for opaque in asked] == [0, 1, 0]
    assert eventually(lambda: scene.max_offset(topic) == 3)


@case("WIRE-052", party="nameserver")
def test_the_nameserver_closes_a_frame_that_is_too_long(scene: Scene) -> None:
    hostile = victim(scene.connect_nameserver())
    hostile.write(struct.pack(">i", FRAME_MAX - 3))
    assert hostile.is_closed()
    assert unharmed(scene.nameserver)


@case("WIRE-053", party="nameserver")
@pytest.mark.parametrize("client", CLIENTS)
def test_the_nameserver_serves_a_client_of_any_language(scene: Scene, client: str) -> None:
    route = requests.route("BenchmarkTest")  # which every broker has
    victim(scene.nameserver).write(clients(route.code, dict(route.fields))[client])
    answer = scene.nameserver.answer(1)
    assert answer.code == 0
    named = {data["brokerName"] for data in answer.json()["brokerDatas"]}
    assert set(scene.broker_names) <= named


@case("WIRE-054", party="nameserver", claims="tls")
def test_the_nameserver_speaks_tls_on_the_same_port(scene: Scene) -> None:
    secure = scene.connect_nameserver(tls=insecure())
    assert secure.call(requests.route("BenchmarkTest")).code == 0
    assert unharmed(secure)
