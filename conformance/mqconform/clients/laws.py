"""Laws: rules that are judged by all that a member did, in whatever scenario."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from mqconform import requests
from mqconform.clients.door import Call
from mqconform.clients.member import Member, groups_of, queue_of
from mqconform.clients.play import Play, Problem
from mqconform.clients.program import Mode
from mqspec.core.types import MessageQueue

HEARD_S: Final = 5.0  # from a notice to the list of members: at most a second, on a busy machine
BEAT_S: Final = 40.0  # between two heartbeats, sent each 30 s, on a busy machine
RESET_S: Final = 20.0  # from a reset to the last word of who was at work: Java's waits for 10 s
_PULL_OFFSET_MOVED: Final = 21


Judged = Iterator[Problem | None]  # one for each thing that was looked at


@dataclass(frozen=True, slots=True)
class Law:
    """A rule, how a member's doings are judged by it, and a scenario in which these are some."""

    name: str
    rule: str
    shown_by: str
    judge: Callable[[Play, Member], Judged]


LAWS: Final[dict[str, Law]] = {}


def law(
    rule: str, shown_by: str
) -> Callable[[Callable[[Play, Member], Judged]], Callable[..., Judged]]:
    """List a law, under the function's name."""

    def listed(judge: Callable[[Play, Member], Judged]) -> Callable[..., Judged]:
        LAWS[judge.__name__] = Law(judge.__name__, rule, shown_by, judge)
        return judge

    return listed


@law("WIRE-019", shown_by="two_members_share_eight_queues")
def open_requests_have_opaques_of_their_own(play: Play, member: Member) -> Judged:
    for call in member.calls():
        is_open = call.request.opaque in call.open_opaques
        why = f"opaque {call.request.opaque} again, while a request of it waits for its answer"
        yield Problem(why, [call]) if is_open else None


@law("OFFSET-003", shown_by="queues_are_taken_while_messages_are_slow")
def commits_do_not_go_back(play: Play, member: Member) -> Judged:
    last: dict[MessageQueue, tuple[Call, int]] = {}
    calls = member.door.calls
    sought = {c.at for c in calls if c.request.code == requests.RESET_CONSUMER_CLIENT_OFFSET} | {
        c.answered_at for c in calls if c.answer and c.answer.code == _PULL_OFFSET_MOVED
    }  # a pull may have been held for long before its answer
    for call, queue, offset in member.commits():
        before = last.get(queue)
        last[queue] = call, offset
        if before is None or any(before[0].at - RESET_S < at < call.at for at in sought):
            continue
        if began_again(member, queue, before[0].at, call.at):
            continue
        why = f"{queue.broker_name}/{queue.queue_id}: {offset} is committed after {before[1]}"
        yield Problem(why, [before[0], call]) if offset < before[1] else None


def began_again(member: Member, queue: MessageQueue, since: float, until: float) -> bool:
    """Whether a member asked for the offset of a queue in between, as one does that takes it."""
    return any(
        since <= call.at <= until and queue_of(call) == queue
        for call in member.calls(requests.QUERY_CONSUMER_OFFSET)
    )


@law("REBAL-006", shown_by="members_come_and_go")
def notices_are_heard(play: Play, member: Member) -> Judged:
    if member.mode is Mode.POP:
        return  # it owns no queue
    asked = [call.at for call in member.calls(requests.GET_CONSUMER_LIST_BY_GROUP)]
    for call in member.told(requests.NOTIFY_CONSUMER_IDS_CHANGED):
        if call.request.fields.get("consumerGroup") != play.group:
            continue
        if member.ended_at is not None and member.ended_at < call.at + HEARD_S:
            continue
        is_heard = any(call.at <= at <= call.at + HEARD_S for at in asked)
        why = f"no list of members is asked for within {HEARD_S:.0f} s of a notice (code 40)"
        yield None if is_heard else Problem(why, [call])


@law("GROUP-063", shown_by="brokers_hold_pulls_for_long")
def heartbeats_come_in_time(play: Play, member: Member) -> Judged:
    beats: dict[str, list[Call]] = defaultdict(list)
    for beat in member.calls(requests.HEART_BEAT):
        if play.group in groups_of(beat):
            beats[beat.broker].append(beat)
    for broker, told in beats.items():
        ends = [*(beat.at for beat in told[1:]), member.ended_at or told[-1].at]
        for beat, end in zip(told, ends, strict=True):
            if end - beat.at > BEAT_S:
                why = f"{broker}: no heartbeat for {end - beat.at:.0f} s"
                yield Problem(why, [beat])
        if ends[-1] - told[0].at > BEAT_S:
            yield None
