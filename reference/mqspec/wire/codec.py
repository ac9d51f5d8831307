"""The remoting frame, sans-IO: bytes to commands and back.

    length i32, of what follows · serializer i8 and header length i24 · header · body

(RemotingCommand.java, NettyDecoder.java, RocketMQSerializable.java, 5.3.3.) A header is
JSON or binary; a peer may use either at any time. What the real one tolerates in a JSON
header is tolerated here: missing and unknown keys, numbers as strings, an unknown language.
Anything else is a FrameError, after which the connection can only be closed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Generator, Mapping
from enum import IntEnum, IntFlag
from struct import Struct
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from mqspec.wire.codes import ResponseCode

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024  # with its length prefix
VERSION: Final = 479  # MQVersion.V5_3_3


class FrameError(ValueError):
    """The bytes are not a frame; the message says what is wrong with them."""


class Serializer(IntEnum):
    """How the header is written."""

    JSON = 0
    ROCKETMQ = 1


class Language(IntEnum):
    """What the peer is written in (LanguageCode.java)."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


class Flag(IntFlag):
    """The bits of a command's flag."""

    RESPONSE = 1
    ONEWAY = 2


# As plain integers: operators of IntFlag cost more than the rest of a command.
_RESPONSE, _ONEWAY = int(Flag.RESPONSE), int(Flag.ONEWAY)

_opaques = itertools.count()


def next_opaque() -> int:
    """The next request id of this process; it wraps to stay a Java int, never negative."""
    return next(_opaques) & 0x7FFFFFFF


