"""What a proxy saw between clients and a broker, as the lines that the reference would write.

So a trace of Apache RocketMQ comes in by the same door. A row is a frame, in the order in which
they passed the proxy: `srv` ("broker", others are passed over), `conn`, `dir` ("c2s", "s2c"),
`header` (code, flag, opaque, extFields) and `body`, as JSON lines.

The wire shows what is stored, asked, told, pulled and committed. It does not show what a client
does with it, so a member is taken to have finished a message when it commits beyond it, and to
hold a queue from its first pull or commit until it asks anew where to begin. Nor does it show that
a broker wrote its table to a file, or that it was killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from mqcheck.traces.trace import Line
from mqrules import UserError

_SEND, _SEND_V2, _SEND_BATCH = 10, 310, 320
_PULL, _QUERY, _COMMIT, _HEART_BEAT = 11, 14, 15, 34
_COMMITS: Final = 1  # bit of a pull's sysFlag
_FOUND, _RETRY_IMMEDIATELY = 0, 20  # of a pull: messages, or none that the group wants
_STORED: Final = (0, 10, 11, 12)  # also where the disk or a slave was too slow
_REFUSED: Final = (1, 2, 16, 23, 24, 25, 26)  # a pull that fails a check carries no commit
_IS_RESPONSE: Final = 1  # bit of a header's flag

_REMEDY = "record the frames between clients and one broker"


class Header(msgspec.Struct, frozen=True):
    """What is read of a frame's header."""

    code: int
    opaque: int
    flag: int = 0
    extFields: dict[str, str] = {}  # noqa: N815 - its name on the wire


class Frame(msgspec.Struct, frozen=True):
    """What is read of a row."""

    srv: str
    conn: int
    dir: str
    header: Header
    body: str | None = None


class _Key(NamedTuple):
    """A queue, as a broker has it in its table."""

    topic: str
    group: str
    queue_id: int


@dataclass(slots=True)
class _Member:
    """A member on one queue, as far as the wire shows it."""

    next_offset: int
    tree: list[int] = field(default_factory=list)
    progress: int | None = None
    generation: int = 1


def is_recording(path: Path) -> bool:
    """Whether a file begins with a frame rather than with a line of a trace."""
    try:
        with path.open(encoding="utf-8") as rows:
            first = json.loads(rows.readline() or "null")
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and {"srv", "conn", "dir"} <= first.keys()


def wire_lines(path: Path) -> list[Line]:
    """The lines of a recording. Raises UserError where a row of it is no frame."""
    decoder = msgspec.json.Decoder(Frame)
    frames = []
    for number, row in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            frames.append((number, decoder.decode(row)))
        except msgspec.DecodeError as error:
            raise UserError(f"{path}:{number}", f"not a frame: {error}", _REMEDY) from None
    recording = _Recording([frame for _, frame in frames])
    lines: list[Line] = []
    for number, frame in frames:
        try:
            lines += recording.lines(frame)
        except KeyError as error:
            why = f"the header has no {error.args[0]}"
            raise UserError(f"{path}:{number}", why, _REMEDY) from None
        except (AttributeError, ValueError) as error:
            raise UserError(f"{path}:{number}", f"not a frame: {error}", _REMEDY) from None
    return lines


