"""What a history needs of a message: its name, its tag, and whether it goes where it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mqspec.core.record import decode_properties

_ELSEWHERE = ("DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")


@dataclass(frozen=True, slots=True)
class Known:
    """Of a message: `key` is its unique key, else what its producer called it."""

    key: str | None
    tag: str | None
    is_elsewhere: bool  # it is kept in another topic until it is due
    is_half: bool  # it waits for the end of its transaction


def known(properties: str | bytes) -> Known:
    """What its properties say.

    Copies of a message (tried again, given back, committed, delayed) keep its unique key; keys
    that users give need not be unique.
    """
    have: Mapping[str, str] = decode_properties(properties)
    return Known(
        key=have.get("UNIQ_KEY") or have.get("KEYS"),
        tag=have.get("TAGS"),
        is_elsewhere=any(name in have for name in _ELSEWHERE),
        is_half=have.get("TRAN_MSG", "").lower() == "true",
    )


def wants(expression: str, tag: str | None) -> bool:
    """Whether a client keeps a message that a broker sent it: brokers compare hashes only."""
    return expression in ("", "*") or tag in [one.strip() for one in expression.split("||")]
