"""Remoting frames, built and read by hand.

The suite has its own few lines for the protocol and never imports the reference's codec: an
error in that codec cannot cancel itself out here. `frame` puts any bytes on the wire, wrong
ones too; `read_frame` reads what a correct server may answer.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mqconform.fastjson import loads

JSON, BINARY = 0, 1
RESPONSE, ONE_WAY = 1, 2  # bits of `flag`
VERSION: Final = 479  # the ordinal of V5_3_3 in MQVersion.java
FRAME_MAX: Final = 16_777_216  # bytes, the length prefix included (NettyDecoder.java, 5.3.3)
LANGUAGES: Final = (
    *("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO"),
    *("PHP", "OMS", "RUST", "NODE_JS"),
)


def frame(header: bytes, body: bytes = b"", serialize_type: int = JSON) -> bytes:
    """One frame: length, serialize type and header length, header, body."""
    mark = serialize_type << 24 | len(header)
    return struct.pack(">ii", 4 + len(header) + len(body), mark) + header + body


def json_header(
    code: int,
    fields: Mapping[str, str] | None = None,
    opaque: int = 0,
    flag: int = 0,
    version: int = VERSION,
) -> bytes:
    """A request header as the Java client writes it."""
    header: dict[str, object] = {
        "code": code,
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": version,
    }
    if fields is not None:
        header["extFields"] = dict(fields)
    return json.dumps(header, separators=(",", ":")).encode()


def binary_header(
    code: int,
    fields: Mapping[str, str] | None = None,
    opaque: int = 0,
    flag: int = 0,
    version: int = VERSION,
) -> bytes:
    """The same in the ROCKETMQ form. The code has 16 bits there: a larger one is cut."""
    entries = b"".join(
        struct.pack(">h", len(key.encode()))
        + key.encode()
        + struct.pack(">i", len(value.encode()))
        + value.encode()
        for key, value in (fields or {}).items()
    )
    fixed = struct.pack(">HbHiii", code & 0xFFFF, 0, version, opaque, flag, 0)
    return fixed + struct.pack(">i", len(entries)) + entries


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that a server sent: a response, or a request of its own."""

    raw: bytes = field(repr=False)
    serialize_type: int
    code: int
    flag: int
    opaque: int
    version: int
    language: str
    remark: str | None
    fields: Mapping[str, str]
    body: bytes

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        return bool(self.flag & ONE_WAY)

    def json(self) -> Any:
        """The body, read as tolerantly as fastjson would."""
        return loads(self.body)

    def number(self, name: str) -> int:
        """A field that holds an integer."""
        return int(self.fields[name])


class FrameError(ValueError):
    """What a server sent is no frame."""


def parse_frame(raw: bytes) -> Frame:
    """Parse a whole frame, its length prefix included. Raises FrameError."""
    try:
        length, mark = struct.unpack_from(">ii", raw)
        kind, header_length = mark >> 24 & 0xFF, mark & 0xFFFFFF
        if length != len(raw) - 4 or header_length > length - 4:
            raise FrameError(f"lengths do not fit: {raw[:8].hex()}")
        header, body = raw[8 : 8 + header_length], raw[8 + header_length :]
        return Frame(raw, kind, **(_json if kind == JSON else _binary)(header), body=body)
    except (struct.error, KeyError, ValueError, IndexError) as error:
        raise FrameError(f"{error}: {raw[:64].hex()}") from error


def _json(header: bytes) -> dict[str, Any]:
    data = json.loads(header)
    if not isinstance(data, dict):
        raise FrameError(f"a header that is no object: {header[:40]!r}")
    return {
        "code": data["code"],
        "flag": data.get("flag", 0),
        "opaque": data["opaque"],
        "version": data.get("version", 0),
        "language": data.get("language", "JAVA"),
        "remark": data.get("remark"),
        "fields": data.get("extFields") or {},
    }


def _binary(header: bytes) -> dict[str, Any]:
    code, language, version, opaque, flag, size = struct.unpack_from(">hbhiii", header)
    at = 17
    remark = header[at : at + size].decode() or None
    at += size
    end = at + 4 + struct.unpack_from(">i", header, at)[0]
    at += 4
    fields: dict[str, str] = {}
    while at < end:
        (size,) = struct.unpack_from(">h", header, at)
        key = header[at + 2 : at + 2 + size].decode()
        at += 2 + size
        (size,) = struct.unpack_from(">i", header, at)
        fields[key] = header[at + 4 : at + 4 + size].decode()
        at += 4 + size
    return {
        "code": code,
        "flag": flag,
        "opaque": opaque,
        "version": version,
        "language": LANGUAGES[language],
        "remark": remark,
        "fields": fields,
    }
