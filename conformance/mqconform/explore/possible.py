"""The states in which a target may be, as far as its answers tell.

Requests that are sent side by side take effect in some order, one after the other, each between
its sending and its answer: the answers are right where some order of the core's own actions
gives them (linearization). A one-way request has no answer, and takes effect at any time after
it was sent. All orders that explain what was seen are kept, so that a later answer may still
tell them apart; where none is left, the target departs from the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Outcomes: TypeAlias = Iterable[tuple[Any, Any]]
"""What a request may be answered in a state, and the state behind it."""


class Asked(Protocol):
    """A request, as the model sees it.

    `place` is what it touches, from the whole to the part: requests of which neither's place
    begins with the other's have the same effects in any order.
    """

    @property
    def place(self) -> tuple[Any, ...]: ...

    def allowed(self, state: Any) -> Outcomes: ...


@dataclass(frozen=True, slots=True)
class State:
    """One possibility: the model's state, and the one-way requests still on their way."""

    model: Any
    on_the_way: tuple[Asked, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """A request and what was seen of its answer."""

    asked: Asked
    seen: Any


def explained(
    states: Sequence[State], sent: Sequence[Asked], answered: Sequence[Answered]
) -> list[State]:
    """All states behind a round in which `sent` was sent one-way and `answered` was answered."""
    found = [State(state.model, (*state.on_the_way, *sent)) for state in states]
    for together in _meeting(answered):
        found = _ordered(found, together)
    return found


def _ordered(states: Sequence[State], answered: tuple[Answered, ...]) -> list[State]:
    """All states behind requests that meet, in all orders that explain their answers."""
    one, *others = answered
    if len(states) == 1 and not others and not states[0].on_the_way:  # as most: nothing to order
        outcomes = one.asked.allowed(states[0].model)
        return [State(behind) for answer, behind in outcomes if answer == one.seen]
    found: dict[str, State] = {}
    looked_at: set[tuple[str, tuple[int, ...]]] = set()

    def look(model: Any, waiting: tuple[Asked, ...], left: tuple[Answered, ...]) -> None:
        # A state that was reached in another order need not be looked at again.
        name = repr((model, waiting))
        if (name, tuple(map(id, left))) in looked_at:
            return
        looked_at.add((name, tuple(map(id, left))))
        if not left:
            found.setdefault(name, State(model, waiting))
        for each in left:
            rest = tuple(other for other in left if other is not each)
            for answer, behind in each.asked.allowed(model):
                if answer == each.seen:
                    look(behind, waiting, rest)
        for late in waiting:
            if any(_meet(late, other.asked) for other in left):
                others = tuple(other for other in waiting if other is not late)
                for _, behind in late.allowed(model):
                    look(behind, others, left)

    for state in states:
        look(state.model, state.on_the_way, answered)
    return list(found.values())


def _meet(one: Asked, other: Asked) -> bool:
    """Whether their order may matter."""
    return all(mine == its for mine, its in zip(one.place, other.place, strict=False))


def _meeting(answered: Sequence[Answered]) -> list[tuple[Answered, ...]]:
    """The answers, in parts of which those of one part may matter to each other: all that begin
    with the same place that something asked of."""
    places = {each.asked.place for each in answered}
    parts: dict[tuple[Any, ...], list[Answered]] = {}
    for each in answered:
        place = each.asked.place
        whole = next(place[:n] for n in range(len(place) + 1) if place[:n] in places)
        parts.setdefault(whole, []).append(each)
    return list(map(tuple, parts.values()))


def settled(states: Iterable[State]) -> list[State]:
    """The states once nothing is on its way any more, in whatever order it arrived."""
    found: dict[str, State] = {}
    for state in states:
        for model in _arrived(state.model, state.on_the_way):
            found.setdefault(repr(model), State(model))
    return list(found.values())


def _arrived(model: Any, waiting: tuple[Asked, ...]) -> Iterator[Any]:
    if not waiting:
        yield model
    for each in waiting:
        rest = tuple(other for other in waiting if other is not each)
        for _, behind in each.allowed(model):
            yield from _arrived(behind, rest)


def answers(states: Iterable[State], asked: Asked, most: int = 4) -> list[Any]:
    """Some of what a request may be answered, for whoever reads of a departure."""
    found: list[Any] = []
    for state in states:
        for answer, _ in asked.allowed(state.model):
            if answer not in found:
                found.append(answer)
            if len(found) == most:
                return found
    return found


def branch(state: Any, changes: Iterable[Any], apply: Callable[[Any, Iterable[Any]], None]) -> Any:
    """A copy of a state of the core, whose tables are dicts, with some changes applied."""
    fields = {
        name: dict(value) if isinstance(value := getattr(state, name), dict) else value
        for name in state.__dataclass_fields__
    }
    copy = type(state)(**fields)
    apply(copy, changes)
    return copy
