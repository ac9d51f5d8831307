"""Which segments go, when, and what follows them."""

from __future__ import annotations

import pytest

from mqspec.core.log import LogState, Span, TopicQueue, Unit
from mqspec.core.retention import (
    DELETE_FILES_BATCH_MAX,
    RetentionConfig,
    Round,
    StoredSegment,
    clean_commit_log,
    delete_expired_file,
)
from mqspec.core.step import apply

HOUR = 3_600_000
NOW = 1_000 * HOUR
CONFIG = RetentionConfig()
EVERYTHING = 10_000  # position behind all segments


def stored(*ages_h: float) -> list[StoredSegment]:
    return [StoredSegment(100 * i, NOW - int(age * HOUR)) for i, age in enumerate(ages_h)]


def round_of(
    *ages_h: float,
    used: int = 10,
    hour: int = 4,
    was_full: bool = False,
    dispatched: int = EVERYTHING,
) -> Round:
    return clean_commit_log(CONFIG, stored(*ages_h), dispatched, used, was_full, hour, NOW)


@pytest.mark.parametrize(
    ("ages_h", "expired"),
    [
        ((), ()),
        ((100,), ()),  # the last one stays
        ((100, 90, 1), (0, 100)),
        ((72, 71.9, 1), (0,)),
        ((100, 1, 100, 1), (0,)),  # no gap
    ],
)
def test_in_its_hour_a_segment_goes_that_is_old(
    ages_h: tuple[float, ...], expired: tuple[int, ...]
) -> None:
    assert round_of(*ages_h) == Round(expired, False)


@pytest.mark.parametrize(
    ("when", "hour", "goes"),
    [("04", 5, False), ("04;17", 17, True), ("never; 17", 17, True), ("", 0, False)],
)
def test_hours(when: str, hour: int, goes: bool) -> None:
    config = RetentionConfig(delete_when=when)
    expired, _ = clean_commit_log(config, stored(100, 1), EVERYTHING, 10, False, hour, NOW)
    assert expired == ((0,) if goes else ())


@pytest.mark.parametrize(
    ("dispatched", "expired"), [(50, ()), (100, (0,)), (199, (0,)), (200, (0, 100))]
)
def test_what_is_not_dispatched_stays(dispatched: int, expired: tuple[int, ...]) -> None:
    for used in (10, 86):  # old, or short of space
        assert round_of(100, 90, 80, used=used, dispatched=dispatched).expired == expired


@pytest.mark.parametrize(
    ("used", "was_full", "expired", "is_full"),
    [
        (75, False, (), False),
        (76, False, (0,), False),  # at any hour, what is old
        (85, True, (0,), False),
        (86, False, (0, 100), False),  # what is young too
        (90, False, (0, 100), False),
        (91, False, (0, 100), True),
        (86, True, (0, 100), True),
    ],
)
def test_the_disk_decides(
    used: int, was_full: bool, expired: tuple[int, ...], is_full: bool
) -> None:
    assert round_of(100, 1, 1, used=used, hour=5, was_full=was_full) == Round(expired, is_full)


def test_a_round_is_limited() -> None:
    assert len(round_of(*[100] * 30).expired) == DELETE_FILES_BATCH_MAX


def test_queues_follow_the_log() -> None:
    positions = {
        ("T", 0): range(0, 300, 10),
        ("T", 1): range(5, 100, 10),  # all of it goes
        ("T", 2): range(205, 300, 10),
    }
    state = LogState(
        commit_log=Span(0, 300),
        consume_queue={queue: Span(0, len(at)) for queue, at in positions.items()},
    )

    def unit(queue: TopicQueue, offset: int) -> Unit:
        return Unit(positions[queue][offset], 10, 0)

    apply(state, delete_expired_file(state, 100, unit).changes)
    assert state.commit_log == (100, 300)
    assert state.consume_queue == {
        ("T", 0): Span(10, 30),
        ("T", 1): Span(10, 10),
        ("T", 2): Span(0, 10),
    }
