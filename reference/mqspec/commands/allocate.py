"""Show who consumes which queues, and what moves when members come and go.

mqspec allocate --queues 12 --members 5
mqspec allocate --queues 24 --members 4 --leave 2
mqspec allocate --queues 24 --members 4 --leave 2 --strategy CONSISTENT_HASH
mqspec allocate --topic T:8 --topic U:6 --members 4        remainders pile up on the first
mqspec allocate --queues 4 --brokers a,b --members x,z --join y
mqspec allocate --queues 12 --members 5 --duplicate-id 3   the third has the second's id
mqspec allocate --queues 12 --members 4 --unseen 4         the others do not know the fourth
mqspec allocate --strategy CONFIG --config c1=0-3 --config c2=3-7
mqspec allocate --strategy MACHINE_ROOM --rooms r1 --brokers r1@a,r2@b
mqspec allocate --strategy MACHINE_ROOM_NEARBY-AVG --brokers r1@a,r2@b --members r1@x,r2@y

Tables in a terminal; elsewhere tab-separated lines, a queue a line; --json for programs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from rich.console import Console
from rich.table import Table

from mqrules import UserError
from mqspec.core.allocation import (
    STRATEGIES,
    VIRTUAL_NODES,
    AllocationError,
    Move,
    Owners,
    Strategy,
    allocate,
    by_config,
    by_machine_room,
    consistent_hash,
    machine_room_nearby,
    moves,
    owners,
)
from mqspec.core.types import ClientId, MessageQueue, Topic, string_order

HELP = "show who consumes which queues, and what moves"

QUEUES_MAX, MEMBERS_MAX = 100_000, 1_000  # more than a terminal shows, less than memory holds
NEARBY = "MACHINE_ROOM_NEARBY-"

Strategies = Mapping[ClientId, Strategy]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--queues", metavar="N", help="queues on each broker, of one topic (default: 8)")
    add("--topic", metavar="NAME:N", action="append", help="a topic, N queues on each broker")
    add("--brokers", metavar="NAMES", default="broker-a", help="names, with commas between")
    add("--members", metavar="N|IDS", default="2", help="how many, or ids with commas between")
    add("--strategy", metavar="NAME", default="AVG", help="a name of RocketMQ's (default: AVG)")
    add("--leave", metavar="MEMBER", action="append", default=[], help="1, 2, ... or an id")
    add("--join", metavar="ID", action="append", default=[], help="the id of a new member")
    add("--duplicate-id", metavar="MEMBER", help="it has the id of the one before it")
    add("--unseen", metavar="MEMBER", help="the others' lists do not have it")
    add("--virtual-nodes", metavar="N", help=f"of CONSISTENT_HASH (default: {VIRTUAL_NODES})")
    add("--rooms", metavar="NAMES", help="of MACHINE_ROOM: the rooms, with commas between")
    add("--config", metavar="ID=POSITIONS", action="append", help="of CONFIG: such as c1=0-3,6")
    add("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print the allocation, in the form that suits the reader."""
    topics = _topics(args)
    before = _group(args)
    unseen = _member(args.unseen, "--unseen", before) if args.unseen else None
    after = _changed(before, args)
    strategies = _strategies(args, {*before, *after}, [mq for mqs in topics for mq in mqs])
    allocations = [
        _allocate(topics, group, strategies, unseen)
        for group in ([before, after] if args.leave or args.join else [before])
    ]
    if args.json:
        print(json.dumps(_as_json(args.strategy, allocations), indent=2, ensure_ascii=False))
    elif sys.stdout.isatty():
        _print_tables(allocations)
    else:
        _print_lines(allocations)
    return 0


@dataclass(frozen=True)
class Allocation:
    """What the members of a group take: a position in the id list each, so ids may repeat."""

    queues: list[MessageQueue]
    members: list[ClientId]
    taken: list[list[MessageQueue]]

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


def _allocate(
    topics: Sequence[list[MessageQueue]],
    group: list[ClientId],
    strategies: Strategies,
    unseen: ClientId | None,
) -> Allocation:
    """Every member allocates for itself, topic by topic, as it sees the group."""
    taken: list[list[MessageQueue]] = []
    for cid in group:
        view = [other for other in group if other != unseen or cid == unseen]
        strategy = strategies[cid]
        try:
            slices = [allocate(strategy, "group", cid, mq_all, view) for mq_all in topics]
        except AllocationError as error:
            raise UserError(strategy.name, str(error)) from None
        taken.append([mq for part in slices for mq in part])
    return Allocation([mq for mq_all in topics for mq in mq_all], group, taken)


# --- Reading the options -------------------------------------------------------------------


def _number(text: str, option: str, most: int, least: int = 1) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise UserError(option, f"{text!r} is not a number from {least} to {most}")
    return int(text)


