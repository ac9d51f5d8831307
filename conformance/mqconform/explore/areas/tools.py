"""What administrators do, beside the consumers that it touches: topics and groups that are made,
changed and deleted, resets to offsets and times, and who learns of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import eventually
from mqconform.explore.brokers import Each, OfBroker
from mqconform.explore.conversing import Answers, converse
from mqconform.explore.edges import COUNTS, around, at_edge
from mqconform.explore.player import DepartureError, Program, World
from mqconform.fastjson import loads
from mqconform.frame import Frame
from mqconform.records import parse_records
from mqconform.requests import Request
from mqconform.scene import done
from mqspec.core import conversation, metadata, offset_commit, pull, reset_offset
from mqspec.core.broker_states import BrokerStates
from mqspec.core.log import GetMessageStatus, GetResult, Span, check_offset
from mqspec.core.metadata import BrokerConfig, MetadataState, SubscriptionGroupConfig, TopicConfig
from mqspec.core.offset_commit import OffsetKey, OffsetState
from mqspec.core.response import Refusal
from mqspec.core.step import Step, apply

CLIENTS: Final = 6
SLOTS: Final = 3  # topics, of which the first is never changed; and groups
MESSAGES: Final = 5  # in the first queue of the first topic
FAR_MS: Final = 1 << 42
STORED: Final = -2  # the time at which the broker stored the first messages, all at once
NONE: Final = -1
READ_MAX: Final = 32
SHORT, LONG = 40, 1_200  # messages of the last queue: what OFFSET-017 is tried with
CODES: Final = frozenset({0, 19, 20, 21})  # of pulls that say where to go on


@dataclass(frozen=True)
class Setting:
    queues: int  # of the first topic
    filled: int  # messages in its last queue
    name: int = 0  # characters of the other topics' names, at least


@dataclass(frozen=True)
class Broker:
    """What a broker knows. Topics and groups have their numbers for names."""

    lengths: tuple[tuple[int, int], ...]  # of the queues of the first topic
    by_use: bool  # whether groups are made by use
    topics: tuple[tuple[str, TopicConfig], ...] = ()
    groups: tuple[tuple[str, SubscriptionGroupConfig], ...] = ()
    offsets: tuple[tuple[OffsetKey, int], ...] = ()
    resets: tuple[tuple[OffsetKey, int], ...] = ()
    forbidden: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()  # of a group's topics


Brokers: TypeAlias = Each[Broker]


class _Talk:
    """The states of a broker of the model, to carry out a conversation on."""

    def __init__(self, state: Broker) -> None:
        self._before, self._lengths = state, dict(state.lengths)
        self.config = BrokerConfig(auto_create_subscription_group=state.by_use)
        self.states = BrokerStates(
            config=self.config,
            metadata=MetadataState(
                topic_config_table=dict(state.topics),
                subscription_group_table=dict(state.groups),
                forbidden_table={group: dict(topics) for group, topics in state.forbidden},
            ),
            offsets=OffsetState(dict(state.offsets), dict(state.resets)),
        )
        self._answers: Answers = {
            conversation.ReadSpan: lambda ask: Span(0, self._end(ask)),
            conversation.OffsetByTime: lambda ask: 0 if ask.time_ms < FAR_MS else self._end(ask),
            conversation.Get: self._get,
        }

    def result(self, talk: conversation.Conversation[Any]) -> Any:
        return converse(talk, self._answers)

    def carry(self, state: Any, step: Step) -> Any:
        apply(state, step.changes)
        return step.result

    def behind(self) -> Broker:
        known, forbidden = self.states.metadata, self.states.metadata.forbidden_table
        return replace(
            self._before,
            topics=tuple(sorted(known.topic_config_table.items())),
            groups=tuple(sorted(known.subscription_group_table.items())),
            forbidden=tuple((of, tuple(sorted(forbidden[of].items()))) for of in sorted(forbidden)),
            offsets=tuple(sorted(self.states.offsets.offset_table.items())),
            resets=tuple(sorted(self.states.offsets.reset_offset_table.items())),
        )

    def _end(self, ask: Any) -> int:
        return self._lengths.get(ask.queue_id, 0) if ask.topic == "0" else 0

    def _get(self, ask: conversation.Get) -> GetResult:
        span = Span(0, self._end(ask))
        if nothing := check_offset(span, ask.offset):
            return GetResult(*nothing, *span)
        count = min(span.max - ask.offset, ask.max_count, READ_MAX)
        return GetResult(
            GetMessageStatus.FOUND, ask.offset + count, *span, tuple(b"x" for _ in range(count))
        )


@dataclass(frozen=True)
class _OfTopic(OfBroker):
    topic: int


@dataclass(frozen=True)
class MakeTopic(_OfTopic):
    """A topic is made, or changed."""

    read: int
    write: int
    perm: int
    rules = "ADMIN-001", "ADMIN-002"

    def request(self, world: World) -> Request:
        return requests.create_topic(world.topics[self.topic], self.read, self.write, self.perm)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk = _Talk(state.of[self.broker])
        topic = TopicConfig(str(self.topic), self.read, self.write, self.perm)
        step = metadata.update_topic(talk.states.metadata, talk.config, topic, 0)
        refusal = talk.carry(talk.states.metadata, step)
        yield int(refusal.code) if refusal else 0, state.having(self.broker, talk.behind())


@dataclass(frozen=True)
class DeleteTopic(_OfTopic):
    rules = "ADMIN-003", "ADMIN-004"

    def request(self, world: World) -> Request:
        return requests.delete_topic(world.topics[self.topic])

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk, name = _Talk(state.of[self.broker]), str(self.topic)
        known, offsets = talk.states.metadata, talk.states.offsets
        is_known = name in known.topic_config_table
        talk.carry(known, metadata.delete_topic(known, talk.config, name, 0))
        if is_known:
            talk.carry(offsets, offset_commit.clean_offset_by_topic(offsets, name))
        yield 0, state.having(self.broker, talk.behind())


@dataclass(frozen=True)
class ShowTopic(_OfTopic):
    rules = "ADMIN-001", "ADMIN-002", "ADMIN-003"

    def request(self, world: World) -> Request:
        return requests.topic_config(world.topics[self.topic])

    def seen(self, world: World, answer: Frame) -> Any:
        told = answer.json() if answer.code == 0 else {}
        names = "readQueueNums", "writeQueueNums", "perm"
        return answer.code, tuple(told.get(name) for name in names)

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        known = dict(state.of[self.broker].topics).get(str(self.topic))
        if known is None:
            yield (17, (None, None, None)), state
        else:
            yield (0, (known.read_queue_nums, known.write_queue_nums, known.perm)), state


@dataclass(frozen=True)
class _OfGroup(OfBroker):
    group: int


@dataclass(frozen=True)
class MakeGroup(_OfGroup):
    """A group is made, or changed."""

    retry_max_times: int
    consume_enable: bool = True
    rules = "ADMIN-006", "ADMIN-007"

    def request(self, world: World) -> Request:
        return requests.create_group(
            world.groups[self.group],
            retryMaxTimes=self.retry_max_times,
            consumeEnable=self.consume_enable,
        )

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk = _Talk(state.of[self.broker])
        group = SubscriptionGroupConfig(
            str(self.group),
            retry_max_times=self.retry_max_times,
            consume_enable=self.consume_enable,
        )
        known = talk.states.metadata
        talk.carry(known, metadata.update_subscription_group(known, group, 0))
        yield 0, state.having(self.broker, talk.behind())


@dataclass(frozen=True)
class DeleteGroup(_OfGroup):
    clean: bool = False
    rules = "ADMIN-008", "ADMIN-009"

    def request(self, world: World) -> Request:
        return requests.delete_group(world.groups[self.group], clean_offset=self.clean)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk, name = _Talk(state.of[self.broker]), str(self.group)
        known, offsets = talk.states.metadata, talk.states.offsets
        talk.carry(known, metadata.delete_subscription_group(known, name, 0))
        if self.clean:
            talk.carry(offsets, offset_commit.clean_offset(offsets, name))
        yield 0, state.having(self.broker, talk.behind())


@dataclass(frozen=True)
class ShowGroup(_OfGroup):
    """To ask for a group makes it, where use does."""

    rules = "ADMIN-006", "ADMIN-007"

    def request(self, world: World) -> Request:
        return requests.group_config(world.groups[self.group])

    def seen(self, world: World, answer: Frame) -> Any:
        told = answer.json() if answer.code == 0 else {}
        return answer.code, told.get("retryMaxTimes"), told.get("consumeEnable")

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk = _Talk(state.of[self.broker])
        known = talk.states.metadata
        step = metadata.find_subscription_group(known, talk.config, str(self.group), 0)
        group = talk.carry(known, step)
        told = (0, group.retry_max_times, group.consume_enable) if group else (26, None, None)
        yield told, state.having(self.broker, talk.behind())


@dataclass(frozen=True)
class Forbid(_OfGroup):
    """A group is kept from reading a topic, or it is asked whether it is. None is allowed again:
    5.3.3 then allows all of them."""

    topic: int
    forbids: bool
    rules = "ADMIN-038", "ADMIN-039"

    def request(self, world: World) -> Request:
        group, topic = world.groups[self.group], world.topics[self.topic]
        return requests.group_forbidden(group, topic, False if self.forbids else None)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code, answer.json()["readable"] if answer.code == 0 else None

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk, names = _Talk(state.of[self.broker]), (str(self.group), str(self.topic))
        known = talk.states.metadata
        if self.forbids:
            talk.carry(known, metadata.forbid_read(known, *names, 0))
        is_readable = not metadata.is_read_forbidden(known, *names)
        yield (0, is_readable), state.having(self.broker, talk.behind())


@dataclass(frozen=True)
class _OfQueue(OfBroker):
    topic: int
    group: int
    queue_id: int

    def names(self, world: World) -> tuple[str, str]:
        return world.groups[self.group], world.topics[self.topic]

    def key(self) -> OffsetKey:
        return OffsetKey(str(self.topic), str(self.group), self.queue_id)


@dataclass(frozen=True)
class Reset(_OfQueue):
    """A group is moved: on one queue to an offset; or on one or all to a time."""

    offset: int = NONE
    time_ms: int = 0
    rules = ("OFFSET-017",)

    def meant(self, world: World) -> Reset:
        if self.time_ms != STORED:
            return self
        return replace(self, time_ms=world.notes["stored", self.broker])

    def request(self, world: World) -> Request:
        where: dict[str, Any] = {
            "queueId": self.queue_id, "offset": self.offset, "timestamp": self.time_ms,
        }  # fmt: skip
        group, topic = self.names(world)
        return requests.reset_offset(group, topic, **where)

    def seen(self, world: World, answer: Frame) -> Any:
        if answer.code != 0:
            return answer.code, ()
        table = answer.json()["offsetTable"]
        return 0, tuple(sorted((loads(text)["queueId"], table[text]) for text in table))

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk = _Talk(state.of[self.broker])
        event = reset_offset.ResetOffset(
            str(self.topic), str(self.group), self.time_ms, self.queue_id, self.offset
        )
        told = talk.result(reset_offset.reset_offset_by_broker(talk.states, event))
        if isinstance(told, Refusal):
            yield (int(told.code), ()), state
            return
        yield (0, tuple(sorted(told.items()))), state.having(self.broker, talk.behind())


@dataclass(frozen=True)
class Commit(_OfQueue):
    offset: int
    rules = "OFFSET-010", "OFFSET-015", "OFFSET-018"

    def request(self, world: World) -> Request:
        return requests.commit_offset(*self.names(world), self.offset, self.queue_id)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk = _Talk(state.of[self.broker])
        known = talk.states.metadata
        event = offset_commit.CommitOffset(
            str(self.group), str(self.topic), self.queue_id, self.offset
        )
        step = offset_commit.update_consumer_offset(
            talk.states.offsets,
            event,
            group_exists=str(self.group) in known.subscription_group_table,
            topic_exists=str(self.topic) in known.topic_config_table,
        )
        answer = talk.carry(talk.states.offsets, step)
        yield int(answer.code), state.having(self.broker, talk.behind())


@dataclass(frozen=True)
class Query(_OfQueue):
    rules = "OFFSET-010", "OFFSET-012", "OFFSET-014"

    def request(self, world: World) -> Request:
        asked = requests.query_offset(*self.names(world), self.queue_id)
        return asked.having(setZeroIfNotFound=False)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code, answer.number("offset") if answer.code == 0 else None

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        answer = offset_commit.query_consumer_offset(
            _Talk(state.of[self.broker]).states.offsets,
            self.key(),
            set_zero_if_not_found=False,
            queue_is_young=False,
        )
        yield (int(answer.code), answer.offset), state


@dataclass(frozen=True)
class Pull(_OfQueue):
    """A pull, which may learn of a reset, and may carry a commit."""

    offset: int
    commit: int | None = None
    rules = "OFFSET-018", "OFFSET-019", "OFFSET-020", "PULL-005", "PULL-006"

    def request(self, world: World) -> Request:
        group, topic = self.names(world)
        return requests.pull(topic, group, self.offset, self.queue_id, commit=self.commit)

    def seen(self, world: World, answer: Frame) -> Any:
        if answer.code not in CODES:
            return (answer.code,)
        names = "nextBeginOffset", "minOffset", "maxOffset"
        count = len(parse_records(answer.body)) if answer.body else 0
        return answer.code, *(answer.number(name) for name in names), count

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk = _Talk(state.of[self.broker])
        asked = requests.pull("", "", 0, 0, commit=self.commit).fields
        event = pull.Pull(
            str(self.group), str(self.topic), self.queue_id, self.offset,
            int(asked["maxMsgNums"]), int(asked["sysFlag"]), int(asked["commitOffset"]), 0,
            "*", 0, "TAG", "",
        )  # fmt: skip
        answer = talk.result(pull.pull_message(talk.states, event, "", 0, is_first=True))
        behind = state.having(self.broker, talk.behind())
        if int(answer.code) not in CODES:
            yield (int(answer.code),), behind
            return
        told, count = answer.ext_fields, len(answer.body)
        names = "nextBeginOffset", "minOffset", "maxOffset"
        yield (int(answer.code), *(int(told[name]) for name in names), count), behind


class Area:
    name = "tools"
    about = "topics, groups and resets by administrators, beside consumers"
    within_s = math.inf

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> Brokers:
        world.make_topic(setting.queues)
        world.make_group()
        world.topics += [world.scene.name("T").ljust(setting.name, "t") for _ in range(1, SLOTS)]
        world.groups += [world.scene.name("G") for _ in range(1, SLOTS)]
        lengths = {0: MESSAGES} | ({setting.queues - 1: setting.filled} if setting.filled else {})
        for broker in range(len(world.scene.broker_names)):
            for queue_id, count in lengths.items():
                self._fill(world, broker, queue_id, count)
            first = world.call(requests.pull(world.topics[0], world.groups[0], count=1), broker)
            world.notes["stored", broker] = parse_records(first.body)[0].store_timestamp
        one = Broker(
            tuple(lengths.items()),
            world.scene.groups_by_use,
            (("0", TopicConfig("0", setting.queues, setting.queues)),),
            (("0", SubscriptionGroupConfig("0")),),
        )
        return Brokers(tuple(one for _ in world.scene.broker_names))

    def _fill(self, world: World, broker: int, queue_id: int, count: int) -> None:
        send = requests.send_batch(world.topics[0], [b"x"] * count, queue_id)
        done(world.call(send, broker))
        ask = requests.max_offset(world.topics[0], queue_id)
        if not eventually(lambda: world.call(ask, broker).number("offset") >= count):
            told = f"{count} messages were stored in queue {queue_id}"
            raise DepartureError(f"{told}, and not all can be read\n  rules: LOG-001")

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        places = world.notes.setdefault("places", {})
        for op in round_:
            if isinstance(op, Reset | Commit | Pull):
                places[op.broker, op.topic, op.group, max(0, op.queue_id)] = None
            if isinstance(op, Forbid):
                world.notes.setdefault("forbidden", {})[replace(op, client=0, forbids=False)] = None

    def last(self, world: World, setting: Setting) -> Sequence[Any]:
        brokers, slots = range(len(world.scene.broker_names)), range(1, SLOTS)
        queries = [Query(0, *place) for place in world.notes.get("places", ())]
        shown = [ShowTopic(0, b, slot) for b in brokers for slot in slots]
        return [*queries, *shown, *world.notes.get("forbidden", ())]


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    queues = draw(st.sampled_from(COUNTS))
    filled = draw(st.sampled_from((0, SHORT, LONG))) if queues > 1 else 0
    setting = Setting(queues, filled, draw(st.sampled_from((0, 120))))
    few = sorted({0, *(queue for queue in around(queues - 1) if 0 <= queue <= queues)})
    # Few of each, so that requests meet.
    brokers = st.sampled_from(draw(st.sampled_from([(0, 1), (0,), (1,)])))
    of = {"client": st.integers(0, CLIENTS - 1), "broker": brokers}
    slots = st.integers(0, SLOTS - 1)
    at = {
        **of,
        "topic": st.sampled_from(draw(st.sampled_from([(0, 1, 2), (0,), (0,), (1,)]))),
        "group": st.sampled_from(draw(st.sampled_from([(0, 1, 2), (0,), (0,), (1,)]))),
        "queue_id": st.sampled_from(draw(st.sampled_from([few, [queues - 1], few[-1:], few[:2]]))),
    }
    near = {*around(MESSAGES), *around(MESSAGES + 1), *around(filled), *around(filled + 1)}
    far = (*at_edge("OFFSET-017"), 2**40)
    offsets = st.sampled_from((0, 1, *sorted(near))) | st.sampled_from(far)
    times = st.sampled_from((0, -1, FAR_MS, STORED))
    every = {**at, "queue_id": st.just(NONE)}
    resets = st.one_of(
        st.builds(Reset, **at, offset=offsets),
        st.builds(Reset, **at, time_ms=times),
        st.builds(Reset, **every, time_ms=times),
    )
    changed = {**of, "topic": st.just(1) | st.integers(1, SLOTS - 1)}
    counts = st.sampled_from(COUNTS)
    tools = st.one_of(
        st.builds(MakeTopic, **changed, read=counts, write=counts, perm=st.sampled_from((6, 4, 2))),
        st.builds(DeleteTopic, **changed),
        st.builds(MakeGroup, **of, group=slots, retry_max_times=st.sampled_from((0, 1, 16, 1000)),
                  consume_enable=st.sampled_from((True, True, False))),
        st.builds(DeleteGroup, **of, group=slots, clean=st.booleans()),
        st.builds(ShowTopic, **of, topic=slots),
        st.builds(ShowGroup, **of, group=slots),
        st.builds(Forbid, **of, group=slots, topic=slots, forbids=st.booleans()),
    )  # fmt: skip
    consumers = st.one_of(
        st.builds(Commit, **at, offset=offsets),
        st.builds(Query, **at),
        st.builds(Pull, **at, offset=offsets, commit=st.none() | offsets),
        st.builds(Pull, **at, offset=offsets),
    )
    # What administrators do is more than one step of 5.3.3: nothing comes between.
    rounds = st.one_of(
        *(op.map(_alone) for op in (resets, tools, tools, consumers, consumers)),
        st.lists(st.builds(Query, **at), min_size=2, max_size=4).map(tuple),
        st.builds(Commit, **at, offset=offsets).map(_alone),
    ).map(_alone)
    moved = st.builds(_moved_at_work, **at, reset=offsets, commit=offsets, pulled=offsets)
    drawn = draw(st.lists(rounds | rounds | moved, min_size=15, max_size=40))
    return Program(setting, tuple(round_ for several in drawn for round_ in several))


def _alone(op: Any) -> tuple[Any, ...]:
    return (op,)


def _moved_at_work(reset: int, commit: int, pulled: int, **at: int) -> tuple[tuple[Any, ...], ...]:
    """A group is moved while its member works on, and learns of it by its next pull."""
    return (
        (Reset(**at, offset=reset),),
        (Commit(**at, offset=commit),),
        (Pull(**at, offset=pulled),),
        (Query(**at),),
    )


AREA: Final = Area()
