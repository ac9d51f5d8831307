"""What a scenario plays with: a topic and a group of its own, members, and judgements."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, Self

from mqconform import requests
from mqconform.clients.door import Call, Doors
from mqconform.clients.member import Member, groups_of, queue_of
from mqconform.clients.program import Command, Mode, Program
from mqconform.cluster import Cluster
from mqconform.connection import Connection, eventually
from mqconform.frame import Frame
from mqconform.requests import Request
from mqconform.scene import NotClaimedError, done
from mqconform.transcript import Transcript
from mqspec.core.allocation import STRATEGIES, allocate
from mqspec.core.types import MessageQueue, string_order

QUEUES: Final = 4  # of a topic, on each broker
COME_S: Final = 40.0  # for a program to start and to tell of itself: a JVM on a busy machine
SETTLE_S: Final = 45.0  # for a group to share its queues anew: two rounds of the 20 s timer
PROBE_S: Final = 3.0  # for an owner of a queue to pull on after a message came
SLOW_S: Final = 15.0  # how long a listener is at work on a message whose body is "slow"
SECOND_S: Final = 0.7  # for a second owner to do so, if there is one


class Problem(NamedTuple):
    """What was seen that a rule does not allow, and the calls that show it."""

    why: str
    calls: Sequence[Call] = ()


class NotComeError(Exception):
    """The program did not do what a scenario builds on: it ended by itself, say."""


class CutOffError(Exception):
    """The run is over, by an interrupt."""


class Sent(NamedTuple):
    """A message that was sent to a queue."""

    queue: MessageQueue
    offset: int
    key: str


class Play:
    """A scenario that runs; a context, which ends what it started."""

    def __init__(
        self, name: str, command: Command, cluster: Cluster, doors: Doors, home: Path
    ) -> None:
        self.command = command
        self.topic, self.group = f"{name}-T", f"{name}-G"
        self.members: list[Member] = []
        self.verdicts: dict[str, Problem | None] = {}  # by rule: what breaks it, if anything
        self.changed = threading.Condition()
        self.is_cut_off = False  # set by another thread
        self._cluster, self._doors, self._home = cluster, doors, home
        self._undo = contextlib.ExitStack()
        self._numbers = count(1)
        self._brokers: dict[str, Connection] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            for name, address in self._cluster.brokers.items():
                connection = Connection(address, Transcript(), broker_name=name)
                self._brokers[name] = undo.enter_context(connection)
            self.make_topic(QUEUES)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()
        self._undo.close()

    # The cluster

    @property
    def queues(self) -> list[MessageQueue]:
        """The topic's queues, sorted."""
        return sorted(
            MessageQueue(self.topic, broker, number)
            for broker in self._brokers
            for number in range(self._numbers_of_queues)
        )

    def make_topic(self, queues: int) -> None:
        """Give the topic so many queues on each broker, and wait until routes say so."""
        self._numbers_of_queues = queues
        for broker in self._brokers.values():
            done(broker.call(requests.create_topic(self.topic, queues, queues)))
        with Connection(self._cluster.nameserver, Transcript()) as nameserver:
            wanted = [queues] * len(self._brokers)

            def is_known() -> bool:
                answer = nameserver.call(requests.route(self.topic))
                found = answer.json().get("queueDatas", []) if answer.code == 0 else []
                return [each["readQueueNums"] for each in found] == wanted

            assert eventually(is_known), f"no route of {self.topic}"

    def tell_to_pop(self) -> None:
        """Have brokers tell the members of the group to pop, which ask them for queues."""
        for broker in self._brokers.values():
            done(broker.call(requests.set_request_mode(self.topic, self.group)))

    def ask(self, broker: str, request: Request) -> Frame:
        """The answer of a broker to a request of ours."""
        return self._brokers[broker].call(request)

    def send(self, queue: MessageQueue, body: str = "takes", **properties: str) -> Sent:
        """Send a message, whose body tells the listener what to do with it."""
        key = f"{self.topic}-{next(self._numbers)}"
        known = {"KEYS": key, "TAGS": "a", **properties}
        answer = done(
            self.ask(
                queue.broker_name,
                requests.send(self.topic, body.encode(), queue.queue_id, known),
            )
        )
        return Sent(queue, answer.number("queueOffset"), key)

    # Members

    def member(
        self, mode: Mode = Mode.CONSUME, client_id: str = "", *, waits: bool = True
    ) -> Member:
        """Start the program, and wait until it told all brokers of itself."""
        door = self._undo.enter_context(
            self._doors.door(self._cluster.nameserver, self._cluster.brokers, self.changed)
        )
        number = len(self.members) + 1
        names = {
            "nameserver": str(door.address),
            "topic": self.topic,
            "group": self.group,
            "mode": mode,
            "id": client_id or f"{self.topic}-{number}",
        }
        log = self._home / f"{self.topic}-{number}.log"
        member = Member(door, Program(self.command.words(names), log, self.changed), mode)
        self.members.append(member)
        if waits:
            self.come(member)
        return member

    def come(self, member: Member) -> None:
        """Wait until a consumer told all brokers of itself. Raises NotComeError."""

        def has_come() -> bool:
            told = {
                call.broker
                for call in member.calls(requests.HEART_BEAT)
                if call.answer and self.group in groups_of(call)
            }
            return told >= self._brokers.keys()

        if not self.wait(has_come, COME_S):
            how_far = _how_far(member, self.topic, self.group)
            raise NotComeError(f"{how_far} within {COME_S:.0f} s")

    # Waiting and judging

    def wait(self, condition: Callable[[], object], within_s: float) -> bool:
        """Whether a condition comes to hold; it is looked at whenever something is seen.

        Raises NotComeError where a program ends by itself meanwhile, NotClaimedError where it
        does not have the mode, CutOffError where the run is over.
        """
        deadline = time.monotonic() + within_s
        with self.changed:
            while not condition():
                if self.is_cut_off:
                    raise CutOffError
                for member in self.members:
                    if member.program.lacks_mode:
                        raise NotClaimedError(f"the program has no {{mode}} {member.mode}")
                    if not member.ended_at and (how := member.program.ended):
                        raise NotComeError(f"the program ended by itself: {how}")
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self.changed.wait(min(left, 0.2))
        return True

    def expect(self, condition: Callable[[], object], within_s: float, otherwise: str) -> None:
        """Wait for what a scenario builds on. Raises NotComeError where it does not come."""
        if not self.wait(condition, within_s):
            raise NotComeError(f"the program {otherwise} within {within_s:.0f} s")

    def watch(self, seconds: float) -> None:
        """Let time pass, since a rule speaks of what is not done in it."""
        self.wait(lambda: False, seconds)

    def judge(self, rule: str, *problems: Problem | None) -> None:
        """A rule was looked at: the first problem breaks it."""
        found = next((problem for problem in problems if problem), None)
        self.verdicts[rule] = self.verdicts.get(rule) or found

    # Shares

    def shares(self) -> dict[MessageQueue, list[Member]]:
        """Who owns which queue: a message is sent to each, and who pulls on behind it owns it.

        A member that has left a queue may have a pull there that is answered, and pulls no more.
        """
        probes = [self.send(queue) for queue in self.queues]

        def owners() -> dict[MessageQueue, list[Member]]:
            found: dict[MessageQueue, list[Member]] = defaultdict(list)
            for member in self.members:
                behind = {
                    (at, offset)
                    for call in member.calls(requests.PULL_MESSAGE)
                    if (at := queue_of(call)) and (offset := call.request.number("queueOffset"))
                }
                for probe in probes:
                    if any(at == probe.queue and o > probe.offset for at, o in behind):
                        found[probe.queue].append(member)
            return found

        self.wait(lambda: len(owners()) == len(probes), PROBE_S)
        self.watch(SECOND_S)
        return {queue: owners().get(queue, []) for queue in self.queues}

    def settled(self, members: Iterable[Member]) -> dict[MessageQueue, list[Member]]:
        """The shares once they are, twice, as averagely says; as they are where that takes too
        long."""
        wanted = self.averagely(members)
        deadline = time.monotonic() + SETTLE_S
        times = 0
        while True:
            found = self.shares()
            times = times + 1 if found == wanted else 0
            if times == 2 or time.monotonic() > deadline:
                return found

    def averagely(self, members: Iterable[Member]) -> dict[MessageQueue, list[Member]]:
        """What averagely gives to these members."""
        by_id = {member.client_id: member for member in members}
        ids = sorted(by_id, key=string_order)
        wanted: dict[MessageQueue, list[Member]] = {queue: [] for queue in self.queues}
        for client_id, member in by_id.items():
            for queue in allocate(STRATEGIES["AVG"], self.group, client_id, self.queues, ids):
                wanted[queue].append(member)
        return wanted


def said(shares: Mapping[MessageQueue, Sequence[Member]], members: Sequence[Member]) -> str:
    """Shares as text: the queues of each member."""

    def words() -> Iterator[str]:
        for number, member in enumerate(members, 1):
            own = [f"{q.broker_name}/{q.queue_id}" for q, who in shares.items() if member in who]
            yield f"member {number} ({member.client_id}) has {', '.join(own) or 'nothing'}"

    return "; ".join(words())


def _how_far(member: Member, topic: str, group: str) -> str:
    """How far a program came that did not come all the way."""
    if not member.door.calls:
        return "connects to nobody"
    asked = {call.request.fields.get("topic") for call in member.calls()}
    if topic not in asked:
        return f"asks for no route of {topic}"
    beats = member.calls(requests.HEART_BEAT)
    if not any(group in groups_of(beat) for beat in beats):
        return f"sends no heartbeat of the group {group}"
    return f"sends heartbeats to {', '.join(sorted({beat.broker for beat in beats}))} alone"
