"""Consumer offsets: commits, answered and one-way, and queries, of many groups and queues."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from mqconform import requests
from mqconform.explore.brokers import OfBroker
from mqconform.explore.edges import COUNTS, around
from mqconform.explore.player import Program, World
from mqconform.explore.possible import branch
from mqconform.frame import Frame
from mqconform.requests import Request
from mqspec.core import offset_commit as core
from mqspec.core.log import GetMessageStatus
from mqspec.core.pull import response_code
from mqspec.core.step import apply

CLIENTS: Final = 8
NOBODY: Final = "nobody-knows-this-group"


@dataclass(frozen=True)
class Setting:
    topics: int
    groups: int
    queues: int  # of each topic: a pull is served in these only, a commit anywhere
    joint: str = "-"  # between a topic and a group: of two of them that makes the same name


@dataclass(frozen=True)
class Offsets:
    """What the brokers keep, each for itself. Topics and groups are numbers."""

    brokers: tuple[core.OffsetState, ...]
    groups: int

    def having(self, broker: int, state: core.OffsetState) -> Offsets:
        changed = tuple(state if b == broker else kept for b, kept in enumerate(self.brokers))
        return Offsets(changed, self.groups)


@dataclass(frozen=True)
class _Of:
    client: int
    broker: int
    topic: int
    group: int  # behind the last: one that nobody knows
    queue_id: int

    @property
    def place(self) -> tuple[int, ...]:
        return self.broker, self.topic, self.queue_id, self.group

    def at(self, state: Offsets) -> tuple[int, core.OffsetState]:
        broker = self.broker % len(state.brokers)
        return broker, state.brokers[broker]

    def key(self) -> core.OffsetKey:
        return core.OffsetKey(str(self.topic), str(self.group), self.queue_id)

    def names(self, world: World) -> tuple[str, str]:
        known = self.group < len(world.groups)
        return world.groups[self.group] if known else NOBODY, world.topics[self.topic]


@dataclass(frozen=True)
class Commit(_Of):
    offset: int
    one_way: bool = False
    rules = "OFFSET-010", "OFFSET-011", "OFFSET-015", "OFFSET-056"

    def request(self, world: World) -> Request:
        return requests.commit_offset(*self.names(world), self.offset, self.queue_id)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: Offsets) -> Iterator[tuple[Any, Offsets]]:
        broker, table = self.at(state)
        event = core.CommitOffset(str(self.group), str(self.topic), self.queue_id, self.offset)
        step = core.update_consumer_offset(
            table, event, group_exists=self.group < state.groups, topic_exists=True
        )
        yield int(step.result.code), state.having(broker, branch(table, step.changes, apply))


@dataclass(frozen=True)
class CommitByPull(_Of):
    """A commit that rides on a pull, as most of a consumer's do. What the pull brings is judged
    where messages are."""

    offset: int
    rules = "OFFSET-020", "OFFSET-056"

    def request(self, world: World) -> Request:
        group, topic = self.names(world)
        return requests.pull(topic, group, 0, self.queue_id, commit=self.offset)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: Offsets) -> Iterator[tuple[Any, Offsets]]:
        broker, table = self.at(state)
        step = core.commit_offset(table, self.key(), self.offset)
        code = response_code(GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0)
        yield int(code), state.having(broker, branch(table, step.changes, apply))


@dataclass(frozen=True)
class Query(_Of):
    rules = "OFFSET-010", "OFFSET-011", "OFFSET-012", "OFFSET-014", "OFFSET-056"

    def request(self, world: World) -> Request:
        request = requests.query_offset(*self.names(world), self.queue_id)
        return request.having(setZeroIfNotFound=False)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code, answer.number("offset") if answer.code == 0 else None

    def allowed(self, state: Offsets) -> Iterator[tuple[Any, Offsets]]:
        answer = core.query_consumer_offset(
            self.at(state)[1], self.key(), set_zero_if_not_found=False, queue_is_young=False
        )
        yield (int(answer.code), answer.offset), state


@dataclass(frozen=True)
class Least(OfBroker):
    """The least offset of each queue of a topic. No group is left out: of 5.3.3 it would be gone
    then (OFFSET-022)."""

    topic: int
    rules = "OFFSET-022", "OFFSET-023"

    @property
    def place(self) -> tuple[int, ...]:
        return self.broker, self.topic

    def request(self, world: World) -> Request:
        return requests.correction_offset(world.topics[self.topic], NOBODY)

    def seen(self, world: World, answer: Frame) -> Any:
        told = answer.json()["correctionOffsets"] if answer.code == 0 else {}
        return answer.code, tuple(sorted((int(queue_id), told[queue_id]) for queue_id in told))

    def allowed(self, state: Offsets) -> Iterator[tuple[Any, Offsets]]:
        table = state.brokers[self.broker]
        # No message is ever stored here: all queues begin at 0.
        least = core.query_min_offset_in_all_group(table, str(self.topic), (NOBODY,), lambda _: 0)
        yield (0, tuple(sorted(least.items()))), state


@dataclass(frozen=True)
class Clone(_Of):
    """A group gets the offsets of another."""

    source: int
    rules = ("OFFSET-058",)

    @property
    def place(self) -> tuple[int, ...]:
        return self.broker, self.topic

    def request(self, world: World) -> Request:
        target, topic = self.names(world)
        return requests.clone_offset(world.groups[self.source], target, topic, offline=True)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: Offsets) -> Iterator[tuple[Any, Offsets]]:
        broker, table = self.at(state)
        step = core.clone_offset(table, str(self.source), str(self.group), str(self.topic))
        yield 0, state.having(broker, branch(table, step.changes, apply))


class Area:
    name = "offsets"
    about = "commits, answered, one-way or on a pull; queries of many groups, queues and brokers"
    within_s = math.inf

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> Offsets:
        middle = world.scene.name("J")
        topic, group = world.scene.name("T"), world.scene.name("G")
        topics = [topic, f"{topic}{setting.joint}{middle}"]
        groups = [world.scene.name("G"), group, f"{middle}{setting.joint}{group}"]
        for name in topics[: setting.topics]:
            world.make_topic(setting.queues, name=name)
        for name in groups[-setting.groups :]:
            world.make_group(name=name)
        brokers = len(world.scene.broker_names)
        return Offsets(tuple(core.OffsetState() for _ in range(brokers)), setting.groups)

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        for op in round_:
            if isinstance(op, Commit | CommitByPull) and op.group < len(world.groups):
                places = world.notes.setdefault("places", {})
                places[op.broker, op.topic, op.group, op.queue_id] = None

    def last(self, world: World, setting: Setting) -> Sequence[Query]:
        return [Query(0, *place) for place in world.notes.get("places", ())]


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    # Few queues, around one edge: requests are to meet at one of them.
    edge = draw(st.sampled_from(COUNTS))
    counts = draw(st.integers(1, 2)), draw(st.integers(1, 3)), max(8, edge)
    setting = Setting(*counts, draw(st.sampled_from(("", "-", "_", "%", "|"))))
    queue_ids = st.sampled_from(sorted({0, *around(edge), edge % 8}))
    place = {
        "client": st.integers(0, CLIENTS - 1),
        "broker": st.integers(0, 1),
        "topic": st.integers(0, setting.topics - 1),
        "group": st.integers(0, setting.groups - 1) | st.just(setting.groups),
        "queue_id": queue_ids,
    }
    known = {**place, "group": st.integers(0, setting.groups - 1)}
    served = [number for number in (0, edge // 2, edge - 1) if number < setting.queues]
    pulled = {**known, "queue_id": st.sampled_from(sorted({*served, edge % 8}))}
    offsets = st.one_of(
        st.sampled_from((0, 1, -1, 2**31 - 1, 2**31, 2**40, 2**63 - 1)),
        st.integers(0, 9),
        st.integers(990, 2200),
    )
    has_clones = draw(st.booleans())
    one_way = st.just(False) if has_clones else st.booleans()
    ops = st.one_of(
        st.builds(Commit, **place, offset=offsets, one_way=one_way),
        st.builds(CommitByPull, **pulled, offset=offsets),
        st.builds(Query, **place),
    )
    rounds: Any = st.lists(ops, min_size=1, max_size=6).map(tuple)
    if has_clones:
        # 5.3.3 reads and then writes, and what is stored meanwhile is lost: nothing comes between.
        clones = st.builds(Clone, **known, source=st.integers(0, setting.groups - 1))
        of_topic = {name: place[name] for name in ("client", "broker", "topic")}
        whole = clones | st.builds(Least, **of_topic)
        rounds = rounds | rounds | rounds | whole.map(_alone)
    drawn = draw(st.lists(rounds, min_size=12, max_size=40))
    return Program(setting, tuple(drawn))


def _alone(op: Any) -> tuple[Any, ...]:
    return (op,)


AREA: Final = Area()
