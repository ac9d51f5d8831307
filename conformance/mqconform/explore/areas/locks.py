"""Locks of queues: many members of a group ask for queues and give them up, side by side.

5.3.3 decides each queue of a request by itself: beside another request, one may come between.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hypothesis import strategies as st

from mqconform import requests
from mqconform.explore.edges import COUNTS
from mqconform.explore.player import Program, World
from mqconform.explore.possible import branch
from mqconform.frame import Frame
from mqconform.requests import Request
from mqspec.core import lock as core
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue

CLIENTS: Final = 8
GROUPS = TOPICS = 2
NOW_MS: Final = 0  # programs end before a lock does, or are not judged
LIVES_MS: Final = 1
RACING_MAX: Final = 3
# As clients of one host and process name themselves; the last one asks in the end.
MEMBERS: Final = ("10.0.0.1@7#8", "10.0.0.1@7", "10.0.0.1@7@unit", "10.0.0.1@7@Unit", "another")
SIZES: Final = (*COUNTS[:-1], COUNTS[-1] + 1)  # one beyond the largest, whose edge is tried so


@dataclass(frozen=True)
class Setting:
    queues: int


@dataclass(frozen=True)
class Locks:
    """Whose the queues are, a broker each."""

    brokers: tuple[core.LockState, ...]


@dataclass(frozen=True)
class _Batch:
    client: int
    broker: int
    group: int
    member: int
    topic: int
    queue_ids: tuple[int, ...]

    @property
    def place(self) -> tuple[int, ...]:
        return self.broker, self.group, self.topic, *self.queue_ids[:1]

    def parts(self, seen: Any) -> Iterator[tuple[Any, Any]]:
        for queue_id in dict.fromkeys(self.queue_ids):
            yield replace(self, queue_ids=(queue_id,)), self.of_one(seen, queue_id)

    def of_one(self, seen: Any, queue_id: int) -> Any:
        return seen

    def named(self, world: World) -> tuple[Any, ...]:
        name, topic = world.broker_name(self.broker), world.topics[self.topic]
        queues = ((topic, name, queue_id) for queue_id in self.queue_ids)
        return world.groups[self.group], MEMBERS[self.member], *queues

    def event(self) -> core.LockBatch:
        topic = str(self.topic)
        queues = tuple(MessageQueue(topic, "broker", queue_id) for queue_id in self.queue_ids)
        return core.LockBatch(str(self.group), str(self.member), queues)

    def behind(self, state: Locks, changes: Any) -> Locks:
        table = branch(state.brokers[self.broker], changes, apply)
        kept = enumerate(state.brokers)
        return Locks(tuple(table if b == self.broker else each for b, each in kept))


@dataclass(frozen=True)
class Lock(_Batch):
    rules = "LOCK-001", "LOCK-002"

    def request(self, world: World) -> Request:
        return requests.lock(*self.named(world))

    def seen(self, world: World, answer: Frame) -> Any:
        granted = answer.json()["lockOKMQSet"] if answer.code == 0 else ()
        return answer.code, tuple(sorted(each["queueId"] for each in granted))

    def of_one(self, seen: Any, queue_id: int) -> Any:
        code, granted = seen
        return code, tuple(each for each in granted if each == queue_id)

    def allowed(self, state: Locks) -> Iterator[tuple[Any, Locks]]:
        table = state.brokers[self.broker]
        step = core.try_lock_batch(table, self.event(), NOW_MS, LIVES_MS)
        granted = tuple(sorted(mq.queue_id for mq in step.result))
        yield (0, granted), self.behind(state, step.changes)


@dataclass(frozen=True)
class Unlock(_Batch):
    rules = ("LOCK-003",)

    def request(self, world: World) -> Request:
        return requests.unlock(*self.named(world))

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: Locks) -> Iterator[tuple[Any, Locks]]:
        step = core.unlock_batch(state.brokers[self.broker], self.event())
        yield 0, self.behind(state, step.changes)


class Area:
    name = "locks"
    about = "queues that members of a group lock and unlock, side by side"
    within_s = 5.0  # half of what the shortest lock of a target lives that the suite starts

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> Locks:
        for _ in range(TOPICS):
            world.make_topic(1)  # a lock is of any name: nothing is looked up
        for _ in range(GROUPS):
            world.make_group()
        return Locks(tuple(core.LockState() for _ in world.scene.broker_names))

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        return

    def last(self, world: World, setting: Setting) -> Sequence[Lock]:
        every = tuple(range(setting.queues))
        brokers = range(len(world.scene.broker_names))
        # Somebody new asks for all: what is refused is held.
        places = itertools.product(brokers, range(GROUPS))
        return [
            Lock(0, *place, len(MEMBERS) - 1, t, every) for place in places for t in range(TOPICS)
        ]


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    setting = Setting(draw(st.sampled_from(SIZES)))
    one = st.integers(0, setting.queues - 1)
    some = st.lists(one, min_size=1, max_size=4).map(tuple)
    every = st.just(tuple(range(setting.queues)))
    batch = {
        "client": st.integers(0, CLIENTS - 1),
        "broker": st.integers(0, 1),
        "group": st.integers(0, GROUPS - 1),
        "member": st.integers(0, len(MEMBERS) - 2),
        "topic": st.integers(0, TOPICS - 1),
        "queue_ids": some | some | every,
    }
    locks = st.builds(Lock, **batch)
    ops = st.one_of(locks, locks, st.builds(Unlock, **batch))
    # Of many queues that race each may have gone either way: too many states to keep.
    at_once = 4 if setting.queues <= RACING_MAX else 1
    rounds = draw(st.lists(st.lists(ops, min_size=1, max_size=at_once), min_size=10, max_size=30))
    return Program(setting, tuple(map(tuple, rounds)))


AREA: Final = Area()
