"""Expressions that a broker keeps for groups: how long, and in which form."""

from __future__ import annotations

import pytest

from mqspec.core.bloom_filter import murmur3
from mqspec.core.consumer_filter import (
    CLEAN_TIME_SPAN_MS,
    LOADED_DEAD_MS,
    ConsumerFilterData,
    ConsumerFilterState,
    FilterKey,
    clean,
    load,
    persist,
    register,
    un_register,
)
from mqspec.core.group import SubscriptionData
from mqspec.core.step import apply
from mqspec.core.subscription import build_subscription_data

KEY = FilterKey("T", "G")
NOW_MS = 1_700_000_000_000
OUR_BITS = {"bitNum": 112, "bitPos": [1, 2, 3]}


def wants(expression: str, version: int, kind: str = "SQL92", topic: str = "T") -> SubscriptionData:
    return build_subscription_data(topic, expression, version, kind)


def heartbeats(state: ConsumerFilterState, now_ms: int, *wanted: SubscriptionData) -> None:
    apply(state, register(state, "G", wanted, now_ms).changes)


def kept(expression: str = "a = 1") -> ConsumerFilterState:
    """One expression, of version 5, born at 10, whose group has members."""
    return ConsumerFilterState({KEY: ConsumerFilterData(expression, "SQL92", 5, born_time=10)})


@pytest.mark.parametrize(
    ("wanted", "now_kept"),
    [
        (wants("a = 2", 4), ("a = 1", 5, 10)),
        (wants("a = 2", 5), ("a = 1", 5, 10)),
        (wants("a = 2", 6), ("a = 2", 6, 20)),
        (wants("a = 1", 6), ("a = 1", 6, 10)),
        (wants("a =", 6), None),
        (wants("a =", 5), ("a = 1", 5, 10)),
        (wants("a = 1", 6, "OTHER"), None),
        (wants("A", 6, "TAG"), ("a = 1", 5, 10)),
    ],
)
def test_only_a_later_version_counts(
    wanted: SubscriptionData, now_kept: tuple[str, int, int] | None
) -> None:
    state = kept()
    heartbeats(state, 20, wanted)
    data = state.filter_data.get(KEY)
    assert (data and (data.expression, data.client_version, data.born_time)) == now_kept


def test_what_cannot_be_read_is_not_kept() -> None:
    state = ConsumerFilterState()
    heartbeats(state, 20, wants("a =", 1), wants("A", 1, "TAG", topic="U"))
    assert state == ConsumerFilterState()


def test_a_group_without_members_is_remembered_for_a_day() -> None:
    state = kept()
    apply(state, un_register(state, "other", 30).changes)
    assert state == kept()
    apply(state, un_register(state, "G", 30).changes)
    apply(state, un_register(state, "G", 40).changes)
    assert state.filter_data[KEY].dead_time == 30
    assert clean(state, 30 + CLEAN_TIME_SPAN_MS - 1).changes == ()
    apply(state, clean(state, 30 + CLEAN_TIME_SPAN_MS).changes)
    assert state == ConsumerFilterState()


@pytest.mark.parametrize(
    ("wanted", "dead_time"),
    [(wants("a = 1", 4), 30), (wants("a = 2", 5), 0), (wants("a = 1", 6), 0)],
)
def test_a_member_brings_it_to_life(wanted: SubscriptionData, dead_time: int) -> None:
    state = kept()
    apply(state, un_register(state, "G", 30).changes)
    heartbeats(state, 40, wanted)
    assert state.filter_data[KEY].dead_time == dead_time


def test_a_topic_that_no_heartbeat_names_any_more_is_dead() -> None:
    state = kept()
    heartbeats(state, 50, wants("a = 1", 9, topic="U"))
    assert state.filter_data[KEY].dead_time == 50
    assert not state.filter_data[FilterKey("U", "G")].is_dead


def test_after_a_start_nobody_is_there() -> None:
    left = ConsumerFilterData("b = 1", "SQL92", 1, born_time=1, dead_time=2)
    young = ConsumerFilterData("c = 1", "SQL92", 1, born_time=NOW_MS - 5)
    state = kept()
    state.filter_data |= {FilterKey("T", "left"): left, FilterKey("T", "young"): young}
    found = load(persist(state), NOW_MS).filter_data
    assert found.keys() == state.filter_data.keys()
    assert [data.dead_time for data in found.values()] == [
        NOW_MS - LOADED_DEAD_MS,
        2,
        NOW_MS - 5,
    ]
    assert all(data.is_dead for data in found.values())


def test_bits_of_other_settings_throw_all_away() -> None:
    content = persist(kept())
    content["filterDataByTopic"]["T"]["groupFilterData"]["G"]["bloomFilterData"]["bitNum"] = 8
    assert load(content, NOW_MS) == ConsumerFilterState()
    assert load({}, NOW_MS) == ConsumerFilterState()


@pytest.mark.parametrize(
    "content",
    [
        {"filterDataByTopic": []},
        {"filterDataByTopic": {"T": {}}},
        {"filterDataByTopic": {"T": {"groupFilterData": {"G": {"bloomFilterData": OUR_BITS}}}}},
    ],
)
def test_what_no_broker_writes_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not an expression"):
        load(content, NOW_MS)


def test_the_hash_is_the_one_that_its_authors_published() -> None:
    assert murmur3(b"") == 0
    assert murmur3(b"hello") == 0xCBD8A7B341BD9B02
    assert murmur3(b"The quick brown fox jumps over the lazy dog") == 0xE34BBC7BBC071B6C
