"""Messages that wait, for a level or for a time of their own: where they wait, which are refused,
and which come, to which queue, with what, and none before its time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from zlib import crc32

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import eventually
from mqconform.explore.edges import COUNTS, LONG, NEGATIVE, around, at_edge
from mqconform.explore.player import Program, World
from mqconform.frame import Frame
from mqconform.records import Record as Read
from mqconform.records import parse_records
from mqconform.requests import Request
from mqspec.core.delay import delay_level, schedule_message
from mqspec.core.log import DELAY_LEVELS_MS, SCHEDULE_TOPIC, PutStatus
from mqspec.core.metadata import BrokerConfig
from mqspec.core.publish import put_refusal
from mqspec.core.record import Record, decode_properties, encode_properties
from mqspec.core.response import ResponseCode
from mqspec.core.timer import OUT_MS, TIMER_TOPIC, schedule_timer

CLIENTS: Final = 4
NAME: Final = "topic"  # of the model
CONFIG: Final = BrokerConfig()
LONGEST_S: Final = CONFIG.timer_max_delay_sec
WAITED_MS: Final = 6_000  # what waits no longer is waited for
LATE_S: Final = 15.0  # by when it came
FOUND_S: Final = 5.0
BODIES: Final = (5, 5, *around(4_096), 65_536)  # bytes
CLOCKS_MS: Final = 100  # between a broker's look at its clock and its next
LEVELS: Final = ("", "1", "2", *map(str, at_edge("DELAY-001")), "2147483647", "0", "-1", "+2",
                 "abc", "2147483648")  # fmt: skip
TIMES: Final = (
    *(("TIMER_DELAY_SEC", value) for value in (1, 2, *at_edge("TIMER-005"), 0, -5)),
    *(("TIMER_DELAY_MS", value) for value in (1, 999, 1000, 1001, 2500, 60_000)),
    *(("TIMER_DELAY_MS", value) for value in around(1000 * LONGEST_S)),
    *(("TIMER_DELIVER_MS", value) for value in (500, 1000, 3000, 3_600_000, -1000)),
    *(("TIMER_DELIVER_MS", 1000 * LONGEST_S + value) for value in (-60_000, 60_000)),
)


@dataclass(frozen=True)
class Setting:
    queues: int


@dataclass(frozen=True)
class Brokers:
    """The messages that came or will soon: a broker, a queue and what is told of it."""

    come: tuple[tuple[int, int, Any], ...] = ()


@dataclass(frozen=True)
class Later:
    """A message that asks for a level, for times, or for neither."""

    client: int
    broker: int
    queue_id: int
    level: str = ""
    times: tuple[tuple[str, int], ...] = ()
    tag: str = ""
    aligned: bool = False  # whether TIMER_DELIVER_MS is counted from the next whole second
    key: str = ""
    size: int = BODIES[0]  # of the body
    at_ms: int = 0  # when it was stored; also what its TIMER_DELIVER_MS is counted from
    sent_ms: int = 0
    took_ms: int = 0  # from its sending to its answer
    rules = "DELAY-001", "DELAY-005", "TIMER-001", "TIMER-003", "TIMER-004", "TIMER-005"

    @property
    def place(self) -> tuple[int, ...]:
        return (self.broker,)

    @property
    def body(self) -> bytes:
        return b"later".ljust(self.size, b"r")

    def properties(self) -> dict[str, str]:
        since = self.sent_ms // 1000 * 1000 + 1000 if self.aligned else self.sent_ms
        asked = {
            name: str(value + since if name == "TIMER_DELIVER_MS" else value)
            for name, value in self.times
        }
        own = {"DELAY": self.level, "TAGS": self.tag, "KEYS": self.key}
        return {**asked, **{name: value for name, value in own.items() if value}}

    def act(self, world: World) -> Any:
        """The code, and where it lies."""
        sent_ms = time.time_ns() // 1_000_000
        op = replace(self, key=f"{world.scene.name('K')} another", sent_ms=sent_ms)
        send = requests.send(world.topics[0], self.body, self.queue_id, op.properties())
        answer = world.call(send, self.broker, self.client)
        took_ms = time.time_ns() // 1_000_000 - sent_ms
        if answer.code != 0:
            return op.key, sent_ms, 0, took_ms, (answer.code, None)
        offset = answer.number("queueOffset")
        found: list[tuple[Any, Read]] = []

        def is_found() -> bool:
            found.extend(op.found(world, offset))
            return bool(found)

        if not eventually(is_found, FOUND_S):
            return op.key, sent_ms, 0, took_ms, (0, "nowhere")
        kind, record = found[0]
        world.notes["kept", op.key] = record.store_timestamp, replace(op, took_ms=took_ms)
        return op.key, sent_ms, record.store_timestamp, took_ms, (0, kind)

    def found(self, world: World, offset: int) -> Iterator[tuple[Any, Read]]:
        """Where the message lies at a queue offset: in its own queue, or where it waits."""
        likely = [int(self.level) - 1] if self.level.isdecimal() else []
        levels = dict.fromkeys(
            queue for queue in (*likely, *range(len(DELAY_LEVELS_MS)))
            if queue < len(DELAY_LEVELS_MS)
        )  # fmt: skip
        places = [
            (world.topics[0], self.queue_id), (TIMER_TOPIC, 0),
            *((SCHEDULE_TOPIC, queue) for queue in levels if queue >= 0),
        ]  # fmt: skip
        for topic, queue_id in places:
            pull = requests.pull(topic, world.groups[0], offset, queue_id, count=1)
            answer = world.call(pull, self.broker, self.client)
            for record in parse_records(answer.body) if answer.code == 0 else ():
                if record.properties.get("KEYS") == self.key:
                    yield _kind(topic, queue_id, record), record
                    return

    def parts(self, seen: Any) -> Iterator[tuple[Any, Any]]:
        key, sent_ms, at_ms, took_ms, told = seen
        yield replace(self, key=key, sent_ms=sent_ms, at_ms=at_ms, took_ms=took_ms), told

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        # A broker looks at its clock more than once: the time that it stores is a later one.
        stored_ms = self.at_ms or self.sent_ms
        first_ms = stored_ms - self.took_ms - CLOCKS_MS
        times = (stored_ms, stored_ms - 1, *range(first_ms, stored_ms, 1000))
        yield from dict(self._outcome(state, now_ms) for now_ms in times).items()

    def _outcome(self, state: Brokers, now_ms: int) -> tuple[Any, Brokers]:
        message = Record(
            NAME, self.body, encode_properties(self.properties()).encode(), queue_id=self.queue_id
        )
        try:
            placed = schedule_timer(CONFIG, message, now_ms)
            if isinstance(placed, PutStatus):
                return (int(put_refusal(CONFIG, placed).code), None), state
            placed = schedule_message(DELAY_LEVELS_MS, placed)
        except ValueError:  # a level that is no number
            return (int(ResponseCode.SYSTEM_ERROR), None), state
        told = _kind_of(placed)
        if waits_ms(self, now_ms) <= WAITED_MS:
            properties = decode_properties(placed.properties)
            come = (
                self.broker,
                self.queue_id,
                _come(self.key, self.body, properties, is_early=False),
            )
            return (0, told), Brokers(tuple(sorted({*state.come, come}, key=repr)))
        return (0, told), state


def _kind(topic: str, queue_id: int, record: Read) -> Any:
    """Where a message lies, with the real place that is noted of it."""
    real = record.properties.get("REAL_QID")
    if topic == SCHEDULE_TOPIC:
        return "level", queue_id + 1, real, record.properties.get("DELAY")
    if topic == TIMER_TOPIC:
        return "timer", record.properties.get(OUT_MS), real
    return "at once"


def _kind_of(placed: Record) -> Any:
    properties = decode_properties(placed.properties)
    real = properties.get("REAL_QID")
    if placed.topic == SCHEDULE_TOPIC:
        return "level", placed.queue_id + 1, real, properties.get("DELAY")
    if placed.topic == TIMER_TOPIC:
        return "timer", properties.get(OUT_MS), real
    return "at once"


def waits_ms(op: Later, now_ms: int) -> int:
    """How long the message waits at least, by what it asks for."""
    properties = op.properties()
    level = min(delay_level(properties), len(DELAY_LEVELS_MS))
    if level > 0:
        return DELAY_LEVELS_MS[level - 1]
    if "TIMER_DELAY_SEC" in properties:
        return max(0, 1000 * int(properties["TIMER_DELAY_SEC"]))
    if "TIMER_DELAY_MS" in properties:
        return max(0, int(properties["TIMER_DELAY_MS"]))
    if "TIMER_DELIVER_MS" in properties:
        return max(0, int(properties["TIMER_DELIVER_MS"]) - now_ms)
    return 0


def _come(key: str, body: bytes, properties: Any, *, is_early: bool) -> Any:
    """What is told of a message that came."""
    shown = ("TAGS", "DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
    of_body = len(body), crc32(body)
    return key, of_body, tuple((name, properties.get(name)) for name in shown), is_early


@dataclass(frozen=True)
class Come:
    """The messages of a queue that must be there, and those that came too early."""

    client: int
    broker: int
    queue_id: int
    rules = "DELAY-002", "DELAY-003", "DELAY-006", "TIMER-002"

    @property
    def place(self) -> tuple[int, ...]:
        return (self.broker,)

    def request(self, world: World) -> Request:
        return requests.max_offset(world.topics[0], self.queue_id)

    def seen(self, world: World, answer: Frame) -> Any:
        found: list[Read] = []
        while len(found) < answer.number("offset"):
            pull = requests.pull(world.topics[0], world.groups[0], len(found), self.queue_id)
            records = parse_records(world.call(pull, self.broker, self.client).body)
            if not records:
                break
            found += records
        told = (self.told(world, record) for record in found)
        return tuple(sorted(filter(None, told), key=repr))

    def told(self, world: World, record: Read) -> Any:
        """What is told of a message; nothing where it was not waited for, and came in the end: a
        busy machine may take for a program as long as the message has to wait."""
        key = record.properties.get("KEYS", "")
        stored_ms, op = world.notes.get(("kept", key), (record.store_timestamp, None))
        waits = waits_ms(op, stored_ms) if op else 0
        least_ms = waits - op.took_ms - CLOCKS_MS if op else 0
        is_early = record.store_timestamp - stored_ms < least_ms
        if waits > WAITED_MS and not is_early:
            return None
        return _come(key, record.body, record.properties, is_early=is_early)

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        mine = (told for *place, told in state.come if tuple(place) == (self.broker, self.queue_id))
        yield tuple(sorted(mine, key=repr)), state


class Area:
    name = "delays"
    about = "messages that wait for a level or for a time"
    within_s = math.inf
    looks_s = LATE_S

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> Brokers:
        world.make_topic(setting.queues)
        world.make_group()
        return Brokers()

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        places = world.notes.setdefault("places", {})
        places.update(dict.fromkeys((op.broker, op.queue_id) for op in round_))

    def last(self, world: World, setting: Setting) -> Sequence[Any]:
        return [Come(0, *place) for place in world.notes.get("places", ())]


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    queues = draw(st.sampled_from(COUNTS))
    few = sorted({0, *(queue for queue in around(queues - 1) if 0 <= queue < queues)})
    at = {
        "client": st.integers(0, CLIENTS - 1),
        "broker": st.integers(0, 1),
        "queue_id": st.sampled_from(few),
        "tag": st.sampled_from(("", "A", NEGATIVE, LONG)),
        "size": st.sampled_from(BODIES),
    }
    times = st.sampled_from(TIMES).map(lambda each: (each,))
    several = st.lists(st.sampled_from(TIMES), min_size=2, max_size=3, unique_by=lambda e: e[0])
    ops = st.one_of(
        st.builds(Later, **at, level=st.sampled_from(LEVELS)),
        st.builds(Later, **at, times=times, aligned=st.booleans()),
        st.builds(Later, **at, times=several.map(tuple)),
        st.builds(Later, **at, times=times, level=st.sampled_from(LEVELS)),
        st.builds(Later, **at, level=st.sampled_from(("1", "2"))),
    )
    drawn = [(op,) for op in draw(st.lists(ops, min_size=6, max_size=20))]
    soon = st.sampled_from((("TIMER_DELIVER_MS", 2000), ("TIMER_DELIVER_MS", 2001)))
    of_a_second = st.builds(Later, **at, times=st.tuples(soon), aligned=st.just(True))
    together = draw(st.lists(of_a_second, max_size=8).map(tuple))
    return Program(Setting(queues), (*drawn, *([together] if together else [])))


AREA: Final = Area()
