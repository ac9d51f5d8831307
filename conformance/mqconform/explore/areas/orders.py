"""Pops in order: which queues are blocked, what acknowledgements, one by one and many at once,
and changes of the invisible time free, where the group is, and how often each was delivered."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hypothesis import strategies as st

from mqconform import requests
from mqconform.explore.areas import pops
from mqconform.explore.areas.pops import (
    ALL_MAX,
    ALL_QUEUES,
    CLIENTS,
    FILLED,
    GROUP,
    LONG_MS,
    NAME,
    Ack,
    Brokers,
    Pop,
    Send,
    Setting,
    _alone,
    _At,
    _OfHandle,
    _Talk,
    places,
    stored_in,
)
from mqconform.explore.edges import COUNTS
from mqconform.explore.player import Program, World
from mqconform.frame import Frame
from mqconform.requests import Request
from mqspec.core import ack_message, offset_commit
from mqspec.core.ack_message import AckMessage
from mqspec.core.extra_info import parse_handle

ATTEMPTS: Final = ("a", "b", None)
SHORTEST_MS: Final = 1  # of 0, 5.3.3 takes that of the next pop: no client asks for it
WHICH: Final = st.integers(0, 3) | st.integers(0, 70)


@dataclass(frozen=True)
class AckMany(_OfHandle):
    """Messages of one pop, by bits counted from where its read began: in one entry, or each in one
    of its own."""

    bits: tuple[int, ...] = (0,)
    apart: bool = False
    rules = "POP-003", "POP-010", "POP-021", "POP-024"

    def request(self, world: World) -> Request:
        shown = world.notes[self, "shown"] = self.shown(world)
        handle = parse_handle(shown[1])
        about = {
            "c": world.groups[0],
            "t": world.topics[0],
            "r": handle.topic_flag,
            "so": handle.ck_queue_offset,
            "q": self.queue_id,
            "rq": handle.revive_qid,
            "pt": handle.pop_time,
            "it": handle.invisible_time,
        }
        entries = ({**about, "b": _base64(bits)} for bits in self.entries())
        return requests.batch_ack(world.broker_name(self.broker), *entries)

    def entries(self) -> list[tuple[int, ...]]:
        bits = tuple(sorted(set(self.bits)))
        return [(bit,) for bit in bits] if self.apart else [bits]

    def seen(self, world: World, answer: Frame) -> Any:
        return world.notes[self, "shown"], answer.code

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk, handle = _Talk(state.of[self.broker]), parse_handle(self.handle)
        first = handle.ck_queue_offset
        events = [
            AckMessage(NAME, GROUP, self.queue_id, tuple(first + bit for bit in bits), handle)
            for bits in self.entries()
        ]
        answer = talk.result(ack_message.batch_ack(talk.states, events, "", 0))
        yield int(answer.code), state.having(self.broker, talk.behind())


def _base64(bits: Sequence[int]) -> str:
    """A BitSet, as Java writes it."""
    number = sum(1 << bit for bit in bits)
    return b64encode(number.to_bytes(number.bit_length() // 8 + 1, "little").rstrip(b"\0")).decode()


@dataclass(frozen=True)
class Change(_OfHandle):
    """The message is invisible for another time, from now on: `at`, ms."""

    invisible_ms: int = LONG_MS
    at: int = 0
    rules = "POP-009", "POP-025"

    def request(self, world: World) -> Request:
        offset, handle = world.notes[self, "shown"] = self.shown(world)
        return requests.change_invisible_time(
            world.topics[0], world.groups[0], handle, offset, self.invisible_ms, self.queue_id
        )

    def seen(self, world: World, answer: Frame) -> Any:
        told: tuple[Any, ...] = (answer.code,)
        at = 0
        if answer.code == 0:
            names = "popTime", "invisibleTime", "reviveQid"
            told = answer.code, *(answer.number(name) for name in names)
            if told[1]:  # else it is acknowledged, and nothing was changed
                at = told[1] + told[2] - self.invisible_ms
                pops.assert_clock(self, at)
        return world.notes[self, "shown"], at, told

    def parts(self, seen: Any) -> Iterator[tuple[Any, Any]]:
        (offset, handle), at, told = seen
        yield replace(self, offset=offset, handle=handle, at=at), told

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk, queue = _Talk(state.of[self.broker]), (NAME, self.queue_id)
        answer = talk.result(
            ack_message.change_message_invisible_time(
                talk.states, queue, GROUP, self.offset, self.handle, self.invisible_ms, "", self.at
            )
        )
        told: tuple[Any, ...] = (int(answer.code),)
        if told == (0,):
            names = "popTime", "invisibleTime", "reviveQid"
            told = (0, *(int(answer.ext_fields[name]) for name in names))
        yield told, state.having(self.broker, talk.behind())


@dataclass(frozen=True)
class Committed(_At):
    """Where the group is."""

    rules = "POP-021", "OFFSET-010"

    def request(self, world: World) -> Request:
        asked = requests.query_offset(world.groups[0], world.topics[0], self.queue_id)
        return asked.having(setZeroIfNotFound=False)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code, answer.number("offset") if answer.code == 0 else None

    def allowed(self, state: Brokers) -> Iterator[tuple[Any, Brokers]]:
        talk = _Talk(state.of[self.broker])
        answer = offset_commit.query_consumer_offset(
            talk.states.offsets,
            offset_commit.OffsetKey(NAME, GROUP, self.queue_id),
            set_zero_if_not_found=False,
            queue_is_young=False,
        )
        yield (int(answer.code), answer.offset), state


class Area(pops.Area):
    name = "orders"
    about = "pops in order: blocked queues, acknowledgements, changes of the invisible time"

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        """What is due at once is due before the next pop."""
        super().settle(world, round_)
        if any(getattr(op, "invisible_ms", LONG_MS) < LONG_MS for op in round_):
            later = time.monotonic() + 2 * SHORTEST_MS / 1000
            connection = world.connection(0, round_[0].broker)
            while time.monotonic() < later:
                connection.call(requests.max_offset(world.topics[0]))

    def last(self, world: World, setting: Setting) -> Sequence[Any]:
        return [Committed(0, broker, queue_id) for broker, queue_id in stored_in(world)]


def _side_by_side(ops: list[Any]) -> tuple[Any, ...]:
    """A round, in which pops know of each other, and no two are the same attempt."""
    if len(ops) == 1:
        return (ops[0],)
    return tuple(
        replace(op, beside=True, attempt_id=f"{op.attempt_id}{n}" if op.attempt_id else None)
        if isinstance(op, Pop)
        else op
        for n, op in enumerate(ops)
    )


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    queues = draw(st.sampled_from(COUNTS))
    setting = Setting(queues, *draw(st.sampled_from(FILLED)))
    at = places(draw, queues)
    sends = st.builds(Send, **at, tag=st.just("A"), count=st.sampled_from((1, 2, 3, 33, 64)))
    popped: dict[str, Any] = {
        "count": st.sampled_from((1, 2, 3, 8, 31, 32)),
        "order": st.just(True),
        "attempt_id": st.sampled_from(ATTEMPTS),
    }
    # What is due again at once would be so a millisecond sooner or later beside others.
    racing_pops = st.builds(Pop, **at, **popped)
    usual = draw(st.sampled_from((LONG_MS, LONG_MS, SHORTEST_MS)))
    times = st.sampled_from((usual, LONG_MS, SHORTEST_MS))
    popping = st.builds(Pop, **at, **popped, invisible_ms=times)
    acking = st.builds(Ack, **at, which=WHICH, off=st.sampled_from((0, 0, 0, 0, 1, -1, 100)))
    first = st.integers(1, 32).map(range)
    bits = st.lists(st.integers(0, 33), min_size=1, max_size=6).map(tuple) | first.map(tuple)
    many = st.builds(AckMany, **at, which=WHICH, bits=bits, apart=st.booleans())
    changing = st.builds(
        Change,
        **at,
        which=WHICH,
        off=st.sampled_from((0, 0, 0, 1)),
        invisible_ms=st.sampled_from((LONG_MS, 0)),
    )
    committed = st.builds(Committed, **at)
    alone = [popping, popping, changing, acking, many]
    if queues <= ALL_MAX:
        every = {**at, "queue_id": st.just(ALL_QUEUES)}
        alone.append(st.builds(Pop, **every, **popped))
    # 5.3.3 acknowledges many one by one: a pop beside them may come between.
    racing = racing_pops | acking | committed
    rounds = st.one_of(
        st.lists(sends, min_size=1, max_size=2).map(tuple),
        *(each.map(_alone) for each in alone),
        *(each.map(_alone) for each in (popping, acking, committed, changing)),
        st.lists(racing, min_size=2, max_size=4).map(_side_by_side),
        st.lists(acking | many, min_size=2, max_size=4).map(_side_by_side),
    )
    return Program(setting, tuple(draw(st.lists(rounds, min_size=12, max_size=40))))


AREA: Final = Area()

__all__ = ["AREA", "CLIENTS", "Ack", "AckMany", "Change", "Committed", "Pop", "Send", "Setting"]
