"""Show who consumes which queues, and what moves when members come and go.

mqspec allocate --queues 12 --members 5
mqspec allocate --queues 24 --members 4 --leave 2
mqspec allocate --queues 24 --members 4 --leave 2 --strategy CONSISTENT_HASH
mqspec allocate --topic T:8 --topic U:6 --members 4        remainders pile up on the first
mqspec allocate --queues 4 --brokers a,b --members x,z --join y
mqspec allocate --queues 24 --members 4 --release          one after the other restarts
mqspec allocate --queues 12 --members 5 --duplicate-id 3   the third has the second's id
mqspec allocate --queues 12 --members 4 --unseen 4         the others do not know the fourth
mqspec allocate --strategy CONFIG --config c1=0-3 --config c2=3-7
mqspec allocate --strategy MACHINE_ROOM --rooms r1 --brokers r1@a,r2@b
mqspec allocate --strategy MACHINE_ROOM_NEARBY-AVG --brokers r1@a,r2@b --members r1@x,r2@y
mqspec allocate --sweep plan.toml         many groups and releases at once, strategies ranked

Tables in a terminal; elsewhere tab-separated lines, a queue a line; --json for programs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from importlib.metadata import distribution
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mqrules import UserError
from mqspec.commands.plan import Allocation, Asked, Plan, as_json, between_stayers, plan
from mqspec.core.allocation import VIRTUAL_NODES, Move, Uneven
from mqspec.core.types import ClientId, MessageQueue, string_order

SWEEPS = "mqspec.sweeps"  # the entry points of what computes a sweep: it needs Spark
HELP = "show who consumes which queues, and what moves"


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
    add("--release", action="store_true", help="each member leaves and is back, one by one")
    add("--duplicate-id", metavar="MEMBER", help="it has the id of the one before it")
    add("--unseen", metavar="MEMBER", help="the others' lists do not have it")
    add("--virtual-nodes", metavar="N", help=f"of CONSISTENT_HASH (default: {VIRTUAL_NODES})")
    add("--rooms", metavar="NAMES", help="of MACHINE_ROOM: the rooms, with commas between")
    add("--config", metavar="ID=POSITIONS", action="append", help="of CONFIG: such as c1=0-3,6")
    add("--json", action="store_true", help="print JSON")
    sweep = parser.add_argument_group("sweeping", "with --json; all else stands in the plan")
    add = sweep.add_argument
    add("--sweep", type=Path, metavar="PLAN", help="a TOML file: strategies, members, releases")
    add("--html", type=Path, metavar="FILE", help="a page of it, drawn")
    add("--master", metavar="URL", help="a Spark master; default: this machine")


def run(args: argparse.Namespace) -> int:
    """Print the allocation, in the form that suits the reader."""
    asked = Asked(**{field.name: getattr(args, field.name) for field in fields(Asked)})
    if args.sweep:
        return _sweep(args, asked)
    if args.html or args.master:
        raise UserError("--html, --master", "of a sweep only", "add --sweep PLAN")
    planned = plan(asked)
    if args.json:
        print(json.dumps(as_json(planned), indent=2, ensure_ascii=False))
    elif sys.stdout.isatty():
        _print_tables(planned)
    else:
        _print_lines(planned)
    return 0


def _sweep(args: argparse.Namespace, asked: Asked) -> int:
    if asked != Asked(leave=[], join=[]):
        raise UserError("--sweep", "its plan says all of it", "leave the other options out")
    entries = distribution("mqspec").entry_points.select(group=SWEEPS)
    if not entries:
        raise UserError("--sweep", "mqspec was installed before it was there", "install it again")

    try:
        command = next(iter(entries)).load()
    except ModuleNotFoundError as error:
        what, remedy = f"the package {error.name} is not installed", "mqspec[audit]"
        raise UserError("--sweep", what, f"run: pip install '{remedy}'") from None

    status: int = command.run(args)
    return status


def _print_tables(planned: Plan) -> None:
    console = Console(highlight=False, markup=False)
    if len(planned.states) > 2:
        _print_release(planned, console)
        return
    for title, allocation in planned.states:
        console.print(_table(allocation, title if len(planned.states) > 1 else None))
        for what, queues in (("nobody's", allocation.nobodys), ("shared", allocation.shared)):
            if queues:
                console.print(f"{what}: {len(queues)}  {_ranges(queues)}", style="bold red")
        if allocation.uneven and allocation.uneven.shared + allocation.uneven.nobodys:
            console.print(_why(allocation.uneven), style="red")
    for before, after, moved in planned.changes():
        console.print(_summary(moved, before, after), style="bold")
        for (old, new), queues in _by_change(moved).items():
            console.print(f"  {_ids(old)} -> {_ids(new)}  {_ranges(queues)}", soft_wrap=True)


def _why(uneven: Uneven) -> str:
    """What the condition says, with its sizes."""
    return (
        f"A member takes what falls to the first position of its id in the list that it was told:"
        f" {uneven.shared} with up to {uneven.most} owners, {uneven.nobodys} with none"
    )


def _print_release(planned: Plan, console: Console) -> None:
    """A row a step: what each member has then, and how many queues it moved."""
    members = planned.states[0][1].members
    table = Table("step", *members, "moved", "of these between members that stay")
    for column in table.columns[1:]:
        column.justify = "right"
    total = [0, 0]
    moved_by = [(0, 0)]
    for before, after, moved in planned.changes():
        moved_by.append((len(moved), between_stayers(before, after, moved)))
    for (title, allocation), (moved_number, between) in zip(planned.states, moved_by, strict=True):
        taken = dict(zip(allocation.members, map(len, allocation.taken), strict=True))
        counts = [str(taken.get(cid, "-")) for cid in members]
        table.add_row(title, *counts, str(moved_number), str(between))
        total = [total[0] + moved_number, total[1] + between]
    console.print(table)
    console.print(
        f"{total[0]} changes of an owner in all, {total[1]} of them between members that stay",
        style="bold",
    )


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
    return (
        f"{len(moved)} of {len(before.queues)} queues change their owner, "
        f"{between_stayers(before, after, moved)} of them between members that stay"
    )


def _ids(cids: Sequence[ClientId]) -> str:
    return ",".join(cids) or "nobody"


def _print_lines(planned: Plan) -> None:
    """Topic, broker, queue id, owners; with changes the owners after each of them."""
    titles = [title for title, _ in planned.states] if len(planned.states) > 1 else ["owner"]
    print("topic", "broker", "queue_id", *titles, sep="\t")
    for mq in planned.states[0][1].queues:
        cids = [",".join(allocation.owners[mq]) for _, allocation in planned.states]
        print(mq.topic, mq.broker_name, mq.queue_id, *cids, sep="\t")
