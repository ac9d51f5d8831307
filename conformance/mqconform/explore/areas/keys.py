"""Messages found by their keys: keys that begin or end alike, long ones, several of a message,
and those of one hash, which a broker cannot tell apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import eventually
from mqconform.explore.edges import ALIKE, at_edge
from mqconform.explore.player import DepartureError, Program, World
from mqconform.frame import Frame
from mqconform.records import parse_records
from mqconform.requests import Request
from mqspec.core.index import index_keys, key_hash
from mqspec.core.log import Limits

CLIENTS: Final = 4
COUNTS: Final = (2, *at_edge("LOG-021"))
LARGE: Final = 65_536  # a few are more than a pull gives at once
MOST: Final = Limits().max_msgs_num_batch


@dataclass(frozen=True)
class Found:
    """Which messages have which keys: a broker's queue offsets, by the hash of the key."""

    of: tuple[tuple[tuple[int, int], tuple[int, ...]], ...] = ()
    sent: tuple[int, ...] = (0, 0)

    def at(self, place: tuple[int, int]) -> tuple[int, ...]:
        return dict(self.of).get(place, ())


@dataclass(frozen=True)
class Send:
    """A message with some keys, or a batch of such."""

    client: int
    broker: int
    keys: tuple[str, ...]
    count: int = 1
    size: int = 1  # bytes of a body that is alone
    rules = "SEND-002", "LOG-020"

    @property
    def place(self) -> tuple[int, ...]:
        return (self.broker,)

    def request(self, world: World) -> Request:
        topic, keys = world.topics[0], {"KEYS": " ".join(self.keys)}
        if self.count > 1:
            return requests.send_batch(topic, [b"x"] * self.count, properties=keys)
        return requests.send(topic, b"x" * self.size, properties=keys)

    def seen(self, world: World, answer: Frame) -> Any:
        if answer.code == 0:
            for key in self.keys:
                place = self.broker, key_hash("", key)
                newest = answer.number("queueOffset") + self.count - 1
                world.notes[place] = max(newest, world.notes.get(place, 0))
        return answer.code, answer.number("queueOffset")

    def allowed(self, state: Found) -> Iterator[tuple[Any, Found]]:
        offset, table = state.sent[self.broker], dict(state.of)
        properties = requests.property_string({"KEYS": " ".join(self.keys)}).encode()
        entries = ((n, key) for n in range(self.count) for key in index_keys(0, properties))
        for n, key in entries:
            place = self.broker, key_hash("", key)
            table[place] = (*table.get(place, ()), offset + n)
        sent = tuple(n + self.count * (b == self.broker) for b, n in enumerate(state.sent))
        yield (0, offset), Found(tuple(sorted(table.items())), sent)


@dataclass(frozen=True)
class Query:
    """The newest messages that have a key, or another of its hash."""

    client: int
    broker: int
    key: str
    count: int
    rules = "LOG-020", "LOG-021", "LOG-024"

    @property
    def place(self) -> tuple[int, ...]:
        return (self.broker,)

    def request(self, world: World) -> Request:
        return requests.query_message(world.topics[0], self.key, self.count)

    def seen(self, world: World, answer: Frame) -> Any:
        records = parse_records(answer.body) if answer.code == 0 else []
        return answer.code, tuple(sorted(record.queue_offset for record in records))

    def allowed(self, state: Found) -> Iterator[tuple[Any, Found]]:
        every = state.at((self.broker, key_hash("", self.key)))
        found = tuple(sorted(every[-min(self.count, MOST) :]))
        yield ((0, found) if found else (22, ())), state


class Area:
    name = "keys"
    about = "messages found by their keys"
    within_s = math.inf

    def programs(self) -> st.SearchStrategy[Program[None]]:
        return _programs()

    def begin(self, world: World, setting: None) -> Found:
        world.make_topic(1)
        return Found(sent=tuple(0 for _ in world.scene.broker_names))

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        """What is stored is indexed soon: the newest comes last, as many as are told."""
        for op in round_:
            for key in op.keys if isinstance(op, Send) else ():
                self._await(world, op.broker, key)

    def _await(self, world: World, broker: int, key: str) -> None:
        newest = world.notes.get((broker, key_hash("", key)), -1)
        query = requests.query_message(world.topics[0], key, MOST)

        def is_indexed() -> bool:
            found = parse_records(world.call(query, broker).body)
            return newest < 0 or any(record.queue_offset >= newest for record in found)

        if not eventually(is_indexed, INDEXED_S):
            told = f"the message {newest} of broker {broker} has the key {key!r}"
            raise DepartureError(f"{told}, and is not found by it\n  rules: {QUERY_RULE}")

    def last(self, world: World, setting: None) -> Sequence[Query]:
        every = (0, 1)[: len(world.scene.broker_names)]
        return [Query(0, broker, key, MOST) for broker in every for key in ALIKE]


INDEXED_S: Final = 5.0
QUERY_RULE: Final = "LOG-020"


@st.composite
def _programs(draw: st.DrawFn) -> Program[None]:
    of = {"client": st.integers(0, CLIENTS - 1), "broker": st.integers(0, 1)}
    size = draw(st.sampled_from((2, 3, 5, 8, len(ALIKE))))
    few = draw(st.permutations(ALIKE))[:size]
    keys = st.sampled_from(few)
    # Some have all keys of the program.
    several = st.lists(keys, min_size=1, max_size=3, unique=True) | st.just(few)
    sends = st.builds(
        Send, **of, keys=several.map(tuple),
        count=st.sampled_from((1,) * 6 + (33, 65)),
        size=st.sampled_from(draw(st.sampled_from(((1,), (1,), (LARGE,))))),
    )  # fmt: skip
    queries = st.builds(Query, **of, key=keys, count=st.sampled_from(COUNTS))
    rounds = st.lists(sends, min_size=1, max_size=8) | st.lists(queries, min_size=1, max_size=4)
    drawn = draw(st.lists(rounds, min_size=8, max_size=24))
    return Program(None, tuple(map(tuple, drawn)))


AREA: Final = Area()
