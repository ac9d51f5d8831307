"""The decisions of recovery, without any file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from mqspec.core.log import Dispatch, Span, TopicQueue, Unit
from mqspec.core.record import Outline
from mqspec.core.recovery import (
    BLANK_UNIT,
    RESCAN,
    Checkpoint,
    Files,
    RecoveryState,
    Scanned,
    Segment,
    Walked,
    end_recovery,
    load,
    redispatch,
)
from mqspec.core.step import apply

A, B = ("T", 0), ("T", 1)
SEGMENTS = (Segment(0, 1_000), Segment(100, 5_000), Segment(200, 9_000), Segment(300, None))

NOTHING_COVERED = Checkpoint()


def files(
    units: Mapping[TopicQueue, Mapping[int, Unit]],
    abort: bool = False,
    checkpoint: Checkpoint = NOTHING_COVERED,
    segments: tuple[Segment, ...] = SEGMENTS,
) -> Files:
    spans = {queue: Span(min(found), max(found) + 1) for queue, found in units.items()}

    def unit(queue: TopicQueue, k: int) -> Unit:
        return units[queue][k]

    return Files(abort, checkpoint, segments, spans, unit, no_log, no_record)


def no_log(position: int) -> Iterator[Walked]:
    return iter(())


def no_record(outline: Outline) -> Dispatch:
    raise AssertionError(outline)


def loaded(found: Files) -> RecoveryState:
    state = RecoveryState()
    apply(state, load(found).changes)
    return state


@pytest.mark.parametrize(("dispatched", "start"), [(0, 0), (99, 0), (100, 100), (320, 300)])
def test_a_clean_start_walks_from_where_the_queues_end(dispatched: int, start: int) -> None:
    units = {A: {0: Unit(0, 10, 0)}, B: {0: Unit(dispatched - 10, 10, 0)}} if dispatched else {}
    assert load(files(units)).result == start


@pytest.mark.parametrize(
    ("physic", "logics", "start"),
    [
        (0, 0, 0),
        (8_000, 8_000, 100),
        (7_999, 8_000, 0),
        (12_000, 8_000, 100),
        (99_999, 99_999, 200),
    ],
)
def test_an_abnormal_start_walks_from_what_the_checkpoint_covers(
    physic: int, logics: int, start: int
) -> None:
    units = {A: {0: Unit(320, 10, 0)}}
    assert load(files(units, True, Checkpoint(physic, logics))).result == start


def test_the_walk_starts_in_the_log() -> None:
    assert load(files({}, segments=SEGMENTS[2:])).result == 200
    assert load(files({}, segments=())).result == 0


def test_blank_and_expired_units_are_none() -> None:
    units = {A: {0: BLANK_UNIT, 1: BLANK_UNIT, 2: Unit(90, 10, 0), 3: Unit(210, 10, 0)}}
    assert loaded(files(units)).consume_queue == {A: Span(2, 4)}
    assert loaded(files(units, segments=SEGMENTS[2:])).consume_queue == {A: Span(3, 4)}
    assert loaded(files({A: {0: BLANK_UNIT, 1: BLANK_UNIT}})).consume_queue == {A: Span(2, 2)}


@pytest.mark.parametrize("abort", [False, True])
def test_a_queue_of_blank_units_sends_the_walk_to_the_first_segment(abort: bool) -> None:
    """What it lost may lie before all that is trusted (RECOV-021)."""
    whole = {B: {0: Unit(290, 10, 0)}}
    covers = Checkpoint(99_999, 99_999)
    assert load(files(whole, abort, covers)).result == 200 + 100 * (not abort)
    blank = {A: {0: BLANK_UNIT, 1: BLANK_UNIT}}
    assert load(files(whole | blank, abort, covers)).result == 0


def scanned(queue: TopicQueue, offset: int, position: int) -> Scanned:
    return Scanned(position + 10, Dispatch(queue, offset, True, (position,), (10,), (0,)))


def test_what_is_dispatched_again_gets_no_second_unit() -> None:
    state = RecoveryState(consume_queue={A: Span(0, 1)})
    first = redispatch(state, scanned(A, 0, 0), 0)
    apply(state, first.changes)
    second = redispatch(state, scanned(A, 1, 10), 0)
    apply(state, second.changes)
    assert (first.result, second.result) == (None, scanned(A, 1, 10).record)
    assert (state.process_offset, state.consume_queue) == (20, {A: Span(0, 2)})


def test_a_blank_moves_the_walk_on() -> None:
    state = RecoveryState(process_offset=90)
    apply(state, redispatch(state, Scanned(100, None), 0).changes)
    assert state == RecoveryState(process_offset=100)


def test_a_record_ahead_of_its_queue_sends_the_walk_back_once() -> None:
    state = RecoveryState(scan_from=200, process_offset=200)
    step = redispatch(state, scanned(A, 3, 200), 100)
    assert step.result is RESCAN
    apply(state, step.changes)
    assert (state.scan_from, state.process_offset) == (100, 100)
    again = redispatch(state, scanned(A, 3, 100), 100)
    assert again.result == scanned(A, 3, 100).record


def test_units_behind_the_end_are_dropped() -> None:
    units = {A: {0: Unit(0, 10, 0), 1: Unit(40, 10, 0)}, B: {0: Unit(50, 10, 0)}}
    state = RecoveryState(process_offset=40, consume_queue={A: Span(0, 2), B: Span(0, 1)})
    apply(state, end_recovery(state, lambda queue, k: units[queue][k]).changes)
    assert state.consume_queue == {A: Span(0, 1), B: Span(0, 0)}
