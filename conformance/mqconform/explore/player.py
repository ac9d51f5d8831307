"""Plays programs against a live target: rounds of requests, from many connections at once."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, cast

from mqconform import requests
from mqconform.connection import ClosedError, Connection, Manner, SilentError, eventually
from mqconform.explore.possible import Answered, State, answers, explained, settled
from mqconform.frame import BINARY, Frame
from mqconform.requests import Request
from mqconform.scene import Scene, done
from mqconform.stage import Restart

S = TypeVar("S")

ON_THE_WAY_MAX = 3  # one-way requests: the orders of more are too many to look at
STATES_MAX = 8  # in which the target may be, before it is asked which
MANNERS = (
    Manner(),
    Manner(serialize_type=BINARY, later_fields=16),
    Manner(),
    Manner(requests_before=(1 << 31) - 3),
)
"""How clients speak, in turn: some in binary, some for very long."""
NAMESERVER = -1  # in the place of a broker's number
_BUSY = 2
SHOWN_MAX = 8  # answers of a round
_SHOWN = 600  # characters of an answer
_SETTLED_S = 2.0
_ONE_WAY = "\n  rules: WIRE-003"


class DepartureError(AssertionError):
    """The target did what the core allows in no order."""


class TooSlowError(Exception):
    """A program took so long that the target may have done what only time does."""


class Op(Protocol):
    """A request of a program. `client` is the connection that it is sent on, `broker` whose."""

    client: int
    broker: int

    @property
    def place(self) -> tuple[Any, ...]: ...

    @property
    def rules(self) -> tuple[str, ...]: ...

    def request(self, world: World) -> Request: ...

    def seen(self, world: World, answer: Frame) -> Any: ...

    def allowed(self, state: Any) -> Any: ...


@dataclass(frozen=True)
class Program(Generic[S]):
    """What is played: the sizes of its world, and rounds of requests. Those of a round are sent
    side by side."""

    setting: S
    rounds: tuple[tuple[Any, ...], ...]


class Area(Protocol):
    """A part of the protocol that can be explored."""

    name: str
    about: str
    # `looks_s`, where it has one: what it needs to be at rest, s; `lanes`: how many programs are
    # played side by side
    within_s: float  # programs that take longer are not judged: time would do what nobody asked for

    def programs(self) -> Any:
        """A strategy of programs."""

    def begin(self, world: World, setting: Any) -> Any:
        """Prepare the world; the model's state before the first round."""

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        """Wait for what a round started, where answers do not tell that it is done."""

    def last(self, world: World, setting: Any) -> Sequence[Any]:
        """Requests that look at everything, once all is quiet."""


