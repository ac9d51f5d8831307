"""ConsumerFilter: the expressions by which a broker filters for groups that do so by another type
than tags, as their heartbeats brought them.

A pull that carries no subscription is filtered by what stands here, not by what the members want
now: an expression stays with its version when the last member has gone, and over a restart, until
a later version comes or it was without members for a day (SUBS-020, SUBS-021).

Facts: ConsumerFilterManager.java, ConsumerFilterData.java, DefaultConsumerIdsChangeListener.java
(5.3.3), and the file that 5.3.3 wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from mqspec.core.bloom_filter import BITS, HASHES, bit_positions
from mqspec.core.group import SubscriptionData
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.subscription import TAG, SubscriptionError, condition_of
from mqspec.core.types import Group, Topic

PERSIST_INTERVAL_MS: Final = 10_000
CLEAN_TIME_SPAN_MS: Final = 24 * 3600 * 1000  # filterDataCleanTimeSpan
LOADED_DEAD_MS: Final = 30_000  # how long before a start its groups count as left


class FilterKey(NamedTuple):
    """Whose expression it is."""

    topic: Topic
    group: Group


@dataclass(frozen=True, slots=True)
class ConsumerFilterData:
    """One expression. Times in ms."""

    expression: str
    expression_type: str
    client_version: int  # the subVersion that it came with
    born_time: int
    dead_time: int = 0  # since when the group has no member that wants the topic

    @property
    def is_dead(self) -> bool:
        return self.dead_time >= self.born_time


@dataclass(slots=True)
class ConsumerFilterState:
    """What consumerFilter.json holds."""

    filter_data: dict[FilterKey, ConsumerFilterData] = field(default_factory=dict)


# Actions


def register(
    state: ConsumerFilterState,
    group: Group,
    subscriptions: Iterable[SubscriptionData],
    now_ms: int,
) -> Step:
    """A heartbeat of a member has come with these subscriptions. What the group wanted of other
    topics is dead."""
    changes: list[Change] = []
    wanted = {subscription.topic: subscription for subscription in subscriptions}
    for topic, subscription in wanted.items():
        if subscription.expression_type != TAG and subscription.sub_string:
            key = FilterKey(topic, group)
            changes += _register(key, state.filter_data.get(key), subscription, now_ms)
    changes += _bury(state, (key for key in _of(state, group) if key.topic not in wanted), now_ms)
    return Step(tuple(changes))


def un_register(state: ConsumerFilterState, group: Group, now_ms: int) -> Step:
    """The last member of a group has left, or its connection is gone; a group that the scan of
    silent members empties is not told of here, as 5.3.3 has it."""
    return Step(tuple(_bury(state, _of(state, group), now_ms)))


def clean(state: ConsumerFilterState, now_ms: int) -> Step:
    """Who has been without members for a day is forgotten."""
    return Step(
        tuple(
            Change("filter_data", key, REMOVED)
            for key, data in state.filter_data.items()
            if data.is_dead and now_ms - data.dead_time >= CLEAN_TIME_SPAN_MS
        )
    )


def load(content: Mapping[str, Any], now_ms: int) -> ConsumerFilterState:
    """What consumerFilter.json holds; nobody is there when a broker starts. Nothing, where the
    bits are not those of this broker's settings.

    Raises ValueError where that is not what a broker writes.
    """
    state = ConsumerFilterState()
    try:
        for topic, by_topic in content.get("filterDataByTopic", {}).items():
            for group, entry in by_topic["groupFilterData"].items():
                bits = entry.get("bloomFilterData") or {}
                if bits.get("bitNum") != BITS or len(bits.get("bitPos", ())) != HASHES:
                    return ConsumerFilterState()
                data = ConsumerFilterData(
                    str(entry["expression"]),
                    str(entry["expressionType"]),
                    int(entry["clientVersion"]),
                    int(entry["bornTime"]),
                    int(entry["deadTime"]),
                )
                if not data.dead_time:
                    left = max(now_ms - LOADED_DEAD_MS, data.born_time)
                    data = replace(data, dead_time=left)
                state.filter_data[FilterKey(topic, group)] = data
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not an expression with its version and times: {error}") from None
    return state


# Queries


def persist(state: ConsumerFilterState) -> dict[str, Any]:
    """What consumerFilter.json holds."""
    by_topic: dict[Topic, dict[str, Any]] = {}
    for key, data in state.filter_data.items():
        of_topic = by_topic.setdefault(key.topic, {"groupFilterData": {}, "topic": key.topic})
        of_topic["groupFilterData"][key.group] = plain(key, data)
    return {"bloomFilter": {"k": HASHES, "m": BITS}, "filterDataByTopic": by_topic}


def plain(key: FilterKey, data: ConsumerFilterData) -> dict[str, Any]:
    """One expression, as Java's JSON has it."""
    positions = list(bit_positions(f"{key.group}#{key.topic}"))
    return {
        "bloomFilterData": {"bitNum": BITS, "bitPos": positions},
        "bornTime": data.born_time,
        "clientVersion": data.client_version,
        "consumerGroup": key.group,
        "dead": data.is_dead,
        "deadTime": data.dead_time,
        "expression": data.expression,
        "expressionType": data.expression_type,
        "topic": key.topic,
    }


# Inside


def _register(
    key: FilterKey, old: ConsumerFilterData | None, wanted: SubscriptionData, now_ms: int
) -> list[Change]:
    if old and wanted.sub_version <= old.client_version:
        again = wanted.sub_version == old.client_version and old.is_dead
        return [Change("filter_data", key, replace(old, dead_time=0))] if again else []
    if old and (old.expression, old.expression_type) == (
        wanted.sub_string,
        wanted.expression_type,
    ):
        renewed = replace(old, client_version=wanted.sub_version, dead_time=0)
        return [Change("filter_data", key, renewed)]

    try:
        condition_of(wanted)
    except SubscriptionError:
        return [Change("filter_data", key, REMOVED)] if old else []

    new = ConsumerFilterData(
        wanted.sub_string, wanted.expression_type, wanted.sub_version, born_time=now_ms
    )
    return [Change("filter_data", key, new)]


def _bury(state: ConsumerFilterState, keys: Iterable[FilterKey], now_ms: int) -> list[Change]:
    found = ((key, state.filter_data[key]) for key in keys)
    return [
        Change("filter_data", key, replace(data, dead_time=now_ms))
        for key, data in found
        if not data.is_dead
    ]


def _of(state: ConsumerFilterState, group: Group) -> list[FilterKey]:
    return [key for key in state.filter_data if key.group == group]
