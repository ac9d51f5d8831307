"""What a history needs of a message: its name, its tag, and whether it goes where it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mqspec.client.message import KEYS, TAGS, TRAN_MSG, UNIQ_KEY
from mqspec.core.delay import LEVEL, TIMER_PROPERTIES, delay_level
from mqspec.core.record import decode_properties

_ELSEWHERE: Final = (LEVEL, *TIMER_PROPERTIES)


@dataclass(frozen=True, slots=True)
class Known:
    """Of a message: `key` is its unique key, else what its producer called it."""

    key: str | None
    tag: str | None
    level: int  # of its delay, from 1 on; 0: it has none
    is_elsewhere: bool  # it is kept in another topic until it is due
    is_half: bool  # it waits for the end of its transaction


def known(properties: str | bytes) -> Known:
    """What its properties say.

    Copies of a message (tried again, given back, committed, delayed) keep its unique key; keys
    that users give need not be unique.
    """
    have = decode_properties(properties)
    return Known(
        key=have.get(UNIQ_KEY) or have.get(KEYS),
        tag=have.get(TAGS),
        level=_level(have),
        is_elsewhere=any(name in have for name in _ELSEWHERE),
        is_half=have.get(TRAN_MSG, "").lower() == "true",
    )


def _level(have: Mapping[str, str]) -> int:
    try:
        return max(delay_level(have), 0)
    except ValueError:  # such a message is refused
        return 0
