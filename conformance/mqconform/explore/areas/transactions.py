"""Transactions: halves and how they end, of many producers at once: which messages are published,
where, how often and with what, and which halves count as ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeAlias

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import eventually
from mqconform.explore.brokers import Each, OfBroker
from mqconform.explore.conversing import Answers, converse
from mqconform.explore.edges import COUNTS, NEGATIVE, around
from mqconform.explore.player import DepartureError, Program, World
from mqconform.frame import Frame
from mqconform.records import parse_records
from mqconform.requests import COMMIT, ROLLBACK, UNKNOWN, Request
from mqconform.scene import done
from mqspec.core import conversation, end_transaction
from mqspec.core.broker_states import BrokerStates
from mqspec.core.log import PutResult, PutStatus
from mqspec.core.record import Record, SysFlag, decode_properties, encode_properties
from mqspec.core.transaction import (
    OP_TOPIC,
    EndTransaction,
    ended_halves,
    prepare,
)

CLIENTS: Final = 6
PRODUCERS: Final = 3
NAME: Final = "topic"  # of the model
LONG_AGO_MS: Final = 60_000
LATE_MS: Final = 2_000  # between a request's sending and its effect, and between two clocks
TAGS: Final = ("", "A", NEGATIVE, "t" * 500, "ä€𝄞")
PREPARED: Final = int(SysFlag.PREPARED)
COMPRESSED: Final = int(SysFlag.COMPRESSED)
FLAGS: Final = (  # of a sysFlag: compressed, and by what
    *(0, 0, 0, COMPRESSED),
    *(COMPRESSED | int(by) for by in (SysFlag.LZ4, SysFlag.ZSTD, SysFlag.ZLIB)),
)
BODIES: Final = (1, 2, 255, 256, 65_536)
IMMUNITIES: Final = ("", "", "", "-1", "1", "30", "3600", "soon")  # seconds
SHOWN: Final = ("TAGS", "KEYS", "UNIQ_KEY", "PGROUP", "TRAN_MSG", "CHECK_IMMUNITY_TIME_IN_SECONDS")
NOTED_S: Final = 8.0  # an end is noted in the op queue within 3 s


@dataclass(frozen=True)
class Setting:
    queues: int
    notes: bool = False  # whether the op queue is looked at, which takes some seconds


@dataclass(frozen=True)
class State:
    """What a broker holds: its halves, its messages by queue, and which halves are ended."""

    halves: tuple[Record, ...] = ()
    kept: tuple[tuple[int, tuple[Record, ...]], ...] = ()
    ended: tuple[int, ...] = ()

    def of(self, queue_id: int) -> tuple[Record, ...]:
        return dict(self.kept).get(queue_id, ())

    def keeping(self, message: Record) -> State:
        """With one message more, at the end of its queue."""
        kept = dict(self.kept)
        kept[message.queue_id] = (*kept.get(message.queue_id, ()), message)
        return replace(self, kept=tuple(sorted(kept.items())))

    def __repr__(self) -> str:
        """Short, for it tells states apart."""
        return repr((len(self.halves), hash(self.kept), tuple(sorted(self.ended))))


Brokers: TypeAlias = Each[State]


@dataclass(frozen=True)
class Half(OfBroker):
    """A half message. Where it lies, the answer tells: the half topic is everybody's."""

    producer: int
    queue_id: int
    body: int = 1  # bytes
    tag: str = ""
    key: str = ""
    immunity: str = ""
    flags: int = 0  # of its sysFlag, beside that it is a half
    is_old: bool = False
    where: tuple[int, int] = (0, 0)  # its offset in the half topic, and its position
    born_ms: int = 0
    rules = "TX-001", "TX-002"

    def properties(self) -> dict[str, str]:
        own = {
            "TAGS": self.tag, "KEYS": self.key, "CHECK_IMMUNITY_TIME_IN_SECONDS": self.immunity,
        }  # fmt: skip
        given = {name: value for name, value in own.items() if value}
        return {"TRAN_MSG": "true", "PGROUP": f"producer-{self.producer}", **given}

    def meant(self, world: World) -> Half:
        """With when it is born: of two that are drawn alike each has its own time."""
        now_ms = time.time_ns() // 1_000_000
        return replace(self, born_ms=now_ms - (LONG_AGO_MS if self.is_old else 0))

    def request(self, world: World) -> Request:
        asked = requests.send_half(
            world.topics[0], f"producer-{self.producer}", b"h" * self.body, self.properties()
        )
        return asked.having(e=self.queue_id, g=self.born_ms, f=PREPARED | self.flags)

    def seen(self, world: World, answer: Frame) -> Any:
        if answer.code != 0:
            return (0, 0), (answer.code,)
        where = answer.number("queueOffset"), int(answer.fields["msgId"][16:].split(",")[0], 16)
        known = world.notes.setdefault(("halves", self.broker), [])
        known.append((*where, self.producer))
        return where, (0, answer.number("queueId"))

    def parts(self, seen: Any) -> Iterator[tuple[Any, Any]]:
        where, told = seen
        yield replace(self, where=where), told

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        here = state.of[self.broker]
        if self.where in [(half.queue_offset, half.physical_offset) for half in here.halves]:
            return  # another one lies there
        offset, position = self.where
        message = Record(
            NAME,
            b"h" * self.body,
            encode_properties(self.properties()).encode(),
            queue_id=self.queue_id,
            sys_flag=PREPARED | self.flags,
            born_timestamp=self.born_ms,
            queue_offset=offset,
            physical_offset=position,
        )
        behind = replace(here, halves=(*here.halves, prepare(message)))
        yield (0, self.queue_id), state.having(self.broker, behind)


