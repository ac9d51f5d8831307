"""Members come, leave, are killed, collide; queues are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mqconform.clients.member import Member
from mqconform.clients.play import Play, Problem, said
from mqconform.clients.scenario import scenario
from mqconform.scene import NotClaimedError
from mqspec.core.types import MessageQueue

Shares = Mapping[MessageQueue, Sequence[Member]]


@scenario("ALLOC-001", "ALLOC-002", "ALLOC-016")
def two_members_share_eight_queues(play: Play) -> None:
    members = [play.member(), play.member()]
    _judge_shares(play, members, play.settled(members))


@scenario("ALLOC-001", "ALLOC-002", "ALLOC-003", "ALLOC-016", "REBAL-001")
def members_come_and_go(play: Play) -> None:
    members = [play.member(), play.member(), play.member()]
    found = play.settled(members)
    _judge_shares(play, members, found)
    sizes = [sum(member in owners for owners in found.values()) for member in members]
    differ = max(sizes) - min(sizes) > 1
    play.judge("ALLOC-003", Problem(said(found, members)) if differ else None)

    members.pop(1).stop()
    _judge_owners(play, members, "one of three left")
    members.pop(0).kill()
    _judge_owners(play, members, "one of two was killed")


@scenario("REBAL-001", needs="id")
def two_members_of_one_id(play: Play) -> None:
    first, second = play.member(client_id="same"), play.member(client_id="same")
    if first.client_id != second.client_id:
        raise NotClaimedError(f"{{id}} makes {first.client_id} and {second.client_id}")
    play.watch(3)  # each takes what it takes: nobody promises anything (ALLOC-014)
    second.kill()
    _judge_owners(play, [first], "the other of its id was killed")


@scenario("REBAL-007", slow=True)
def queues_are_added(play: Play) -> None:
    members = [play.member(), play.member()]
    play.settled(members)
    play.make_topic(6)
    play.watch(30)  # until routes are asked for again
    found = play.settled(members)
    wrong = any(len(owners) != 1 for owners in found.values())
    play.judge("REBAL-007", Problem(said(found, members)) if wrong else None)


def _judge_shares(play: Play, members: Sequence[Member], found: Shares) -> None:
    """Whether members have what averagely gives them."""
    wanted, now = play.averagely(members), said(found, members)
    twice = any(len(owners) > 1 for owners in found.values())
    nobodys = any(not owners for owners in found.values())
    play.judge("ALLOC-001", Problem(f"queues are pulled by two: {now}") if twice else None)
    play.judge("ALLOC-002", Problem(f"queues are pulled by nobody: {now}") if nobodys else None)
    other = Problem(f"{now}; averagely: {said(wanted, members)}") if found != wanted else None
    play.judge("ALLOC-016", other)


def _judge_owners(play: Play, members: Sequence[Member], since: str) -> None:
    """Whether each queue comes to have an owner, and one."""
    found = play.settled(members)
    wrong = any(len(owners) != 1 for owners in found.values())
    why = f"since {since}: {said(found, members)}"
    play.judge("REBAL-001", Problem(why) if wrong else None)
