"""What `mqspec allocate` is asked, and what it answers: options to allocations to JSON.

The page of the book runs this same module in the browser, so that the two cannot differ. It needs
nothing but the core and the standard library for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property

from mqrules.errors import UserError
from mqspec.core.allocation import (
    FALLS_TO,
    STRATEGIES,
    VIRTUAL_NODES,
    AllocationError,
    Move,
    Owners,
    Seat,
    Strategy,
    Uneven,
    allocate,
    by_config,
    by_machine_room,
    consistent_hash,
    machine_room_nearby,
    md5_hash,
    moves,
    owners,
    uneven,
)
from mqspec.core.types import ClientId, MessageQueue, Topic, string_order

QUEUES_MAX, MEMBERS_MAX = 100_000, 1_000  # more than a terminal shows, less than memory holds
NEARBY = "MACHINE_ROOM_NEARBY-"

Strategies = Mapping[ClientId, Strategy]


@dataclass(frozen=True)
class Asked:
    """The options of `mqspec allocate`, by their names there, as text."""

    queues: str | None = None
    topic: Sequence[str] | None = None
    brokers: str = "broker-a"
    members: str = "2"
    strategy: str = "AVG"
    leave: Sequence[str] = ()
    join: Sequence[str] = ()
    release: bool = False
    duplicate_id: str | None = None
    unseen: str | None = None
    virtual_nodes: str | None = None
    rooms: str | None = None
    config: Sequence[str] | None = None


@dataclass(frozen=True)
class Allocation:
    """What the members of a group take: a position in the id list each, so ids may repeat."""

    queues: list[MessageQueue]
    members: list[ClientId]
    taken: list[list[MessageQueue]]
    uneven: Uneven | None = None  # by the condition, of the strategies that have one

    @cached_property
    def owners(self) -> Owners:
        """Who takes each queue."""
        return owners(self.queues, zip(self.members, self.taken, strict=True))

    @property
    def nobodys(self) -> list[MessageQueue]:
        """The queues that no member takes."""
        return [mq for mq, cids in self.owners.items() if not cids]

    @property
    def shared(self) -> list[MessageQueue]:
        """The queues that more than one member takes."""
        return [mq for mq, cids in self.owners.items() if len(cids) > 1]


@dataclass(frozen=True)
class Plan:
    """What a group takes before and after each change, each state with its title."""

    strategy: str
    states: tuple[tuple[str, Allocation], ...]

    def changes(self) -> Iterator[tuple[Allocation, Allocation, list[Move]]]:
        """Each change: the states around it, and the queues whose owners it changes."""
        allocations = [allocation for _, allocation in self.states]
        for number, after in enumerate(allocations[1:]):
            before = allocations[number]
            yield before, after, moves(before.owners, after.owners)


def plan(asked: Asked) -> Plan:
    """Allocate as asked. Raises UserError, which names the option at fault."""
    topics = topics_of(asked)
    before = _group(asked)
    unseen = _member(asked.unseen, "--unseen", before) if asked.unseen else None
    groups = dict(_groups(before, asked))
    cids = {cid for group in groups.values() for cid in group}
    strategies = _strategies(asked, cids, [mq for mqs in topics for mq in mqs])
    return through(groups.items(), asked.strategy, topics, strategies, unseen)


def through(
    groups: Iterable[tuple[str, list[ClientId]]],
    name: str,
    topics: Sequence[list[MessageQueue]],
    strategies: Strategies,
    unseen: ClientId | None = None,
) -> Plan:
    """What a group takes of sorted topics, as its sorted members come and go.

    Raises UserError where a strategy refuses its input.
    """
    states = ((title, _allocate(topics, group, strategies, unseen)) for title, group in groups)
    return Plan(name, tuple(states))


def _groups(before: list[ClientId], asked: Asked) -> Iterator[tuple[str, list[ClientId]]]:
    """The members at each time, by what has happened."""
    if asked.release and (asked.leave or asked.join or len(set(before)) < len(before)):
        raise UserError("--release", "not together with --leave, --join or --duplicate-id")
    if asked.release and len(before) == 1:
        raise UserError("--release", "nobody is left while it restarts", "a group needs two")
    yield "before", before
    if asked.release:
        for cid in before:
            yield f"{cid} leaves", [other for other in before if other != cid]
            yield f"{cid} is back", before
    elif asked.leave or asked.join:
        yield "after", _changed(before, asked)


def between_stayers(before: Allocation, after: Allocation, moved: Sequence[Move]) -> int:
    """How many of the moved queues go from one member that stays to another."""
    stayed = set(before.members) & set(after.members)
    return sum(set(move.before) <= stayed >= set(move.after) for move in moved)


def _allocate(
    topics: Sequence[list[MessageQueue]],
    group: list[ClientId],
    strategies: Strategies,
    unseen: ClientId | None,
) -> Allocation:
    """Every member allocates for itself, topic by topic, as it sees the group."""
    taken: list[list[MessageQueue]] = []
    views = {cid: [other for other in group if other != unseen or cid == unseen] for cid in group}
    for cid in group:
        view = views[cid]
        strategy = strategies[cid]
        try:
            slices = [allocate(strategy, "group", cid, mq_all, view) for mq_all in topics]
        except AllocationError as error:
            raise UserError(strategy.name, str(error)) from None
        taken.append([mq for part in slices for mq in part])
    queues = [mq for mq_all in topics for mq in mq_all]
    name = strategies[group[0]].name
    if name not in FALLS_TO:
        return Allocation(queues, group, taken)
    seats = [Seat.of(cid, views[cid]) for cid in group]
    return Allocation(
        queues, group, taken, _together(uneven(name, len(mq_all), seats) for mq_all in topics)
    )


def _together(topics: Iterable[Uneven]) -> Uneven:
    """Of several topics."""
    found = list(topics)
    return Uneven(
        shared=sum(one.shared for one in found),
        nobodys=sum(one.nobodys for one in found),
        most=max(one.most for one in found),
    )


def _number(text: str, option: str, most: int, least: int = 1) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise UserError(option, f"{text!r} is not a number from {least} to {most}")
    return int(text)


def _names(text: str, option: str) -> list[str]:
    names = text.split(",")
    if "" in names or len(set(names)) < len(names):
        raise UserError(option, f"{text!r}: a name is empty, or comes twice")
    return names


def topics_of(asked: Asked) -> list[list[MessageQueue]]:
    """The queues of each topic, sorted."""
    if asked.queues and asked.topic:
        raise UserError("--queues", "not together with --topic", "write --topic NAME:N")
    brokers = _names(asked.brokers, "--brokers")
    found: dict[Topic, list[MessageQueue]] = {}
    for text in asked.topic or [f"TopicTest:{asked.queues or '8'}"]:
        topic, colon, queues = text.rpartition(":")
        if not (colon and topic) or topic in found:
            raise UserError("--topic", f"{text!r} is not a new NAME:N", "write it like T:8")
        number = _number(queues, "--topic" if asked.topic else "--queues", QUEUES_MAX)
        found[topic] = sorted(
            MessageQueue(topic, broker, queue_id)
            for broker in brokers
            for queue_id in range(number)
        )
    if sum(map(len, found.values())) > QUEUES_MAX:
        raise UserError("--topic", f"more than {QUEUES_MAX} queues in all")
    return [found[topic] for topic in sorted(found, key=string_order)]


def _group(asked: Asked) -> list[ClientId]:
    """The ids of the group, sorted; one of them twice if that is asked for."""
    if asked.members.removeprefix("-").isdigit():
        number = _number(asked.members, "--members", MEMBERS_MAX)
        width = len(str(number))
        group = [f"c{i:0{width}}" for i in range(1, number + 1)]
    else:
        group = sorted(_names(asked.members, "--members"), key=string_order)
    if asked.duplicate_id:
        place = group.index(_member(asked.duplicate_id, "--duplicate-id", group))
        if place == 0:
            raise UserError("--duplicate-id", "the first member has none before it")
        group[place] = group[place - 1]
    return group


def _member(text: str, option: str, group: list[ClientId]) -> ClientId:
    """A member by its id, or by its place in the order of ids, from 1."""
    if text in group:
        return text
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= len(group)):
        raise UserError(option, f"no member {text!r}", f"there are 1 to {len(group)}, or ids")
    return group[int(text) - 1]


def _changed(before: list[ClientId], asked: Asked) -> list[ClientId]:
    """The group after those who leave have left, and those who join have joined."""
    after = list(before)
    for text in asked.leave:
        cid = _member(text, "--leave", before)
        if cid not in after:
            raise UserError("--leave", f"{cid} leaves twice")
        after.remove(cid)
    for cid in asked.join:
        if not cid or cid in after:
            raise UserError("--join", f"{cid!r} is empty, or a member already")
        after.append(cid)
    if not after:
        raise UserError("--leave", "nobody is left", "a group needs a member")
    return sorted(after, key=string_order)


def _strategies(asked: Asked, cids: Iterable[ClientId], queues: list[MessageQueue]) -> Strategies:
    """The strategy of each member: the same for all, but for CONFIG's lists."""
    if asked.strategy == "CONFIG":
        return _configured(asked, cids, queues)
    if asked.config:
        raise UserError("--config", f"not for {asked.strategy}", "it goes with --strategy CONFIG")
    return dict.fromkeys(cids, strategy_of(asked.strategy, asked))