@dataclass(frozen=True)
class End(OfBroker):
    """The end of a half: `which`, from the newest on. `mixed`: its offset is that of another."""

    which: int
    kind: int
    from_check: bool = False
    mixed: bool = False
    stranger: bool = False  # another producer's group
    one_way: bool = False  # as clients send it
    where: tuple[int, int] = (-1, -1)
    group: str = ""
    at_ms: int = 0  # when it is sent
    rules: ClassVar[tuple[str, ...]] = ("TX-003", "TX-005", "TX-011", "TX-012", "TX-014")

    def meant(self, world: World) -> End:
        """With what it names just now: a half that does not exist where there is none yet."""
        known, now_ms = world.notes.get(("halves", self.broker)), time.time_ns() // 1_000_000
        if not known:
            return replace(self, where=(0, 1 << 50), group="producer-0", at_ms=now_ms)
        offset, position, producer = known[-1 - self.which % len(known)]
        if self.mixed:
            offset = known[-1 - (self.which + 1) % len(known)][0]
        group = f"producer-{(producer + self.stranger) % PRODUCERS}"
        return replace(self, where=(offset, position), group=group, at_ms=now_ms)

    def request(self, world: World) -> Request:
        return requests.end_transaction(
            self.group, *self.where, self.kind, from_check=self.from_check
        )

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        # A half whose time is just over may be looked at before that, or behind it.
        found = dict(self._outcome(state, self.at_ms + late) for late in (0, LATE_MS))
        yield from found.items()

    def _outcome(self, state: Brokers, now_ms: int) -> tuple[Any, Brokers]:
        here = state.of[self.broker]
        offset, position = self.where
        put: list[Record] = []
        states = BrokerStates()
        answers: Answers = {
            conversation.Look: lambda ask: next(
                (half for half in here.halves if half.physical_offset == ask.position), None
            ),
            conversation.Put: lambda ask: _put(put, ask.message),
        }
        event = EndTransaction(self.group, offset, position, self.kind == COMMIT, self.from_check)
        talk = end_transaction.end_transaction(states, event, self.kind, now_ms)
        answer = converse(talk, answers)
        behind = replace(here, ended=(*here.ended, *states.transactions.op_batch))
        for message in put:
            behind = behind.keeping(message)
        return answer and int(answer.code), state.having(self.broker, behind)


def _put(found: list[Record], message: Record) -> PutResult:
    found.append(message)
    return PutResult(PutStatus.PUT_OK)


@dataclass(frozen=True)
class Unknown(End):
    """The producer does not know: nothing is answered, and nothing changes."""

    kind: int = UNKNOWN
    rules: ClassVar[tuple[str, ...]] = ("TX-009",)

    def act(self, world: World) -> Any:
        connection = world.connection(self.client, self.broker)
        opaque = connection.ask(self.meant(world).request(world))
        return None if connection.is_quiet(opaque) else connection.answer(opaque).code


@dataclass(frozen=True)
class Send(OfBroker):
    """A message that is no half."""

    queue_id: int
    rules = "SEND-002", "TX-001"

    def request(self, world: World) -> Request:
        return requests.send(world.topics[0], b"plain", self.queue_id)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code, answer.number("queueOffset")

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        here = state.of[self.broker]
        message = Record(NAME, b"plain", queue_id=self.queue_id)
        end = len(here.of(self.queue_id))
        yield (0, end), state.having(self.broker, here.keeping(message))


@dataclass(frozen=True)
class Read(OfBroker):
    """All messages of a queue."""

    queue_id: int
    rules = "TX-001", "TX-003", "TX-005", "TX-014", "TX-018"

    def request(self, world: World) -> Request:
        return requests.max_offset(world.topics[0], self.queue_id)

    def seen(self, world: World, answer: Frame) -> Any:
        """The end of the queue grows in the order of the log: what is read is all of then."""
        found: list[Any] = []
        end = answer.number("offset")
        while len(found) < end:
            pull = requests.pull(world.topics[0], world.groups[0], len(found), self.queue_id)
            records = parse_records(world.call(pull, self.broker, self.client).body)
            if not records:
                break
            found += [
                _told(
                    record.body, record.properties, record.sys_flag,
                    record.prepared_transaction_offset,
                    record.born_timestamp if record.sys_flag else 0,
                )
                for record in records
            ]  # fmt: skip
        return tuple(found[:end])

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        yield _told_of(state.of[self.broker].of(self.queue_id)), state