@dataclass
class World:
    """The names and connections of one program."""

    scene: Scene
    topics: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    checked: int = 0  # requests whose answers, or effects, were held against the core
    began: float = field(default_factory=time.monotonic)
    notes: dict[Any, Any] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _connections: dict[tuple[int, int], Connection] = field(default_factory=dict)

    def broker_name(self, broker: int) -> str:
        names = self.scene.broker_names
        return names[broker % len(names)]

    def connection(self, client: int, broker: int = 0) -> Connection:
        """The connection of a client to a broker, opened when it is first used."""
        place = client, broker % len(self.scene.broker_names)
        if place not in self._connections:
            name, manner = self.broker_name(broker), MANNERS[client % len(MANNERS)]
            self._connections[place] = self.scene.connect(name, manner=manner)
        return self._connections[place]

    def named_connection(self, client: int) -> Connection:
        """The connection of a client to the nameserver."""
        place = client, NAMESERVER
        if place not in self._connections:
            manner = MANNERS[client % len(MANNERS)]
            self._connections[place] = self.scene.connect_nameserver(manner=manner)
        return self._connections[place]

    def unasked(self) -> list[Frame]:
        """The answers to what was sent one-way, as far as they were read."""
        return [answer for each in self._connections.values() for answer in each.unasked]

    def number(self) -> int:
        """One that was not given before."""
        return next(self._numbers)

    def hang_up(self, client: int, broker: int = 0) -> None:
        """Close a connection; the next use opens another."""
        self._connections.pop((client, broker % len(self.scene.broker_names))).close()

    def hang_up_name(self, client: int) -> None:
        """The same of a connection to the nameserver, where there is one."""
        if connection := self._connections.pop((client, NAMESERVER), None):
            connection.close()

    def restart(self, kind: Restart) -> tuple[int, ...]:
        """Restart the first broker; the numbers of those that were. Connections of before are
        gone."""
        restarted = self.scene.restart_now(kind)
        self._connections.clear()
        names = enumerate(self.scene.broker_names)
        return tuple(number for number, name in names if name in restarted)

    def call(self, request: Request, broker: int = 0, client: int = 0) -> Frame:
        return self.connection(client, broker).call(request)

    def make_topic(self, queues: int, write: int | None = None, *, name: str = "") -> str:
        """A topic on every broker."""
        topic = name or self.scene.name("T")
        self.everywhere(requests.create_topic(topic, queues, queues if write is None else write))
        self.topics.append(topic)
        return topic

    def make_group(self, length: int = 0, *, name: str = "", **settings: object) -> str:
        """A group that every broker knows, with a name of at least so many characters."""
        group = name or self.scene.name("G").ljust(length, "g")
        self.everywhere(requests.create_group(group, **settings))
        self.groups.append(group)
        return group

    def close(self) -> None:
        """Take away what was made."""
        self.everywhere(
            *(requests.delete_topic(topic) for topic in self.topics),
            *(requests.delete_group(group, clean_offset=True) for group in self.groups),
        )

    def everywhere(self, *asked: Request) -> None:
        """Ask every broker, all at once."""
        brokers = [self.connection(0, b) for b in range(len(self.scene.broker_names))]
        opaques = [(broker, broker.ask(request)) for request in asked for broker in brokers]
        for broker, opaque in opaques:
            done(broker.answer(opaque))


def _on(program: Program[Any], brokers: int) -> Program[Any]:
    """The program on so many brokers: what it asks of one that is not there it asks of another."""

    def on(part: Any) -> Any:
        names = [each.name for each in fields(part)] if is_dataclass(part) else []
        named = {
            name: getattr(part, name) % brokers
            for name in ("broker", "fill_broker")
            if name in names and getattr(part, name) != NAMESERVER
        }
        return replace(part, **named) if named else part

    rounds = tuple(tuple(map(on, round_)) for round_ in program.rounds)
    return Program(on(program.setting), rounds)


def play(area: Area, program: Program[Any], scene: Scene) -> int:
    """Play a program; how many requests were checked. Raises DepartureError."""
    world = World(scene)
    program = _on(program, len(scene.broker_names))
    states = [State(area.begin(world, program.setting))]
    with contextlib.suppress(TooSlowError):
        for number, round_ in enumerate(program.rounds, 1):
            states = _round(area, world, states, round_, f"round {number}")
            if len(states) > STATES_MAX:
                states = _look(area, world, states, program.setting, f"after round {number}")
        _look(area, world, states, program.setting, "in the end")
    if unasked := world.unasked():
        raise DepartureError(f"in the end: one-way requests were answered: {unasked}{_ONE_WAY}")
    world.close()
    return world.checked


def _round(
    area: Area, world: World, states: list[State], round_: Sequence[Op], where: str
) -> list[State]:
    """Send all of a round, then take all answers; the states behind it."""
    room = ON_THE_WAY_MAX - max(len(state.on_the_way) for state in states)
    one_way: list[Op] = []
    asked: list[tuple[Op, Connection, int, Request]] = []
    acted: list[Answered] = []
    for op in round_:
        if act := getattr(op, "act", None):  # more than one request: it is carried out by itself
            acted += _parts(Answered(op, act(world)))
            continue
        if meant := getattr(op, "meant", None):  # what it names is known only now
            op = meant(world)
        connection, request = _connection(world, op), op.request(world)
        is_one_way = getattr(op, "one_way", False) and len(one_way) < room
        opaque = connection.ask(request, one_way=is_one_way)
        if is_one_way:
            one_way.append(op)
        else:
            asked.append((op, connection, opaque, request))
    answered = [Answered(op, _seen(world, where, *each)) for op, *each in _with_op(asked)]
    answered = [part for each in answered for part in _parts(each)] + acted
    if time.monotonic() - world.began > area.within_s:
        raise TooSlowError
    behind = explained(states, one_way, answered)
    if not behind:
        raise DepartureError(_why(states, one_way, answered, where))
    world.checked += len(round_)
    area.settle(world, round_)
    at_rest = (getattr(state.model, "at_rest", None) for state in behind)
    return [
        replace(state, model=rest()) if rest else state
        for state, rest in zip(behind, at_rest, strict=True)
    ]


