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
from collections.abc import Callable, Generator, Mapping, Sequence
from enum import IntEnum, IntFlag, StrEnum
from struct import Struct
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from mqspec.wire.codes import ResponseCode

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024  # with its length prefix
_LENGTH_MAX: Final = FRAME_BYTES_MAX - 4
VERSION: Final = 479  # MQVersion.V5_3_3


class FrameError(ValueError):
    """The bytes are not a frame; the message says what is wrong with them."""


_PREFIX: Final = Struct(">iI")  # length, serializer and header length
_PREFIX_BYTES: Final = _PREFIX.size
_NO_PREFIX: Final = bytes(_PREFIX_BYTES)  # before it is known
_I32, _U32 = Struct(">i"), Struct(">I")


Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
"""What fits into a Java int."""


class Serializer(IntEnum):
    """How the header is written."""

    JSON = 0
    ROCKETMQ = 1


_SERIALIZERS: Final = len(Serializer)


class Language(StrEnum):
    """What the peer is written in, in the order of the codes (LanguageCode.java)."""

    JAVA = "JAVA"
    CPP = "CPP"
    DOTNET = "DOTNET"
    PYTHON = "PYTHON"
    DELPHI = "DELPHI"
    ERLANG = "ERLANG"
    RUBY = "RUBY"
    OTHER = "OTHER"
    HTTP = "HTTP"
    GO = "GO"
    PHP = "PHP"
    OMS = "OMS"
    RUST = "RUST"
    NODE_JS = "NODE_JS"


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


class RemotingCommand(msgspec.Struct, frozen=True, gc=False):
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
    frame = bytearray()
    encode_into(command, frame)
    return bytes(frame)


def encode_into(command: RemotingCommand, frames: bytearray) -> None:
    """Add the command's frame to others, as `encode` makes it; in case of an error, nothing."""
    at = len(frames)
    header_at = at + _PREFIX_BYTES
    try:
        _ENCODERS[command.serializer](command, frames)
        header_length = len(frames) - header_at
        if command.body:
            frames += command.body
        length = len(frames) - at
        if length > FRAME_BYTES_MAX:
            raise FrameError(f"a frame of {length} bytes, at most {FRAME_BYTES_MAX}")
    except BaseException:
        del frames[at:]
        raise

    _PREFIX.pack_into(frames, at, length - 4, command.serializer << 24 | header_length)


def answer_format(answer: RemotingCommand) -> str:
    """The JSON header of an answer, as a format of `%`: its fields may have marks of their own,
    and behind them is one for the opaque."""
    header = _header_of(answer)
    header.opaque = msgspec.Raw(b"%d")
    return msgspec.json.encode(header).decode()


def frame_into(header: bytes, frames: bytearray) -> None:
    """Add the frame of a JSON header, without a body, to others."""
    header_length = len(header)
    frames += _PREFIX.pack(4 + header_length, header_length)
    frames += header


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
        at, end = 0, len(data)
        try:
            while end - at >= _PREFIX_BYTES:
                length, word = _PREFIX.unpack_from(data, at)
                header_at = at + _PREFIX_BYTES
                body_at = header_at + (word & 0xFFFFFF)
                following = at + 4 + length
                if not (
                    header_at < body_at <= following <= end
                    and word >> 24 < _SERIALIZERS
                    and length <= _LENGTH_MAX
                ):
                    break
                at = following
                yield _DECODERS[word >> 24](data[header_at:body_at], data[body_at:following])
            if at < end:
                _begins_with_a_frame(data, at)
        finally:
            if at < end:
                self._buffer += data[at:]

    @property
    def torn(self) -> bool:
        """Whether a frame has begun and not ended: at the end of a stream, it is torn."""
        return bool(self._buffer)


