"""Brokers that refuse what they are asked, or are slow; and long silence."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Final

from mqconform import requests
from mqconform.clients.door import Answer, Call
from mqconform.clients.member import queue_of
from mqconform.clients.play import Play, Problem
from mqconform.clients.scenario import scenario
from mqspec.core.types import MessageQueue

CODES: Final = (1, 2, 3, 4, 13, 14, 15, 16, 17, 24, 25, 26, 27, 28)  # that a pull may be refused by
LOOKED_S: Final = 4.5  # between two looks of a broker after pulls that it holds: 5 s at most
QUIET_S: Final = 75.0  # two heartbeats and more
_NOT_FOUND: Final = 19


@scenario("OFFSET-001", "SYSTEM-001")
def pulls_are_refused_with_each_code(play: Play) -> None:
    member = play.member()
    play.settled([member])
    left = defaultdict(list)
    for number, code in enumerate(CODES):
        left[play.queues[number % len(play.queues)]].append(code)

    def refused(call: Call) -> Answer | None:
        queue = queue_of(call)
        if call.request.code != requests.PULL_MESSAGE or queue is None or not left[queue]:
            return None
        return Answer(left[queue].pop(), "not now")

    member.door.answers.append(refused)
    sent = [play.send(queue) for queue in play.queues for _ in range(4)]
    keys = {one.key for one in sent}
    came = play.wait(lambda: keys <= set(member.keys) and not any(left.values()), 90)
    missing = sorted(keys - set(member.keys))
    never = Problem(f"{len(missing)} messages are not consumed within 90 s: {missing[:3]}")
    play.judge("SYSTEM-001", None if came else never)

    for queue in play.queues:
        for one, two in zip(member.pulls(queue), member.pulls(queue)[1:], strict=False):
            skips = one.is_ours and two.request.number("queueOffset") > one.request.number(
                "queueOffset"
            )
            told = one.answer.code if one.answer else None
            why = f"goes on behind a pull that was refused with {told}"
            play.judge("OFFSET-001", Problem(why, [one, two]) if skips else None)


@scenario("OFFSET-001", "SYSTEM-001")
def offsets_are_not_told(play: Play) -> None:
    first, queue = play.member(), play.queues[0]
    play.settled([first])
    sent = [play.send(queue) for _ in range(5)]
    behind = sent[-1].offset + 1
    play.expect(
        lambda: any(c.offset == behind for c in first.commits(queue)), 60, "commits nothing"
    )
    first.stop()

    second = play.member(waits=False)
    asked: dict[MessageQueue, int] = defaultdict(int)

    def refused(call: Call) -> Answer | None:
        at = queue_of(call)
        if call.request.code != requests.QUERY_CONSUMER_OFFSET or at is None or asked[at] > 1:
            return None
        asked[at] += 1
        return Answer(1, "not now")

    second.door.answers.append(refused)
    play.come(second)
    more = play.send(queue)
    came = play.wait(lambda: more.key in second.keys, 90)
    never = Problem("a message is not consumed within 90 s after offsets were not told")
    play.judge("SYSTEM-001", None if came else never)
    answers = [
        call.answered_at
        for call in second.calls(requests.QUERY_CONSUMER_OFFSET)
        if queue_of(call) == queue and not call.is_ours and call.answer
    ]
    told = min(answers, default=float("inf"))
    pulls = second.pulls(queue)
    early = [call for call in pulls if call.at < told]
    elsewhere = [call for call in pulls[:1] if call.request.number("queueOffset") != behind]
    play.judge(
        "OFFSET-001",
        Problem("pulls a queue before it is told where it is", early[:1]) if early else None,
        Problem("does not begin where the group was", elsewhere) if elsewhere else None,
    )


@scenario("SYSTEM-001", "REBAL-001")
def heartbeats_and_lists_are_refused(play: Play) -> None:
    member = play.member()
    play.settled([member])
    codes = {
        requests.HEART_BEAT,
        requests.GET_CONSUMER_LIST_BY_GROUP,
        requests.UPDATE_CONSUMER_OFFSET,
    }

    def refused(call: Call) -> Answer | None:
        return Answer(1, "not now") if call.broker and call.request.code in codes else None

    member.door.answers.append(refused)
    sent = [play.send(queue) for queue in play.queues]
    came = play.wait(lambda: {one.key for one in sent} <= set(member.keys), 60)
    never = Problem("not all messages are consumed within 60 s")
    play.judge("SYSTEM-001", None if came else never)
    play.watch(25)  # a rebalance by the timer, whose list is refused
    member.door.answers.clear()
    found = play.settled([member])
    lost = [queue for queue, owners in found.items() if owners != [member]]
    why = f"{len(lost)} queues have no owner after lists of members were refused"
    play.judge("REBAL-001", Problem(why) if lost else None)


@scenario("PULL-015", slow=True)
def brokers_hold_pulls_for_long(play: Play) -> None:
    member, queue = play.member(), play.queues[0]
    play.settled([member])

    def held(call: Call) -> Answer | None:
        if call.request.code != requests.PULL_MESSAGE or queue_of(call) != queue:
            return None
        fields = call.request.fields
        offset = fields["queueOffset"]
        at = {"nextBeginOffset": offset, "minOffset": "0", "maxOffset": offset}
        told = {**at, "suggestWhichBrokerId": "0"}
        return Answer(_NOT_FOUND, "none", told, after_s=_hold_s(call) + LOOKED_S)

    member.door.answers.append(held)
    play.send(queue)  # so that the pull that the broker holds is answered
    play.watch(QUIET_S)
    ours = [call for call in member.pulls(queue) if call.is_ours]
    play.expect(lambda: len(ours) > 1, 1, "pulls no queue again")
    for one, two in itertools.pairwise(ours):
        waited = f"waits for a pull for {two.at - one.at:.0f} s"
        why = f"{waited}, and lets it be held for {_hold_s(one):.0f} s"
        early = two.at < one.at + _hold_s(one) + LOOKED_S
        play.judge("PULL-015", Problem(why, [one, two]) if early else None)


def _hold_s(pull: Call) -> float:
    return pull.request.number("suspendTimeoutMillis") / 1000
