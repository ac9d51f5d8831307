"""Producers, and brokers that refuse what they send."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from functools import partial
from itertools import count
from typing import Final

from mqconform.clients.door import Answer, Call
from mqconform.clients.member import SENDS, Member
from mqconform.clients.play import Play, Problem
from mqconform.clients.program import Mode
from mqconform.clients.scenario import scenario
from mqspec.core.types import MessageQueue

TRIES_MAX: Final = 3
LATE_S: Final = 2.5  # for an answer: a broker so slow is left alone for 5 s by default
AVOIDED_S: Final = 4.0
SLOW_TOO_S: Final = 0.3  # by half a second it is avoided, and the client waits longer than is seen
_SERVICE_NOT_AVAILABLE: Final = 14


@scenario("SEND-022", "SEND-027", "SEND-031", needs="mode")
def brokers_refuse_sends(play: Play) -> None:
    member = play.member(Mode.PRODUCE, waits=False)
    play.expect(lambda: len(_told(member)) > 5, 40, "sends nothing")
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
    known = len(_told(member))
    play.expect(lambda: len(_told(member)) > known + 3, 60, "sends nothing after refusals")
    member.kill()

    tries = _tries(member)
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


@scenario("SEND-030", needs="mode")
def sends_are_one_way(play: Play) -> None:
    member = play.member(Mode.ONEWAY, waits=False)
    play.expect(lambda: len(_told(member)) > 50, 60, "sends nothing")
    member.kill()
    for key, calls in _tries(member).items():
        again = Problem(f"{key} is sent {len(calls)} times", calls[:2])
        waits = Problem(f"{key} is sent with a request that is to be answered", calls[:1])
        play.judge("SEND-030", again if len(calls) > 1 else None)
        play.judge("SEND-030", None if calls[0].request.is_one_way else waits)


@scenario("SEND-029", needs="mode")
def brokers_refuse_what_a_selector_chose(play: Play) -> None:
    member, chosen, numbers = play.member(Mode.SELECT, waits=False), play.queues[0], count()

    def refused(call: Call) -> Answer | None:
        is_third = call.request.code in SENDS and next(numbers) % 3 == 0
        return Answer(_SERVICE_NOT_AVAILABLE, "not now") if is_third else None

    member.door.answers.append(refused)
    play.expect(lambda: _refused(member.calls()) > 10, 60, "sends nothing")
    play.expect(lambda: len(_told(member)) > 10, 60, "sends nothing that is stored")
    member.kill()
    tries = _tries(member)
    for key, calls in tries.items():
        again = Problem(f"{key} is tried {len(calls)} times", calls[:2])
        play.judge("SEND-029", again if len(calls) > 1 else None)
        for call in calls:
            elsewhere = Problem(f"{key} goes to another queue than the selector's", [call])
            play.judge("SEND-029", None if _queue(call) == chosen else elsewhere)
    offsets = {
        _number(key): call.answer.number("queueOffset")
        for key, (call, *_) in tries.items()
        if call.answer and _is_stored(call)
    }
    in_order = [offsets[number] for number in sorted(offsets)]
    mixed = Problem("messages are not stored in the order in which they were sent")
    play.judge("SEND-029", None if in_order == sorted(in_order) else mixed)


@scenario("SEND-028", needs="mode")
def a_broker_is_slow_or_fails(play: Play) -> None:
    member = play.member(Mode.AVOID, waits=False)
    play.expect(lambda: len(_told(member)) > 5, 60, "sends nothing")
    bad, other = sorted({queue.broker_name for queue in play.queues})
    stored = {"msgId": "0" * 32, "queueId": "0", "queueOffset": "0"}
    for answer in (
        Answer(0, None, stored, after_s=LATE_S),
        Answer(_SERVICE_NOT_AVAILABLE, "not now"),
    ):
        ours = _answered_by(play, member, answer, {bad})
        play.watch(AVOIDED_S)
        chosen = _chosen_soon(member, ours[0])
        soon = [call for call in chosen if not _is_slow_too(member, other, call.at)]
        how = f"slow, {LATE_S:.1f} s," if answer.code == 0 else "refusing"
        why = f"{bad} is chosen within {AVOIDED_S:.0f} s after it was {how}; {other} is there"
        play.judge("SEND-028", Problem(why, [ours[0], *soon[:1]]) if soon else None)
        member.door.answers.clear()
        play.expect(partial(_stores, member, bad, time.monotonic()), 60, f"never tries {bad} again")

    refusing = _answered_by(play, member, Answer(_SERVICE_NOT_AVAILABLE, "not now"), {bad, other})
    both = play.wait(lambda: len(refusing) > 10, 30)
    none = Problem("tries no broker any more, as all of them failed", refusing[:2])
    play.judge("SEND-028", None if both else none)


def _answered_by(play: Play, member: Member, answer: Answer, brokers: set[str]) -> list[Call]:
    """From now on brokers answer sends so: the calls, of which the first is answered by then."""
    answered: list[Call] = []

    def told(call: Call) -> Answer | None:
        if call.request.code not in SENDS or call.broker not in brokers:
            return None
        answered.append(call)
        return answer

    member.door.answers.append(told)
    play.expect(lambda: answered and answered[0].answer, 60, f"sends nothing to {brokers}")
    return answered


def _chosen_soon(member: Member, failed: Call) -> list[Call]:
    """What is sent to a broker while it is to be left alone after a failure."""
    begin = failed.answered_at
    sends = [call for call in member.calls(*SENDS) if call.broker == failed.broker]
    return [call for call in sends if begin < call.at < begin + AVOIDED_S]


def _is_slow_too(member: Member, broker: str, at: float) -> bool:
    """Whether a broker was slow just before as well, as on a busy machine: where all are avoided
    any may be chosen."""
    sends = [call for call in member.calls(*SENDS) if call.broker == broker]
    just_before = (call for call in sends if at - AVOIDED_S < call.at < at)
    return any(
        (call.answered_at if call.answer else at) - call.at > SLOW_TOO_S for call in just_before
    )


def _stores(member: Member, broker: str, since: float) -> bool:
    """Whether a broker was sent something since then, and stored it."""
    sends = [call for call in member.calls(*SENDS) if call.broker == broker]
    return any(call.at > since and _is_stored(call) for call in sends)


def _told(member: Member) -> list[str]:
    """The keys that it printed of what it sent; a client may print more."""
    sent = _tries(member)
    return [line for line in member.keys if line in sent]


def _tries(member: Member) -> dict[str, list[Call]]:
    """Its sends, by the keys of the messages, in the order of their first tries."""
    tries: dict[str, list[Call]] = defaultdict(list)
    for call in member.calls(*SENDS):
        tries[_key(call)].append(call)
    return tries


def _refused(calls: list[Call]) -> int:
    return sum(call.is_ours and call.request.code in SENDS for call in calls)


def _is_stored(call: Call) -> bool:
    return call.answer is not None and call.answer.code == 0 and not call.is_ours


def _queue(send: Call) -> MessageQueue:
    """The queue that a request sends a message to."""
    fields = send.request.fields
    topic, number = fields.get("b", fields.get("topic")), fields.get("e", fields.get("queueId"))
    return MessageQueue(str(topic), send.broker, int(str(number)))


def _number(key: str) -> int:
    """The number at the end of a key: how many were sent before."""
    return int(key.rpartition("-")[2])


def _key(send: Call) -> str:
    """The key of the message that a request sends."""
    text = send.request.fields.get("i", send.request.fields.get("properties", ""))
    pairs = (pair.partition("\x01") for pair in text.split("\x02"))
    return next((value for name, _, value in pairs if name == "KEYS"), "")
