"""Every request, beside the reference: two brokers are asked the same, one after the other, and all
that they answer, send of their own accord, store and show is to be the same.

Nothing is foreseen here but what cannot be compared (`telling`). What time does is waited for by
marks: messages that wait as long, popped and not acknowledged, or halves that are asked about.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import eventually
from mqconform.explore.areas.asking import (
    CLIENTS,
    GROUPS,
    IN_TIME_S,
    KINDS,
    LATE,
    LONG_MS,
    PULLED,
    QUEUES,
    SHORT_MS,
    TIMER_MS,
)
from mqconform.explore.oracle import Side, ours_of, theirs_of
from mqconform.explore.player import DepartureError, Program, TooSlowError, World, readable
from mqconform.explore.telling import differing
from mqconform.records import Record, parse_records
from mqconform.requests import Request
from mqconform.scene import done
from mqspec.core.extra_info import pop_retry_topic

SAME_S: Final = 5.0  # by when two brokers show the same that were told the same
COMES_S: Final = 90.0  # by when a mark came
LOOKED_S: Final = 45.0  # the same of all that can be looked at: a route is told each 30 s
MARKS: Final = 8  # queues that the revive log has
DIFFERENCES_MAX: Final = 12


class Wait(StrEnum):
    """What time does that a request started."""

    DELAY = "a message comes that waited"
    SHORT = "a message comes again that was popped"
    CHECK = "a producer is asked about a half"


WAITS_FOR: Final = {"wait": Wait.DELAY, "back": Wait.DELAY, "half": Wait.CHECK}
"""What a kind of request starts."""

SPARED: Final[Mapping[str, str]] = {
    "ADMIN-024": "groups",
    "OFFSET-022": "correction of one",
}
"""What is not looked at where the target is listed as departing from a rule."""

ALWAYS: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "TX-018": {"half": {"flag": 0}},
}
"""What is not drawn for a kind there, but always the same."""

SHORTEN: Final = ("pop", "change")  # which may, by a short invisible time, and need not
BESIDE: Final = (*SHORTEN, "ack", "ack_all", "lock", "unlock")  # may stand beside what waits


@dataclass(frozen=True)
class Ask:
    """One request to both; `args` is what its kind has drawn."""

    client: int
    broker: int
    kind: str
    args: tuple[tuple[str, Any], ...] = ()
    ours: Any = None  # what the reference said that the target did not
    place = ()

    @property
    def rules(self) -> tuple[str, ...]:
        return KINDS[self.kind].rules

    def __str__(self) -> str:
        return repr(replace(self, ours=None))

    def act(self, world: World) -> Any:
        both: Both = world.notes["both"]
        return both.asked(self)

    def parts(self, seen: Any) -> Iterator[tuple[Any, Any]]:
        theirs, ours = seen
        yield replace(self, ours=ours), theirs

    def allowed(self, state: None) -> Iterator[tuple[Any, None]]:
        yield self.ours, state


@dataclass(frozen=True)
class Look(Ask):
    """All that can be read is read."""

    client: int = 0
    broker: int = 0
    kind: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        return "SYSTEM-001", "LOG-001", "ADMIN-001", "OFFSET-010"

    def act(self, world: World) -> Any:
        both: Both = world.notes["both"]
        return both.looked_at(world)


class Both:
    """The target and the reference, side by side."""

    def __init__(self, world: World) -> None:
        self.prefix = world.scene.name("B")
        world.topics += [f"{self.prefix}T{n}" for n in range(4)]
        world.groups += [f"{self.prefix}G{n}" for n in range(GROUPS)]
        self.theirs, self.ours = theirs_of(world), ours_of(world)
        self.sides = self.theirs, self.ours
        self.brokers = range(len(self.theirs.names))
        self.marked, self.marker = world.scene.name("M"), world.scene.name("N")
        self.waits: set[tuple[Wait, int]] = set()  # for what, at which broker
        self.deviates = world.scene.deviates

    def begin(self) -> None:
        for side in self.sides:
            for broker in self.brokers:
                for topic, queues in QUEUES.items():
                    done(
                        side.call(requests.create_topic(side.topics[topic], queues, queues), broker)
                    )
                done(side.call(requests.create_topic(self.marked, 4, 4), broker))
                for name in (*side.groups[:-1], self.marker):
                    done(side.call(requests.create_group(name), broker))

    # Asking

    def asked(self, op: Ask) -> tuple[Any, Any]:
        kind, args = KINDS[op.kind], dict(op.args)
        for rule in self.deviates & ALWAYS.keys():
            args |= ALWAYS[rule].get(op.kind, {})
        if self.waits and not (kind.heats or kind.reads or op.kind in BESIDE):
            self.rest()

        def both() -> tuple[Any, Any]:
            ours = kind.ask(self.ours, op.broker, op.client, **args)
            with readable("beside the reference", op):
                theirs = kind.ask(self.theirs, op.broker, op.client, **args)
            return differing(theirs, ours)

        seen = self._same(both, SAME_S) if kind.reads else both()
        self._note(op)
        return seen

    def _note(self, op: Ask) -> None:
        """What is to be waited for."""
        if op.kind in WAITS_FOR:
            self.waits.add((WAITS_FOR[op.kind], op.broker))

        began = min(side.notes.get("short", math.inf) for side in self.sides)
        if began < math.inf:
            if op.kind in SHORTEN:
                self.waits.add((Wait.SHORT, op.broker))
            if time.monotonic() - began > IN_TIME_S:
                raise TooSlowError

    def _same(self, ask: Callable[[], tuple[Any, Any]], within_s: float) -> tuple[Any, Any]:
        """Asked until both say the same."""
        seen: list[tuple[Any, Any]] = []

        def is_same() -> bool:
            seen.append(ask())
            return seen[-1] == ({}, {})

        eventually(is_same, within_s)
        return seen[-1]

    # What time does

    def rest(self) -> None:
        """What waits has come: on both sides, what waits as long, and was sent later, is there."""
        waits, self.waits = self.waits, set()
        self._unlock()
        awaited: list[tuple[Side, int, str, int, int]] = []
        for side in self.sides:
            side.notes.pop("short", None)
            for what, broker in sorted(waits):
                awaited += [(side, broker, *mark) for mark in self._marks(side, what, broker)]
        for side, broker, topic, queue, end in awaited:
            asked = requests.max_offset(topic, queue)

            def has_come(
                side: Side = side, broker: int = broker, asked: Request = asked, end: int = end
            ) -> bool:
                answer = side.call(asked, broker)
                return answer.code == 0 and answer.number("offset") >= end

            if not eventually(has_come, COMES_S):
                if side is self.ours:
                    raise TooSlowError
                raise DepartureError(
                    f"a message for queue {queue} of {topic} at broker {broker} is late by"
                    f" {COMES_S:.0f} s\n  rules: DELAY-003, TIMER-002, POP-002"
                )
        for broker in self.brokers:
            if (Wait.CHECK, broker) in waits:
                self._ask_about_halves(broker)

    def _marks(self, side: Side, what: Wait, broker: int) -> Iterator[tuple[str, int, int]]:
        """What to wait for: the end of a queue."""
        if what is Wait.DELAY:
            for queue, waits in enumerate(({"DELAY": "1"}, {"TIMER_DELAY_MS": str(TIMER_MS)})):
                done(side.call(requests.send(self.marked, b"m", queue, waits), broker))
                yield self.marked, queue, self._count(side, broker, f"queue {queue}")
        if what is Wait.SHORT:
            for _ in range(MARKS):
                sent = done(side.call(requests.send(self.marked, b"m", 2), broker))
                asked, end = requests.max_offset(self.marked, 2), sent.number("queueOffset") + 1
                eventually(lambda: side.call(asked, broker).number("offset") >= end)  # noqa: B023
                pop = requests.pop(self.marked, self.marker, 2, count=1, invisible_ms=SHORT_MS)
                done(side.call(pop, broker))
                ended = self._count(side, broker, "revived")
            yield pop_retry_topic(self.marked, self.marker), 0, ended

    def _unlock(self) -> None:
        """Nobody holds a lock: each would be over at some time."""
        for side in self.sides:
            if side.notes.pop("locked", None):
                for broker, name, client, queues in side.lists.pop("locks"):
                    side.call(requests.unlock(name, client, *queues), broker)

    def _count(self, side: Side, broker: int, what: str) -> int:
        count: int = side.notes.get((what, broker), 0) + 1
        side.notes[what, broker] = count
        return count

    def _ask_about_halves(self, broker: int) -> None:
        """Producers are asked about halves: until they were about one that was sent last."""
        if not self.ours.notes.get(("checked", broker)):
            return
        name = self.marker + "p"
        for side in self.sides:
            done(side.call(requests.producer_heartbeat("mark", name), broker, CLIENTS))
            half = requests.send_half(
                self.marked, name, b"m", {"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}
            )
            done(side.call(half, broker, CLIENTS))
        for side in self.sides:
            connection = side.connection(CLIENTS, broker)

            def is_asked(side: Side = side) -> bool:
                side.call(requests.max_offset(self.marked), broker, CLIENTS)
                return any(
                    notice.code == requests.CHECK_TRANSACTION_STATE
                    for notice in connection.notices  # noqa: B023
                )

            if not eventually(is_asked, COMES_S):
                if side is self.ours:
                    raise TooSlowError
                raise DepartureError("a producer is not asked about its half\n  rules: TX-006")
            for notice in connection.notices:
                fields = notice.fields
                place = int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"])
                end = requests.end_transaction(name, *place, requests.ROLLBACK, from_check=True)
                side.call(end, broker, CLIENTS)
            connection.notices.clear()

    # Looking

    def looked_at(self, world: World) -> tuple[Any, Any]:
        if self.waits:
            self.rest()

        def both() -> tuple[Any, Any]:
            before = self.ours.asked
            theirs, ours = (self._whole(side) for side in self.sides)
            world.checked += self.ours.asked - before
            return differing(theirs, ours)

        theirs, ours = self._same(both, LOOKED_S)
        paths = sorted(theirs | ours)[:DIFFERENCES_MAX]
        return (
            {path: theirs[path] for path in paths if path in theirs},
            {path: ours[path] for path in paths if path in ours},
        )

    def _whole(self, side: Side) -> dict[str, Any]:
        """All that a side shows of the program's names."""
        side.take_notices()
        found: dict[str, Any] = {}
        for broker in self.brokers:
            tables = self._tables(side, broker)
            topics = list(tables["topics"].get("body", {}).get("topicConfigTable", {}))
            found[f"broker {broker}"] = {
                **tables,
                "messages": {name: self._messages(side, broker, name) for name in sorted(topics)},
                "of topics": {name: self._of_topic(side, broker, name) for name in sorted(topics)},
                "of groups": {
                    name: self._of_group(side, broker, name)
                    for name in (*side.groups, side.groups[0] + "p")
                },
                "notices": self._notices(side, broker),
            }
        found["routes"] = {
            name: side.words.json(side.nameserver.call(requests.route(name)))
            for name in (*side.topics, *(f"%RETRY%{group}" for group in side.groups))
        }
        return found

    def _tables(self, side: Side, broker: int) -> dict[str, Any]:
        """Of what is everybody's, what has the program's names."""
        asked = {
            "topics": requests.GET_ALL_TOPIC_CONFIG,
            "groups": requests.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            "offsets": requests.GET_ALL_CONSUMER_OFFSET,
            "modes": requests.GET_ALL_MESSAGE_REQUEST_MODE,
            "producers": requests.GET_ALL_PRODUCER_INFO,
        }
        told = {
            name: side.words.json(side.call(Request(code), broker), of=self.prefix)
            for name, code in asked.items()
        }
        for is_order in ("false", "true"):
            stats = Request(requests.GET_BROKER_CONSUME_STATS, {"isOrder": is_order})
            found = side.words.json(side.call(stats, broker), of=self.prefix)
            told[f"progress, in order {is_order}"] = found
        return told

    def _messages(self, side: Side, broker: int, topic: str) -> dict[str, Any]:
        """All messages of a topic, of all queues, and where these begin and end."""
        config = side.call(requests.topic_config(topic), broker)
        if config.code != 0:
            return {"code": config.code}
        config_ = config.json()
        is_late = topic == side.topics[LATE] or topic.startswith("%")
        queues = max(config_["readQueueNums"], config_["writeQueueNums"])
        found: dict[str, Any] = {}
        every: list[Record] = []
        for queue in range(queues):
            ends = [
                side.call(ask(topic, queue), broker).fields.get("offset")
                for ask in (requests.min_offset, requests.max_offset)
            ]
            earliest = side.call(requests.earliest_time(topic, queue), broker)
            records = self._records(side, broker, topic, queue, int(ends[1] or 0))
            every += records
            found[f"queue {queue}"] = {
                "ends": None if is_late and queue and not records else ends,
                "earliest": side.words.fields(earliest.fields),
                "records": side.words.records(records, is_in_order=not is_late),
            }
        if topic.startswith("%RETRY%"):
            known = [one for one in side.lists["again", broker] if one[0] != topic]
            side.lists["again", broker] = known + [
                (topic, record.physical_offset)
                for record in sorted(every, key=lambda one: sorted(one.properties.items()))
            ]
        return found

    def _records(self, side: Side, broker: int, topic: str, queue: int, end: int) -> list[Record]:
        found: list[Record] = []
        at = 0
        while at < end:
            asked = requests.pull(topic, self.marker, at, queue, count=PULLED)
            answer = side.call(asked, broker)
            if "nextBeginOffset" not in answer.fields or answer.number("nextBeginOffset") <= at:
                break
            found += parse_records(answer.body) if answer.code == 0 else []
            at = answer.number("nextBeginOffset")
        return found

    def _of_topic(self, side: Side, broker: int, topic: str) -> dict[str, Any]:
        asked = {
            "config": requests.topic_config(topic),
            "ends": Request(requests.GET_TOPIC_STATS_INFO, {"topic": topic}),
            "groups": Request(requests.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}),
            "correction": requests.correction_offset(topic, ""),
            "correction of one": requests.correction_offset(topic, side.groups[0]),
        }
        spared = {SPARED.get(rule) for rule in self.deviates}
        return {
            name: side.words.json(side.call(ask, broker))
            for name, ask in asked.items()
            if name not in spared
        }

    def _of_group(self, side: Side, broker: int, group: str) -> dict[str, Any]:
        asked = {
            "members": requests.consumer_list(group),
            "connections": Request(requests.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}),
            "producers": Request(requests.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group}),
            "stats": Request(requests.GET_CONSUME_STATS, {"consumerGroup": group}),
            "topics": Request(requests.QUERY_TOPICS_BY_CONSUMER, {"group": group}),
            **{
                f"stats of {n}": Request(
                    requests.GET_CONSUME_STATS, {"consumerGroup": group, "topic": topic}
                )
                for n, topic in enumerate(side.topics)
            },
            **{
                f"span of {n}": Request(
                    requests.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": group}
                )
                for n, topic in enumerate(side.topics)
            },
            **{
                f"wants of {n}": requests.query_subscription(group, topic)
                for n, topic in enumerate(side.topics)
            },
        }
        return {name: side.words.json(side.call(ask, broker)) for name, ask in asked.items()}

    def _notices(self, side: Side, broker: int) -> dict[str, Any]:
        """What brokers sent of their own accord: where members are to go on, and the halves that
        producers were asked about, each once."""
        told: dict[str, Any] = {}
        for client, notice in side.lists["notices", broker]:
            if notice.code == requests.CHECK_TRANSACTION_STATE:
                records = parse_records(notice.body)
                told |= side.words.records(records, is_in_order=False)
            elif notice.code != requests.NOTIFY_CONSUMER_IDS_CHANGED:
                body = side.words.plain(notice.json()) if notice.body else None
                place = f"client {client}, {notice.code} {len(told)}"
                told[place] = side.words.fields(notice.fields), body
        return told


