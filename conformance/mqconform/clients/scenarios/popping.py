"""A consumer that pops: what it acknowledges and changes, and when it lets go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mqconform import requests
from mqconform.clients.door import Call
from mqconform.clients.member import Member, queue_of
from mqconform.clients.play import SLOW_S, Play, Problem, Sent
from mqconform.clients.program import Mode
from mqconform.clients.scenario import scenario
from mqconform.records import parse_records
from mqspec.core.types import MessageQueue

COME_S: Final = 60.0  # for the first pop: some ask for their queues each 20 s
LAG_S: Final = 0.5  # from a line that is printed until it is read, on a busy machine
TOLD_S: Final = 5.0  # from a listener's end until the broker is told, on a busy machine
FAILED_MS: Final = 10_000
UNFINISHED_MAX: Final = 96
TOO_MANY: Final = 2 * UNFINISHED_MAX


class Popped(NamedTuple):
    """A message that a pop gave, and how long it was the member's."""

    key: str | None
    call: Call
    until: float


@scenario("POP-050", "POP-051", needs="mode")
def a_popped_message_is_finished_or_not(play: Play) -> None:
    play.tell_to_pop()
    member, queue = play.member(Mode.POP), play.queues[0]
    taken = [play.send(each) for each in play.queues]
    fails, slow, stays = (play.send(queue, body) for body in ("fails", "slow", "stays"))
    every = [*taken, fails, slow, stays]
    play.expect(lambda: {one.key for one in every} <= set(member.keys), COME_S, "does not pop")
    play.wait(lambda: _changes(member, fails), TOLD_S)
    play.wait(lambda: all(_acks(member, one) for one in (*taken, slow)), SLOW_S + TOLD_S)

    ends = {one.key: member.printed_at(one.key) for one in taken}
    ends[slow.key] = member.printed_at(slow.key) + SLOW_S
    done = (*taken, slow)
    play.judge("POP-050", *(_acknowledged_wrongly(member, every, ends)))
    play.judge("POP-050", *(_not_acknowledged(member, one) for one in done))
    play.judge("POP-051", _changed_wrongly(member, fails))


@scenario("POP-052", "POP-053", needs="mode", slow=True)
def more_is_popped_than_can_be_done_in_time(play: Play) -> None:
    play.tell_to_pop()
    queue = play.queues[0]
    # Some 20 threads are done with 80 of them in a minute, when the invisible time is over.
    sent = [play.send(queue, "slow") for _ in range(TOO_MANY)]
    member = play.member(Mode.POP)
    play.expect(lambda: _popped(member), COME_S, "does not pop")
    first = _popped(member)[0]
    play.watch(first.until - first.call.answered_at + SLOW_S + TOLD_S)
    play.judge("POP-052", *_given_late(member), *_told_late(member, sent))
    play.judge("POP-053", *_asked_for_more(member, queue.broker_name, first.until))


def _popped(member: Member) -> list[Popped]:
    """What its pops gave it, in order."""
    calls = [c for c in member.calls(requests.POP_MESSAGE) if c.answer and not c.answer.code]
    return [
        Popped(record.key, call, call.answered_at + call.answer.number("invisibleTime") / 1000)
        for call in calls
        if call.answer
        for record in parse_records(call.answer.body)
    ]


def _told(member: Member, code: int) -> Iterator[tuple[Call, MessageQueue, int]]:
    """What it told a broker of messages: where these lie."""
    for call in member.calls(code):
        if queue := queue_of(call):
            yield call, queue, call.request.number("offset")


def _acks(member: Member, sent: Sent) -> list[Call]:
    return _about(member, requests.ACK_MESSAGE, sent)


def _changes(member: Member, sent: Sent) -> list[Call]:
    return _about(member, requests.CHANGE_MESSAGE_INVISIBLETIME, sent)


def _about(member: Member, code: int, sent: Sent) -> list[Call]:
    return [call for call, *place in _told(member, code) if place == [sent.queue, sent.offset]]


def _acknowledged_wrongly(
    member: Member, every: Sequence[Sent], ends: dict[str, float]
) -> Iterator[Problem]:
    """Acknowledgements before the listener's end; of what it did not succeed with, any."""
    for one in every:
        for call in _acks(member, one):
            if call.at + LAG_S < ends.get(one.key, float("inf")):
                how = "before its listener is done" if one.key in ends else "without success"
                why = f"the message at {one.offset} is acknowledged {how}"
                yield Problem(why, [call])


def _not_acknowledged(member: Member, one: Sent) -> Problem | None:
    why = f"the message at {one.offset}, with which its listener succeeded, is not acknowledged"
    return None if _acks(member, one) else Problem(why, _pops_of(member, one))


def _changed_wrongly(member: Member, fails: Sent) -> Problem | None:
    changes = _changes(member, fails)
    if not changes:
        why = f"within {TOLD_S:.0f} s of a failure no invisible time is changed"
        return Problem(why, _pops_of(member, fails))
    told_ms = changes[0].request.number("invisibleTime")
    why = f"a message that failed is changed to {told_ms} ms, not {FAILED_MS}"
    return None if told_ms == FAILED_MS else Problem(why, changes[:1])


def _pops_of(member: Member, one: Sent) -> list[Call]:
    return [popped.call for popped in _popped(member) if popped.key == one.key][:1]


def _given_late(member: Member) -> Iterator[Problem]:
    """Messages that were printed while no pop of them was in its time."""
    found = _popped(member)
    for at, key in list(member.program.lines):
        pops = [each for each in found if each.key == key and each.call.answered_at < at]
        if pops and all(at > each.until + LAG_S for each in pops):
            late_s = at - max(each.until for each in pops)
            why = f"a message goes to the listener {late_s:.0f} s after its invisible time"
            yield Problem(why, [pops[-1].call])


def _told_late(member: Member, sent: Sequence[Sent]) -> Iterator[Problem]:
    """What it told of messages of the topic itself, each of which is popped from there once."""
    until = {each.key: each.until for each in reversed(_popped(member))}
    keys = {(one.queue, one.offset): one.key for one in sent}
    for code in (requests.ACK_MESSAGE, requests.CHANGE_MESSAGE_INVISIBLETIME):
        for call, queue, offset in _told(member, code):
            key = keys.get((queue, offset))
            if key in until and call.at > until[key] + LAG_S:
                late_s = call.at - until[key]
                why = f"a broker is told of a message {late_s:.1f} s after its invisible time"
                yield Problem(why, [call])


def _asked_for_more(member: Member, broker: str, before: float) -> Iterator[Problem]:
    """Pops while too much was unfinished, as long as no invisible time was over."""
    told = [
        call.at
        for code in (requests.ACK_MESSAGE, requests.CHANGE_MESSAGE_INVISIBLETIME)
        for call in member.calls(code)
    ]
    found = _popped(member)
    for call in member.calls(requests.POP_MESSAGE):
        if call.broker == broker and call.at < before - LAG_S:
            came = sum(each.call.answered_at < call.at - LAG_S for each in found)
            unfinished = came - sum(at < call.at for at in told)
            if unfinished > UNFINISHED_MAX:
                yield Problem(f"{unfinished} messages are unfinished, and it pops", [call])
