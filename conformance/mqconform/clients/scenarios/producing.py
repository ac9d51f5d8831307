"""Producers, and brokers that refuse what they send."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Final

from mqconform.clients.door import Answer, Call
from mqconform.clients.member import SENDS
from mqconform.clients.play import Play, Problem
from mqconform.clients.program import Mode
from mqconform.clients.scenario import scenario

TRIES_MAX: Final = 3
_SERVICE_NOT_AVAILABLE: Final = 14


@scenario("SEND-022", "SEND-027", "SEND-031", needs="mode")
def brokers_refuse_sends(play: Play) -> None:
    member = play.member(Mode.PRODUCE, waits=False)
    play.expect(lambda: len(member.keys) > 5, 40, "sends nothing")
    refusing: set[str] = {play.queues[0].broker_name}

    def refused(call: Call) -> Answer | None:
        is_send = call.request.code in SENDS and call.broker in refusing
        return Answer(_SERVICE_NOT_AVAILABLE, "not now") if is_send else None

    member.door.answers.append(refused)
    play.expect(lambda: _refused(member.calls()) > 5, 40, "sends nothing to one of the brokers")
    refusing.update(queue.broker_name for queue in play.queues)
    seen = _refused(member.calls())
    play.expect(lambda: _refused(member.calls()) > seen + 10, 60, "sends nothing any more")
    member.door.answers.clear()
    known = len(member.keys)
    play.expect(lambda: len(member.keys) > known + 3, 60, "sends nothing after refusals")
    member.kill()

    tries: dict[str, list[Call]] = defaultdict(list)
    for call in member.calls(*SENDS):
        tries[_key(call)].append(call)
    stored = {key for key, calls in tries.items() if any(_is_stored(call) for call in calls)}
    untrue = [key for key in member.keys if key in tries and key not in stored]
    play.judge(
        "SEND-022", *(Problem(f"{key} is told to be sent", tries[key][:1]) for key in untrue)
    )
    for calls in tries.values():
        for one, two in itertools.pairwise(calls):
            same = one.is_ours and one.broker == two.broker
            why = f"a message that {one.broker} refused is tried there again"
            play.judge("SEND-027", Problem(why, [one, two]) if same else None)
        many = Problem(f"a message is tried {len(calls)} times", calls[:4])
        play.judge("SEND-031", many if len(calls) > TRIES_MAX else None)


def _refused(calls: list[Call]) -> int:
    return sum(call.is_ours and call.request.code in SENDS for call in calls)


def _is_stored(call: Call) -> bool:
    return call.answer is not None and call.answer.code == 0 and not call.is_ours


def _key(send: Call) -> str:
    """The key of the message that a request sends."""
    text = send.request.fields.get("i", send.request.fields.get("properties", ""))
    pairs = (pair.partition("\x01") for pair in text.split("\x02"))
    return next((value for name, _, value in pairs if name == "KEYS"), "")
