"""How worlds carry out the core's conversations: those that the reference's broker carries out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from mqcheck.replay import require
from mqspec.core.conversation import (
    Ask,
    Carry,
    Conversation,
    LogOnDisk,
    Note,
    OthersTurn,
    Persist,
    Told,
)
from mqspec.core.step import apply

T = TypeVar("T")
Answers: TypeAlias = Mapping[type[Ask], Callable[[Any], object]]


def converse(talk: Conversation[T], answers: Answers) -> T:
    """The result of a conversation whose reads and writes are answered so. Its steps are applied
    to the states that it was given, and no trace is kept."""
    table = {**_EVERYWHERE, **answers}
    answer = None
    try:
        while True:
            ask = talk.send(answer)
            answer = table[type(ask)](ask)
    except StopIteration as end:
        result: T = end.value
        return result


def written(talk: Callable[[], Conversation[None]], flush: Callable[[], None]) -> list[Any]:
    """The states that a conversation writes to files. `flush` has the log flushed.

    Not enabled where it writes one though the log was not flushed, or could not be.
    """
    states: list[Any] = []
    converse(talk(), {LogOnDisk: lambda _: False, Persist: lambda ask: states.append(ask.state)})
    require(not states)

    is_on_disk = False

    def log_on_disk(_: LogOnDisk) -> bool:
        nonlocal is_on_disk
        flush()
        is_on_disk = True
        return True

    def persist(ask: Persist) -> None:
        require(is_on_disk)
        states.append(ask.state)

    converse(talk(), {LogOnDisk: log_on_disk, Persist: persist})
    return states


def _carry(ask: Carry) -> Any:
    apply(ask.state, ask.step.changes)
    return ask.step.result


_EVERYWHERE: Final[Answers] = {
    Carry: _carry,
    Note: lambda _: None,
    Told: lambda _: None,
    OthersTurn: lambda _: None,
}