def _names(text: str, option: str) -> list[str]:
    names = text.split(",")
    if "" in names or len(set(names)) < len(names):
        raise UserError(option, f"{text!r}: a name is empty, or comes twice")
    return names


def _topics(args: argparse.Namespace) -> list[list[MessageQueue]]:
    """The queues of each topic, sorted."""
    if args.queues and args.topic:
        raise UserError("--queues", "not together with --topic", "write --topic NAME:N")
    brokers = _names(args.brokers, "--brokers")
    found: dict[Topic, list[MessageQueue]] = {}
    for text in args.topic or [f"TopicTest:{args.queues or '8'}"]:
        topic, colon, queues = text.rpartition(":")
        if not (colon and topic) or topic in found:
            raise UserError("--topic", f"{text!r} is not a new NAME:N", "write it like T:8")
        number = _number(queues, "--topic" if args.topic else "--queues", QUEUES_MAX)
        found[topic] = sorted(
            MessageQueue(topic, broker, queue_id)
            for broker in brokers
            for queue_id in range(number)
        )
    if sum(map(len, found.values())) > QUEUES_MAX:
        raise UserError("--topic", f"more than {QUEUES_MAX} queues in all")
    return [found[topic] for topic in sorted(found, key=string_order)]


def _group(args: argparse.Namespace) -> list[ClientId]:
    """The ids of the group, sorted; one of them twice if that is asked for."""
    if args.members.removeprefix("-").isdigit():
        number = _number(args.members, "--members", MEMBERS_MAX)
        width = len(str(number))
        group = [f"c{i:0{width}}" for i in range(1, number + 1)]
    else:
        group = sorted(_names(args.members, "--members"), key=string_order)
    if args.duplicate_id:
        place = group.index(_member(args.duplicate_id, "--duplicate-id", group))
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


def _changed(before: list[ClientId], args: argparse.Namespace) -> list[ClientId]:
    """The group after those who leave have left, and those who join have joined."""
    after = list(before)
    for text in args.leave:
        cid = _member(text, "--leave", before)
        if cid not in after:
            raise UserError("--leave", f"{cid} leaves twice")
        after.remove(cid)
    for cid in args.join:
        if not cid or cid in after:
            raise UserError("--join", f"{cid!r} is empty, or a member already")
        after.append(cid)
    if not after:
        raise UserError("--leave", "nobody is left", "a group needs a member")
    return sorted(after, key=string_order)


def _strategies(
    args: argparse.Namespace, cids: Iterable[ClientId], queues: list[MessageQueue]
) -> Strategies:
    """The strategy of each member: the same for all, but for CONFIG's lists."""
    if args.strategy == "CONFIG":
        return _configured(args, cids, queues)
    if args.config:
        raise UserError("--config", f"not for {args.strategy}", "it goes with --strategy CONFIG")
    return dict.fromkeys(cids, _strategy(args.strategy, args))


def _strategy(name: str, args: argparse.Namespace) -> Strategy:
    if name.startswith(NEARBY):
        inner = _strategy(name.removeprefix(NEARBY), args)
        return machine_room_nearby(inner, lambda mq: _room(mq.broker_name), _room)
    if name == "MACHINE_ROOM":
        if not args.rooms:
            raise UserError("--strategy", f"{name} needs rooms", "add --rooms NAMES")
        return by_machine_room(_names(args.rooms, "--rooms"))
    if name == "CONSISTENT_HASH" and args.virtual_nodes:
        return consistent_hash(_number(args.virtual_nodes, "--virtual-nodes", 10_000, least=0))
    if name not in STRATEGIES:
        known = ", ".join([*STRATEGIES, "CONFIG", "MACHINE_ROOM", f"{NEARBY}<one of these>"])
        raise UserError("--strategy", f"no strategy {name!r}", f"there are {known}")
    return STRATEGIES[name]


def _room(name: str) -> str:
    room, at, _ = name.partition("@")
    if not at:
        raise UserError(name, "names no room", "write it ROOM@NAME")
    return room


def _configured(
    args: argparse.Namespace, cids: Iterable[ClientId], queues: list[MessageQueue]
) -> Strategies:
    """CONFIG takes its list for every topic anew: with one topic that is the list itself."""
    if len({mq.topic for mq in queues}) > 1:
        raise UserError("--strategy", "CONFIG is shown for one topic only")
    lists: dict[ClientId, list[MessageQueue]] = {cid: [] for cid in cids}
    for text in args.config or []:
        cid, _, positions = text.partition("=")
        if cid not in lists:
            raise UserError("--config", f"no member {cid!r}", "write it like c1=0-3,6")
        for part in positions.split(","):
            first, dash, last = part.partition("-")
            start = _number(first, "--config", len(queues) - 1, least=0)
            stop = _number(last, "--config", len(queues) - 1, least=start) if dash else start
            lists[cid] += queues[start : stop + 1]
    return {cid: by_config(configured) for cid, configured in lists.items()}


