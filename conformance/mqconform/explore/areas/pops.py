"""Pops: who gets which messages of which queues, what is told of them, and what is left. No
message comes again here: that needs time, and is explored in `revivals`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, combinations
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import Connection, SilentError, eventually
from mqconform.explore.brokers import Each
from mqconform.explore.conversing import Answers, converse
from mqconform.explore.edges import COLLIDING, COUNTS, NEGATIVE, around, at_edge
from mqconform.explore.player import DepartureError, Program, World
from mqconform.frame import Frame
from mqconform.records import parse_records
from mqconform.requests import Request
from mqconform.scene import done
from mqspec.core import ack_message, conversation, pop_messages
from mqspec.core.broker_states import BrokerStates
from mqspec.core.extra_info import ORDER_REVIVE_QUEUE
from mqspec.core.log import (
    GetMessageStatus,
    GetResult,
    Limits,
    PutResult,
    PutStatus,
    Span,
    check_offset,
    is_batch_full,
)
from mqspec.core.metadata import MetadataState, SubscriptionGroupConfig, TopicConfig
from mqspec.core.offset_commit import OffsetKey, OffsetState
from mqspec.core.pop import Pop as Event
from mqspec.core.pop_order import OrderInfo, OrderKey, PopOrderState
from mqspec.core.pop_polling import PollingResult
from mqspec.core.record import Record, encode_properties, encode_record, tags_code
from mqspec.core.response import ResponseCode
from mqspec.core.revive_log import ReviveMessage
from mqspec.core.subscription import TAG, is_matched_by_consume_queue

CLIENTS: Final = 8
LONG_MS: Final = 60_000  # an invisible time that does not end while a program is played
TAGS: Final = ("", "A", "B", *COLLIDING, NEGATIVE)
EXPRESSIONS: Final = ("*", "", "A", "A || B", "BB", NEGATIVE, "nothing", "||")
POP_COUNTS: Final = (2, 3, *at_edge("POP-013"), 0, -1)
BATCHES: Final = (1, 1, 2, 3, 31, 32, 33, 64, 65)
ALL_QUEUES: Final = -1
ALL_MAX: Final = 64  # queues of a topic of which all are popped: any may be the first
RACING_MAX: Final = 3  # queues that may each be passed over in a race
HELD_MS: Final = 20_000
LOOK_S: Final = 0.01  # between two looks whether a pop is held
WOKEN_S: Final = 8.0  # a message wakes who waits at once, and nothing else does so soon
CLOCKS_MS: Final = 60_000  # how far the target's clock may be from this one
PROBABILITIES: Final = 100
LIMITS: Final = Limits()
NAME, GROUP = "topic", "group"  # of the model
FILLED: Final = ((0, 0), (0, 0), (130, 70), (1030, 40))
NOTHING: Final = int(ResponseCode.POLLING_TIMEOUT)


@dataclass(frozen=True)
class Setting:
    queues: int
    filled: int = 0  # messages that each broker's last queue has from the start
    left: int = 0  # how many of them the group has not popped


@dataclass(frozen=True)
class Message:
    tag: str
    mark: int = 0  # its body


@dataclass(frozen=True)
class Popped:
    """What one broker holds, and where the group is."""

    queues: int
    kept: tuple[tuple[int, tuple[Message, ...]], ...] = ()  # by queue
    offsets: tuple[tuple[int, int], ...] = ()  # by queue
    orders: tuple[tuple[int, OrderInfo], ...] = ()  # by queue
    _hash: list[int] = field(default_factory=list, compare=False, repr=False)

    def of(self, queue_id: int) -> tuple[Message, ...]:
        return next((kept for queue, kept in self.kept if queue == queue_id), ())

    def keeping(self, kept: tuple[tuple[int, tuple[Message, ...]], ...]) -> Popped:
        return Popped(self.queues, kept, self.offsets, self.orders)

    def __repr__(self) -> str:
        """Short, for it tells states apart: messages are told by their hash."""
        if not self._hash:
            self._hash.append(hash(self.kept))
        return repr((self._hash, self.offsets, self.orders))


Brokers: TypeAlias = Each[Popped]


class _Talk:
    """A conversation of the core with one broker of the model.

    Queues that are `busy`, as another pop reads them just then, are passed over (5.3.3 waits for
    none): they give nothing, and what they hold counts as left. A pop in order also passes over
    those of which something is acknowledged just then, and does not count them.
    """

    def __init__(self, state: Popped, busy: tuple[int, ...] = (), *, order: bool = False) -> None:
        self._messages, self._busy = dict(state.kept), busy
        self._order = order
        self._kept_orders = [entry for entry in state.orders if entry[0] in busy]
        self._before = state
        keys = {queue: OffsetKey(NAME, GROUP, queue) for queue, _ in state.offsets}
        orders = {
            OrderKey(NAME, GROUP, queue): info for queue, info in state.orders if queue not in busy
        }
        self.states = BrokerStates(
            metadata=_metadata(state.queues),
            offsets=OffsetState({keys[queue]: offset for queue, offset in state.offsets}),
            pop_order=PopOrderState(orders),
        )
        self.revive_log: list[ReviveMessage] = []
        self._answers: Answers = {
            conversation.ReadSpan: lambda ask: Span(0, self._end(ask.queue_id)),
            conversation.Get: self._get,
            conversation.Append: lambda _: PutResult(PutStatus.PUT_OK),
            conversation.NextReviveQueue: lambda _: 0,
            conversation.HoldPop: lambda _: PollingResult.NOT_POLLING,
        }

    def result(self, talk: conversation.Conversation[Any]) -> Any:
        return converse(talk, self._answers)

    def behind(self) -> Popped:
        """The broker as it is now."""
        offsets = self.states.offsets.offset_table.items()
        orders = [(key.queue_id, info) for key, info in self.states.pop_order.order_info.items()]
        return replace(
            self._before,
            offsets=tuple(sorted((key.queue_id, offset) for key, offset in offsets)),
            orders=tuple(sorted([*orders, *self._kept_orders], key=lambda entry: entry[0])),
        )

    def _end(self, queue_id: int) -> int:
        if self._order and queue_id in self._busy:
            return max(0, dict(self._before.offsets).get(queue_id, 0))  # nothing is behind that
        return len(self._messages.get(queue_id, ()))

    def _get(self, ask: conversation.Get) -> GetResult:
        kept = self._messages.get(ask.queue_id, ()) if ask.topic == NAME else ()
        at, end = ask.offset, self._end(ask.queue_id)
        if ask.queue_id in self._busy:
            return GetResult(GetMessageStatus.OFFSET_OVERFLOW_ONE, at, 0, end)
        if nothing := check_offset(Span(0, end), at):
            return GetResult(*nothing, 0, end)
        found: list[bytes] = []
        size = 0
        while at < end:
            record = _record(ask.queue_id, at, kept[at])
            if is_batch_full(LIMITS, ask.max_count, len(found), size, len(record)):
                break
            wanted = ask.wanted
            if wanted is None or is_matched_by_consume_queue(wanted, tags_code(kept[at].tag)):
                found.append(record)
                size += len(record)
            at += 1
        status = GetMessageStatus.FOUND if found else GetMessageStatus.NO_MATCHED_MESSAGE
        return GetResult(status, at, 0, end, tuple(found))


@lru_cache
def _metadata(queues: int) -> MetadataState:
    return MetadataState(
        topic_config_table={NAME: TopicConfig(NAME, queues, queues)},
        subscription_group_table={GROUP: SubscriptionGroupConfig(GROUP)},
    )


@lru_cache(maxsize=65_536)
def _record(queue_id: int, offset: int, message: Message) -> bytes:
    properties = {"TAGS": message.tag} if message.tag else {}
    return encode_record(
        Record(
            NAME,
            b"%d" % message.mark,
            encode_properties(properties).encode(),
            queue_id=queue_id,
            queue_offset=offset,
        )
    )


def _told(body: bytes) -> tuple[Any, ...]:
    """What is told of each message."""
    return tuple(
        (record.queue_id, record.queue_offset, record.properties.get("TAGS", ""), record.body)
        for record in parse_records(body)
    )


def _entries(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(";")))


@dataclass(frozen=True)
class _At:
    client: int
    broker: int
    queue_id: int

    @property
    def place(self) -> tuple[int, ...]:
        return (self.broker,) if self.queue_id < 0 else (self.broker, self.queue_id)


@dataclass(frozen=True)
class Send(_At):
    """Some messages with one tag."""

    tag: str
    count: int = 1
    mark: int = 0
    rules = "SEND-001", "SEND-004"

    def request(self, world: World) -> Request:
        properties = {"TAGS": self.tag} if self.tag else {}
        bodies = [b"%d" % self.mark] * self.count
        if self.count == 1:
            return requests.send(world.topics[0], bodies[0], self.queue_id, properties)
        return requests.send_batch(world.topics[0], bodies, self.queue_id, properties)

    def seen(self, world: World, answer: Frame) -> Any:
        if answer.code != 0:
            return (answer.code,)
        offset, place = answer.number("queueOffset"), (self.broker, self.queue_id)
        world.notes[place] = max(offset + self.count, world.notes.get(place, 0))
        return 0, offset

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        here = state.of[self.broker]
        kept = here.of(self.queue_id)
        more = kept + (Message(self.tag, self.mark),) * self.count
        behind = tuple(sorted({**dict(here.kept), self.queue_id: more}.items()))
        yield (0, len(kept)), state.having(self.broker, here.keeping(behind))


@dataclass(frozen=True)
class Pop(_At):
    """`at` is when the broker says that it popped, ms."""

    count: int
    expression: str = "*"
    order: bool = False
    attempt_id: str | None = None
    invisible_ms: int = LONG_MS
    beside: bool = False  # other pops, which may read a queue just then
    at: int = 0
    rules = "POP-001", "POP-005", "POP-013", "POP-014", "POP-016", "POP-020", "POP-022", "POP-026"

    def request(self, world: World) -> Request:
        asked = requests.pop(
            world.topics[0],
            world.groups[0],
            self.queue_id,
            count=self.count,
            invisible_ms=self.invisible_ms,
            order=self.order,
            attempt_id=self.attempt_id,
        )
        return asked.having(exp=self.expression)

    def seen(self, world: World, answer: Frame) -> Any:
        seen = _pop_told(answer.code, answer.fields, answer.body)
        at = 0
        if seen[0] in (0, NOTHING):
            at = answer.number("popTime")
            assert_clock(self, at)
        if seen[0] == 0:
            for queue_id, offset, handle in handles_of(answer, world.broker_name(self.broker)):
                known = world.notes.setdefault(("handles", self.broker, queue_id), [])
                known.append((offset, handle))
        return at, seen

    def parts(self, seen: Any) -> Iterator[tuple[Any, Any]]:
        at, told = seen
        yield replace(self, at=at), told

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        here = state.of[self.broker]
        found: dict[str, tuple[Any, Brokers]] = {}
        for busy in self._busy(here):
            for first in self._firsts(here):
                talk = _Talk(here, busy, order=self.order)
                event = Event(
                    group=GROUP, topic=NAME, queue_id=self.queue_id, max_msg_nums=self.count,
                    invisible_time=self.invisible_ms, poll_time=0, born_time=self.at,
                    init_mode=0, exp_type=TAG, exp=self.expression, order=self.order,
                    attempt_id=self.attempt_id, consumer="",
                )  # fmt: skip
                answer = talk.result(
                    pop_messages.pop_messages(talk.states, event, "", first, self.at)
                )
                told = _pop_told(int(answer.code), answer.ext_fields, answer.body)
                behind = talk.behind()
                found.setdefault(repr((told, behind)), (told, state.having(self.broker, behind)))
        yield from found.values()

    def _busy(self, here: Popped) -> Iterator[tuple[int, ...]]:
        """The queues that may be passed over: any, where other pops are beside it."""
        if not self.beside:
            return iter([()])
        mine = [self.queue_id] if self.queue_id >= 0 else range(here.queues)
        return chain.from_iterable(combinations(mine, n) for n in range(len(mine) + 1))

    def _firsts(self, here: Popped) -> range:
        """The random numbers that matter: with which queue it begins."""
        return range(1 if self.queue_id >= 0 else min(PROBABILITIES, here.queues))


@dataclass(frozen=True)
class Held(_At):
    """A pop, of the queue or of all, and then a message that it wants: where it found nothing it
    is held, and gets the message at once."""

    tag: str
    count: int = 32
    by_tag: bool = False
    of_all: bool = False
    at: int = 0
    rules = "POP-015", "POP-019", "POP-001", "POP-005"

    def pop(self) -> Pop:
        queue_id = ALL_QUEUES if self.of_all else self.queue_id
        expression = self.tag if self.by_tag and self.tag else "*"
        return Pop(CLIENTS, self.broker, queue_id, self.count, expression, at=self.at)

    def send(self) -> Send:
        return Send(self.client, self.broker, self.queue_id, self.tag)

    def act(self, world: World) -> Any:
        """What the pop was given, and whether it was held until the message came."""
        pop, send, topic, group = self.pop(), self.send(), world.topics[0], world.groups[0]
        connection = world.connection(CLIENTS, self.broker)
        asked = pop.request(world).having(pollTime=HELD_MS, bornTime=time.time_ns() // 1_000_000)
        opaque = connection.ask(asked)
        info = requests.polling_info(topic, group, pop.queue_id)
        answer = None
        while answer is None and not world.call(info, self.broker).number("pollingNum"):
            answer = _soon(connection, opaque, LOOK_S)
        send.seen(world, done(world.call(send.request(world), self.broker, self.client)))
        is_held = answer is None
        answer = answer or _soon(connection, opaque, WOKEN_S)
        if answer is None:
            world.hang_up(CLIENTS, self.broker)
            return 0, ("was not woken", is_held)
        at, told = pop.seen(world, answer)
        return at, (told, is_held)

    def parts(self, seen: Any) -> Iterator[tuple[Any, Any]]:
        at, told = seen
        yield replace(self, at=at), told

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        for told, popped in self.pop().allowed(state):
            for _, behind in self.send().allowed(popped):
                if told[0] == NOTHING:
                    for given, woken in self.pop().allowed(behind):
                        yield (given, True), woken
                else:
                    yield (told, False), behind


def _soon(connection: Connection, opaque: int, within_s: float) -> Frame | None:
    try:
        return connection.answer(opaque, within_s)
    except SilentError:
        return None


def assert_clock(op: Any, at: int) -> None:
    """A broker pops now, by its clock."""
    off_ms = at - time.time_ns() // 1_000_000
    if abs(off_ms) > CLOCKS_MS:
        raise ValueError(f"popTime {at} is {off_ms} ms off")


def _pop_told(code: int, told: Any, body: bytes) -> Any:
    """What an answer to a pop says, but for its time."""
    if code not in (0, NOTHING):
        return (code,)
    revive_qid = int(told["reviveQid"])
    return (
        code,
        int(told["restNum"]),
        int(told["invisibleTime"]),
        "in order" if revive_qid == ORDER_REVIVE_QUEUE else 0 <= revive_qid < 8,
        *(_entries(told[name]) for name in ("startOffsetInfo", "msgOffsetInfo")),
        tuple(sorted(_entries(told.get("orderCountInfo", "")))),
        _told(body) if code == 0 else (),
    )


def handles_of(answer: Frame, broker_name: str) -> list[tuple[int, int, str]]:
    """The queue, the offset and the handle of each message that a pop was given."""
    told, found = answer.fields, []
    starts = [entry.split(" ") for entry in _entries(told["startOffsetInfo"])]
    offsets = [entry.split(" ") for entry in _entries(told["msgOffsetInfo"])]
    middle = f"{told['popTime']} {told['invisibleTime']} {told['reviveQid']}"
    for (flag, queue_id, start), (_, _, those) in zip(starts, offsets, strict=True):
        for offset in those.split(","):
            handle = f"{start} {middle} {flag} {broker_name} {queue_id} {offset}"
            found.append((int(queue_id), int(offset), handle))
    return found


@dataclass(frozen=True)
class Peek(_At):
    count: int
    rules = ("POP-046",)

    def request(self, world: World) -> Request:
        return requests.peek(world.topics[0], world.groups[0], self.queue_id, self.count)

    def seen(self, world: World, answer: Frame) -> Any:
        return self._told(answer.code, answer.fields, answer.body)

    def _told(self, code: int, fields: Any, body: bytes) -> Any:
        if code not in (0, int(ResponseCode.PULL_NOT_FOUND)):
            return (code,)
        return code, int(fields["restNum"]), _told(body) if code == 0 else ()

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        here = state.of[self.broker]
        event = pop_messages.Peek(NAME, GROUP, self.queue_id, "", self.count)
        found: dict[Any, None] = {}
        for first in range(1 if self.queue_id >= 0 else min(PROBABILITIES, here.queues)):
            talk = _Talk(here)
            answer = talk.result(pop_messages.peek_message(talk.states, event, first, 0))
            found[self._told(int(answer.code), answer.ext_fields, answer.body)] = None
        for told in found:
            yield told, state


@dataclass(frozen=True)
class Notification(_At):
    """Whether there is something to pop."""

    rules = ("POP-018",)

    def request(self, world: World) -> Request:
        return requests.notification(world.topics[0], world.groups[0], self.queue_id)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code, answer.fields.get("hasMsg")

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk = _Talk(state.of[self.broker])
        event = pop_messages.Notification(NAME, GROUP, self.queue_id, 0, 0, False, None, "")
        answer = talk.result(pop_messages.notification(talk.states, event, "", 0))
        yield (int(answer.code), (answer.ext_fields or {}).get("hasMsg")), state


@dataclass(frozen=True)
class _OfHandle(_At):
    """What is asked of a message that was popped: `which`, from the newest on."""

    which: int
    off: int = 0  # how far the offset that is named is from the message's
    handle: str = ""
    offset: int = 0

    def shown(self, world: World) -> tuple[int, str]:
        """The offset and the handle; of a pop that never was where there is none yet."""
        known = world.notes.get(("handles", self.broker, self.queue_id))
        name = world.broker_name(self.broker)
        default = 0, f"0 1 {LONG_MS} 0 0 {name} {self.queue_id} 0"
        offset, handle = known[-1 - self.which % len(known)] if known else default
        return offset + self.off, handle

    def parts(self, seen: Any) -> Iterator[tuple[Any, Any]]:
        (offset, handle), told = seen
        yield replace(self, offset=offset, handle=handle), told


@dataclass(frozen=True)
class Ack(_OfHandle):
    rules = "POP-003", "POP-006", "POP-007", "POP-021", "POP-024"

    def request(self, world: World) -> Request:
        shown = world.notes[self, "shown"] = self.shown(world)
        offset, handle = shown
        return requests.ack(world.topics[0], world.groups[0], handle, offset, self.queue_id)

    def seen(self, world: World, answer: Frame) -> Any:
        return world.notes[self, "shown"], answer.code

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk = _Talk(state.of[self.broker])
        queue = NAME, self.queue_id
        answer = talk.result(
            ack_message.ack(talk.states, queue, GROUP, self.offset, self.handle, "", 0)
        )
        yield int(answer.code), state.having(self.broker, talk.behind())


class Area:
    name = "pops"
    about = "pops, peeks and notifications of many queues, side by side"
    within_s = LONG_MS / 1000 / 2

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> Brokers:
        world.make_topic(setting.queues)
        world.make_group()
        state = Brokers(tuple(Popped(setting.queues) for _ in world.scene.broker_names))
        for broker in range(len(world.scene.broker_names)) if setting.filled else ():
            state = self._filled(world, setting, state, broker)
        return state

    def _filled(self, world: World, setting: Setting, state: Brokers, broker: int) -> Brokers:
        """A broker's last queue is filled, and the group moved."""
        queue_id, offset = setting.queues - 1, setting.filled - setting.left
        fill = Send(0, broker, queue_id, "A", setting.filled)
        seen = fill.seen(world, done(world.call(fill.request(world), broker)))
        (filled,) = (behind for told, behind in fill.allowed(state) if told == seen)
        self._await(world, [(broker, queue_id)])
        done(
            world.call(
                requests.commit_offset(world.groups[0], world.topics[0], offset, queue_id), broker
            )
        )
        moved = replace(filled.of[broker], offsets=((queue_id, offset),))
        return filled.having(broker, moved)

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        self._await(
            world, [(op.broker, op.queue_id) for op in round_ if isinstance(op, Send | Held)]
        )

    def _await(self, world: World, places: Sequence[tuple[int, int]]) -> None:
        """What is stored can be read soon."""
        for broker, queue_id in places:
            end = world.notes.get((broker, queue_id), 0)
            ask = requests.max_offset(world.topics[0], queue_id)

            def is_there(ask: Request = ask, broker: int = broker, end: int = end) -> bool:
                return world.call(ask, broker).number("offset") >= end

            if not eventually(is_there):
                told = f"{end} messages were stored in queue {queue_id} of broker {broker}"
                raise DepartureError(f"{told}, and not all can be read\n  rules: LOG-001")

    def last(self, world: World, setting: Setting) -> Sequence[Any]:
        return [Peek(0, broker, queue_id, 32) for broker, queue_id in stored_in(world)]


