"""What a broker counts of its traffic, for statistics (315, 28) and for metrics."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TypeVar

from mqspec.core import stats
from mqspec.core.stats import Count, ItemKey, StatsName, StatsState, Tps
from mqspec.core.step import apply
from mqspec.core.types import Group, Topic
from mqspec.service import clock_ms

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class Traffic:
    """Messages that went one way since the start."""

    messages: int = 0
    size: int = 0  # of their records, bytes
    times: int = 0  # requests

    def add(self, messages: int, size: int) -> None:
        """One more request."""
        self.messages += messages
        self.size += size
        self.times += 1

    @property
    def nums(self) -> Count:
        return Count(self.messages, self.times)

    @property
    def bytes(self) -> Count:
        return Count(self.size, self.times)


class _Traffics(dict[K, Traffic]):
    def __missing__(self, key: K) -> Traffic:
        made = self[key] = Traffic()
        return made


@dataclass(slots=True)
class BrokerStats:
    """The counters of one broker; nothing of them survives its end."""

    cluster: str
    is_system: Callable[[Topic], bool]
    boot_ms: int = field(default_factory=clock_ms)
    put: _Traffics[Topic] = field(default_factory=_Traffics)
    got: _Traffics[tuple[Topic, Group]] = field(default_factory=_Traffics)
    sent_back: _Traffics[tuple[Topic, Group]] = field(default_factory=_Traffics)
    missed: Traffic = field(default_factory=Traffic)  # pulls that found nothing
    state: StatsState = field(default_factory=StatsState)

    def add(self, kind: str, key: tuple[Topic, Group], messages: int, size: int) -> None:
        """One more request of a kind: one that got messages, sent one back, or missed."""
        traffic = self.missed if kind == "missed" else getattr(self, kind)[key]
        traffic.add(messages, size)

    def counts(self) -> Mapping[ItemKey, Count]:
        """All counters, by the real broker's names."""
        put = [count for topic, count in self.put.items() if not self.is_system(topic)]
        got = [count for (topic, _), count in self.got.items() if not self.is_system(topic)]
        of_all = {
            StatsName.BROKER_PUT_NUMS: self.put.values(),
            StatsName.BROKER_GET_NUMS: self.got.values(),
            StatsName.BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC: put,
            StatsName.BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC: got,
        }
        named = {ItemKey(name, self.cluster): _sum(each) for name, each in of_all.items()}
        for topic, traffic in self.put.items():
            named[ItemKey(StatsName.TOPIC_PUT_NUMS, topic)] = traffic.nums
            named[ItemKey(StatsName.TOPIC_PUT_SIZE, topic)] = traffic.bytes
        for (topic, group), traffic in self.got.items():
            named[ItemKey(StatsName.GROUP_GET_NUMS, f"{topic}@{group}")] = traffic.nums
            named[ItemKey(StatsName.GROUP_GET_SIZE, f"{topic}@{group}")] = traffic.bytes
        for (topic, group), traffic in self.sent_back.items():
            named[ItemKey(StatsName.SNDBCK_PUT_NUMS, f"{topic}@{group}")] = traffic.nums
        return named

    def sampling(self) -> None:
        """At the start and then each 10 s."""
        step = stats.sampling(self.state, self.counts(), clock_ms(), date.today().toordinal())
        apply(self.state, step.changes)

    def forget_topic(self, topic: Topic) -> None:
        """The topic was deleted."""
        self.put.pop(topic, None)
        for table in (self.got, self.sent_back):
            for key in [key for key in table if key[0] == topic]:
                del table[key]

    def forget_group(self, group: Group) -> None:
        """The group was deleted."""
        for table in (self.got, self.sent_back):
            for key in [key for key in table if key[1] == group]:
                del table[key]

    def tps(self, name: StatsName, key: str) -> Tps:
        """The rates of a counter."""
        return stats.tps(self.state, ItemKey(name, key))


def _sum(traffics: Iterable[Traffic]) -> Count:
    messages = times = 0
    for traffic in traffics:
        messages, times = messages + traffic.messages, times + traffic.times
    return Count(messages, times)
