"""What CrossHair says of a contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter
from typing import Any, Final

import msgspec
from crosshair import NoTracing, enforce
from crosshair.core_and_libs import MessageType, analyze_function, run_checkables
from crosshair.options import AnalysisKind, AnalysisOptionSet

from mqprove.contracts.contract import Contract

CONFIRMED_S: Final = 60.0  # for all paths: most take 0.1 s, a busy machine 20 times that
SEARCHED_PATHS: Final = 150  # of one that has no end of them; wrong code falls in the first twelve
PATH_S: Final = CONFIRMED_S / 4  # for one path


class Outcome(StrEnum):
    """How a contract came out: the first two are never merged."""

    CONFIRMED = "confirmed over all paths"
    NOTHING_FOUND = "nothing found"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What CrossHair says of a contract."""

    contract: Contract
    outcome: Outcome
    message: str
    seconds: float

    @property
    def as_expected(self) -> bool:
        """Confirmed; or searched in vain, where that is all that was asked."""
        wanted = {Outcome.CONFIRMED}
        if self.contract.is_searched:
            wanted.add(Outcome.NOTHING_FOUND)
        return self.outcome in wanted


_by_parts = enforce.manual_constructor


def _constructor(typ: type) -> Callable[..., Any]:
    """How CrossHair makes an object: by `__new__` and `__init__`, to look for contracts of these.
    One of msgspec's is made by its class alone; its fields may be symbolic all the same."""
    if not isinstance(typ, type(msgspec.Struct)):
        by_parts: Callable[..., Any] = _by_parts(typ)
        return by_parts

    def as_a_whole(*fields: object, **by_name: object) -> object:
        with NoTracing():  # type: ignore[no-untyped-call]
            return typ(*fields, **by_name)

    return as_a_whole


enforce.manual_constructor = _constructor


def confirm(contract: Contract) -> Confirmation:
    """Have CrossHair check one contract."""
    started = perf_counter()
    options = AnalysisOptionSet(
        analysis_kind=[AnalysisKind.PEP316],
        per_condition_timeout=CONFIRMED_S,
        per_path_timeout=PATH_S,
        max_iterations=SEARCHED_PATHS if contract.is_searched else None,
        report_all=True,
    )
    messages = run_checkables(analyze_function(contract.said, options))
    return Confirmation(
        contract,
        _outcome({message.state for message in messages}),
        "; ".join(message.message for message in messages) or "nothing to check",
        perf_counter() - started,
    )


def _outcome(states: set[MessageType]) -> Outcome:
    # No message at all would mean that CrossHair found no contract to check.
    if states == {MessageType.CONFIRMED}:
        return Outcome.CONFIRMED
    if states == {MessageType.CANNOT_CONFIRM}:
        return Outcome.NOTHING_FOUND
    return Outcome.FAILED
