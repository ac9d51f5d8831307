"""A lite-pull consumer, whose user is done with what it polled before it polls again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from mqconform.clients.door import Call
from mqconform.clients.member import Member
from mqconform.clients.play import SLOW_S, NotComeError, Play, Problem, Sent
from mqconform.clients.program import Mode
from mqconform.clients.scenario import scenario

AT_WORK_S: Final = 11.0  # less than a slow message takes, more than two rounds of commits
LAG_S: Final = 0.5  # from a line that is printed until it is read, on a busy machine
POLLED_S: Final = 90.0  # for what a member that was killed leaves to the next one


@scenario("LITE-001", "LITE-002", "LITE-004", "LITE-005", needs="mode", slow=True)
def who_polls_is_killed_at_work(play: Play) -> None:
    first = play.member(Mode.POLL)
    sent = [play.send(queue) for _ in range(3) for queue in play.queues]
    _polls(play, first, sent, 60)
    play.expect(lambda: _reported(first) >= set(play.queues), 30, "commits nothing")
    # What is pulled while its user is at work is not polled when the next commit is made.
    one_queue, other_queue, *_ = play.queues
    before = play.send(one_queue, "slow")
    _polls(play, first, [before], 30)
    work, behind = play.send(other_queue, "slow"), play.send(other_queue)
    _polls(play, first, [work], 3 * SLOW_S)
    ahead = [behind, *(play.send(queue) for queue in play.queues for _ in range(2))]
    play.watch(AT_WORK_S)
    first.kill()

    second = play.member(Mode.POLL)
    every = [*sent, before, work, *ahead]
    again = {one.key for one in (work, *ahead)}
    play.wait(lambda: again <= _polled(second), POLLED_S)
    play.watch(1)  # whether something comes twice
    play.judge("LITE-001", *_committed_early(first, every))
    lost = Problem("the message at which it was killed is not polled again", _at(first, work))
    play.judge("LITE-002", None if work.key in second.keys else lost)
    for member in (first, second):
        play.judge("LITE-004", *_out_of_order(member, every))
    missing = [one for one in every if one.key not in _polled(first) | _polled(second)]
    never = Problem(f"{len(missing)} messages are polled by nobody", _at(second, *missing[:1]))
    play.judge("LITE-005", never if missing else None)


def _polls(play: Play, member: Member, sent: Sequence[Sent], within_s: float) -> None:
    """Wait until messages are polled. Raises NotComeError where they are not, which is judged."""
    if not play.wait(lambda: _polled(member) >= {one.key for one in sent}, within_s):
        why = f"a message is not polled within {within_s:.0f} s"
        play.judge("LITE-005", Problem(why, _at(member, *sent[:1])))
        raise NotComeError(f"the program did not go on: {why}")


def _polled(member: Member) -> set[str]:
    return set(member.keys)


def _reported(member: Member) -> set[object]:
    """The queues of which it committed that something was polled."""
    return {commit.queue for commit in member.commits() if commit.offset > 0}


def _at(member: Member, *sent: Sent) -> list[Call]:
    """The first requests to pull the queues of messages."""
    return [call for one in sent for call in member.pulls(one.queue)[:2]]


def _committed_early(member: Member, sent: Sequence[Sent]) -> Iterator[Problem]:
    """Commits behind a message that was not polled by then."""
    for commit in member.commits():
        for one in sent:
            is_below = one.queue == commit.queue and one.offset < commit.offset
            if is_below and member.printed_at(one.key) > commit.call.at + LAG_S:
                why = f"{commit.offset} is committed before the message at {one.offset} is polled"
                yield Problem(why, [commit.call])


def _out_of_order(member: Member, sent: Sequence[Sent]) -> Iterator[Problem]:
    """Messages that come twice or too late."""
    by_key = {one.key: one for one in sent}
    came = [by_key[key] for key in member.keys if key in by_key]
    for queue in {one.queue for one in came}:
        offsets = [one.offset for one in came if one.queue == queue]
        for before, after in itertools.pairwise(offsets):
            if after <= before:
                where = f"{queue.broker_name}/{queue.queue_id}"
                yield Problem(f"{where}: the message at {after} is polled after that at {before}")
