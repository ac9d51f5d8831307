"""How every action of the core answers: what changes, and what to send.

An action is a function `action(state, event) -> Step`. It reads the state and never
writes it; the shell applies the changes, each in constant time, and sends what is to be
sent. The changes of a run, in order, are its trace.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class _Removed:
    """The value of a key that is removed."""

    def __repr__(self) -> str:
        return "REMOVED"


REMOVED: Final = _Removed()


class Change(msgspec.Struct, frozen=True):
    """`variable[key] := value`, or the removal of the key; key None: the variable itself."""

    variable: str
    key: Hashable | None
    value: object


class Step(msgspec.Struct, frozen=True):
    """What an action did.

    `changes` is applied by the shell; `sends` are messages to other processes; `result`
    is the answer to whoever asked.
    """

    changes: tuple[Change, ...] = ()
    sends: tuple[Any, ...] = ()
    result: Any = None


def whole(state: DataclassInstance) -> Step:
    """All variables of a state, as they are found when a process starts."""
    names = (field.name for field in fields(state))
    return Step(tuple(Change(name, None, getattr(state, name)) for name in names))


def apply(state: object, changes: Iterable[Change]) -> None:
    """Apply changes to a state whose variables are attributes, keyed ones being dicts."""
    for change in changes:
        if change.key is None:
            setattr(state, change.variable, change.value)
        elif change.value is REMOVED:
            getattr(state, change.variable).pop(change.key, None)
        else:
            getattr(state, change.variable)[change.key] = change.value
