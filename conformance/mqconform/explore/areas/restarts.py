"""Restarts and kills of the first broker: what was answered is there afterwards, in its order; what
was not may be; and a group is where the broker last wrote that it was.

It is explored alone, where the target can be restarted and nobody else uses it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import eventually
from mqconform.explore.brokers import Each, OfBroker
from mqconform.explore.edges import COUNTS, around
from mqconform.explore.player import DepartureError, Program, World
from mqconform.explore.possible import branch
from mqconform.frame import Frame
from mqconform.records import parse_records
from mqconform.requests import Request
from mqconform.scene import done
from mqconform.stage import Restart as Kind
from mqspec.core import offset_commit as core
from mqspec.core.step import apply

CLIENTS: Final = 4
GROUPS: Final = 2
SLOTS: Final = 3  # topics that may be made
IN_FLIGHT_MAX: Final = 3

Shown: TypeAlias = tuple[int | None, bool | None, str | None]
"""Of a topic how many queues it has, whether it is ordered, and the kind of its messages."""
NOT_THERE: Final[Shown] = (None, None, None)


@dataclass(frozen=True)
class Setting:
    queues: int


@dataclass(frozen=True)
class Broker:
    """What a broker holds: the marks of its messages by queue, its groups' offsets, and all that
    these were since it started: what is on disk is one of them."""

    kept: tuple[tuple[int, tuple[str, ...]], ...] = ()
    offsets: core.OffsetState = field(default_factory=core.OffsetState)
    written: tuple[core.OffsetState, ...] = field(default_factory=lambda: (core.OffsetState(),))
    topics: tuple[tuple[int, Shown], ...] = ()  # that were made

    def of(self, queue_id: int) -> tuple[str, ...]:
        return dict(self.kept).get(queue_id, ())

    def keeping(self, queue_id: int, marks: Sequence[str]) -> Broker:
        kept = {**dict(self.kept), queue_id: self.of(queue_id) + tuple(marks)}
        return replace(self, kept=tuple(sorted(kept.items())))


Brokers: TypeAlias = Each[Broker]


@dataclass(frozen=True)
class Send(OfBroker):
    queue_id: int
    mark: str
    count: int = 1
    body: int = 16  # bytes, at least
    rules = "SEND-002", "RECOV-003"

    def marks(self) -> list[str]:
        return [f"{self.mark}.{n}" for n in range(self.count)]

    def request(self, world: World) -> Request:
        bodies = [mark.encode().ljust(self.body, b"-") for mark in self.marks()]
        if self.count == 1:
            return requests.send(world.topics[0], bodies[0], self.queue_id)
        return requests.send_batch(world.topics[0], bodies, self.queue_id)

    def seen(self, world: World, answer: Frame) -> Any:
        if answer.code == 0:
            end = answer.number("queueOffset") + self.count
            place = self.broker, self.queue_id
            world.notes[place] = max(end, world.notes.get(place, 0))
        return answer.code, answer.number("queueOffset")

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        here = state.of[self.broker]
        behind = here.keeping(self.queue_id, self.marks())
        yield (0, len(here.of(self.queue_id))), state.having(self.broker, behind)


@dataclass(frozen=True)
class Read(OfBroker):
    """All messages of a queue."""

    queue_id: int
    rules = "RECOV-003", "RECOV-009", "LOG-001"

    def request(self, world: World) -> Request:
        return requests.max_offset(world.topics[0], self.queue_id)

    def seen(self, world: World, answer: Frame) -> Any:
        found: list[str] = []
        while len(found) < answer.number("offset"):
            pull = requests.pull(world.topics[0], world.groups[0], len(found), self.queue_id)
            records = parse_records(world.call(pull, self.broker, self.client).body)
            if not records:
                break
            found += (record.body.rstrip(b"-").decode() for record in records)
        return tuple(found)

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        yield state.of[self.broker].of(self.queue_id), state


@dataclass(frozen=True)
class _OfGroup(OfBroker):
    group: int
    queue_id: int

    def key(self) -> core.OffsetKey:
        return core.OffsetKey("topic", str(self.group), self.queue_id)


@dataclass(frozen=True)
class Commit(_OfGroup):
    offset: int
    rules = "OFFSET-010", "OFFSET-011"

    def request(self, world: World) -> Request:
        group, topic = world.groups[self.group], world.topics[0]
        return requests.commit_offset(group, topic, self.offset, self.queue_id)

    def seen(self, world: World, answer: Frame) -> Any:
        world.notes["places", self.broker, self.group, self.queue_id] = True
        return answer.code

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        here = state.of[self.broker]
        event = core.CommitOffset(str(self.group), "topic", self.queue_id, self.offset)
        step = core.update_consumer_offset(
            here.offsets, event, group_exists=True, topic_exists=True
        )
        offsets = branch(here.offsets, step.changes, apply)
        behind = replace(here, offsets=offsets, written=(*here.written, offsets))
        yield int(step.result.code), state.having(self.broker, behind)


@dataclass(frozen=True)
class Query(_OfGroup):
    rules = "OFFSET-010", "OFFSET-012"

    def request(self, world: World) -> Request:
        group, topic = world.groups[self.group], world.topics[0]
        return requests.query_offset(group, topic, self.queue_id).having(setZeroIfNotFound=False)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code, answer.number("offset") if answer.code == 0 else None

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        answer = core.query_consumer_offset(
            state.of[self.broker].offsets,
            self.key(),
            set_zero_if_not_found=False,
            queue_is_young=False,
        )
        yield (int(answer.code), answer.offset), state


@dataclass(frozen=True)
class MakeTopic(OfBroker):
    slot: int
    queues: int
    order: bool = False
    kind: str = ""  # of its messages, an attribute; empty: it is not altered
    rules = "ADMIN-001", "ADMIN-002"

    def request(self, world: World) -> Request:
        made = requests.create_topic(world.topics[1 + self.slot], self.queues, self.queues)
        attributes = self.kind and f"+message.type={self.kind}"
        return made.having(order=self.order, attributes=attributes)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        here = state.of[self.broker]
        before = dict(here.topics)
        kind = self.kind or before.get(self.slot, NOT_THERE)[2]
        topics = {**before, self.slot: (self.queues, self.order, kind)}
        yield 0, state.having(self.broker, replace(here, topics=tuple(sorted(topics.items()))))


@dataclass(frozen=True)
class ShowTopic(OfBroker):
    slot: int
    rules = "ADMIN-001", "ADMIN-002"

    def request(self, world: World) -> Request:
        return requests.topic_config(world.topics[1 + self.slot])

    def seen(self, world: World, answer: Frame) -> Any:
        if answer.code != 0:
            return answer.code, NOT_THERE
        told = answer.json()
        return 0, (told["readQueueNums"], told["order"], told["attributes"].get("message.type"))

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        shown = dict(state.of[self.broker].topics).get(self.slot)
        yield (0, shown) if shown else (17, NOT_THERE), state


@dataclass(frozen=True)
class Restart:
    """The first broker is restarted, while some messages are on their way to it."""

    kill: bool
    in_flight: int = 0
    queue_id: int = 0
    mark: str = ""
    client: int = 0
    broker: int = 0
    restarted: tuple[int, ...] = (0,)  # of some targets all brokers are one process
    rules = "RECOV-003", "RECOV-009"
    place = ()

    def marks(self) -> list[str]:
        return [f"{self.mark}.late{n}" for n in range(self.in_flight)]

    def act(self, world: World) -> Any:
        for client, mark in enumerate(self.marks()):
            connection = world.connection(client)
            connection.ask(requests.send(world.topics[0], mark.encode(), self.queue_id))
        return world.restart(Kind.KILL if self.kill else Kind.CLEAN)

    def parts(self, seen: Any) -> Iterator[tuple[Any, Any]]:
        yield replace(self, restarted=seen), "restarted"

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        marks, here = self.marks(), state.of[0]
        stored = [some for n in range(len(marks) + 1) for some in permutations(marks, n)]
        for some in stored:
            kept = here.keeping(self.queue_id, some) if some else here
            behind = [state.having(0, kept)]
            for broker in self.restarted:
                behind = [each for one in behind for each in self._started(one, broker)]
            for each in behind:
                yield "restarted", each

    def _started(self, state: Brokers, broker: int) -> Iterator[Brokers]:
        """A broker that started with what is on disk."""
        here = state.of[broker]
        disks = here.written if self.kill else (here.offsets,)
        for disk in {repr(each): each for each in disks}.values():
            yield state.having(broker, replace(here, offsets=disk, written=(disk,)))


class Area:
    name = "restarts"
    about = "restarts and kills: what is there afterwards"
    within_s = math.inf
    looks_s = 5.0

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> Brokers:
        world.make_topic(setting.queues)
        for _ in range(GROUPS):
            world.make_group()
        world.topics += [world.scene.name("T") for _ in range(SLOTS)]
        return Brokers(tuple(Broker() for _ in world.scene.broker_names))

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        """What is stored can be read soon."""
        for op in round_:
            if isinstance(op, Restart):
                world.notes.setdefault((0, op.queue_id), 0)
            if not isinstance(op, Send):
                continue
            end = world.notes[op.broker, op.queue_id]
            ask = requests.max_offset(world.topics[0], op.queue_id)

            def is_there(ask: Request = ask, broker: int = op.broker, end: int = end) -> bool:
                return done(world.call(ask, broker)).number("offset") >= end

            if not eventually(is_there):
                told = f"{end} messages were stored in queue {op.queue_id} of broker {op.broker}"
                raise DepartureError(f"{told}, and not all can be read\n  rules: LOG-001")

    def last(self, world: World, setting: Setting) -> Sequence[Any]:
        brokers = range(len(world.scene.broker_names))
        reads = [Read(0, *place) for place in world.notes if len(place) == 2]
        queries = [Query(0, *place[1:]) for place in world.notes if len(place) == 4]
        shown = [ShowTopic(0, broker, slot) for broker in brokers for slot in range(SLOTS)]
        return [*reads, *queries, *shown]


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    queues = draw(st.sampled_from(COUNTS))
    few = sorted({0, *(queue for queue in around(queues - 1) if 0 <= queue < queues)})
    of = {"client": st.integers(0, CLIENTS - 1), "broker": st.sampled_from((0, 0, 1))}
    queue_ids = st.sampled_from(few)
    at = {**of, "queue_id": queue_ids}
    marks = st.uuids().map(lambda each: each.hex[:8])
    group = {**at, "group": st.integers(0, GROUPS - 1)}
    ops = st.one_of(
        st.builds(Send, **at, mark=marks, count=st.sampled_from((1, 1, 2, 33, 65)),
                  body=st.sampled_from((16, 4096))),
        st.builds(Commit, **group, offset=st.integers(0, 5) | st.sampled_from((2**40, 1000))),
        st.builds(Query, **group),
        st.builds(MakeTopic, **of, slot=st.integers(0, SLOTS - 1), queues=st.sampled_from(COUNTS),
                  order=st.booleans(), kind=st.sampled_from(("", "NORMAL", "FIFO", "DELAY"))),
    )  # fmt: skip
    restarts = st.builds(
        Restart, kill=st.booleans(), in_flight=st.integers(0, IN_FLIGHT_MAX), queue_id=queue_ids,
        mark=marks,
    )  # fmt: skip
    rounds: list[tuple[Any, ...]] = []
    for _ in range(draw(st.integers(1, 3))):
        rounds += [(op,) for op in draw(st.lists(ops, min_size=3, max_size=12))]
        rounds.append((draw(restarts),))
        # Of the offsets that may be on disk these are: what follows is judged by that.
        rounds += [
            (Query(0, broker, each, queue),)
            for broker in range(2) for each in range(GROUPS) for queue in few
        ]  # fmt: skip
    return Program(Setting(queues), tuple(rounds))


AREA: Final = Area()
