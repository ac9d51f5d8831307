"""What a scenario is, and the list of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mqconform.clients.play import Play


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is played, the rules that it judges, and the places that the command must have."""

    name: str
    rules: tuple[str, ...]
    needs: tuple[str, ...]
    is_slow: bool
    play: Callable[[Play], None]


SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(
    *rules: str, needs: str = "", slow: bool = False
) -> Callable[[Callable[[Play], None]], Callable[[Play], None]]:
    """List a scenario, under the function's name."""

    def listed(play: Callable[[Play], None]) -> Callable[[Play], None]:
        name = play.__name__
        SCENARIOS[name] = Scenario(name, rules, tuple(needs.split()), slow, play)
        return play

    return listed
