"""Statistics: samples of counters, and what their windows show."""

from __future__ import annotations

import pytest

from mqspec.core.stats import (
    DAY,
    HOUR,
    MINUTE,
    BrokerStatsData,
    BrokerStatsItem,
    Count,
    ItemKey,
    StatsName,
    StatsState,
    broker_stats_data,
    sampling,
    tps,
)
from mqspec.core.step import apply

KEY = ItemKey(StatsName.TOPIC_PUT_NUMS, "T")
TICK_MS = 10_000


def sampled(ticks: int, each: int = 50, late_ms: int = 0) -> StatsState:
    """After the start, and so many ticks of the clock, between which the counter grew by `each` in
    5 steps, from nothing."""
    state = StatsState()
    apply(state, sampling(state, {}, 1_000_000 - TICK_MS, day=1).changes)
    for tick in range(ticks):
        counts = {KEY: Count(each * (tick + 1), 5 * (tick + 1))}
        now_ms = 1_000_000 + tick * TICK_MS + (late_ms if tick % 2 else 0)
        apply(state, sampling(state, counts, now_ms, day=1).changes)
    return state


def test_nothing_is_shown_before_the_first_tick() -> None:
    assert broker_stats_data(sampled(0), KEY) == BrokerStatsData()


@pytest.mark.parametrize("ticks", [1, 3])
def test_a_window_shows_the_difference_of_its_ends(ticks: int) -> None:
    shown = broker_stats_data(sampled(ticks), KEY)
    # Seen on 5.3.3, too: what was counted before the first tick is in it.
    assert shown.stats_minute == BrokerStatsItem(sum=50 * ticks, tps=5.0, avgpt=10.0)
    assert shown.stats_hour == BrokerStatsItem(), "its clock ticks ten minutes after the start"


@pytest.mark.parametrize("late_ms", [0, 900])
def test_windows_keep_what_they_need(late_ms: int) -> None:
    state = sampled(3 * 360, late_ms=late_ms)  # three hours
    assert {window: len(samples) for (window, _), samples in state.samples.items()} == {
        MINUTE: 7,
        HOUR: 7,
        DAY: 4,
    }
    shown = broker_stats_data(state, KEY)
    assert shown.stats_minute.sum == 300
    assert shown.stats_hour.sum == 50 * 360
    assert shown.stats_day.sum == 3 * 50 * 360


def test_rates_by_age() -> None:
    state = sampled(70, each=20)
    apply(
        state, sampling(state, {KEY: Count(20 * 70 + 100, 1)}, 1_000_000 + 70 * TICK_MS, 1).changes
    )
    rates = tps(state, KEY)
    assert rates.now == 10.0
    assert rates.minute == pytest.approx((5 * 20 + 100) / 60)
    assert rates.hour == 2.0


def test_what_is_not_counted_any_more_is_forgotten() -> None:
    state = sampled(3)
    apply(state, sampling(state, {}, 1_100_000, day=1).changes)
    assert state.samples == {}


def test_days() -> None:
    state = StatsState()
    for value, day in ((5, 7), (9, 7), (20, 8), (21, 8), (30, 9)):
        counts = {KEY: Count(value, value)}
        apply(state, sampling(state, counts, 1_000_000 + value * TICK_MS, day).changes)
    assert state.yesterday_morning == {KEY: 20}
    assert state.today_morning == {KEY: 30}
