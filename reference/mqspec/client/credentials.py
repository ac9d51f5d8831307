"""How a client says who it is (SessionCredentials.java, AclClientRPCHook.java, 5.3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from mqspec.core.authentication import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign
from mqspec.wire.codec import RemotingCommand


@dataclass(frozen=True, slots=True)
class SessionCredentials:
    """A user and its password, with a token where the user's rights are only lent."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def signed(self, request: RemotingCommand) -> RemotingCommand:
        """The request, with whose it is."""
        fields = {**request.ext_fields, ACCESS_KEY: self.access_key}
        if self.security_token is not None:
            fields[SECURITY_TOKEN] = self.security_token
        fields[SIGNATURE] = sign(fields, request.body, self.secret_key)
        return replace(request, ext_fields=fields)