def stored_in(world: World) -> list[tuple[int, int]]:
    """The brokers and queues that messages were sent to."""
    return [place for place in world.notes if len(place) == 2 and isinstance(place[1], int)]


def _alone(op: Any) -> tuple[Any, ...]:
    return (op,)


def _side_by_side(ops: list[Any]) -> tuple[Any, ...]:
    """A round, in which pops know of each other."""
    if len(ops) == 1:
        return (ops[0],)
    return tuple(replace(op, beside=True) if isinstance(op, Pop) else op for op in ops)


def places(draw: st.DrawFn, queues: int) -> dict[str, Any]:
    """Few queues, at the ends: requests are to meet."""
    few = {0, *(queue for queue in around(queues - 1) if 0 <= queue < queues)}
    chosen = draw(st.sampled_from([sorted(few), [0], [queues - 1]]))
    return {
        "client": st.integers(0, CLIENTS - 1),
        "broker": st.sampled_from(draw(st.sampled_from([(0, 1), (0,), (1,)]))),
        "queue_id": st.sampled_from(chosen),
    }


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    queues = draw(st.sampled_from(COUNTS))
    setting = Setting(queues, *draw(st.sampled_from(FILLED)))
    at = places(draw, queues)
    sends = st.builds(
        Send, **at, tag=st.sampled_from(TAGS), count=st.sampled_from(BATCHES),
        mark=st.integers(0, 9),
    )  # fmt: skip
    counts, wanted = st.sampled_from(POP_COUNTS), st.sampled_from(EXPRESSIONS)
    pops = st.builds(Pop, **at, count=counts, expression=st.just("*") | wanted)
    beyond = {**at, "queue_id": st.just(queues)}
    others = st.one_of(
        st.builds(Peek, **at, count=counts),
        st.builds(Notification, **at),
        st.builds(Ack, **at, which=st.integers(0, 40), off=st.sampled_from((0, 0, -100, 100))),
        st.builds(Pop, **beyond, count=counts),
        st.builds(Ack, **beyond, which=st.just(0)),
    )
    held = st.builds(
        Held, **at, tag=st.sampled_from(TAGS), by_tag=st.booleans(),
        of_all=st.booleans() if queues <= ALL_MAX else st.just(False),
    )  # fmt: skip
    alone = [pops, others, held]
    if queues <= ALL_MAX:
        every = {**at, "queue_id": st.just(ALL_QUEUES)}
        alone += [
            st.builds(Pop, **every, count=counts, expression=wanted),
            st.builds(Peek, **every, count=counts),
            st.builds(Notification, **every),
        ]
    racing = pops
    if queues <= RACING_MAX:
        racing |= st.builds(Pop, **every, count=counts)
    rounds = st.one_of(
        st.lists(sends, min_size=1, max_size=4).map(tuple),
        st.one_of(alone).map(_alone),
        st.one_of(alone).map(_alone),
        st.lists(racing, min_size=2, max_size=4).map(_side_by_side),
    )
    return Program(setting, tuple(draw(st.lists(rounds, min_size=12, max_size=30))))


AREA: Final = Area()