def _begins_with_a_frame(data: bytes | bytearray, at: int = 0) -> bool:
    """Whether a frame at its beginning is whole; raises FrameError where it cannot be one."""
    left = len(data) - at
    if left < 4:
        return False
    (length,) = _I32.unpack_from(data, at)
    if not 4 <= length <= _LENGTH_MAX:
        raise FrameError(f"a frame length of {length}")
    if left < 4 + length:
        return False
    (word,) = _U32.unpack_from(data, at + 4)
    kind, header_length = word >> 24, word & 0xFFFFFF
    if kind >= _SERIALIZERS:
        raise FrameError(f"serializer {kind}, neither JSON (0) nor ROCKETMQ (1)")
    if not 0 < header_length <= length - 4:
        raise FrameError(f"a header of {header_length} bytes in a frame of {length}")
    return True


# JSON. The keys in the order in which the real broker writes them. What peers usually send
# and get takes msgspec's way, ten times as fast; whatever it refuses takes the tolerant way.

_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_dump_usual_into = msgspec.json.Encoder().encode_into


class _UsualHeader(msgspec.Struct, rename="camel", gc=False):
    """A header as it is read."""

    opaque: Int
    code: Int = 0
    ext_fields: dict[str, str] = {}
    flag: Int = 0
    language: str = Language.JAVA
    remark: str | None = None
    version: Int = 0


class _Header(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """A header as it is written: without what is None."""

    code: int
    ext_fields: Mapping[str, str] | None = None
    flag: int | None = None
    language: Language | None = None
    opaque: int | msgspec.Raw | None = None  # raw: a place for it
    remark: str | None = None
    serializer: str | None = msgspec.field(name="serializeTypeCurrentRPC", default=None)
    version: int | None = None


_load_usual = msgspec.json.Decoder(_UsualHeader).decode
_LANGUAGE_OF_NAME = {str(each): each for each in Language}
_LANGUAGE_OF_CODE = dict(enumerate(Language))


def _header_of(command: RemotingCommand) -> _Header:
    return _Header(
        command.code,
        command.ext_fields or None,
        command.flag,
        command.language,
        command.opaque,
        command.remark,
        "JSON",
        command.version,
    )


def _encode_json(command: RemotingCommand, frames: bytearray) -> None:
    header = _header_of(command)
    at = len(frames)
    try:
        _dump_usual_into(header, frames, at + _PREFIX_BYTES)
    except UnicodeEncodeError:
        text = _dump(msgspec.to_builtins(header))
        frames[at:] = _NO_PREFIX + text.encode(errors="replace")


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
    return _LANGUAGE_OF_CODE.get(value) if isinstance(value, int) else None


# Binary.

_I16 = Struct(">h")
_FIXED = Struct(">HbHii")  # code, language, version, opaque, flag
_CODE_OF_LANGUAGE = {language: code for code, language in _LANGUAGE_OF_CODE.items()}


def _encode_binary(command: RemotingCommand, frames: bytearray) -> None:
    remark = (command.remark or "").encode(errors="replace")
    entries = bytearray()
    for name, value in command.ext_fields.items():
        key, data = name.encode(errors="replace"), value.encode(errors="replace")
        if len(key) > 0x7FFF:
            raise FrameError(f"a field's name of {len(key)} bytes, at most {0x7FFF}")
        entries += _I16.pack(len(key)) + key + _I32.pack(len(data)) + data

    language = _CODE_OF_LANGUAGE[command.language or Language.OTHER]
    fixed = _FIXED.pack(
        command.code & 0xFFFF, language, command.version & 0xFFFF, command.opaque, command.flag
    )
    sizes = _I32.pack(len(remark)), _I32.pack(len(entries))
    frames += b"".join((_NO_PREFIX, fixed, sizes[0], remark, sizes[1], entries))


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
        language=_LANGUAGE_OF_CODE.get(language),
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


# By serializer. An encoder leaves room for the prefix.
_ENCODERS: Final[Sequence[Callable[[RemotingCommand, bytearray], None]]] = (
    _encode_json,
    _encode_binary,
)
_DECODERS: Final[Sequence[Callable[[bytes, bytes], RemotingCommand]]] = (
    _decode_json,
    _decode_binary,
)
