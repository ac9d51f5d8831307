"""Messages that stay, are slow, fail: what is committed, and what is sent back."""

from __future__ import annotations

from typing import Final

from mqconform import requests
from mqconform.clients.door import Answer, Call
from mqconform.clients.member import SENDS, Commit, Member
from mqconform.clients.play import SLOW_S, Play, Problem, Sent
from mqconform.clients.program import Mode
from mqconform.clients.scenario import scenario
from mqspec.core.types import MessageQueue

GIVES_UP_S: Final = 5.0  # from a list of members to the last commit of a queue that is left
PERSISTED_S: Final = 12.0  # in which progress is reported, each 5 s, the first time after 10 s
EXPIRED_S: Final = 150.0  # for a timeout of a minute, which is looked at once a minute, twice
REFUSED_S: Final = 20.0  # more than a client tries at once, less than until it looks again
RETRY: Final = "%RETRY%"
UNFINISHED_MAX: Final = 1_000  # pullThresholdForQueue
_SYSTEM_ERROR: Final = 1


@scenario("OFFSET-002")
def a_message_stays_unfinished(play: Play) -> None:
    member, queue = play.member(), play.queues[0]
    play.settled([member])
    stays = play.send(queue, "stays")
    # Some clients hand all that came with one pull to one thread.
    play.expect(lambda: stays.key in member.keys, 30, "does not consume")
    behind = [play.send(queue) for _ in range(30)]

    play.expect(lambda: {one.key for one in behind} <= set(member.keys), 30, "does not go on")
    seen = len(member.commits(queue))
    play.expect(lambda: len(member.commits(queue)) > seen + 1, 30, "commits nothing")
    play.judge("OFFSET-002", *_beyond(member, stays))


@scenario("OFFSET-006")
def queues_are_taken_while_messages_are_slow(play: Play) -> None:
    first = play.member()
    play.settled([first])
    play.expect(lambda: _reported(first) >= set(play.queues), 30, "commits nothing")
    for queue in play.queues:
        # What stays keeps a client from taking the end of the queue for its progress.
        for body in ("slow", "takes", "takes", "takes", "stays"):
            play.send(queue, body)
    second = play.member()

    def told() -> list[Call]:
        """The lists of members that show the first that it is not alone any more."""
        lists = first.calls(requests.GET_CONSUMER_LIST_BY_GROUP)
        got = [call for call in lists if call.answer and call.answer.code == 0]
        return [c for c in got if c.answer and len(c.answer.json()["consumerIdList"]) > 1]

    play.expect(told, 30, "asks for no list of members after another came")
    play.watch(SLOW_S + PERSISTED_S)
    by_when = told()[0].answered_at + GIVES_UP_S
    theirs = {
        queue for queue, owners in play.averagely([first, second]).items() if first not in owners
    }
    late = [c for c in first.commits() if c.queue in theirs and c.call.at > by_when]
    play.judge("OFFSET-006", *(_after(commit, by_when) for commit in late))


@scenario("RETRY-018", "RETRY-012")
def a_message_cannot_be_sent_back(play: Play) -> None:
    member, queue = play.member(), play.queues[0]
    play.settled([member])

    def refused(call: Call) -> Answer | None:
        return Answer(_SYSTEM_ERROR, "not now") if _gives_back(call, play.group) else None

    member.door.answers.append(refused)
    fails = play.send(queue, "fails")
    play.send(queue)
    play.expect(lambda: any(c.is_ours for c in member.calls()), 30, "sends nothing back")
    play.watch(PERSISTED_S)
    again = [at_s for at_s, line in member.program.lines if line == fails.key][1:]
    by_when = again[0] if again else float("inf")
    early = [c for c in _beyond(member, fails) if c and c.calls[0].at < by_when]
    play.judge("RETRY-018", *early)

    member.door.answers.clear()
    came = play.wait(lambda: member.keys.count(fails.key) > 1, 60)
    never = Problem("the message that failed does not come again within 60 s")
    play.judge("RETRY-012", None if came else never)