def strategy_of(name: str, asked: Asked) -> Strategy:
    """The strategy of a name, as the options have it. Raises UserError."""
    if name.startswith(NEARBY):
        inner = strategy_of(name.removeprefix(NEARBY), asked)
        return machine_room_nearby(inner, lambda mq: _room(mq.broker_name), _room)
    if name == "MACHINE_ROOM":
        if not asked.rooms:
            raise UserError("--strategy", f"{name} needs rooms", "add --rooms NAMES")
        return by_machine_room(_names(asked.rooms, "--rooms"))
    if name == "CONSISTENT_HASH":
        nodes = asked.virtual_nodes or str(VIRTUAL_NODES)
        # All members hash the same points, at each state anew.
        return consistent_hash(_number(nodes, "--virtual-nodes", 10_000, least=0), cache(md5_hash))
    if name not in STRATEGIES:
        known = ", ".join([*STRATEGIES, "CONFIG", "MACHINE_ROOM", f"{NEARBY}<one of these>"])
        raise UserError("--strategy", f"no strategy {name!r}", f"there are {known}")
    return STRATEGIES[name]


def _room(name: str) -> str:
    room, at, _ = name.partition("@")
    if not at:
        raise UserError(name, "names no room", "write it ROOM@NAME")
    return room


def _configured(asked: Asked, cids: Iterable[ClientId], queues: list[MessageQueue]) -> Strategies:
    """CONFIG takes its list for every topic anew: with one topic that is the list itself."""
    if len({mq.topic for mq in queues}) > 1:
        raise UserError("--strategy", "CONFIG is shown for one topic only")
    lists: dict[ClientId, list[MessageQueue]] = {cid: [] for cid in cids}
    for text in asked.config or []:
        cid, _, positions = text.partition("=")
        if cid not in lists:
            raise UserError("--config", f"no member {cid!r}", "write it like c1=0-3,6")
        for part in positions.split(","):
            first, dash, last = part.partition("-")
            start = _number(first, "--config", len(queues) - 1, least=0)
            stop = _number(last, "--config", len(queues) - 1, least=start) if dash else start
            lists[cid] += queues[start : stop + 1]
    return {cid: by_config(configured) for cid, configured in lists.items()}


