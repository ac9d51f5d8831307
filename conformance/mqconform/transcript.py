"""The frames of a case, and how a failure shows them: in hex and decoded, shortened."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mqconform.frame import FrameError, parse_frame
from mqconform.requests import name_of
from mqconform.target import Address
from mqrules.report import FrameShown

SHOWN: Final = 8  # the frames of a failure that are shown unless all are asked for
_KEPT: Final = 400
_HEX_BYTES: Final = 160
_TEXT: Final = 300


class Exchange(NamedTuple):
    """Bytes that went one way: `sent` by us or received."""

    address: Address
    sent: bool
    raw: bytes


class Transcript:
    """The last frames of a case, in the order in which they went."""

    def __init__(self) -> None:
        self.exchanges: deque[Exchange] = deque(maxlen=_KEPT)

    def add(self, address: Address, sent: bool, raw: bytes) -> None:
        self.exchanges.append(Exchange(address, sent, raw))

    def render(self, last: int = SHOWN) -> str:
        """The last frames as text."""
        return render(list(self.exchanges)[-last:])

    def last_call(self, answer: bytes | None = None) -> list[Exchange]:
        """The request that was sent last and its answer, if there is one; else what came last.

        `answer` is a frame: then the request that it answers, and it.
        """
        exchanges = list(self.exchanges)
        got = [e for e in exchanges if not e.sent and e.raw == answer]
        if got and (asked := [e for e in exchanges if e.sent and _answers(e, got[-1])]):
            return [asked[-1], got[-1]]
        for at in range(len(exchanges) - 1, -1, -1):
            if exchanges[at].sent:
                answers = (e for e in exchanges[at + 1 :] if _answers(exchanges[at], e))
                return [exchanges[at], *list(answers)[:1]]
        return exchanges[-1:]


def render(exchanges: Iterable[Exchange]) -> str:
    """Frames as text, decoded and in hex."""
    return "\n".join(line for exchange in exchanges for line in _lines(exchange))


def shown(exchange: Exchange) -> FrameShown:
    """A frame for a report."""
    raw = exchange.raw
    return FrameShown(
        str(exchange.address),
        exchange.sent,
        _what(raw),
        _decoded(raw),
        raw[:_HEX_BYTES].hex(),
        len(raw),
    )


def _what(raw: bytes) -> str:
    try:
        found = parse_frame(raw)
        return f"code {found.code}" if found.is_response else name_of(found.code)
    except (FrameError, TypeError):
        return "no frame"


def _answers(request: Exchange, other: Exchange) -> bool:
    if other.sent or other.address != request.address:
        return False
    try:
        asked, found = parse_frame(request.raw), parse_frame(other.raw)
    except FrameError:
        return False
    return found.is_response and found.opaque == asked.opaque


def _lines(exchange: Exchange) -> Iterator[str]:
    yield f"{'>' if exchange.sent else '<'} {exchange.address}  {_decoded(exchange.raw)}"
    yield f"    {exchange.raw[:_HEX_BYTES].hex()}{_more(len(exchange.raw), _HEX_BYTES)}"


def _decoded(raw: bytes) -> str:
    try:
        found = parse_frame(raw)
    except FrameError:
        return f"{len(raw)} bytes that are no frame"
    words = [f"code {found.code}", f"opaque {found.opaque}", f"flag {found.flag}"]
    if found.remark is not None:
        words.append(f"remark {_short(found.remark)!r}")
    if found.fields:
        words.append(_short(json.dumps(found.fields, ensure_ascii=False)))
    if found.body:
        words.append(f"body of {len(found.body)} bytes")
    return "  ".join(words)


def _short(text: str) -> str:
    return text if len(text) <= _TEXT else text[:_TEXT] + "..."


def _more(size: int, shown: int) -> str:
    return f"... ({size} bytes)" if size > shown else ""