def _told(body: bytes, properties: Any, flag: int, position: int, born: int) -> Any:
    shown = tuple((name, properties[name]) for name in SHOWN[:2] + SHOWN[3:] if name in properties)
    return len(body), body[:1], shown, flag, position, born


@lru_cache(maxsize=4096)
def _told_of(kept: tuple[Record, ...]) -> Any:
    return tuple(
        _told(
            message.body,
            decode_properties(message.properties),
            message.sys_flag,
            message.prepared_transaction_offset,
            message.born_timestamp,
        )
        for message in kept
    )


@dataclass(frozen=True)
class Ended(OfBroker):
    """The halves that are named in the op queue."""

    rules = ("TX-010",)

    def request(self, world: World) -> Request:
        return requests.max_offset(OP_TOPIC)

    def seen(self, world: World, answer: Frame) -> Any:
        mine = {half[0] for half in world.notes.get(("halves", self.broker), ())}
        end, at = answer.number("offset"), world.notes["ops", self.broker]
        named: set[int] = set()
        while at < end:
            pull = requests.pull(OP_TOPIC, world.groups[0], at)
            records = parse_records(world.call(pull, self.broker, self.client).body)
            if not records:
                break
            at += len(records)
            for record in records:
                named.update(ended_halves(record.body))
        return tuple(sorted(named & mine))

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        yield tuple(sorted(set(state.of[self.broker].ended))), state


class Area:
    name = "transactions"
    about = "half messages, and how they end"
    within_s = 60.0
    looks_s = NOTED_S

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> Brokers:
        world.make_topic(setting.queues)
        world.make_topic(1)  # for marks
        world.make_group()
        for broker in range(len(world.scene.broker_names)):
            answer = world.call(requests.max_offset(OP_TOPIC), broker)
            world.notes["ops", broker] = answer.number("offset") if answer.code == 0 else 0
        return Brokers(tuple(State() for _ in world.scene.broker_names))

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        """What was stored last can be read: then so can all that was stored before."""
        world.notes.setdefault("queues", {}).update(
            dict.fromkeys(op.queue_id for op in round_ if isinstance(op, Half | Send | Read))
        )
        for broker in dict.fromkeys(op.broker for op in round_ if not isinstance(op, Read)):
            sent = done(world.call(requests.send(world.topics[1], b"mark"), broker))
            end, ask = sent.number("queueOffset") + 1, requests.max_offset(world.topics[1])

            def is_there(end: int = end, ask: Request = ask, broker: int = broker) -> bool:
                return world.call(ask, broker).number("offset") >= end

            if not eventually(is_there):
                raise DepartureError(f"message {end} cannot be read\n  rules: LOG-001")

    def last(self, world: World, setting: Setting) -> Sequence[Any]:
        brokers = range(len(world.scene.broker_names))
        reads = [Read(0, b, queue) for b in brokers for queue in world.notes.get("queues", ())]
        return [*reads, *(Ended(0, b) for b in brokers if setting.notes)]


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    queues = draw(st.sampled_from(COUNTS))
    setting = Setting(queues, draw(st.sampled_from((False, False, False, True))))
    few = sorted({queue for queue in (*around(queues - 1, 1), queues // 2) if queue < queues})
    of = {"client": st.integers(0, CLIENTS - 1), "broker": st.integers(0, 1)}
    at = {**of, "queue_id": st.sampled_from(few or [0])}
    halves = st.builds(
        Half, **at, producer=st.integers(0, PRODUCERS - 1), body=st.sampled_from(BODIES),
        tag=st.sampled_from(TAGS), key=st.sampled_from(("", "k", "k" * 255)),
        immunity=st.sampled_from(IMMUNITIES), flags=st.sampled_from(FLAGS), is_old=st.booleans(),
    )  # fmt: skip
    which = st.integers(0, 2) | st.integers(0, 40)
    ends = st.builds(
        End, **of, which=which, kind=st.sampled_from((COMMIT, COMMIT, ROLLBACK)),
        from_check=st.booleans(), one_way=st.sampled_from((False, False, True)),
    )  # fmt: skip
    odd = st.one_of(
        st.builds(End, **of, which=which, kind=st.sampled_from((1, 3, 4, 9))),
        st.builds(End, **of, which=which, kind=st.just(COMMIT), mixed=st.just(True)),
        st.builds(End, **of, which=which, kind=st.just(COMMIT), stranger=st.just(True)),
    )
    sends = st.builds(Send, **at)
    rounds = st.one_of(
        st.lists(halves, min_size=1, max_size=4).map(tuple),
        st.lists(ends, min_size=1, max_size=4).map(tuple),
        st.lists(ends | halves | sends, min_size=1, max_size=4).map(tuple),
        odd.map(_alone),
        st.builds(Read, **at).map(_alone),
    )
    unknown = st.builds(Unknown, **of, which=which).map(_alone)
    drawn = draw(st.lists(rounds, min_size=12, max_size=30))
    return Program(setting, (*drawn, *draw(st.lists(unknown, max_size=1))))


def _alone(op: Any) -> tuple[Any, ...]:
    return (op,)


AREA: Final = Area()