class Area:
    name = "beside"
    about = "every request, beside the reference: all answers, messages and tables"
    within_s = math.inf
    lanes = 4  # most of a program is waiting

    def programs(self) -> st.SearchStrategy[Program[None]]:
        # Of all zeros, which is drawn first each time, nothing is made.
        return st.binary(min_size=8, max_size=8).filter(any).map(program)

    def begin(self, world: World, setting: None) -> None:
        world.notes["both"] = both = Both(world)
        both.begin()

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        return

    def last(self, world: World, setting: None) -> Sequence[Any]:
        return ()


COOL: Final = tuple(n for n, one in KINDS.items() for _ in range(one.often) if not one.heats)
HOT: Final = tuple(
    n for n, one in KINDS.items() for _ in range(one.often)
    if one.heats or n in (*SHORTEN, "ack", "ack_all")
)  # fmt: skip


def program(seed: bytes) -> Program[None]:
    """Some stretches of requests, the last of which start what time ends, with a look behind."""
    r = Random(seed)
    rounds: list[Ask] = []
    for _ in range(r.choice((1, 2, 2, 3))):
        rounds += [_drawn(r, r.choice(COOL), LONG_MS) for _ in range(r.choice((10, 30, 60)))]
        rounds += [_drawn(r, r.choice(HOT), SHORT_MS) for _ in range(r.choice((0, 6, 12, 20)))]
        rounds.append(Look())
    return Program(None, tuple((op,) for op in rounds))


def _drawn(r: Random, kind: str, most_ms: int) -> Ask:
    args = KINDS[kind].draw(r)
    if kind in SHORTEN:
        args["invisible_ms"] = r.choice((most_ms, LONG_MS))
    return Ask(r.randrange(CLIENTS), r.choice((0, 0, 0, 1)), kind, tuple(args.items()))


AREA: Final = Area()