def as_json(planned: Plan) -> dict[str, object]:
    """The plan for programs: one state; or two, with the moves; or the states of a release."""
    states = [_state(allocation) for _, allocation in planned.states]
    moved = [moved for _, _, moved in planned.changes()]
    if len(states) == 1:
        return {"strategy": planned.strategy, **states[0]}
    if len(states) == 2:
        listed = [
            {**_queue(m.queue), "before": list(m.before), "after": list(m.after)} for m in moved[0]
        ]
        before, after = states
        return {"strategy": planned.strategy, "before": before, "after": after, "moves": listed}
    titles = [title for title, _ in planned.states]
    steps = [
        {"what": title, "moved": number, **state}
        for title, number, state in zip(titles, [0, *map(len, moved)], states, strict=True)
    ]
    return {"strategy": planned.strategy, "moved": sum(map(len, moved)), "steps": steps}


def _state(allocation: Allocation) -> dict[str, object]:
    return {
        "members": [
            {
                "id": cid,
                "total": len(taken),
                "topics": dict(Counter(mq.topic for mq in taken)),
                "queues": [_queue(mq) for mq in taken],
            }
            for cid, taken in zip(allocation.members, allocation.taken, strict=True)
        ],
        "nobodys": [_queue(mq) for mq in allocation.nobodys],
        "shared": [_queue(mq) for mq in allocation.shared],
        **({"uneven": asdict(allocation.uneven)} if allocation.uneven else {}),
    }


def _queue(mq: MessageQueue) -> dict[str, str | int]:
    return {"topic": mq.topic, "broker": mq.broker_name, "queue_id": mq.queue_id}