class RemotingCommand(msgspec.Struct, frozen=True):
    """A request or a response.

    A Struct, since one is made for each frame and a frozen dataclass takes ten times as long;
    `msgspec.structs.replace` makes another of it.
    """

    code: int
    ext_fields: Mapping[str, str] = {}  # null values are left out
    body: bytes = b""
    flag: int = 0
    opaque: int = msgspec.field(default_factory=next_opaque)  # a response has its request's
    language: Language | None = Language.PYTHON  # None: one that we do not know
    version: int = VERSION
    remark: str | None = None
    serializer: Serializer = Serializer.JSON

    @property
    def is_response(self) -> bool:
        """Whether it answers a request."""
        return bool(self.flag & _RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether it must not be answered."""
        return bool(self.flag & _ONEWAY)

    def response(
        self,
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
        ext_fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> RemotingCommand:
        """The answer to this request: in JSON, as the real one's, whatever the request is in."""
        return RemotingCommand(code, ext_fields or {}, body, _RESPONSE, self.opaque, remark=remark)


def encode(command: RemotingCommand) -> bytes:
    """The command's frame.

    In a binary header the code keeps its low 16 bits only, and an empty value is not
    readable. Raises FrameError where the frame would be longer than a peer reads.
    """
    header = _ENCODERS[command.serializer](command)
    length = 4 + len(header) + len(command.body)
    if 4 + length > FRAME_BYTES_MAX:
        raise FrameError(f"a frame of {4 + length} bytes, at most {FRAME_BYTES_MAX}")
    prefix = _PREFIX.pack(length, command.serializer << 24 | len(header))
    return b"".join((prefix, header, command.body))


class Decoder:
    """Takes bytes as they arrive and gives the commands that are complete.

    It never holds more than one frame and what arrived behind it.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Generator[RemotingCommand, None, None]:
        """The commands that `data` completes, to be iterated at once. Where that is broken off
        (`close`), the others are given with what is fed next.

        Raises FrameError at the first bad frame, after the good ones before it.
        """
        if self._buffer:
            self._buffer += data
            if not _begins_with_a_frame(self._buffer):
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        at = 0
        try:
            while (left := len(data) - at) >= 4:
                length = _frame_length(data, at)
                if left < 4 + length:
                    return
                command = _decode(data, at + 4, at + 4 + length)
                at += 4 + length
                yield command
        finally:
            self._buffer += data[at:]

    @property
    def torn(self) -> bool:
        """Whether a frame has begun and not ended: at the end of a stream, it is torn."""
        return bool(self._buffer)


def _begins_with_a_frame(data: bytearray) -> bool:
    """Whether its first frame is whole; raises FrameError where it cannot be one."""
    return len(data) >= 4 and len(data) >= 4 + _frame_length(data, 0)


def _frame_length(data: bytes | bytearray, at: int) -> int:
    length: int = _I32.unpack_from(data, at)[0]
    if not 4 <= length <= FRAME_BYTES_MAX - 4:
        raise FrameError(f"a frame length of {length}")
    return length


def _decode(data: bytes, at: int, end: int) -> RemotingCommand:
    (word,) = _U32.unpack_from(data, at)
    kind, header_length = word >> 24, word & 0xFFFFFF
    if kind not in _DECODERS:
        raise FrameError(f"serializer {kind}, neither JSON (0) nor ROCKETMQ (1)")
    if not 0 < header_length <= end - at - 4:
        raise FrameError(f"a header of {header_length} bytes in a frame of {end - at}")
    body_at = at + 4 + header_length
    return _DECODERS[kind](data[at + 4 : body_at], data[body_at:end])


# JSON. The keys in the order in which the real broker writes them. What peers usually send
# and get takes msgspec's way, ten times as fast; whatever it refuses takes the tolerant way.

_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_dump_usual = msgspec.json.Encoder().encode
_Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class _UsualHeader(msgspec.Struct, rename="camel"):
    opaque: _Int
    code: _Int = 0
    ext_fields: dict[str, str] = {}
    flag: _Int = 0
    language: str = Language.JAVA.name
    remark: str | None = None
    version: _Int = 0


_load_usual = msgspec.json.Decoder(_UsualHeader).decode
_LANGUAGE_OF_NAME = dict(Language.__members__)


def _encode_json(command: RemotingCommand) -> bytes:
    header: dict[str, Any] = {"code": int(command.code)}
    if command.ext_fields:
        header["extFields"] = command.ext_fields
    header["flag"] = int(command.flag)
    if command.language is not None:
        header["language"] = command.language.name
    header["opaque"] = command.opaque
    if command.remark is not None:
        header["remark"] = command.remark
    header["serializeTypeCurrentRPC"] = command.serializer.name
    header["version"] = command.version
    try:
        return _dump_usual(header)
    except UnicodeEncodeError:
        return _dump(header).encode(errors="replace")


def _decode_json(data: bytes, body: bytes) -> RemotingCommand:
    try:
        usual = _load_usual(data)
    except (ValueError, RecursionError):
        return _decode_json_tolerantly(data, body)
    return RemotingCommand(
        usual.code,
        usual.ext_fields,
        body,
        usual.flag,
        usual.opaque,
        _LANGUAGE_OF_NAME.get(usual.language),
        usual.version,
        usual.remark,
    )


def _decode_json_tolerantly(data: bytes, body: bytes) -> RemotingCommand:
    try:
        header = json.loads(data.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a header that is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise FrameError(f"a JSON header that is not an object: {type(header).__name__}")
    ext_fields = header.get("extFields")
    if not isinstance(ext_fields, dict | None):
        raise FrameError("extFields that are not an object")
    opaque = _int(header, "opaque")
    remark = header.get("remark")
    return RemotingCommand(
        code=_int(header, "code") or 0,
        ext_fields={
            name: value if type(value) is str else _dump(value)
            for name, value in (ext_fields or {}).items()
            if value is not None
        },
        body=body,
        flag=_int(header, "flag") or 0,
        opaque=next_opaque() if opaque is None else opaque,
        language=_language(header.get("language", Language.JAVA)),
        version=_int(header, "version") or 0,
        remark=remark if isinstance(remark, str | None) else _dump(remark),
    )


def _int(header: Mapping[str, Any], key: str) -> int | None:
    value = header.get(key)
    if type(value) is not int:
        if value is None or value == "":
            return None
        try:
            value = int(value)
        except (TypeError, ValueError, OverflowError):
            raise FrameError(f"{key} is {value!r:.40}, not an integer") from None
    if not -(2**31) <= value < 2**31:
        raise FrameError(f"{key} does not fit into 32 bits")
    return value


def _language(value: object) -> Language | None:
    if isinstance(value, str):
        return _LANGUAGE_OF_NAME.get(value)
    return _language_of_code(value) if isinstance(value, int) else None


def _language_of_code(code: int) -> Language | None:
    return Language(code) if code in _LANGUAGES else None


# Binary.

_PREFIX = Struct(">iI")
_U32 = Struct(">I")
_I32 = Struct(">i")
_I16 = Struct(">h")
_FIXED = Struct(">HbHii")  # code, language, version, opaque, flag
_LANGUAGES = frozenset(Language)


def _encode_binary(command: RemotingCommand) -> bytes:
    remark = (command.remark or "").encode(errors="replace")
    entries = bytearray()
    for name, value in command.ext_fields.items():
        key, data = name.encode(errors="replace"), value.encode(errors="replace")
        if len(key) > 0x7FFF:
            raise FrameError(f"a field's name of {len(key)} bytes, at most {0x7FFF}")
        entries += _I16.pack(len(key)) + key + _I32.pack(len(data)) + data
    language = Language.OTHER if command.language is None else command.language
    fixed = _FIXED.pack(
        command.code & 0xFFFF, language, command.version & 0xFFFF, command.opaque, command.flag
    )
    return b"".join((fixed, _I32.pack(len(remark)), remark, _I32.pack(len(entries)), entries))


def _decode_binary(data: bytes, body: bytes) -> RemotingCommand:
    reader = _Reader(data)
    code, language, version, opaque, flag = reader.unpack(_FIXED)
    remark = reader.text(_I32)
    end = reader.at + _I32.size + reader.peek(_I32)
    reader.at += _I32.size
    if not reader.at <= end <= len(data):
        raise FrameError(f"fields that end at byte {end} of a header of {len(data)}")
    ext_fields = {}
    while reader.at < end:
        name, value = reader.text(_I16), reader.text(_I32)
        if name and value:
            ext_fields[name] = value
    return RemotingCommand(
        code=_signed16(code),
        ext_fields=ext_fields,
        body=body,
        flag=flag,
        opaque=opaque,
        language=_language_of_code(language),
        version=_signed16(version),
        remark=remark or None,
        serializer=Serializer.ROCKETMQ,
    )


def _signed16(value: int) -> int:
    return value - (1 << 16) if value >> 15 else value


class _Reader:
    """Reads a binary header; FrameError where it ends too early."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def unpack(self, struct: Struct) -> tuple[int, ...]:
        if self.at + struct.size > len(self.data):
            raise FrameError(f"a binary header that ends at byte {len(self.data)}")
        values = struct.unpack_from(self.data, self.at)
        self.at += struct.size
        return values

    def peek(self, struct: Struct) -> int:
        at = self.at
        (value,) = self.unpack(struct)
        self.at = at
        return value

    def text(self, length: Struct) -> str:
        (size,) = self.unpack(length)
        end = self.at + size
        if not self.at <= end <= len(self.data):
            raise FrameError(f"a text of {size} bytes in a header of {len(self.data)}")
        text = self.data[self.at : end].decode(errors="replace")
        self.at = end
        return text


_ENCODERS: Final = {Serializer.JSON: _encode_json, Serializer.ROCKETMQ: _encode_binary}
_DECODERS: Final[Mapping[int, Callable[[bytes, bytes], RemotingCommand]]] = {
    Serializer.JSON: _decode_json,
    Serializer.ROCKETMQ: _decode_binary,
}
