"""Contracts of averagely's arithmetic, for CrossHair: a second prover, with a method of its own.

CrossHair runs the functions below with its own symbolic ints. Only 'confirmed over all paths'
counts. Together the first four say that the slices tile the queues: each starts where the one
before it stops, the first at 0, and the last stops at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from crosshair.core_and_libs import MessageType, analyze_function, run_checkables
from crosshair.options import AnalysisKind, AnalysisOptionSet

from mqspec.core.allocation import average_slice

SECONDS_MAX = 10.0  # for one contract


def slices_are_inside(queues: int, members: int, index: int) -> bool:
    """A slice does not start after its stop, nor leave the list.

    pre: queues >= 1 and 0 <= index < members
    post: _
    """
    start, stop = average_slice(queues, members, index)
    return 0 <= start <= stop <= queues


def first_slice_starts_the_list(queues: int, members: int) -> bool:
    """The first slice starts at 0.

    pre: queues >= 1 and members >= 1
    post: _
    """
    return average_slice(queues, members, 0)[0] == 0


def slices_are_adjacent(queues: int, members: int, index: int) -> bool:
    """A slice starts where the one before it stops.

    pre: queues >= 1 and 1 <= index < members
    post: _
    """
    before = average_slice(queues, members, index - 1)
    return before[1] == average_slice(queues, members, index)[0]


def last_slice_stops_the_list(queues: int, members: int) -> bool:
    """The last slice stops where the list does.

    pre: queues >= 1 and members >= 1
    post: _
    """
    return average_slice(queues, members, members - 1)[1] == queues


def slices_are_balanced(queues: int, members: int, i: int, j: int) -> bool:
    """No slice is longer than another by two.

    pre: queues >= 1 and 0 <= i < members and 0 <= j < members
    post: _
    """
    one, other = average_slice(queues, members, i), average_slice(queues, members, j)
    return (one[1] - one[0]) - (other[1] - other[0]) <= 1


CONTRACTS: dict[Callable[..., bool], tuple[str, ...]] = {
    slices_are_inside: ("ALLOC-001", "ALLOC-002"),
    first_slice_starts_the_list: ("ALLOC-002",),
    slices_are_adjacent: ("ALLOC-001", "ALLOC-002"),
    last_slice_stops_the_list: ("ALLOC-002",),
    slices_are_balanced: ("ALLOC-003",),
}
"""The contracts, and the rules that each is evidence for."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What CrossHair says of a contract."""

    contract: Callable[..., bool]
    confirmed: bool
    message: str
    seconds: float


def name_of(contract: Callable[..., bool]) -> str:
    """The contract's name, written like a theorem's."""
    return contract.__name__.replace("_", "-")


def confirm(contract: Callable[..., bool]) -> Confirmation:
    """Have CrossHair check one contract."""
    started = perf_counter()
    options = AnalysisOptionSet(
        analysis_kind=[AnalysisKind.PEP316],
        per_condition_timeout=SECONDS_MAX,
        report_all=True,
    )
    messages = run_checkables(analyze_function(contract, options))
    return Confirmation(
        contract,
        # No message at all would mean that CrossHair found no contract to check.
        confirmed=bool(messages) and all(m.state is MessageType.CONFIRMED for m in messages),
        message="; ".join(message.message for message in messages) or "nothing to check",
        seconds=perf_counter() - started,
    )
