"""Running a TRACE_ model on traces: which of them are behaviours of the module, and where the
others stop being one.

The traces, and the edits of them that are to be tried, go to TLC as a module, TraceData.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mqcheck.jvm import TRACES, run_tlc_in_jvm
from mqcheck.manifest import HOME, TLA
from mqcheck.tlc import Exit, parse_output, refuse_failure
from mqcheck.traces.trace import Constant, Event, Trace
from mqcheck.values import parse_value, tla

HERE = HOME / "traces"  # TRACE_NAME.tla holds a trace against the module NAME

_JOINT = ",\n"
_CHUNK = 500  # events of one definition: the parser of TLA+ goes deeper with each


class Edit(NamedTuple):
    """One change of a trace: `takes` events from `at` on, 0 being the first, make way for
    `puts`."""

    kind: str
    trace: int
    at: int
    takes: int
    puts: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The shortest prefix of a trace that is no behaviour: the last event of it is the one that
    no action allows in `state`; None where the trace ends too early."""

    trace: Trace
    length: int
    event: Event | None
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checked:
    """What TLC said of some traces and of the edits of them."""

    refusals: tuple[Refusal, ...]
    survivors: tuple[Edit, ...]  # edits that leave a behaviour
    states: int  # that TLC found


def check_traces(
    traces: Sequence[Trace], edits: Sequence[Edit] = (), *, is_numbered: bool = True
) -> Checked:
    """Run TLC once on traces of one module. Raises UserError where TLC fails."""
    module = f"TRACE_{traces[0].module}"
    config = (HERE / f"{module}.cfg").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="mqcheck-trace-") as folder:
        data = Path(folder) / "TraceData.tla"
        data.write_text(_data(traces, edits, is_numbered), encoding="utf-8")
        library = (Path(folder), TLA)
        path = HERE / f"{module}.tla"
        code, output = run_tlc_in_jvm(path, "", config, library, (), TRACES)
        refuse_failure(output, code, module, path, library)
    run = parse_output(output, code)
    if run.exit is not Exit.HOLDS:
        raise AssertionError(f"{module}: TLC says {run.exit.name}")
    return _read(traces, edits, output, run.distinct)


def _read(traces: Sequence[Trace], edits: Sequence[Edit], output: str, states: int) -> Checked:
    accepted: set[tuple[int, int]] = set()
    refused: dict[int, tuple[int, Mapping[str, Any]]] = {}
    for line in output.splitlines():
        if not line.startswith('"<<'):
            continue
        verdict, trace, edit, *where = parse_value(parse_value(line))
        if verdict == "accepted":
            accepted.add((trace, edit))
        elif edit == 0:
            position, _, state = where
            refused[trace] = max(refused.get(trace, (0, {})), (position, state), key=_position)
    refusals = []
    for number, trace in enumerate(traces, start=1):
        if (number, 0) not in accepted:
            position, state = refused[number]
            event = trace.events[position - 1] if position <= len(trace.events) else None
            refusals.append(Refusal(trace, position, event, state))
    survivors = [edits[number - 1] for _, number in sorted(accepted) if number]
    return Checked(tuple(refusals), tuple(survivors), states)


def _position(refused: tuple[int, Mapping[str, Any]]) -> int:
    return refused[0]


def _data(traces: Sequence[Trace], edits: Sequence[Edit], is_numbered: bool) -> str:
    """The module TraceData."""
    members = sorted(frozenset().union(*(trace.members for trace in traces)))
    events = [event for trace in traces for event in trace.events]
    puts = [event for edit in edits for event in edit.puts]
    processes = sorted({event.process for event in (*events, *puts)}.union(members))
    lines = ["---- MODULE TraceData ----", "EXTENDS Integers, Sequences, TLC"]
    for number, trace in enumerate(traces, start=1):
        lines += _sequence(f"Trace{number}", map(_tuple, trace.events))
        lines.append(f"Edits{number} == {_edits(number - 1, edits)}")
    numbers = range(1, len(traces) + 1)
    lines += [
        f"Traces == <<{', '.join(f'Trace{number}' for number in numbers)}>>",
        f"Edits == <<{', '.join(f'Edits{number}' for number in numbers)}>>",
        f"Before == <<{', '.join(tla(trace.before) for trace in traces)}>>",
        f"Numbered == {tla(is_numbered)}",
        f"TraceProcesses == {{{', '.join(map(tla, processes))}}}",
        f"TraceMembers == {{{', '.join(map(tla, members))}}}",
        f"TraceLength == {_longest(traces)}",
        *(f"{n} == {_constant([its.constants[n] for its in traces])}" for n in traces[0].constants),
        "====",
    ]
    return "\n".join(lines) + "\n"


def _constant(values: Sequence[Constant]) -> str:
    """What traces say of a constant, together."""
    pairs = {k: v for value in values if isinstance(value, Mapping) for k, v in value.items()}
    if pairs:
        return " @@ ".join(f"{tla(key)} :> {tla(value)}" for key, value in pairs.items())
    return tla(max(value for value in values if isinstance(value, int)))


def _longest(traces: Iterable[Trace]) -> int:
    """More than there are of anything in a trace."""
    return max(len(trace.events) for trace in traces) + 1


def _sequence(name: str, items: Iterable[str]) -> list[str]:
    items = list(items)
    chunks = [items[at : at + _CHUNK] for at in range(0, len(items), _CHUNK)]
    lines = [f"{name}x{number} == <<{_JOINT.join(chunk)}>>" for number, chunk in enumerate(chunks)]
    whole = " \\o ".join(f"{name}x{number}" for number in range(len(chunks)))
    return [*lines, f"{name} == {whole or '<<>>'}"]


def _edits(trace: int, edits: Sequence[Edit]) -> str:
    by_position: dict[int, list[str]] = {}
    for number, edit in enumerate(edits, start=1):
        if edit.trace == trace:
            puts = ", ".join(map(_tuple, edit.puts))
            text = f"<<{number}, {edit.takes}, <<{puts}>>>>"
            by_position.setdefault(edit.at + 1, []).append(text)
    if not by_position:
        return "<<>>"
    return (
        "("
        + " @@\n".join(
            f"{position} :> {{{', '.join(texts)}}}" for position, texts in by_position.items()
        )
        + ")"
    )


def _tuple(event: Event) -> str:
    return tla((event.action, event.process, event.number, event.x, event.y))
