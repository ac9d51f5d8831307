"""What was popped and comes again: messages of pops of all sizes, some acknowledged, one by one or
many at once, some hidden for longer, and what comes again popped again."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import eventually
from mqconform.explore.areas.pops import LONG_MS, NOTHING, TAGS, handles_of
from mqconform.explore.conversing import Answers, converse
from mqconform.explore.player import DepartureError, Program, TooSlowError, World
from mqconform.frame import Frame
from mqconform.records import Record as Read
from mqconform.records import parse_records
from mqconform.requests import Request
from mqconform.scene import done
from mqspec.core import ack_message, conversation, pop
from mqspec.core.ack_message import AckMessage
from mqspec.core.broker_states import BrokerStates
from mqspec.core.extra_info import ReceiptHandle, parse_handle, pop_retry_topic
from mqspec.core.log import PutResult, PutStatus, Span
from mqspec.core.metadata import MetadataState, TopicConfig
from mqspec.core.record import NOWHERE, Record, decode_properties, encode_properties
from mqspec.core.revive_log import ReviveMessage, decode
from mqspec.core.step import apply

GROUPS: Final = 16  # half of them on each of two brokers; each pops a queue of its own
NAMES: Final = (0, 64, 127)
SHORT_MS: Final = 2_000  # an invisible time whose end is waited for
IN_TIME_S: Final = 1.2  # by when all of a pop is acknowledged, or nothing is judged
REVIVED_S: Final = 40.0  # what a busy broker may take
PROBES: Final = 8  # queues that the revive log has
BATCHES: Final = (1, 2, 3, 8, 9, 16, 31, 32)
NAME: Final = "topic"  # of the model
STAGE_MS: Final = 1_000_000  # between two pops, as the model counts
TAKES_MS: Final = 10  # between a pop and a change, as the model counts
FIRST_POP: Final = pop.FIRST_POP_TIME


@dataclass(frozen=True)
class Setting:
    name: int = 0  # characters of the groups' names, at least


@dataclass(frozen=True)
class Held:
    """What a broker has of a group: what may be popped, what came again, and what is out."""

    stage: int = 0  # how often the group popped
    fresh: int = 0  # messages that the group popped of the topic itself
    waiting: tuple[Record, ...] = ()  # in the retry topic
    copies: tuple[Record, ...] = ()  # all that ever were in the retry topic


@dataclass(frozen=True)
class State:
    of: tuple[tuple[tuple[int, int], Held], ...] = ()  # by broker and group

    def at(self, place: tuple[int, int]) -> Held:
        return dict(self.of).get(place, Held())

    def having(self, place: tuple[int, int], held: Held) -> State:
        kept = {**dict(self.of), place: held}
        return State(tuple(sorted(kept.items(), key=lambda entry: entry[0])))


@dataclass(frozen=True)
class Done:
    """What a consumer does with some messages of a pop, which are numbered by their bodies."""

    how: str  # "ack", "batch", "hide" for long, "soon" for as short as before, "old" handle's ack
    which: tuple[int, ...]


@dataclass(frozen=True)
class Deal:
    """A group pops what there is, new messages or what came again, and is done with some."""

    client: int
    broker: int
    group: int
    count: int  # of new messages, which are sent before
    tag: str = ""
    then: tuple[Done, ...] = ()
    rules = "POP-002", "POP-003", "POP-004", "POP-008", "POP-010"

    @property
    def place(self) -> tuple[int, int]:
        return self.broker, self.group

    def act(self, world: World) -> Any:
        """What was popped, and how each request was answered."""
        if self.count:
            self._send(world)
        asked = _pop(world, self.group)
        began = time.monotonic()
        answer = done(world.call(asked, self.broker, self.client), 0, NOTHING)
        if answer.code == NOTHING:
            return (), ()
        popped = self._popped(world, answer)
        self._await_later(world, answer.number("popTime"))
        codes = tuple(self._do(world, popped, each) for each in self.then)
        if time.monotonic() - began > IN_TIME_S:
            raise TooSlowError
        return tuple(told(world, record) for record, _ in popped), codes

    def _send(self, world: World) -> None:
        properties = {"TAGS": self.tag} if self.tag else {}
        bodies = [b"%02d" % n for n in range(self.count)]
        send = requests.send_batch(world.topics[0], bodies, self.group, properties)
        end = done(world.call(send, self.broker, self.client)).number("queueOffset") + self.count
        ask = requests.max_offset(world.topics[0], self.group)
        eventually(lambda: world.call(ask, self.broker).number("offset") >= end)

    def _popped(self, world: World, answer: Frame) -> list[tuple[Read, list[str]]]:
        """The messages in the order of their bodies, each with its handles: the newest is last."""
        stage = world.notes[self.place, "stage"] = world.notes.get((self.place, "stage"), 0) + 1
        world.notes["times", answer.fields["popTime"]] = STAGE_MS * stage
        handles = handles_of(answer, world.broker_name(self.broker))
        popped = [
            (record, [handle])
            for record, (*_, handle) in zip(parse_records(answer.body), handles, strict=True)
        ]
        return sorted(popped, key=lambda each: each[0].body)

    def _await_later(self, world: World, pop_time: int) -> None:
        """A change in the millisecond of its pop is another thing (POP-044)."""
        ask = requests.max_offset(world.topics[0], self.group)
        for _ in range(10):
            world.call(ask, self.broker, self.client)
            if time.time_ns() // 1_000_000 > pop_time + 1:
                return

    def _do(self, world: World, popped: list[tuple[Read, list[str]]], what: Done) -> Any:
        """The answer's code."""
        chosen = [popped[n] for n in chosen_of(what, len(popped))]
        handles = chosen[0][1]
        shown = handles[0] if what.how == "old" else handles[-1]
        handle = parse_handle(shown)
        group = world.groups[self.group]
        is_retry = handle.topic_flag != "0"
        topic = pop_retry_topic(world.topics[0], group) if is_retry else world.topics[0]
        offset, queue_id = handle.queue_offset, handle.queue_id
        if what.how == "batch":
            answer = world.call(self._batch(world, chosen), self.broker, self.client)
            return answer.code
        if what.how in ("ack", "old"):
            asked = requests.ack(topic, group, shown, offset, queue_id)
            return world.call(asked, self.broker, self.client).code
        invisible_ms = LONG_MS if what.how == "hide" else SHORT_MS
        asked = requests.change_invisible_time(topic, group, shown, offset, invisible_ms, queue_id)
        answer = world.call(asked, self.broker, self.client)
        if answer.code == 0:
            names = "popTime", "invisibleTime", "reviveQid"
            new = " ".join(answer.fields[name] for name in names)
            stage = world.notes[self.place, "stage"]
            world.notes["times", answer.fields["popTime"]] = STAGE_MS * stage
            handles.append(f"{offset} {new} {' '.join(shown.split(' ')[4:])}")
        return answer.code

    def _batch(self, world: World, chosen: list[tuple[Read, list[str]]]) -> Request:
        """One acknowledgement of many messages, an entry for each that has a handle of its own."""
        entries: dict[ReceiptHandle, int] = {}
        for _, handles in chosen:
            handle = parse_handle(handles[-1])
            bit = 1 << handle.queue_offset - handle.ck_queue_offset
            place = handle._replace(queue_offset=-1)
            entries[place] = entries.get(place, 0) | bit
        acks = [
            {
                "c": world.groups[self.group],
                "t": world.topics[0],
                "r": handle.topic_flag,
                "so": handle.ck_queue_offset,
                "q": handle.queue_id,
                "rq": handle.revive_qid,
                "pt": handle.pop_time,
                "it": handle.invisible_time,
                "b": b64encode(bits.to_bytes(bits.bit_length() // 8 + 1, "little")).decode(),
            }
            for handle, bits in entries.items()
        ]
        return requests.batch_ack(world.broker_name(self.broker), *acks)

    def allowed(self, state: State) -> Iterator[tuple[Any, State]]:
        held = state.at(self.place)
        popped = self._pops(held)
        if not popped:
            yield ((), ()), state
            return
        out = _Out(popped, held.stage + 1)
        codes = tuple(out.do(each) for each in self.then)
        again = tuple(out.come_again())
        behind = Held(held.stage + 1, held.fresh + self.count, again, held.copies + again)
        yield (tuple(map(told_of, popped)), codes), state.having(self.place, behind)

    def _pops(self, held: Held) -> list[Record]:
        properties = encode_properties({"TAGS": self.tag} if self.tag else {}).encode()
        new = [Record(NAME, b"%02d" % n, properties) for n in range(self.count)]
        return sorted([*held.waiting, *new], key=lambda record: record.body)


class _Out:
    """A pop of the model: its messages are out, those of the retry topic too, each in a read of
    its kind. Offsets are numbers in the order of the bodies, whatever they are in truth."""

    def __init__(self, popped: Sequence[Record], stage: int) -> None:
        self._popped, self._stage = popped, stage
        self._now_ms = STAGE_MS * stage
        self.states = BrokerStates(
            metadata=MetadataState(topic_config_table={NAME: TopicConfig(NAME)})
        )
        self._log: list[ReviveMessage] = []
        self._answers: Answers = {
            conversation.ReadSpan: lambda _: Span(0, len(popped)),
            conversation.Append: self._append,
        }
        asked = pop.Pop("group", NAME, 0, 32, SHORT_MS, 0, 0, 0, "TAG", "*", False, None, "")
        read = pop.Popped(NAME, 0, 0, tuple(range(len(popped))), len(popped))
        self._log.append(pop.pop_message(read, asked, self._now_ms, "broker").result)
        handle = ReceiptHandle(0, self._now_ms, SHORT_MS, 0, "0", "broker", 0, -1)
        self._handles = [[handle] for _ in popped]

    def _append(self, ask: conversation.Append) -> PutResult:
        if message := decode(ask.message):
            self._log.append(message)
        return PutResult(PutStatus.PUT_OK)

    def do(self, what: Done) -> int:
        chosen = chosen_of(what, len(self._popped))
        offset, handles = chosen[0], self._handles[chosen[0]]
        shown = handles[0] if what.how == "old" else handles[-1]
        if what.how == "batch":
            return self._batch(chosen)
        queue = NAME, 0
        if what.how in ("ack", "old"):
            talk = ack_message.ack(self.states, queue, "group", offset, str(shown), "", 0)
            return int(converse(talk, self._answers).code)
        now_ms = self._now_ms + TAKES_MS * len(handles)
        invisible_ms = LONG_MS if what.how == "hide" else SHORT_MS
        answer = converse(
            ack_message.change_message_invisible_time(
                self.states, queue, "group", offset, str(shown), invisible_ms, "", now_ms
            ),
            self._answers,
        )
        new = answer.ext_fields
        pop_time, time_ms = int(new["popTime"]), int(new["invisibleTime"])
        handles.append(ReceiptHandle(offset, pop_time, time_ms, 0, "0", "broker", 0, offset))
        return int(answer.code)

    def _batch(self, chosen: Sequence[int]) -> int:
        entries: dict[ReceiptHandle, list[int]] = {}
        for offset in sorted(chosen):
            handle = self._handles[offset][-1]._replace(queue_offset=-1)
            entries.setdefault(handle, []).append(offset)
        events = [
            AckMessage(NAME, "group", 0, tuple(offsets), handle)
            for handle, offsets in entries.items()
        ]
        talk = ack_message.batch_ack(self.states, events, "", 0)
        return int(converse(talk, self._answers).code)

    def come_again(self) -> Iterator[Record]:
        """The copies of what is not acknowledged, once its time is up."""
        state = pop.PopState(scan_offset={0: 0})
        for at, message in enumerate(self._log):
            step = pop.consume_revive_message(state, 0, at, message)
            apply(state, step.changes)
        later = self._now_ms + 5 * SHORT_MS
        for held in state.check_points.values():
            for offset in held.unacked if pop.is_due(held, later) else ():
                popped = self._popped[offset]
                yield pop.revived_message(held.check_point, popped, self.states.config, NOWHERE)


def chosen_of(what: Done, count: int) -> list[int]:
    """The numbers of the messages that are meant, of so many: of none, all."""
    return list(dict.fromkeys(n % count for n in what.which or range(count)))


def told(world: World, record: Read) -> Any:
    """What is told of a message; times as the model counts them."""
    first = record.properties.get(FIRST_POP)
    return (
        record.body,
        record.reconsume_times,
        record.properties.get("TAGS", ""),
        world.notes.get(("times", first), first),
    )


def told_of(record: Record) -> Any:
    properties = decode_properties(record.properties)
    first = properties.get(FIRST_POP)
    return (
        record.body,
        record.reconsume_times,
        properties.get("TAGS", ""),
        first and int(first) // STAGE_MS * STAGE_MS,
    )


@dataclass(frozen=True)
class Again:
    """All that came again for a group: what lies in its retry topic."""

    client: int
    broker: int
    group: int
    rules = "POP-002", "POP-003", "POP-004", "POP-008", "POP-010"

    @property
    def place(self) -> tuple[int, int]:
        return self.broker, self.group

    def request(self, world: World) -> Request:
        topic = pop_retry_topic(world.topics[0], world.groups[self.group])
        return requests.max_offset(topic)

    def seen(self, world: World, answer: Frame) -> Any:
        topic = pop_retry_topic(world.topics[0], world.groups[self.group])
        found: list[Read] = []
        end = answer.number("offset") if answer.code == 0 else 0
        while len(found) < end:
            pull = requests.pull(topic, world.groups[self.group], len(found))
            records = parse_records(world.call(pull, self.broker, self.client).body)
            if not records:
                break
            found += records
        return tuple(sorted((told(world, record) for record in found), key=repr))

    def allowed(self, state: State) -> Iterator[tuple[Any, State]]:
        copies = state.at(self.place).copies
        yield tuple(sorted(map(told_of, copies), key=repr)), state


def _pop(world: World, group: int, count: int = 32) -> Request:
    """Each group pops a queue of its own."""
    topic, name = world.topics[0], world.groups[group]
    return requests.pop(topic, name, group, count=count, invisible_ms=SHORT_MS)


class Area:
    name = "revivals"
    about = "what was popped, and comes again where it was not acknowledged"
    within_s = LONG_MS / 1000 - 10
    looks_s = 3.0  # what came again may be a while on its way

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> State:
        world.make_topic(GROUPS + 1)
        for _ in range(GROUPS + 1):
            world.make_group(setting.name)
        return State()

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        """What is popped last comes again last: then so did all else."""
        places = world.notes.setdefault("places", {})
        places.update(dict.fromkeys(op.place for op in round_))
        brokers = dict.fromkeys(op.broker for op in round_)
        known = {broker: self._probe(world, broker) for broker in brokers}
        topic = pop_retry_topic(world.topics[0], world.groups[GROUPS])
        for broker, count in known.items():
            ask = requests.max_offset(topic)

            def is_back(broker: int = broker, count: int = count, ask: Request = ask) -> bool:
                answer = world.call(ask, broker)
                return answer.code == 0 and answer.number("offset") >= count

            if not eventually(is_back, REVIVED_S):
                text = (
                    f"of {count} messages that were popped not all came again in {REVIVED_S:.0f} s"
                )
                raise DepartureError(f"{text}\n  rules: POP-002")

    def _probe(self, world: World, broker: int) -> int:
        """Pop messages, one by one, that nobody acknowledges; how many in all."""
        send = requests.send_batch(world.topics[0], [b"x"] * PROBES, GROUPS)
        count = done(world.call(send, broker)).number("queueOffset") + PROBES
        ask = requests.max_offset(world.topics[0], GROUPS)
        eventually(lambda: world.call(ask, broker).number("offset") >= count)
        for _ in range(PROBES):
            done(world.call(_pop(world, GROUPS, 1), broker))
        return count

    def last(self, world: World, setting: Setting) -> Sequence[Any]:
        return [Again(0, *place) for place in world.notes.get("places", ())]


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    """Each group pops new messages, and later what came again."""
    setting = Setting(draw(st.sampled_from(NAMES)))
    numbers = st.integers(0, 3) | st.integers(0, 31)
    some = st.lists(numbers, min_size=1, max_size=6).map(tuple)
    one = numbers.map(lambda n: (n,))
    deeds = st.one_of(
        st.builds(Done, st.sampled_from(("ack", "ack", "hide", "soon", "old")), one),
        st.builds(Done, st.just("batch"), some),
        st.just(Done("batch", ())),
    )
    then = st.lists(deeds, max_size=8).map(_changed_once)
    places = [(group % 2, group) for group in range(GROUPS)]
    first = [
        Deal(
            draw(st.integers(0, 3)), *place, draw(st.sampled_from(BATCHES)),
            draw(st.sampled_from(TAGS)), draw(then),
        )
        for place in places
    ]  # fmt: skip
    later = [
        tuple(Deal(op.client, op.broker, op.group, 0, "", draw(then)) for op in first)
        for _ in range(draw(st.integers(0, 2)))
    ]
    return Program(setting, (tuple(first), *later))


def _changed_once(deeds: list[Done]) -> tuple[Done, ...]:
    """Two changes of a message in one millisecond are another thing (POP-044)."""
    changed: set[int] = set()
    kept = []
    for each in deeds:
        if each.how in ("hide", "soon"):
            if changed:
                continue
            changed |= set(each.which)
        kept.append(each)
    return tuple(kept)


AREA: Final = Area()