# --- Showing the result --------------------------------------------------------------------


def _print_tables(allocations: Sequence[Allocation]) -> None:
    console = Console(highlight=False, markup=False)
    for title, allocation in zip(("before", "after"), allocations, strict=False):
        console.print(_table(allocation, title if len(allocations) > 1 else None))
        for what, queues in (("nobody's", allocation.nobodys), ("shared", allocation.shared)):
            if queues:
                console.print(f"{what}: {len(queues)}  {_ranges(queues)}", style="bold red")
    if len(allocations) > 1:
        before, after = allocations
        moved = moves(before.owners, after.owners)
        console.print(_summary(moved, before, after), style="bold")
        for (old, new), queues in _by_change(moved).items():
            console.print(f"  {_ids(old)} -> {_ids(new)}  {_ranges(queues)}", soft_wrap=True)


def _by_change(
    moved: Iterable[Move],
) -> dict[tuple[tuple[ClientId, ...], tuple[ClientId, ...]], list[MessageQueue]]:
    changes: dict[tuple[tuple[ClientId, ...], tuple[ClientId, ...]], list[MessageQueue]] = {}
    for move in moved:
        changes.setdefault((move.before, move.after), []).append(move.queue)
    return changes


def _table(allocation: Allocation, title: str | None) -> Table:
    topics = sorted({mq.topic for mq in allocation.queues}, key=string_order)
    table = Table(title=title, title_justify="left", show_footer=True)
    table.add_column("member", "queues")
    for topic in topics:
        of_topic = sum(mq.topic == topic for mq in allocation.queues)
        table.add_column("", str(of_topic), justify="right")
        table.add_column(topic, overflow="fold")
    table.add_column("total", str(len(allocation.queues)), justify="right")
    for cid, taken in zip(allocation.members, allocation.taken, strict=True):
        cells = []
        for topic in topics:
            own = [mq for mq in taken if mq.topic == topic]
            cells += [str(len(own)), _ranges(own, with_topic=False)]
        table.add_row(cid, *cells, str(len(taken)))
    return table


def _ranges(queues: Iterable[MessageQueue], with_topic: bool = True) -> str:
    """Queues in short: broker-a 0-3 5, broker-b 0."""
    parts = []
    for (topic, broker), group in groupby(queues, key=lambda mq: (mq.topic, mq.broker_name)):
        runs: list[list[int]] = []
        for queue_id in (mq.queue_id for mq in group):
            if runs and queue_id == runs[-1][-1] + 1:
                runs[-1].append(queue_id)
            else:
                runs.append([queue_id])
        shown = [str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs]
        parts.append(" ".join([*([topic] if with_topic else []), broker, *shown]))
    return ", ".join(parts)


def _summary(moved: Sequence[Move], before: Allocation, after: Allocation) -> str:
    stayed = set(before.members) & set(after.members)
    between = sum(set(move.before) <= stayed >= set(move.after) for move in moved)
    return (
        f"{len(moved)} of {len(before.queues)} queues change their owner, "
        f"{between} of them between members that stay"
    )


def _ids(cids: Sequence[ClientId]) -> str:
    return ",".join(cids) or "nobody"


def _print_lines(allocations: Sequence[Allocation]) -> None:
    """Topic, broker, queue id, owners; with a change also the owners after it."""
    titles = ["owner"] if len(allocations) == 1 else ["before", "after"]
    print("topic", "broker", "queue_id", *titles, sep="\t")
    for mq in allocations[0].queues:
        cids = [",".join(allocation.owners[mq]) for allocation in allocations]
        print(mq.topic, mq.broker_name, mq.queue_id, *cids, sep="\t")


def _as_json(strategy: str, allocations: Sequence[Allocation]) -> dict[str, object]:
    states = [_state(allocation) for allocation in allocations]
    if len(allocations) == 1:
        return {"strategy": strategy, **states[0]}
    moved = moves(allocations[0].owners, allocations[1].owners)
    listed = [{**_queue(m.queue), "before": m.before, "after": m.after} for m in moved]
    return {"strategy": strategy, "before": states[0], "after": states[1], "moves": listed}


def _state(allocation: Allocation) -> dict[str, object]:
    return {
        "members": [
            {
                "id": cid,
                "total": len(taken),
                "topics": Counter(mq.topic for mq in taken),
                "queues": [_queue(mq) for mq in taken],
            }
            for cid, taken in zip(allocation.members, allocation.taken, strict=True)
        ],
        "nobodys": [_queue(mq) for mq in allocation.nobodys],
        "shared": [_queue(mq) for mq in allocation.shared],
    }


def _queue(mq: MessageQueue) -> dict[str, str | int]:
    return {"topic": mq.topic, "broker": mq.broker_name, "queue_id": mq.queue_id}
