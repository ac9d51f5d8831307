"""What `mqspec check FILE.jsonl` says of a trace file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from mqcheck.traces.check import Edit, Refusal, check_traces
from mqcheck.traces.delay import delay_traces
from mqcheck.traces.edits import edits_of
from mqcheck.traces.group import group_traces
from mqcheck.traces.lock import lock_traces
from mqcheck.traces.log import log_traces
from mqcheck.traces.offset_commit import offset_commit_traces
from mqcheck.traces.pop import pop_traces
from mqcheck.traces.rebalance import rebalance_traces
from mqcheck.traces.route import route_traces
from mqcheck.traces.trace import NONE, Event, Line, Trace, read_lines
from mqcheck.traces.transaction import transaction_traces
from mqcheck.traces.wire import is_recording, wire_lines
from mqrules import Evidence, EvidenceKind, UserError, Verdict, write_evidence

PROJECTIONS: Final[Mapping[str, Callable[[Iterable[Line]], Sequence[Trace]]]] = {
    "Delay": delay_traces,
    "Group": group_traces,
    "Lock": lock_traces,
    "Log": log_traces,
    "OffsetCommit": offset_commit_traces,
    "Pop": pop_traces,
    "Rebalance": rebalance_traces,
    "Route": route_traces,
    "Transaction": transaction_traces,
}
"""Of each module that has a TRACE_ model: how its traces are made of the lines of a file."""

LEAST_REFUSED: Final = 0.95  # of all edits
DECIDED: Final[Mapping[str, Mapping[str, str]]] = {
    "Delay": {"DELAY-002": "Deliver", "DELAY-004": "Deliver"},
    "Group": {
        "GROUP-001": "ConsumerIdList",
        "GROUP-003": "RegisterConsumer",
        "GROUP-005": "CloseChannel",
    },
    "Lock": {"LOCK-001": "TryLockBatch", "LOCK-004": "TryLockBatch", "LOCK-008": "Restart"},
    "Log": {"LOG-001": "AppendMessage", "LOG-002": "AppendMessage", "LOG-003": "Dispatch"},
    "OffsetCommit": {"OFFSET-003": "PersistAll", "OFFSET-010": "UpdateConsumerOffset"},
    "Pop": {
        "POP-001": "PopMessage",
        "POP-002": "Revive",
        "POP-003": "AckMessage",
        "POP-014": "PopMessage",
    },
    "Rebalance": {"ALLOC-016": "RebalanceByTopic", "GROUP-054": "NotifyConsumerIdsChanged"},
    "Route": {
        "NAMESRV-005": "RefuseBroker",
        "NAMESRV-009": "UnregisterBroker",
        "NAMESRV-015": "RegisterBroker",
        "NAMESRV-027": "UnregisterBroker",
        "NAMESRV-028": "RegisterBroker",
    },
    "Transaction": {"TX-008": "Check", "TX-013": "Kill", "TX-014": "EndTransaction"},
}
"""The rules of which an accepted trace of a module is a sample, since a step against one is
refused; and the action without which a trace has no case of it.

No trace tells who gave up a lock (LOCK-003), where a record begins (LOG-004), or why a message
was passed over (OFFSET-001).
"""

IN_PART: Final[Mapping[str, str]] = {
    "ALLOC-016": "of members that use averagely; of a rebalance in part, that they take no more",
    "GROUP-001": "who is entered is listed; whether a heartbeat enters its sender is not told",
    "GROUP-003": "a new member; a change of topics is not told from one more connection",
    "NAMESRV-009": "of a broker that is gone, whatever took it out of the routes",
    "POP-001": "while the broker is not killed: then a group's offset may go back",
    "POP-002": "what is out of a checkpoint that is done comes again; not that each is done once, "
    "nor that no message is passed over",
    "TX-008": "that it is parked, and when; not what is stored of it",
    "TX-013": "no check passes it over; whether a check comes is not told",
    "TX-014": "that it is not checked back while its end is known; not what is delivered",
}
"""What of a rule a trace decides, where that is not all of it."""

_SHOWN = 10  # events of a refused prefix, the last ones


def check_trace_file(
    path: Path, console: Console, *, is_edited: bool = False, evidence: Path | None = None
) -> int:
    """Whether all that a file tells is allowed; if it is to be edited, whether at least 95 % of
    the edits of it are not. Of a module whose traces are accepted there is evidence."""
    is_recorded = is_recording(path)
    lines = wire_lines(path) if is_recorded else read_lines(path)
    traces = {module: list(project(lines)) for module, project in PROJECTIONS.items()}
    if not any(traces.values()):
        raise UserError(str(path), "no member of a group is in it", "trace a group at work")
    refused = {module: _report(module, its, console) for module, its in traces.items() if its}
    failed = sum(refused.values())
    if evidence:
        target = path.name if is_recorded else "mqspec"
        accepted = [module for module, number in refused.items() if not number]
        write_evidence(evidence, (e for m in accepted for e in _evidence(m, traces[m], target)))
    if is_edited and not failed:
        failed = _report_edits(traces, console)
    return 1 if failed else 0


def _report(module: str, traces: Sequence[Trace], console: Console) -> int:
    checked = check_traces(traces)
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


def _evidence(module: str, traces: Sequence[Trace], target: str) -> Iterator[Evidence]:
    actions = Counter(event.action for trace in traces for event in trace.events)
    subject = f"TRACE_{module}"
    for rule, action in DECIDED[module].items():
        if not actions[action]:
            continue
        detail: dict[str, str | int] = {
            "traces": len(traces),
            "events": actions.total(),
            "cases": actions[action],
        }
        if rule in IN_PART:
            detail["in part"] = IN_PART[rule]
        yield Evidence(rule, EvidenceKind.SAMPLED, subject, Verdict.HELD, target, detail=detail)


def _where(refusal: Refusal) -> str:
    events = refusal.trace.events
    length = min(refusal.length, len(events))
    line = events[length - 1].line
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
    values = ("" if value == NONE else _shown(value) for value in (event.x, event.y))
    return event.process, event.action, *values


def _state(state: Mapping[str, Any]) -> Table:
    table = Table("variable", "before that event")
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


def _report_edits(traces: Mapping[str, Sequence[Trace]], console: Console) -> int:
    edited = refused = by_rules = 0
    reasons: Counter[str] = Counter()
    for its in traces.values():
        if its:
            edits = edits_of(its)
            survivors = check_traces(its, edits).survivors
            edited += len(edits)
            refused += len(edits) - len(survivors)
            by_rules += len(edits) - len(check_traces(its, edits, is_numbered=False).survivors)
            reasons.update(_reason(its, edit) for edit in survivors)
    console.print(
        f"{refused / edited:.1%} of {edited} edits refused, {by_rules / edited:.1%} without the"
        " numbers of events",
        soft_wrap=True,
    )
    for reason, count in reasons.most_common():
        console.print(f"  {count} {reason}", soft_wrap=True)
    return 0 if refused >= LEAST_REFUSED * edited else 1


def _reason(traces: Sequence[Trace], edit: Edit) -> str:
    """Why an edit leaves a behaviour."""
    event, *rest = traces[edit.trace].events[edit.at :]
    what = f"{event.action} {edit.kind}"
    if edit.kind == "left out" and all(later.process != event.process for later in rest):
        return f"{what}: the last that its process told, which may have stopped before"
    if edit.kind == "left out":
        return f"{what}: nothing that follows depends on it"
    return f"{what}: nothing tells which it was"
