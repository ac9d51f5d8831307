"""What the bodies of commands hold.

Bodies are fastjson's dialect of JSON: keys that are integers stand without quotes, and a
MessageQueue may be a key (fastjson 1.2.83, seen on 5.3.3 in requests 43, 105, 106, 202,
208). `loads` reads the dialect and standard JSON, `dumps` writes either.

`to_body` and `from_body` translate any dataclass, snake_case to camelCase: those of the core,
such as the route, and the heartbeat's, which are here.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from mqspec.core.group import ConsumeFromWhere, ConsumeType, MessageModel
from mqspec.core.record import Bad, BatchMessage, Blank, Record, decode_record
from mqspec.core.types import MessageQueue

T = TypeVar("T")

# TypeUtils.castToBoolean of fastjson 1.2.83.
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class BodyError(ValueError):
    """The body is not what its command says it is."""


# The dialect.


def loads(body: bytes) -> Any:
    """Plain data for a body. A key that is an object is a MessageQueue, all others are str.

    Raises BodyError.
    """
    text = body.decode(errors="replace")
    try:
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            value, end = _value(text, 0)
            if text[end:].strip():
                raise BodyError(f"something follows the body's JSON at {end}") from None
            return value
    except BodyError:
        raise
    except (ValueError, RecursionError) as error:
        raise BodyError(f"not JSON: {error}") from None


def dumps(value: object, standard: bool = False) -> bytes:
    """The bytes of plain data; None in an object is left out.

    `standard` puts integer keys in quotes, as the nameserver does for clients that ask
    (request 105, acceptStandardJsonOnly or version 401 and later).
    """
    return "".join(_dump(value, standard)).encode(errors="replace")


def _dump(value: object, standard: bool) -> Iterator[str]:
    match value:
        case Mapping():
            comma = "{"
            for key, item in value.items():
                if item is not None:
                    yield comma + _dump_key(key, standard) + ":"
                    yield from _dump(item, standard)
                    comma = ","
            yield "{}" if comma == "{" else "}"
        case list() | tuple():
            comma = "["
            for item in value:
                yield comma
                yield from _dump(item, standard)
                comma = ","
            yield "[]" if comma == "[" else "]"
        case MessageQueue():
            yield from _dump(to_plain(value), standard)
        case _:
            yield json.dumps(value, ensure_ascii=False)


def _dump_key(key: object, standard: bool) -> str:
    if isinstance(key, int) and not standard:
        return str(key)
    if isinstance(key, MessageQueue):
        return "".join(_dump(to_plain(key), standard))
    return json.dumps(str(key), ensure_ascii=False)


_scalar = json.JSONDecoder().raw_decode


def _value(text: str, at: int) -> tuple[Any, int]:
    match text[at : at + 1]:
        case "{":
            return _object(text, at + 1)
        case "[":
            return _array(text, at + 1)
        case _:
            return _scalar(text, at)


def _object(text: str, at: int) -> tuple[dict[Any, Any], int]:
    found: dict[Any, Any] = {}
    while (char := text[at : at + 1]) != "}":
        if found:
            at = _expect(text, at, ",")
            char = text[at : at + 1]
        key, at = _value(text, at)
        if char == "{":
            key = from_plain(MessageQueue, key)
        at = _expect(text, at, ":")
        found[key if char == "{" else str(key)], at = _value(text, at)
    return found, at + 1


def _array(text: str, at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    while text[at : at + 1] != "]":
        if found:
            at = _expect(text, at, ",")
        value, at = _value(text, at)
        found.append(value)
    return found, at + 1


def _expect(text: str, at: int, char: str) -> int:
    if text[at : at + 1] != char:
        raise BodyError(f"{char!r} is expected at {at}, not {text[at : at + 10]!r}")
    return at + 1


# The heartbeat.


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """What a member wants of one topic (SubscriptionData.java)."""

    topic: str
    sub_string: str = "*"
    tags_set: tuple[str, ...] = ()
    code_set: tuple[int, ...] = ()  # Java hashes of the tags
    sub_version: int | None = None  # ms; of two for one topic, the broker keeps the larger
    expression_type: str = "TAG"
    class_filter_mode: bool = False


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """One consumer group of a client (ConsumerData.java)."""

    group_name: str
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscription_data_set: tuple[SubscriptionData, ...] = ()
    unit_mode: bool = False


@dataclass(frozen=True, slots=True)
class ProducerData:
    """One producer group of a client (ProducerData.java)."""

    group_name: str


@dataclass(frozen=True, slots=True)
class HeartbeatData:
    """The body of request 34 (HeartbeatData.java)."""

    client_id: str | None = field(default=None, metadata={"key": "clientID"})
    consumer_data_set: tuple[ConsumerData, ...] = ()
    producer_data_set: tuple[ProducerData, ...] = ()
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


@dataclass(frozen=True, slots=True)
class ConsumerList:
    """The answer to request 38; an id may come twice, and be null (GROUP-002)."""

    consumer_id_list: tuple[str | None, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """Those that are ids."""
        return tuple(filter(None, self.consumer_id_list))


@dataclass(frozen=True, slots=True)
class LockBatchBody:
    """The body of requests 41 and 42 (LockBatchRequestBody.java, UnlockBatchRequestBody.java)."""

    consumer_group: str | None = None
    client_id: str | None = None
    mq_set: tuple[MessageQueue, ...] = ()
    only_this_broker: bool = False


# Bodies as dataclasses.


def to_body(record: object, standard: bool = False) -> bytes:
    """The body of a dataclass, its keys sorted as fastjson sorts them."""
    return dumps(to_plain(record), standard)


def from_body(cls: type[T], body: bytes) -> T:
    """The dataclass of a body: unknown keys are ignored, a missing one takes its default.

    Raises BodyError.
    """
    return from_plain(cls, loads(body))


def to_plain(value: Any) -> Any:
    """Plain data of a dataclass, in camelCase."""
    if dataclasses.is_dataclass(value):
        cls: type = type(value)
        pairs = ((key, getattr(value, name)) for name, key in _keys(cls))
        return {key: to_plain(item) for key, item in pairs if item is not None}
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value


def from_plain(cls: type[T], data: object) -> T:
    """The dataclass of plain data in camelCase. Raises BodyError."""
    try:
        record: T = _build(cls, data)
    except (TypeError, ValueError) as error:
        raise BodyError(f"not a {cls.__name__}: {error}") from None
    return record


@cache
def _keys(cls: type) -> tuple[tuple[str, str], ...]:
    # A dataclass's fields and their keys on the wire, in the order of the keys.
    pairs = ((f.name, f.metadata.get("key") or _camel(f.name)) for f in dataclasses.fields(cls))
    return tuple(sorted(pairs, key=lambda pair: pair[1]))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _build(kind: Any, data: Any) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin is types.UnionType:  # always `X | None` here
        return None if data is None else _build(args[0], data)
    if origin is tuple:
        return tuple(_build(args[0], item) for item in _iterable(data))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise BodyError(f"an object is expected, not {data!r:.40}")
        return {_build(args[0], key): _build(args[1], item) for key, item in data.items()}
    if dataclasses.is_dataclass(kind):
        if not isinstance(data, Mapping):
            raise BodyError(f"an object is expected, not {data!r:.40}")
        assert isinstance(kind, type)
        found = ((name, data.get(key)) for name, key in _keys(kind))
        hinted = ((name, _hints(kind)[name], item) for name, item in found if item is not None)
        # An empty text in the place of anything but a list is null, and so is what a Java
        # enumeration does not have.
        built = (
            (name, _build(hint, item))
            for name, hint, item in hinted
            if item != "" or hint in (str, str | None) or get_origin(hint) is tuple
        )
        return kind(**{name: item for name, item in built if item is not None})

    if isinstance(data, str) and issubclass(kind, StrEnum):
        return kind(data) if data in kind.__members__.values() else None
    if type(data) is int and issubclass(kind, StrEnum):
        # Java's ordinal, which clients in C++ write (GROUP-058): the members stand in its order.
        members = tuple(kind)
        if not 0 <= data < len(members):
            raise BodyError(f"{kind.__name__} has no member {data}")
        return members[data]

    return _SCALARS.get(kind, kind)(data)


def _boolean(data: object) -> bool:
    if isinstance(data, str):
        data = _BOOLEANS.get(data.lower())
    if not isinstance(data, bool | int):
        raise BodyError("a boolean is expected")
    return data == 1


def _text(data: object) -> str:
    return data if isinstance(data, str) else dumps(data).decode()


_SCALARS: Mapping[Any, Callable[[Any], Any]] = {bool: _boolean, str: _text}  # others: their type


def _iterable(data: Any) -> Iterable[Any]:
    if not isinstance(data, list):
        raise BodyError(f"a list is expected, not {data!r:.40}")
    return data


# Messages.


def decode_messages(body: bytes) -> list[Record]:
    """The records of a pull's answer. Raises BodyError."""
    records: list[Record] = []
    view, at = memoryview(body), 0
    while at < len(body):
        record = decode_record(view, at)
        if isinstance(record, Bad | Blank):
            raise BodyError(f"message {len(records)} at byte {at}: {record}")
        records.append(record)
        at += record.size
    return records