class _Recording:
    """The frames of one recording, read from the first to the last."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._codes = {
            (frame.conn, frame.header.opaque): frame.header.code
            for frame in frames
            if frame.srv == "broker" and frame.dir == "s2c" and frame.header.flag & _IS_RESPONSE
        }
        self._asked: dict[tuple[int, int], Header] = {}
        self._clients: dict[int, str] = {}
        self._ends: dict[tuple[str, str, int], int] = {}
        self._told: dict[tuple[int, _Key], int | None] = {}
        self._members: dict[tuple[int, _Key], _Member] = {}
        self._seq = 0

    def lines(self, frame: Frame) -> Iterator[Line]:
        """What the next frame tells. Raises KeyError, ValueError or AttributeError where it
        lacks what frames of its code have."""
        at = (frame.conn, frame.header.opaque)
        if frame.srv != "broker":
            return
        if frame.dir == "c2s":
            self._asked[at] = frame.header
            yield from self._request(frame)
        elif frame.header.flag & _IS_RESPONSE and at in self._asked:
            yield from self._response(frame.conn, self._asked[at], frame.header)

    def _request(self, frame: Frame) -> Iterator[Line]:
        header, conn = frame.header, frame.conn
        fields = header.extFields
        match header.code:
            case code if code == _HEART_BEAT:
                self._clients[conn] = json.loads(frame.body or "{}").get("clientID", "?")
            case code if code == _PULL:
                yield from self._begin(conn, fields, int(fields["queueOffset"]))
                if int(fields["sysFlag"]) & _COMMITS:
                    code = self._codes.get((conn, header.opaque), _FOUND)
                    yield from self._commit(conn, fields, arrives=code not in _REFUSED)
            case code if code == _COMMIT:
                yield from self._commit(conn, fields, arrives=True)

    def _response(self, conn: int, asked: Header, answer: Header) -> Iterator[Line]:
        fields, told = asked.extFields, answer.extFields
        match asked.code:
            case code if code in (_SEND, _SEND_V2, _SEND_BATCH) and answer.code in _STORED:
                # The short names are those of requests 310 and 320.
                topic = fields.get("b") or fields["topic"]
                broker = fields.get("n") or _broker(fields)
                queue = (broker, topic, int(told["queueId"]))
                yield from self._stored(queue, int(told["queueOffset"]) + 1)
            case code if code == _QUERY:
                key, offset = _key(fields), told.get("offset")
                stored = None if offset is None else int(offset)
                self._told[conn, key] = stored
                if member := self._members.pop((conn, key), None):
                    yield self._given_up(conn, key, fields, member)
                reads = [["offset_table", key._asdict(), stored]]
                yield self._line(_broker(fields), "OffsetCommit", reads=reads)
            case code if code == _PULL and answer.code in (_FOUND, _RETRY_IMMEDIATELY):
                found = answer.code == _FOUND
                yield from self._pulled(conn, fields, int(told["nextBeginOffset"]), found=found)

    def _begin(self, conn: int, fields: Mapping[str, str], next_offset: int) -> Iterator[Line]:
        key = _key(fields)
        if (conn, key) not in self._members:
            member = _Member(next_offset, progress=self._told.get((conn, key)))
            self._members[conn, key] = member
            yield self._changed(conn, key, fields, member)

    def _pulled(
        self, conn: int, fields: Mapping[str, str], end: int, *, found: bool
    ) -> Iterator[Line]:
        key = _key(fields)
        yield from self._stored((_broker(fields), key.topic, key.queue_id), end)
        member = self._members.get((conn, key))
        if member and member.next_offset == int(fields["queueOffset"]):
            member.tree += range(member.next_offset, end) if found else ()
            member.next_offset = end
            yield self._changed(conn, key, fields, member)

    def _commit(self, conn: int, fields: Mapping[str, str], *, arrives: bool) -> Iterator[Line]:
        key, offset = _key(fields), int(fields["commitOffset"])
        told = self._told.get((conn, key))
        if told is not None:  # it may report before it pulls
            yield from self._begin(conn, fields, told)
        member = self._members.get((conn, key))
        if member and (member.progress is None or member.progress < offset):
            member.tree = [each for each in member.tree if each >= offset]
            member.progress = offset
            yield self._changed(conn, key, fields, member)
        sends = [_send(key, fields, offset)]
        yield self._line(self._process(conn, key.group), "OffsetCommit", sends=sends)
        if arrives:
            changes = [["offset_table", key._asdict(), offset]]
            yield self._line(_broker(fields), "OffsetCommit", changes)

    def _stored(self, queue: tuple[str, str, int], end: int) -> Iterator[Line]:
        """All up to `end` is stored: said to who sent it, or pulled before that."""
        broker, topic, queue_id = queue
        first = self._ends.get(queue, end - 1)
        for offset in range(first, end):
            span = {"min": 0, "max": offset + 1}
            yield self._line(broker, "Log", [["consume_queue", [topic, queue_id], span]])
        self._ends[queue] = max(first, end)

    def _changed(self, conn: int, key: _Key, fields: Mapping[str, str], member: _Member) -> Line:
        mq = _mq(fields)
        queue = {
            "generation": member.generation,
            "next_offset": member.next_offset,
            "msg_tree_map": list(member.tree),
            "consuming_msg_orderly_tree_map": [],
        }
        store = ["offset_store", mq, *(() if member.progress is None else (member.progress,))]
        changes = [["process_queue_table", mq, queue], store]
        return self._line(self._process(conn, key.group), "OffsetCommit", changes)

    def _given_up(self, conn: int, key: _Key, fields: Mapping[str, str], member: _Member) -> Line:
        """When it gave the queue up is not seen: its last commit counts as one more, and lost."""
        changes = [[name, _mq(fields)] for name in ("process_queue_table", "offset_store")]
        sends = [] if member.progress is None else [_send(key, fields, member.progress)]
        return self._line(self._process(conn, key.group), "OffsetCommit", changes, sends=sends)

    def _process(self, conn: int, group: str) -> str:
        return f"{group}/{self._clients.get(conn, '?')}"

    def _line(
        self,
        process: str,
        module: str,
        changes: list[list[Any]] | None = None,
        reads: list[list[Any]] | None = None,
        sends: list[dict[str, Any]] | None = None,
    ) -> Line:
        self._seq += 1
        return Line("wire", self._seq - 1, process, module, reads or [], changes or [], sends or [])


def _broker(fields: Mapping[str, str]) -> str:
    return fields.get("bname", "broker")


def _key(fields: Mapping[str, str]) -> _Key:
    return _Key(fields["topic"], fields["consumerGroup"], int(fields["queueId"]))


def _send(key: _Key, fields: Mapping[str, str], offset: int) -> dict[str, Any]:
    return {"group": key.group, "mq": _mq(fields), "commit_offset": offset}


def _mq(fields: Mapping[str, str]) -> dict[str, str | int]:
    queue_id = int(fields["queueId"])
    return {"topic": fields["topic"], "broker_name": _broker(fields), "queue_id": queue_id}
