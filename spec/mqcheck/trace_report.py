"""What `mqspec check FILE.jsonl` says of a trace file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from mqcheck.trace import Event, Line, Trace, read_lines
from mqcheck.trace_check import Checked, Edit, Refusal, check_traces
from mqcheck.trace_edits import edits_of
from mqcheck.trace_offset_commit import offset_commit_traces
from mqcheck.trace_wire import is_recording, wire_lines
from mqrules import UserError

PROJECTIONS: Final[Mapping[str, Callable[[Iterable[Line]], Sequence[Trace]]]] = {
    "OffsetCommit": offset_commit_traces,
}
"""Of each module that has a TRACE_ model: how its traces are made of the lines of a file."""

_SHOWN = 10  # events of a refused prefix, the last ones


def check_trace_file(path: Path, console: Console, *, is_edited: bool = False) -> int:
    """Whether all that a file tells is allowed; if it is to be edited, whether at least 95 % of
    the edits of it are not."""
    lines = wire_lines(path) if is_recording(path) else read_lines(path)
    traces = {module: list(project(lines)) for module, project in PROJECTIONS.items()}
    if not any(traces.values()):
        raise UserError(str(path), "no member of a group is in it", "trace the clients too")
    failed = 0
    for module, its in traces.items():
        if its:
            checked = check_traces(its)
            failed += _report(module, its, checked, console)
            if is_edited and not checked.refusals:
                failed += _report_edits(module, its, console)
    return 1 if failed else 0


def _report(module: str, traces: Sequence[Trace], checked: Checked, console: Console) -> int:
    events = sum(len(trace.events) for trace in traces)
    refused = len(checked.refusals)
    said = (
        f"[red]FAILED[/] {module}: {refused} refused of" if refused else f"[green]ok[/] {module}:"
    )
    console.print(f"{said} {len(traces)} traces, {events} events", soft_wrap=True)
    for refusal in checked.refusals:
        console.print(_where(refusal), soft_wrap=True)
        console.print(_refusal(refusal))
        console.print(_state(refusal.state))
    return refused


def _where(refusal: Refusal) -> str:
    events, length = refusal.trace.events, refusal.length
    line = events[min(length, len(events)) - 1].line
    return f"{refusal.trace.subject}: the first {length} events, to line {line} of the file:"


def _refusal(refusal: Refusal) -> Table:
    table = Table("", "process", "action", "x", "y", "")
    length = refusal.length
    first = max(0, length - _SHOWN)
    for number, event in enumerate(refusal.trace.events[first:length], start=first + 1):
        mark = "[red]no action allows it[/]" if number == length else ""
        table.add_row(str(number), *_cells(event), mark)
    if refusal.event is None:
        table.add_row("", "", "", "", "", "[red]it ends, and a commit is on its way[/]")
    return table


def _cells(event: Event) -> tuple[str, ...]:
    return event.process, event.action, str(event.x), str(event.y)


def _state(state: Mapping[str, Any]) -> Table:
    table = Table(
        "variable", "before it", title="what no action goes on from", title_justify="left"
    )
    for name, value in state.items():
        table.add_row(name, _shown(value))
    return table


def _shown(value: Any) -> str:
    match value:
        case Mapping():
            return "\n".join(f"{key}: {_shown(item)}" for key, item in value.items())
        case frozenset():
            return "{" + ", ".join(map(_shown, sorted(value, key=repr))) + "}"
        case tuple():
            return " ".join(map(_shown, value))
    return str(value)


def _report_edits(module: str, traces: Sequence[Trace], console: Console) -> int:
    edits = edits_of(traces)
    survivors = check_traces(traces, edits).survivors
    by_rules = len(edits) - len(check_traces(traces, edits, is_numbered=False).survivors)
    share = 1 - len(survivors) / len(edits)
    console.print(
        f"{module}: {share:.1%} of {len(edits)} edits refused, {by_rules / len(edits):.1%} without"
        " the numbers of events",
        soft_wrap=True,
    )
    for (kind, reason), count in Counter(_reasons(traces, survivors)).most_common():
        console.print(f"  {count} {kind}: {reason}", soft_wrap=True)
    return 0 if share >= LEAST_REFUSED else 1


LEAST_REFUSED: Final = 0.95


def _reasons(traces: Sequence[Trace], survivors: Sequence[Edit]) -> Iterator[tuple[str, str]]:
    """Why an edit leaves a behaviour."""
    for edit in survivors:
        events = traces[edit.trace].events
        event, rest = events[edit.at], events[edit.at + 1 :]
        if edit.kind == "left out" and all(e.process != event.process for e in rest):
            yield edit.kind, f"{event.action}, the last that its process told: it may have stopped"
        elif edit.kind == "left out":
            yield edit.kind, f"{event.action}, and nothing that follows depends on it"
        else:
            yield edit.kind, f"{event.action}, which may be either"
