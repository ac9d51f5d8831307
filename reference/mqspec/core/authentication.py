"""Authentication: who asks, where a broker is told to ask back.

A request carries the name of its user (AccessKey) and a signature: the base64 of the HMAC-SHA1,
keyed with the user's password, of the values of all other fields, in the order of their names,
and the body. Nothing in it says when it was signed: who overhears a request can send it again.

This is the authentication of 5.x, switched on with authenticationEnabled; the option aclEnable
of 4.x is read by 5.3.3 and has no effect.
Left out: what each user may do (authorizationEnabled), and changing users at run time.

Facts: AclUtils.java, AclSigner.java, DefaultAuthenticationContextBuilder.java,
DefaultAuthenticationHandler.java (5.3.3).
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mqspec.core.response import Refusal, ResponseCode

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"

_UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
_UNIQUE_KEY_QUERY_SIGNED_ABOVE: Final = 399  # MQVersion.V4_9_3


@dataclass(frozen=True, slots=True)
class User:
    """Who may use a broker."""

    username: str
    password: str
    is_enabled: bool = True


def sign(fields: Mapping[str, str], body: bytes, password: str) -> str:
    """The signature of a request with these fields; one that is there already does not count."""
    names = sorted(fields.keys() - {SIGNATURE}, key=lambda name: name.encode("utf-16-be"))
    content = "".join(fields[name] for name in names).encode(errors="replace") + body
    return b64encode(hmac.digest(password.encode(), content, "sha1")).decode()


def authenticate(
    users: Mapping[str, User], fields: Mapping[str, str], body: bytes, version: int
) -> Refusal | None:
    """Authentication!Authenticate. None: the request is its user's."""
    name = fields.get(ACCESS_KEY)
    if not name:
        return _refused("username cannot be null.")
    user = users.get(name)
    if user is None:
        return _refused(f"User:{name} is not found.")
    if not user.is_enabled:
        return _refused(f"User:{name} is disabled.")
    if version <= _UNIQUE_KEY_QUERY_SIGNED_ABOVE:
        fields = {key: value for key, value in fields.items() if key != _UNIQUE_KEY_QUERY}
    expected = sign(fields, body, user.password)
    if not hmac.compare_digest(expected.encode(), fields.get(SIGNATURE, "").encode()):
        return _refused("check signature failed.")
    return None


def _refused(remark: str) -> Refusal:
    return Refusal(ResponseCode.NO_PERMISSION, remark)
