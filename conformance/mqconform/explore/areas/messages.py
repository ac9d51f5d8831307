"""Sends and pulls: batches, tags and bodies of all sizes, filters on every broker, queues beyond
1,000 messages, and pulls that are held while messages come."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import Connection, SilentError, eventually
from mqconform.explore.edges import BODIES, COLLIDING, COUNTS, LONG, NEGATIVE, around, at_edge
from mqconform.explore.player import DepartureError, Program, World
from mqconform.frame import Frame
from mqconform.records import Record, parse_records
from mqconform.requests import Request
from mqconform.scene import done
from mqspec.core.group import SubscriptionData
from mqspec.core.log import GetMessageStatus, Limits, Span, check_offset, is_batch_full
from mqspec.core.pull import response_code
from mqspec.core.record import tags_code
from mqspec.core.response import ResponseCode
from mqspec.core.subscription import (
    SubscriptionError,
    build_subscription_data,
    is_matched_by_consume_queue,
)

CLIENTS: Final = 8
LIMITS: Final = Limits()
TAGS: Final = ("", "A", "B", *COLLIDING, NEGATIVE, LONG, "ä€𝄞")
EXPRESSIONS: Final = (
    "*", "", "A", "B", "A || B", "Aa", "BB || none", NEGATIVE, LONG, "ä€𝄞", "||", "|| ||",
)  # fmt: skip
ASKED: Final = (*at_edge("PULL-004"), 0, -1)  # messages
FLAGS: Final = st.sampled_from((0, 0, 1, 65_536, 2**31 - 1, -1))
BATCHES: Final = (1, 2, 3, 31, 32, 33, 63, 64, 65, 100, 101, 127, 128, 255, 256, 257)
WOKEN_S: Final = 2.0  # a message that wakes a held pull does so at once; the next look is 5 s away
TRIES: Final = 3
COMES_TO_S: Final = 10.0  # by when a busy broker comes to a pull
MISSED: Final = "was not woken"
MISSED_MAX: Final = 2  # of the tries: then it is no accident
LEAST_BESIDE, MOST_BESIDE = 91, 3500  # bytes of a record beside its body and tag: names, properties


@dataclass(frozen=True)
class Setting:
    queues: int
    filled: int = 0  # messages that a queue has from the start, tagged A and B by turns
    fill_broker: int = 0


@dataclass(frozen=True)
class Stored:
    """A message, as far as a pull tells it apart."""

    tag: str
    size: int  # of its body
    crc: int
    flag: int = 0


@dataclass(frozen=True)
class Queues:
    """The messages of every queue that has some, and how many queues the topic has."""

    of: tuple[tuple[tuple[int, int], tuple[Stored, ...]], ...]
    visible: tuple[tuple[tuple[int, int], int], ...] = ()  # of each at least, when it came to rest

    def at(self, place: tuple[int, int]) -> tuple[Stored, ...]:
        return dict(self.of).get(place, ())

    def having(self, place: tuple[int, int], messages: tuple[Stored, ...]) -> Queues:
        kept = {**dict(self.of), place: messages}
        return Queues(tuple(sorted(kept.items())), self.visible)

    def at_rest(self) -> Queues:
        """What is stored can be read."""
        return Queues(self.of, tuple((place, len(kept)) for place, kept in self.of))

    def __repr__(self) -> str:
        """Short, for it tells states apart: messages of a queue are told by their hash."""
        kept = [(place, len(messages), hash(messages)) for place, messages in self.of]
        return repr((kept, self.visible))


@dataclass(frozen=True)
class _At:
    client: int
    broker: int
    queue_id: int

    @property
    def place(self) -> tuple[int, int]:
        return self.broker, self.queue_id


@dataclass(frozen=True)
class Send(_At):
    """One message, or a batch of some, tagged by turns."""

    tag: str
    body: int = 5  # bytes
    batch: int = 0  # messages; 0: not a batch
    flag: int = 0  # of one that is none
    other: str | None = None  # the tag of each second message of a batch; as the others
    rules = "SEND-001", "SEND-002", "SEND-004"

    def messages(self) -> tuple[Stored, ...]:
        tagged = zip(self.tags(), self.bodies(), strict=True)
        return tuple(stored(tag, body, self.flag) for tag, body in tagged)

    def tags(self) -> list[str]:
        other = self.tag if self.other is None else self.other
        return [other if n % 2 else self.tag for n in range(max(1, self.batch))]

    def bodies(self) -> list[bytes]:
        if not self.batch:
            return [_body(0, self.body)]
        return [_body(n, self.body) for n in range(self.batch)]

    def request(self, world: World) -> Request:
        properties = [{"TAGS": tag} if tag else {} for tag in self.tags()]
        topic = world.topics[0]
        if self.batch:
            return requests.send_batch(topic, self.bodies(), self.queue_id, properties)
        message = requests.send(topic, self.bodies()[0], self.queue_id, properties[0])
        return message.having(h=self.flag)

    def seen(self, world: World, answer: Frame) -> Any:
        if answer.code != 0:
            return (answer.code,)
        messages = len(answer.fields["msgId"].split(","))
        end = answer.number("queueOffset") + messages
        world.notes[self.place] = max(end, world.notes.get(self.place, 0))
        return 0, answer.number("queueId"), answer.number("queueOffset"), messages

    def allowed(self, state: Queues) -> Iterator[tuple[Any, Queues]]:
        size = sum(map(len, self.bodies()))
        if not size:
            yield (int(ResponseCode.SYSTEM_ERROR),), state
            return
        if size > LIMITS.max_message_size:
            yield (int(ResponseCode.MESSAGE_ILLEGAL),), state
            return
        kept = state.at(self.place)
        behind = state.having(self.place, kept + self.messages())
        yield (0, self.queue_id, len(kept), max(1, self.batch)), behind


@dataclass(frozen=True)
class Pull(_At):
    offset: int
    expression: str = "*"
    count: int = 32
    rules = "PULL-001", "PULL-002", "PULL-003", "PULL-004", "PULL-016", "SUBS-001"

    def request(self, world: World) -> Request:
        topic, group = world.topics[0], world.groups[0]
        return requests.pull(
            topic, group, self.offset, self.queue_id, subscription=self.expression, count=self.count
        )

    def seen(self, world: World, answer: Frame) -> Any:
        if "nextBeginOffset" not in answer.fields or answer.code not in (0, 19, 20, 21):
            return (answer.code,)
        records = parse_records(answer.body) if answer.code == 0 else []
        found = tuple((record.queue_offset, stored_of(record)) for record in records)
        names = "nextBeginOffset", "minOffset", "maxOffset"
        return answer.code, *(answer.number(name) for name in names), found

    def allowed(self, state: Queues) -> Iterator[tuple[Any, Queues]]:
        try:
            wanted = build_subscription_data("", self.expression)
        except SubscriptionError:
            yield (int(ResponseCode.SUBSCRIPTION_PARSE_FAILED),), state
            return
        # What was just stored is read soon: beside its send, some of it or none.
        kept = state.at(self.place)
        for end in range(dict(state.visible).get(self.place, 0), len(kept) + 1):
            for answer in self._answers(kept[:end], wanted):
                yield answer, state

    def _answers(self, kept: tuple[Stored, ...], wanted: SubscriptionData) -> Iterator[Any]:
        span = Span(0, len(kept))
        nothing = check_offset(span, self.offset)
        if nothing:
            status, there = nothing
            yield int(response_code(status, self.offset)), there, 0, span.max, ()
            return
        found: list[tuple[int, Stored]] = []
        least, most, at = 0, 0, self.offset
        last = min(span.max, at + max(LIMITS.max_filter_message_size // 20, self.count))
        while at < last:
            size = kept[at].size + len(kept[at].tag.encode())
            if is_batch_full(LIMITS, self.count, len(found), least, size + LEAST_BESIDE):
                break
            if is_batch_full(LIMITS, self.count, len(found), most, size + MOST_BESIDE):
                yield 0, at, 0, span.max, tuple(found)  # it may be full by now
            if is_matched_by_consume_queue(wanted, tags_code(kept[at].tag)):
                found.append((at, kept[at]))
                least, most = least + size + LEAST_BESIDE, most + size + MOST_BESIDE
            at += 1
        status = GetMessageStatus.FOUND if found else GetMessageStatus.NO_MATCHED_MESSAGE
        code = response_code(status, self.offset)
        yield int(code), at, 0, span.max, tuple(found)


@dataclass(frozen=True)
class Wake(_At):
    """Pulls are held at the end of a queue, and a message comes: all that want it get it, at
    once. One that comes between a pull's read and its hold is found by the next look, which is
    rare: not each time (PULL-014)."""

    expressions: tuple[str, ...]
    tag: str
    rules = "PULL-011", "PULL-010"

    def act(self, world: World) -> Any:
        """The offset of the first message, and how many it took; what each pull was given."""
        first, missed = _end(world, self.place), 0
        for tried in range(1, TRIES + 1):
            given = self._try(world, first + tried - 1)
            missed += MISSED in given
            if MISSED not in given or missed == MISSED_MAX:
                break
        world.notes[self.place] = first + tried
        return first, tried, given

    def _try(self, world: World, end: int) -> tuple[Any, ...]:
        topic, group = world.topics[0], world.groups[0]
        held = []
        for n, expression in enumerate(self.expressions):
            # The offset that it carries tells when the broker has come to it.
            mark = world.number()
            pull = requests.pull(
                topic, group, end, self.queue_id,
                subscription=expression, suspend_ms=60_000, commit=mark,
            )  # fmt: skip
            connection = world.connection(CLIENTS + n, self.broker)
            if n == len(self.expressions) - 1:
                held.append((connection, connection.ask(pull)))
                break  # the last one and the message race
            held.append((connection, self._hold(world, connection, pull, mark)))
        send = Send(self.client, self.broker, self.queue_id, self.tag)
        done(world.call(send.request(world), self.broker, self.client))
        given: list[Any] = []
        for n, (connection, opaque) in enumerate(held):
            wanted = self.wants(self.expressions[n])
            given.append(_given(connection, opaque) if wanted else None)
            world.hang_up(CLIENTS + n, self.broker)
        return tuple(given)

    def _hold(self, world: World, connection: Connection, pull: Request, mark: int) -> int:
        """Ask for a pull until the broker has come to it: one that it was too busy for is never
        carried out. Its opaque."""
        query = requests.query_offset(world.groups[0], world.topics[0], self.queue_id)
        for _ in range(TRIES):
            opaque, asked_at = connection.ask(pull), time.monotonic()
            while time.monotonic() - asked_at < COMES_TO_S:
                answer = world.call(query, self.broker, self.client)
                if answer.fields.get("offset") == str(mark):
                    return opaque
        raise DepartureError(f"the offset {mark} of a pull is not committed\n  rules: OFFSET-020")

    def wants(self, expression: str) -> bool:
        wanted = build_subscription_data("", expression)
        return is_matched_by_consume_queue(wanted, tags_code(self.tag))

    def allowed(self, state: Queues) -> Iterator[tuple[Any, Queues]]:
        kept = state.at(self.place)
        for tried in range(1, TRIES + 1):
            message = Send(0, *self.place, self.tag).messages()
            behind = kept + message * tried
            last = len(behind) - 1
            given = (0, ((last, message[0]),))
            wanted = tuple(given if self.wants(each) else None for each in self.expressions)
            yield (len(kept), tried, wanted), state.having(self.place, behind)


def _given(connection: Connection, opaque: int) -> Any:
    """What a held pull is answered soon."""
    try:
        answer = connection.answer(opaque, WOKEN_S)
    except SilentError:
        return MISSED
    if answer.code == ResponseCode.SYSTEM_BUSY:  # it was not carried out
        return MISSED
    records = parse_records(answer.body)
    return answer.code, tuple((record.queue_offset, stored_of(record)) for record in records)


def stored_of(record: Record) -> Stored:
    return stored(record.properties.get("TAGS", ""), record.body, record.flag)


def stored(tag: str, body: bytes, flag: int = 0) -> Stored:
    return Stored(tag, len(body), crc32(body), flag)


def _body(n: int, size: int) -> bytes:
    return (b"%d." % n).ljust(size, b"x")[:size]


class Area:
    name = "messages"
    about = "sends, batches, bodies and tags of all sizes; pulls, filters, pulls that are held"
    within_s = math.inf

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> Queues:
        world.make_topic(setting.queues)
        world.make_group()
        state = Queues(())
        for n in range(0, setting.filled, FILL):
            count = min(FILL, setting.filled - n)
            fill = Send(0, setting.fill_broker, 0, "AB"[n // FILL % 2], 5, count)
            answer = world.call(fill.request(world), fill.broker)
            fill.seen(world, done(answer))
            state = state.having(fill.place, state.at(fill.place) + fill.messages())
            world.notes[fill.place] = n + count
        self._await(world, list(world.notes))
        return state.at_rest()

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        places = {op.place: None for op in round_ if isinstance(op, Send | Wake)}
        self._await(world, [place for place in places if place in world.notes])

    def _await(self, world: World, places: Sequence[tuple[int, int]]) -> None:
        """What is stored can be read soon."""
        for place in places:
            if not eventually(lambda place=place: _end(world, place) >= world.notes[place]):  # type: ignore[misc]
                there = f"queue {place[1]} of broker {place[0]}"
                raise DepartureError(
                    f"{world.notes[place]} messages were stored in {there}, and not all can be "
                    "read\n  rules: LOG-001"
                )

    def last(self, world: World, setting: Setting) -> Sequence[Pull]:
        looks = []
        for (broker, queue_id), end in world.notes.items():
            for offset in range(max(0, end - 64), end, 32):
                looks.append(Pull(0, broker, queue_id, offset))
        return looks


def _end(world: World, place: tuple[int, int]) -> int:
    broker, queue_id = place
    return world.call(requests.max_offset(world.topics[0], queue_id), broker).number("offset")


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    queues = draw(st.sampled_from(COUNTS))
    filled = draw(st.sampled_from((0, 0, 0, 999, 1030)))
    setting = Setting(queues, filled, draw(st.integers(0, 1)))
    few = [0, *(queue for queue in around(queues - 1) if queue < queues)]
    at = {
        "client": st.integers(0, CLIENTS - 1),
        "broker": st.integers(0, 1),
        "queue_id": st.sampled_from(sorted(set(few))),
    }
    tags = st.sampled_from(TAGS)
    offsets = st.sampled_from((0, 1, 2, 3, 7, 31, 32, 33, -1, 64, 100, 2**40, 2**63 - 1))
    if filled:
        offsets = st.sampled_from((0, 1, 967, 968, 998, 999, 1000, 1001, 1020, 1030))
    pulls = st.builds(
        Pull, **at, offset=offsets, expression=st.sampled_from(EXPRESSIONS),
        count=st.sampled_from(ASKED),
    )  # fmt: skip
    ops = st.one_of(
        st.builds(Send, **at, tag=tags, body=st.sampled_from((1, 2, 3, 100, 255, 256)), flag=FLAGS),
        st.builds(Send, **at, tag=st.sampled_from(("A", "B")), body=st.just(5)),
        st.builds(
            Send,
            **at,
            tag=tags,
            body=st.just(4),
            batch=st.sampled_from(BATCHES),
            other=st.none() | tags,
        ),
        pulls,
        pulls,
        pulls,
    )
    rounds = st.lists(ops, min_size=1, max_size=6).map(tuple)
    large = st.builds(Send, **at, tag=st.just("A"), body=st.sampled_from(BODIES)).map(_alone)
    kinds = st.sampled_from((rounds,) * 12 + (large,))
    drawn = draw(st.lists(kinds.flatmap(lambda kind: kind), min_size=8, max_size=24))
    return Program(setting, tuple(drawn))


def _alone(op: Any) -> tuple[Any, ...]:
    return (op,)


FILL: Final = 200
AREA: Final = Area()