def _parts(answered: Answered) -> list[Answered]:
    """A request that is no whole, but does each of its parts by itself; with what each saw."""
    op: Any = answered.asked
    if not hasattr(op, "parts"):
        return [answered]
    return [Answered(part, seen) for part, seen in op.parts(answered.seen)]


def _connection(world: World, op: Any) -> Connection:
    """To the broker of a request, or to what it names itself."""
    if hasattr(op, "connection"):
        found: Connection = op.connection(world)
        return found
    return world.connection(op.client, op.broker)


def _with_op(asked: list[tuple[Op, Connection, int, Request]]) -> list[tuple[Any, ...]]:
    return [(op, op, connection, opaque, request) for op, connection, opaque, request in asked]


def _seen(
    world: World, where: str, op: Op, connection: Connection, opaque: int, request: Request
) -> Any:
    """What an answer says. One that says SYSTEM_BUSY was not worked on, and is sent again."""
    with readable(where, op):
        answer = connection.answer(opaque)
        if answer.code == _BUSY:
            answer = connection.call(request)
        return op.seen(world, answer)


@contextlib.contextmanager
def readable(where: str, op: Any) -> Iterator[None]:
    """Raises DepartureError where there is no answer, or one that is none."""
    try:
        yield
    except (SilentError, ClosedError) as error:
        raise DepartureError(f"{where}: {op}: no answer: {error}{_rules(op)}") from None
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        what = f"{type(error).__name__} {error}"
        raise DepartureError(
            f"{where}: {op}: an answer that cannot be read: {what}{_rules(op)}"
        ) from None


def _rules(*ops: Op) -> str:
    """Names the rules of what departs, for whoever makes a case of it."""
    return f"\n  rules: {', '.join(dict.fromkeys(rule for op in ops for rule in op.rules))}"


def _look(area: Area, world: World, states: list[State], setting: Any, where: str) -> list[State]:
    """Once all that was sent one-way has arrived, everything is as in some order: which, is asked.
    The states that are left."""
    left = settled(states)
    for op in area.last(world, setting):
        why = ""

        def is_explained(op: Op = op) -> bool:
            nonlocal left, why
            with readable(where, op):
                seen = op.seen(world, _connection(world, op).call(op.request(world)))
            if time.monotonic() - world.began > area.within_s:
                raise TooSlowError
            parts = _parts(Answered(op, seen))
            behind = explained(left, (), parts)
            why = _why(left, (), parts, where)
            left = behind or left
            return bool(behind)

        settled_s = _SETTLED_S if _is_open(states) else 0.2
        if not eventually(is_explained, max(settled_s, getattr(area, "looks_s", 0))):
            raise DepartureError(why)
        world.checked += 1
    return left


def _is_open(states: Sequence[State]) -> bool:
    return any(state.on_the_way for state in states)


def _why(
    states: Sequence[State], one_way: Sequence[Op], answered: Sequence[Answered], where: str
) -> str:
    """Which answers no order explains, and what was allowed."""
    lines = [f"{where}: no order of the core's actions explains the answers"]
    allowed = {id(each): answers(states, each.asked) for each in answered}
    # What is allowed by itself comes last: it may be what the others are seen beside.
    in_order = sorted(answered, key=lambda each: each.seen in allowed[id(each)])
    for each in in_order[:SHOWN_MAX]:
        short = " or ".join(_short(answer) for answer in allowed[id(each)])
        lines.append(f"  {each.asked}\n    answered {_short(each.seen)}\n    allowed  {short}")
    on_the_way = [*states[0].on_the_way, *one_way] if states else []
    if on_the_way:
        lines.append(f"  one-way before: {', '.join(map(str, on_the_way))}")
    return "\n".join(lines) + _rules(*(cast(Op, each.asked) for each in in_order))


def _short(answer: Any) -> str:
    text = repr(answer)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