@scenario("RETRY-015", needs="mode", slow=True)
def a_listener_is_at_work_for_too_long(play: Play) -> None:
    member, queue = play.member(Mode.EXPIRE), play.queues[0]
    play.settled([member])
    refused: list[float] = []

    def at_first(call: Call) -> Answer | None:
        """Refuse what gives the message back, also in another way, until some time is over."""
        if not _gives_back(call, play.group) or (refused and call.at > refused[0] + REFUSED_S):
            return None
        refused.append(call.at)
        return Answer(_SYSTEM_ERROR, "not now")

    member.door.answers.append(at_first)
    stays = play.send(queue, "stays")
    behind = [play.send(queue) for _ in range(5)]
    play.expect(lambda: {one.key for one in (stays, *behind)} <= set(member.keys), 30, "stops")
    play.expect(lambda: refused, EXPIRED_S, "sends nothing back")

    def given_back() -> list[Call]:
        gave = [call for call in member.calls() if _gives_back(call, play.group)]
        return [c for c in gave if not c.is_ours and c.answer and c.answer.code == 0]

    came = play.wait(given_back, EXPIRED_S)
    play.watch(PERSISTED_S)
    by_when = given_back()[0].answered_at if came else float("inf")
    early = [found for found in _beyond(member, stays) if found.calls[0].at < by_when]
    play.judge("RETRY-015", *early)


@scenario("PULL-018")
def nothing_is_finished(play: Play) -> None:
    member, queue = play.member(), play.queues[0]
    play.settled([member])
    first = play.send(queue, "stays")
    for _ in range(UNFINISHED_MAX + 200):
        play.send(queue, "stays")

    def ahead(call: Call) -> int:
        return call.request.number("queueOffset") - first.offset

    play.expect(lambda: any(ahead(call) > 0 for call in member.pulls(queue)), 30, "pulls nothing")
    play.watch(PERSISTED_S)
    much = [call for call in member.pulls(queue) if ahead(call) > UNFINISHED_MAX]
    play.judge(
        "PULL-018",
        *(Problem(f"pulls with {ahead(call)} unfinished", [call]) for call in much),
    )


@scenario("OFFSET-060")
def offsets_are_reset(play: Play) -> None:
    member, queue = play.member(), play.queues[0]
    play.settled([member])
    sent = [play.send(queue) for _ in range(10)]
    play.expect(lambda: {one.key for one in sent} <= set(member.keys), 30, "does not consume")
    behind = sent[-1].offset + 1
    play.expect(
        lambda: any(c.offset == behind for c in member.commits(queue)), 30, "commits nothing"
    )
    request = requests.reset_offset(
        play.group, play.topic, queueId=queue.queue_id, offset=sent[4].offset
    )
    answer = play.ask(queue.broker_name, request)
    assert answer.code == 0, answer

    again = {one.key for one in sent[4:]}
    came = play.wait(lambda: all(member.keys.count(key) > 1 for key in again), 60)
    more = [one.key for one in sent[:4] if member.keys.count(one.key) > 1]
    play.judge(
        "OFFSET-060",
        None if came else Problem("what it was reset to does not come again within 60 s"),
        Problem(f"goes on before the offset that it was told: {more}") if more else None,
    )


@scenario("SUBS-015")
def tags_of_one_hash(play: Play) -> None:
    member, queue = play.member(), play.queues[0]
    play.settled([member])
    other = play.send(queue, TAGS="BBBB")
    wanted = play.send(queue, TAGS="AaAa")
    play.expect(lambda: wanted.key in member.keys, 30, "does not take the tag AaAa")
    wrong = Problem(f"the listener gets the tag BBBB: {other.key}")
    play.judge("SUBS-015", wrong if other.key in member.keys else None)


def _reported(member: Member) -> set[MessageQueue]:
    """The queues whose progress it reported for itself, and not with a pull."""
    code = requests.UPDATE_CONSUMER_OFFSET
    return {c.queue for c in member.commits() if c.call.request.code == code}


def _beyond(member: Member, unfinished: Sent) -> list[Problem]:
    """Commits beyond a message that is unfinished."""
    return [
        Problem(f"{at(commit)} is committed, and {unfinished.offset} is unfinished", [commit.call])
        for commit in member.commits(unfinished.queue)
        if commit.offset > unfinished.offset
    ]


def _after(commit: Commit, by_when: float) -> Problem:
    late_s = commit.call.at - by_when + GIVES_UP_S
    return Problem(
        f"{at(commit)} is committed {late_s:.0f} s after the queue was left", [commit.call]
    )


def _gives_back(call: Call, group: str) -> bool:
    """Whether a request gives a message back: by its code, or as a new one of the retry topic."""
    if call.request.code == requests.CONSUMER_SEND_MSG_BACK:
        return True
    fields = call.request.fields
    return call.request.code in SENDS and RETRY + group in (fields.get("b"), fields.get("topic"))


def at(commit: Commit) -> str:
    """A commit as text."""
    return f"{commit.queue.broker_name}/{commit.queue.queue_id}: {commit.offset}"
