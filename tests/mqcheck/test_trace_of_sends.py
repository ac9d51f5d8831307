"""A trace may be taken with the fast path on: what users run is held against Log, record by record,
and a fast path that goes wrong is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mqcheck.traces.check import Checked, check_traces
from mqcheck.traces.log import log_traces
from mqcheck.traces.trace import read_lines
from mqspec.core.log import Span
from mqspec.core.step import Change, Step
from mqspec.fast import run
from mqspec.paths.compare import play, standing_clock
from mqspec.trace import Trace

SEED = 4  # of a round in which many messages go the fast way

Function = Callable[..., Step]


def traced(folder: Path) -> tuple[int, Checked]:
    """How many messages of a round went the fast way, and what TLC says of the log's trace."""
    file = folder / "trace.jsonl"
    with standing_clock():
        played = asyncio.run(play(folder / "store", SEED, trace=Trace(file)))
    messages = sum(len(each.stored.sizes) for each in played.runs if each)
    (trace,) = log_traces(read_lines(file))
    actions = {event.action for event in trace.events}
    assert {"AppendMessage", "Written", "Dispatch", "Batch"} <= actions
    return messages, check_traces([trace])


def test_what_users_run_is_what_the_module_allows(tmp_path: Path) -> None:
    messages, checked = traced(tmp_path)
    assert messages > 500
    assert not checked.refusals


def with_bytes_of_the_first(append_run: Function) -> Function:
    """Each record says that it is the first one of its run."""

    def wrong(state: Any, rows: Any, *limits: int) -> Step:
        step = append_run(state, rows, *limits)
        if step.result is None or len(rows) < 2:
            return step
        first = append_run(state, rows[:1], *limits).result.encoded
        rest = step.result.encoded[len(first) :]
        if len(rest) < len(first):
            return step
        encoded = first + first + rest[len(first) :]
        return replace(step, result=step.result._replace(encoded=encoded))

    return wrong


def with_a_queue_forgotten(append_run: Function) -> Function:
    """The next message of one queue gets the offset of this one."""

    def wrong(*given: Any) -> Step:
        step = append_run(*given)
        return replace(step, changes=step.changes[:-1])

    return wrong


def with_a_shorter_span(dispatch_run: Function) -> Function:
    """The last unit of a queue is written, and nobody sees it."""

    def wrong(*given: Any) -> Step:
        step = dispatch_run(*given)
        changes = tuple(
            Change(one.variable, one.key, Span(one.value.min, one.value.max - 1))
            if isinstance(one.value, Span)
            else one
            for one in step.changes
        )
        return replace(step, changes=changes)

    return wrong


def with_units_of_one_size(dispatch_run: Function) -> Function:
    """Each unit has the size of the run's first record."""

    def wrong(state: Any, stored: Any, is_dead: Any) -> Step:
        sizes = stored.sizes[:1] * len(stored.sizes)
        step = dispatch_run(state, stored._replace(sizes=sizes), is_dead)
        end = Change("reput_from_offset", None, stored.end)
        return replace(step, changes=(end, *step.changes[1:]))

    return wrong


def with_less_dispatched(dispatch_run: Function) -> Function:
    """The last record of a run is passed over."""

    def wrong(state: Any, stored: Any, is_dead: Any) -> Step:
        if len(stored.sizes) < 2:
            return dispatch_run(state, stored, is_dead)
        step = dispatch_run(state, type(stored)(*(column[:-1] for column in stored)), is_dead)
        end = Change("reput_from_offset", None, stored.end)
        return replace(step, changes=(end, *step.changes[1:]))

    return wrong


@pytest.mark.parametrize(
    ("name", "blunder"),
    [
        ("append_run", with_bytes_of_the_first),
        ("append_run", with_a_queue_forgotten),
        ("dispatch_run", with_a_shorter_span),
        ("dispatch_run", with_units_of_one_size),
        ("dispatch_run", with_less_dispatched),
    ],
)
def test_a_wrong_fast_path_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    blunder: Callable[[Function], Function],
) -> None:
    monkeypatch.setattr(run, name, blunder(getattr(run, name)))
    _, checked = traced(tmp_path)
    assert checked.refusals
