"""A process that consumes for itself alone, and keeps the file of its offsets."""

from __future__ import annotations

from collections.abc import Sequence

from mqconform.clients.member import Member
from mqconform.clients.play import Play, Problem, Sent
from mqconform.clients.program import Mode
from mqconform.clients.scenario import scenario
from mqconform.clients.scenarios.progress import PERSISTED_S

CAUGHT_UP_S = 60.0  # for a process that comes back to consume what it missed


@scenario("BCAST-001", needs="mode id")
def a_broadcasting_process_comes_back(play: Play) -> None:
    client_id = f"{play.topic}-stays"
    first = play.member(Mode.BROADCAST, client_id)
    known = _sent_to_each(play)
    play.expect(lambda: _missing(first, known) == [], CAUGHT_UP_S, "consumes nothing")
    first.stop()  # which writes the file

    missed = _sent_to_each(play)
    second = play.member(Mode.BROADCAST, client_id)
    play.wait(lambda: _missing(second, missed) == [], CAUGHT_UP_S)
    play.judge("BCAST-001", _passed_over(second, missed, "it was stopped"))
    play.watch(PERSISTED_S)
    second.kill()

    more = _sent_to_each(play)
    third = play.member(Mode.BROADCAST, client_id)
    play.wait(lambda: _missing(third, more) == [], CAUGHT_UP_S)
    play.judge("BCAST-001", _passed_over(third, more, "it was killed"))


def _sent_to_each(play: Play) -> list[Sent]:
    """Two messages in each queue."""
    return [play.send(queue) for queue in play.queues for _ in range(2)]


def _missing(member: Member, sent: Sequence[Sent]) -> list[Sent]:
    keys = set(member.keys)
    return [one for one in sent if one.key not in keys]


def _passed_over(member: Member, sent: Sequence[Sent], since: str) -> Problem | None:
    missing = _missing(member, sent)
    why = f"passes over {len(missing)} messages that were stored after {since}"
    return Problem(why, member.pulls(missing[0].queue)[:2]) if missing else None
