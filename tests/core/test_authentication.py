"""Signatures, and who is refused."""

from __future__ import annotations

import pytest

from mqspec.client.credentials import SessionCredentials
from mqspec.core.authentication import SIGNATURE, User, authenticate, sign
from mqspec.wire.codec import RemotingCommand

USERS = {
    "rocketmq": User("rocketmq", "12345678"),
    "gone": User("gone", "12345678", is_enabled=False),
}
FIELDS = {"topic": "T", "AccessKey": "rocketmq", "queueId": "0"}
# echo -n rocketmq0Tbody | openssl dgst -sha1 -hmac 12345678 -binary | base64
SIGNED = "bfZzV1hxSI2YfNDtpjX/VukpwMU="


def asked(**changes: str | None) -> str | None:
    """The remark with which a request is refused, whose fields are changed after it was signed."""
    fields = {**FIELDS, SIGNATURE: SIGNED} | changes
    known = {name: value for name, value in fields.items() if value is not None}
    refusal = authenticate(USERS, known, b"body", 479)
    return refusal.remark if refusal else None


def test_a_signature() -> None:
    assert sign(FIELDS, b"body", "12345678") == SIGNED
    assert asked() is None


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"AccessKey": None}, "username cannot be null."),
        ({"AccessKey": ""}, "username cannot be null."),
        ({"AccessKey": "nobody"}, "User:nobody is not found."),
        ({"AccessKey": "gone"}, "User:gone is disabled."),
        ({"Signature": None}, "check signature failed."),
        ({"Signature": SIGNED[:-1]}, "check signature failed."),
        ({"Signature": "é"}, "check signature failed."),
        ({"queueId": "1"}, "check signature failed."),
        ({"more": "x"}, "check signature failed."),
        ({"more": ""}, None),
    ],
)
def test_who_is_refused(changes: dict[str, str | None], remark: str | None) -> None:
    assert asked(**changes) == remark


@pytest.mark.parametrize(("version", "is_refused"), [(399, False), (400, True)])
def test_old_clients_do_not_sign_what_kind_of_query_it_is(version: int, is_refused: bool) -> None:
    fields = {**FIELDS, SIGNATURE: SIGNED, "_UNIQUE_KEY_QUERY": "true"}
    assert bool(authenticate(USERS, fields, b"body", version)) == is_refused


@pytest.mark.parametrize("token", [None, "lent"])
def test_what_a_client_signs_is_its_own(token: str | None) -> None:
    credentials = SessionCredentials("rocketmq", "12345678", token)
    request = credentials.signed(RemotingCommand(10, {"topic": "T\u00e9\U0001f680"}, b"body"))
    assert ("SecurityToken" in request.ext_fields) == (token is not None)
    assert authenticate(USERS, request.ext_fields, request.body, request.version) is None
    stolen = {**request.ext_fields, "SecurityToken": "other"}
    assert authenticate(USERS, stolen, request.body, request.version)
