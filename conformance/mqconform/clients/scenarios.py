"""The scenarios: what happens to a client's group, and the rules that its doings are judged by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mqconform.clients.play import Play, Problem, said

SCENARIOS: Final[dict[str, Scenario]] = {}


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is played, the rules that it judges, and the places that the command must have."""

    name: str
    rules: tuple[str, ...]
    needs: tuple[str, ...]
    is_slow: bool
    play: Callable[[Play], None]


def scenario(
    *rules: str, needs: str = "", slow: bool = False
) -> Callable[[Callable[[Play], None]], Callable[[Play], None]]:
    """List a scenario, under the function's name."""

    def listed(play: Callable[[Play], None]) -> Callable[[Play], None]:
        name = play.__name__
        SCENARIOS[name] = Scenario(name, rules, tuple(needs.split()), slow, play)
        return play

    return listed


@scenario("ALLOC-001", "ALLOC-002", "ALLOC-016")
def two_members_share_eight_queues(play: Play) -> None:
    members = [play.member(), play.member()]
    wanted, found = play.averagely(members), play.settled(members)
    now = said(found, members)

    twice = [queue for queue, owners in found.items() if len(owners) > 1]
    nobodys = [queue for queue, owners in found.items() if not owners]
    play.judge("ALLOC-001", Problem(f"queues are pulled by both: {now}") if twice else None)
    play.judge("ALLOC-002", Problem(f"queues are pulled by nobody: {now}") if nobodys else None)
    other = Problem(f"{now}; averagely: {said(wanted, members)}") if found != wanted else None
    play.judge("ALLOC-016", other)