# Total, which nobody reads, magic 0 and CRC 0, flag, body length.
_BATCH_HEAD = struct.Struct(">i8xii")
_I16 = struct.Struct(">h")


def encode_batch(messages: Iterable[BatchMessage]) -> bytes:
    """The body of request 320 (MessageDecoder.encodeMessage, 5.3.3)."""
    parts: list[bytes] = []
    for message in messages:
        total = _BATCH_HEAD.size + len(message.body) + _I16.size + len(message.properties)
        parts += (
            _BATCH_HEAD.pack(total, message.flag, len(message.body)),
            message.body,
            _I16.pack(len(message.properties)),
            message.properties,
        )
    return b"".join(parts)


def decode_batch(body: bytes) -> list[BatchMessage]:
    """The messages of request 320's body. Raises BodyError."""
    messages: list[BatchMessage] = []
    at, whole = 0, len(body)
    head_bytes, length_bytes = _BATCH_HEAD.size, _I16.size
    try:
        while at < whole:
            _, flag, body_bytes = _BATCH_HEAD.unpack_from(body, at)
            body_at = at + head_bytes
            body_end = body_at + body_bytes
            (properties_bytes,) = _I16.unpack_from(body, body_end)
            properties_at = body_end + length_bytes
            end = properties_at + properties_bytes
            if body_bytes < 0 or properties_bytes < 0 or end > whole:
                raise BodyError(f"a message that ends at byte {end} of {whole}")
            messages.append(BatchMessage(body[body_at:body_end], body[properties_at:end], flag))
            at = end
    except struct.error:
        raise BodyError(f"a batch that ends at byte {whole}, in the middle of a message") from None

    return messages
