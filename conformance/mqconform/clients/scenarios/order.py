"""Queues that are consumed in order: their locks, and their messages."""

from __future__ import annotations

from typing import Final

from mqconform import requests
from mqconform.clients.door import Answer, Call
from mqconform.clients.member import locked_by, queue_of
from mqconform.clients.play import SLOW_S, Play, Problem
from mqconform.clients.program import Mode
from mqconform.clients.scenario import scenario
from mqspec.core.types import MessageQueue

BELIEVED_S: Final = 30.0  # a lock, since it was granted
_SYSTEM_ERROR: Final = 1


@scenario("LOCK-010", "LOCK-021", needs="mode")
def a_queue_that_is_left_is_unlocked(play: Play) -> None:
    first = play.member(Mode.ORDERLY)
    play.settled([first])
    second = play.member(Mode.ORDERLY)
    play.settled([first, second])

    shares = play.averagely([first, second])
    left = {queue for queue, owners in shares.items() if owners == [second]}
    unlocks = first.calls(requests.UNLOCK_BATCH_MQ)
    kept = left - {queue for call in unlocks for queue in locked_by(call, call.broker)}
    names = ", ".join(f"{queue.broker_name}/{queue.queue_id}" for queue in sorted(kept))
    play.judge("LOCK-010", Problem(f"left, and not unlocked: {names}") if kept else None)

    for member in (first, second):
        granted: set[MessageQueue] = set()
        for call in sorted(member.calls(), key=_when):
            queue = queue_of(call)
            if call.request.code == requests.LOCK_BATCH_MQ and call.answer:
                granted |= _granted(call)
            elif call.request.code == requests.UNLOCK_BATCH_MQ:
                granted -= set(locked_by(call, call.broker))
            elif call.request.code == requests.PULL_MESSAGE and queue in play.queues:
                why = f"pulls {call.broker}/{call.request.fields['queueId']} without its lock"
                play.judge("LOCK-021", None if queue in granted else Problem(why, [call]))


@scenario("LOCK-022", "LOCK-023", needs="mode")
def a_message_fails_in_order(play: Play) -> None:
    queue, bodies = play.queues[0], ("takes", "fails", "takes", "slow", "takes")
    sent = [play.send(queue, body) for body in bodies]  # so that they come together
    member = play.member(Mode.ORDERLY)
    names = {
        one.key: f"{number}, which {body}"
        for number, (one, body) in enumerate(zip(sent, bodies, strict=True), 1)
    }
    slow, last = sent[3], sent[4]
    play.expect(lambda: last.key in member.keys, 90, "does not come to the last message")

    times = [(at, line) for at, line in member.program.lines if line in names]
    got = [line for _, line in times]
    wanted = [sent[0].key, sent[1].key, *(one.key for one in sent[1:])]
    order = Problem(f"the listener gets {'; '.join(names[key] for key in got)}")
    when = {line: at for at, line in times}
    early = when[last.key] < when[slow.key] + SLOW_S - 1
    before = Problem("the listener gets a message before the slow one is done")
    play.judge("LOCK-022", order if got != wanted else None, before if early else None)

    play.judge(
        "LOCK-023",
        *(
            Problem(f"{commit.offset} is committed, and {slow.offset} is at work", [commit.call])
            for commit in member.commits(queue)
            if commit.offset > slow.offset and commit.call.at < when[slow.key] + SLOW_S - 1
        ),
    )


@scenario("LOCK-021", needs="mode", slow=True)
def locks_are_not_renewed(play: Play) -> None:
    member, queue = play.member(Mode.ORDERLY), play.queues[0]
    play.settled([member])

    def refused(call: Call) -> Answer | None:
        is_lock = call.request.code == requests.LOCK_BATCH_MQ
        return Answer(_SYSTEM_ERROR, "not now") if is_lock else None

    member.door.answers.append(refused)
    play.watch(BELIEVED_S + 5)
    late = play.send(queue)
    play.watch(5)
    why = f"the listener gets a message {BELIEVED_S + 5:.0f} s after the lock was granted last"
    play.judge("LOCK-021", Problem(why) if late.key in member.keys else None)


def _when(call: Call) -> float:
    """When a request counts: that of a lock is granted by its answer."""
    return call.answered_at if call.request.code == requests.LOCK_BATCH_MQ else call.at


def _granted(call: Call) -> set[MessageQueue]:
    assert call.answer
    if call.answer.code != 0:
        return set()
    return {
        MessageQueue(each["topic"], each["brokerName"], int(each["queueId"]))
        for each in call.answer.json().get("lockOKMQSet", [])
    }
