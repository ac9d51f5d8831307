"""Statistics: how much a broker took in and gave out in the last minute, hour and day.

Every counter only grows; all are sampled at the ticks of a window's clock, and a rate is the
difference of the first and the last sample of a window. One tick before the first that finds a
counter it counts as 0, so that what came before is in the rate; before that tick it has none.

Facts: BrokerStatsManager.java, StatsItem.java, StatsItemSet.java (5.3.3), and what 5.3.3 answered.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from mqspec.core.response import Answer, ResponseCode
from mqspec.core.step import REMOVED, Change, Step


class StatsName(StrEnum):
    """What is counted, and by what key."""

    TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"  # topic
    TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"  # topic; bytes
    GROUP_GET_NUMS = "GROUP_GET_NUMS"  # topic@group
    GROUP_GET_SIZE = "GROUP_GET_SIZE"  # topic@group; bytes
    SNDBCK_PUT_NUMS = "SNDBCK_PUT_NUMS"  # topic@group
    BROKER_PUT_NUMS = "BROKER_PUT_NUMS"  # cluster
    BROKER_GET_NUMS = "BROKER_GET_NUMS"  # cluster
    # Of all topics but the system's; cluster.
    BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
    BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"


class Window(NamedTuple):
    """How long statistics look back."""

    interval_ms: int  # from sample to sample
    samples: int  # that are kept


MINUTE: Final = Window(10_000, 7)
HOUR: Final = Window(600_000, 7)
DAY: Final = Window(3_600_000, 25)
WINDOWS: Final = (MINUTE, HOUR, DAY)

SAMPLE_INTERVAL_MS: Final = MINUTE.interval_ms


class ItemKey(NamedTuple):
    """One counter."""

    name: StatsName
    key: str


@dataclass(frozen=True, slots=True)
class Count:
    """What a counter has reached."""

    value: int
    steps: int  # in how many it got there


class Sample(NamedTuple):
    """A counter at a time."""

    timestamp: int  # ms
    reached: Count


@dataclass(slots=True)
class StatsState:
    """The samples of every counter, oldest first."""

    ticked: dict[Window, int] = field(default_factory=dict)  # when last, ms
    samples: dict[tuple[Window, ItemKey], tuple[Sample, ...]] = field(default_factory=dict)
    day: int = 0  # whichever number the shell gives the day
    today_morning: dict[ItemKey, int] = field(default_factory=dict)  # at its first sampling
    yesterday_morning: dict[ItemKey, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerStatsItem:
    """What a window shows."""

    sum: int = 0
    tps: float = 0.0  # a second
    avgpt: float = 0.0  # of the value, a step


@dataclass(frozen=True, slots=True)
class BrokerStatsData:
    """The answer to request 315."""

    stats_minute: BrokerStatsItem = BrokerStatsItem()
    stats_hour: BrokerStatsItem = BrokerStatsItem()
    stats_day: BrokerStatsItem = BrokerStatsItem()


def sampling(state: StatsState, counts: Mapping[ItemKey, Count], now_ms: int, day: int) -> Step:
    """At the start and then each 10 s: of each window whose interval is over a sample is taken. A
    counter that is gone is forgotten. With a new day the old one becomes yesterday."""
    changes: list[Change] = []
    for window in WINDOWS:
        # The clock ticks a little early or late: half a tick must not skip a sample.
        due = window.interval_ms - SAMPLE_INTERVAL_MS // 2
        if window in state.ticked and now_ms - state.ticked[window] < due:
            continue
        changes.append(Change("ticked", window, now_ms))
        before = Sample(now_ms - window.interval_ms, Count(0, 0))
        for key, count in counts.items():
            samples = state.samples.get((window, key), (before,))
            kept = (*samples, Sample(now_ms, count))[-window.samples :]
            changes.append(Change("samples", (window, key), kept))

    gone = [at for at in state.samples if at[1] not in counts]
    changes += (Change("samples", at, REMOVED) for at in gone)
    if day != state.day:
        values = {key: count.value for key, count in counts.items()}
        changes += (
            Change("day", None, day),
            Change("yesterday_morning", None, state.today_morning),
            Change("today_morning", None, values if state.day else {}),
        )

    return Step(tuple(changes))


def broker_stats_data(state: StatsState, key: ItemKey) -> BrokerStatsData:
    """What the windows show of a counter."""
    return BrokerStatsData(*(_shown(state.samples.get((window, key), ())) for window in WINDOWS))


class Tps(NamedTuple):
    """How much a second, over the last 10 seconds, the last minute and the last hour."""

    now: float
    minute: float
    hour: float


def tps(state: StatsState, key: ItemKey) -> Tps:
    """The rates of a counter."""
    minute = state.samples.get((MINUTE, key), ())
    hour = state.samples.get((HOUR, key), ())
    return Tps(_shown(minute[-2:]).tps, _shown(minute).tps, _shown(hour).tps)


def _shown(samples: tuple[Sample, ...]) -> BrokerStatsItem:
    if not samples:
        return BrokerStatsItem()
    first, last = samples[0], samples[-1]
    total, steps = (
        last.reached.value - first.reached.value,
        last.reached.steps - first.reached.steps,
    )
    seconds = (last.timestamp - first.timestamp) / 1000
    return BrokerStatsItem(total, total / seconds, total / steps if steps else 0.0)


def counted(counts: Container[ItemKey], name: str, key: str) -> ItemKey | Answer:
    """The counter that request 315 names, or the answer where it never counted (ADMIN-012)."""
    item = ItemKey(StatsName(name), key) if name in tuple(StatsName) else None
    if item is None or item not in counts:
        return Answer(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
    return item
