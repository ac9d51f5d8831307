"""Apache's message trace: what clients tell of each message, in the bodies of a topic of its own.

A body is a list of contexts, each of which ends with `\\2`, and whose fields `\\1` parts (see
TraceDataEncoder.java, 5.3.3). Who sent the body is told by the unique key of the message that it
came in. Traces are sent without waiting, and left out where they come too fast: that one is
missing says nothing.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqaudit.columns import Whole
from mqspec.core.record import SysFlag

TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
DAMAGE: Final = "damage"

_CONTEXT_ENDS, _FIELD_ENDS = "\x02", "\x01"
_SHOWN: Final = 200  # characters of what is no context
_NOTHING: Final = "null"  # what Java writes of a missing text

_TEXT, _NUMBER, _FLAG = pa.string(), pa.int64(), pa.bool_()
COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "kind": _TEXT,  # Pub, SubBefore, SubAfter, EndTransaction, Recall; or damage
    "store": _TEXT,
    "physical_offset": _NUMBER,  # of the record that it came in
    "nth": _NUMBER,  # the context's place in its body
    "sender": _TEXT,  # the process that sent it: `address@pid#hash`
    "time_ms": _NUMBER,  # by the sender's clock
    "region": _TEXT,
    "client_group": _TEXT,
    "topic": _TEXT,
    "request_id": _TEXT,  # one for what was given to a listener together, before and after
    "message_id": _TEXT,  # the unique key, where the message has one
    "offset_message_id": _TEXT,  # where it was stored: address, port, physical offset
    "tags": _TEXT,
    "keys": _TEXT,
    "store_host": _TEXT,
    "client_host": _TEXT,
    "body_bytes": _NUMBER,
    "cost_ms": _NUMBER,
    "message_type": _NUMBER,
    "success": _FLAG,
    "attempt": _NUMBER,
    "context_code": _NUMBER,  # how a listener ended: ConsumeReturnType, by its place
    "transaction_id": _TEXT,
    "transaction_state": _TEXT,
    "from_check": _FLAG,
    "damage": _TEXT,  # what is no context
}

# The fields of each kind, by how many there are: clients of other versions write fewer or more.
_PUB: Final = (
    "time_ms", "region", "client_group", "topic", "message_id", "tags", "keys", "store_host",
    "body_bytes", "cost_ms", "message_type",
)  # fmt: skip
_AFTER: Final = ("request_id", "message_id", "cost_ms", "success", "keys")
_LAYOUTS: Final[Mapping[str, Sequence[tuple[str, ...]]]] = {
    "Pub": (
        (*_PUB, "success"),
        (*_PUB, "offset_message_id", "success"),
        (*_PUB, "offset_message_id", "success", "client_host"),
    ),
    "SubBefore": (
        ("time_ms", "region", "client_group", "request_id", "message_id", "attempt", "keys"),
    ),
    "SubAfter": (
        _AFTER,
        (*_AFTER, "context_code"),
        (*_AFTER, "context_code", ""),  # of a client for a cloud: what follows is nothing
        (*_AFTER, "context_code", "time_ms", "client_group"),
    ),
    "EndTransaction": (
        ("time_ms", "region", "client_group", "topic", "message_id", "tags", "keys", "store_host",
         "message_type", "transaction_id", "transaction_state", "from_check"),
    ),
    "Recall": (("time_ms", "region", "client_group", "topic", "message_id", "success"),),
}  # fmt: skip
_CHECKED: Final = {_NUMBER: r"^-?[0-9]{1,18}$", _FLAG: "^(true|false)$"}

# Of a unique key, from its end: counter, time, hash of the class loader, pid; before them the
# address (MessageClientIDSetter.java, 5.3.3).
_UNIQUE_KEY: Final = re.compile(r"((?:[0-9A-F]{8}){1,4})([0-9A-F]{4})([0-9A-F]{8})[0-9A-F]{12}")

_COMPRESSED: Final = int(SysFlag.COMPRESSED)
_CODECS: Final = {1: "lz4", 2: "zstd"}  # 0 and 3: zlib, which came before there was a choice


@dataclass(frozen=True, slots=True)
class Bodies:
    """Bodies of the trace topic, with where each was stored; a damaged one is None."""

    store: str
    physical_offset: Whole
    unique_key: Sequence[str | None]
    body: Sequence[bytes | None]


def contexts(bodies: Bodies) -> pa.RecordBatch:
    """A row a context, and one for each piece that is none, in their order."""
    texts, whole = _texts(bodies.body)
    pieces = pc.split_pattern(texts, _CONTEXT_ENDS)
    body, piece = pc.list_parent_indices(pieces), pc.list_flatten(pieces)
    nth, is_last = _places(body.to_numpy())
    # Behind the end of the last context there is nothing: else the end is missing.
    present = ~(is_last & pc.equal(piece, "").to_numpy(zero_copy_only=False))
    body, piece, nth, torn = (
        body.filter(pa.array(present)), piece.filter(pa.array(present)), nth[present],
        is_last[present],
    )  # fmt: skip
    torn |= ~whole[body.to_numpy()]

    found = _fields(piece, torn)
    senders = pa.array([sender(key) for key in bodies.unique_key], _TEXT)
    found |= {
        "store": pa.repeat(pa.scalar(bodies.store), len(piece)),
        "physical_offset": pa.array(bodies.physical_offset, _NUMBER).take(body),
        "nth": pa.array(nth, _NUMBER),
        "sender": senders.take(body),
    }
    return pa.RecordBatch.from_arrays([found[name] for name in COLUMNS], names=list(COLUMNS))


def sender(unique_key: str | None) -> str | None:
    """The process that made a unique key: `address@pid#hash`, of the pid the low two bytes."""
    match = _UNIQUE_KEY.fullmatch(unique_key or "")
    if match is None:
        return None
    address, pid, loader = match.groups()
    if len(address) not in (8, 32):
        return None
    return f"{ip_address(bytes.fromhex(address))}@{int(pid, 16)}#{loader}"


def plain(body: bytes, sys_flag: int) -> bytes:
    """A body as it was before its client compressed it. Raises ValueError."""
    if not sys_flag & _COMPRESSED:
        return body
    codec = _CODECS.get(sys_flag >> 8 & 7)
    try:
        if codec is None:
            return zlib.decompress(body)
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            return bytes(stream.read())
    except (zlib.error, OSError, pa.ArrowException) as error:
        raise ValueError(str(error)) from None


def _texts(bodies: Sequence[bytes | None]) -> tuple[pa.Array, np.ndarray]:
    """Bodies as texts, and which of them are whole."""
    read: list[str] = []
    whole = np.ones(len(bodies), bool)
    for at, body in enumerate(bodies):
        try:
            read.append("" if body is None else body.decode())
        except UnicodeDecodeError:
            read.append(body.decode(errors="replace") if body else "")
            whole[at] = False
        if body is None:
            whole[at] = False
            read[-1] = "(a body that is not what was stored)"
    return pa.array(read, _TEXT), whole


def _places(body: Whole) -> tuple[Whole, np.ndarray]:
    """Of pieces, which stand together by body: the place in it, and whether it is the last."""
    first = np.ones(len(body), bool)
    first[1:] = body[1:] != body[:-1]
    start = np.flatnonzero(first)
    nth = np.arange(len(body)) - start[np.cumsum(first) - 1] if len(body) else body
    is_last = np.ones(len(body), bool)
    is_last[:-1] = first[1:]
    return nth, is_last


def _fields(piece: pa.Array, torn: np.ndarray) -> dict[str, pa.Array]:
    """The columns of contexts; what is no context becomes a row of damage."""
    fields = pc.split_pattern(piece, _FIELD_ENDS)
    start = fields.offsets.to_numpy()[:-1]
    number = pc.list_value_length(fields).to_numpy(zero_copy_only=False)
    value = pc.list_flatten(fields)
    value = pc.if_else(pc.equal(value, _NOTHING), pa.scalar(None, _TEXT), value)
    start = start - (start[0] if len(start) else 0)
    kinds = value.take(pa.array(start))

    size = len(piece)
    where = {name: np.full(size, -1, np.int64) for name in COLUMNS}
    known = np.zeros(size, bool)
    for kind, layouts in _LAYOUTS.items():
        is_kind = pc.fill_null(pc.equal(kinds, kind), False).to_numpy(zero_copy_only=False) & ~torn
        for layout in layouts:
            rows = np.flatnonzero(is_kind & (number == len(layout) + 1))
            known[rows] = True
            for at, name in enumerate(layout, 1):
                if name:
                    where[name][rows] = start[rows] + at

    texts = {name: _taken(value, at) for name, at in where.items()}
    for name, kind in COLUMNS.items():
        if kind in _CHECKED:
            fits = pc.match_substring_regex(texts[name], _CHECKED[kind])
            known &= pc.fill_null(fits, True).to_numpy(zero_copy_only=False)

    keep = pa.array(known)
    columns = {
        name: pc.if_else(keep, texts[name], pa.scalar(None, _TEXT)).cast(kind)
        for name, kind in COLUMNS.items()
    }
    columns["kind"] = pc.if_else(keep, kinds, DAMAGE)
    shown = pc.utf8_slice_codeunits(piece, 0, _SHOWN)
    columns["damage"] = pc.if_else(keep, pa.scalar(None, _TEXT), shown)
    return columns


def _taken(values: pa.Array, at: Whole) -> pa.Array:
    """Some values; nothing where `at` is -1."""
    return values.take(pa.array(at, pa.int64(), mask=at < 0))
