"""Tag expressions and their filter."""

from __future__ import annotations

import pytest

from mqspec.core.group import GroupState
from mqspec.core.record import tags_code
from mqspec.core.step import apply
from mqspec.core.subscription import (
    EXPIRED_TIMEOUT_MS,
    BroughtSubscriptions,
    SubscriptionError,
    build_subscription_data,
    is_matched_by_consume_queue,
    known_subscription,
)


@pytest.mark.parametrize("expression", ["", "*"])
def test_everything(expression: str) -> None:
    wanted = build_subscription_data("T", expression)
    assert wanted.sub_string == "*"
    assert all(is_matched_by_consume_queue(wanted, tags_code(tag)) for tag in ("A", "", None))


@pytest.mark.parametrize("expression", ["A||B", " A || B ", "A||B||", "||A||||B"])
def test_tags(expression: str) -> None:
    wanted = build_subscription_data("T", expression)
    assert wanted.tags_set == {"A", "B"}
    assert [
        is_matched_by_consume_queue(wanted, tags_code(tag)) for tag in ("A", "B", "C", None)
    ] == [True, True, False, False]


def test_a_tag_that_collides_passes() -> None:
    assert is_matched_by_consume_queue(build_subscription_data("T", "BB"), tags_code("Aa"))


def test_a_tag_that_nobody_knows_passes() -> None:
    assert is_matched_by_consume_queue(build_subscription_data("T", "A"), None)


def test_no_expression() -> None:
    with pytest.raises(SubscriptionError):
        build_subscription_data("T", "||")


def test_of_a_type_without_a_name_only_all_means_anything() -> None:
    for expression, is_matched in (("A", False), ("*", True)):
        wanted = build_subscription_data("T", expression, expression_type="")
        assert is_matched_by_consume_queue(wanted, tags_code("A")) is is_matched
    with pytest.raises(SubscriptionError):
        build_subscription_data("T", "", expression_type="")


@pytest.mark.parametrize("expression", ["|| ||", " "])
def test_blank_tokens_mean_nothing_at_all(expression: str) -> None:
    wanted = build_subscription_data("T", expression)
    assert wanted.tags_set == frozenset()
    assert not is_matched_by_consume_queue(wanted, tags_code(None))


def test_what_a_pull_brought_is_forgotten_after_ten_minutes() -> None:
    brought = BroughtSubscriptions()
    for topic, time_ms in (("T", 1_000), ("U", 1_000), ("U", 2_000)):
        wanted = build_subscription_data(topic, "a", sub_version=7)
        apply(brought, brought.note("G", wanted, time_ms).changes)

    def versions() -> dict[str, int | None]:
        known = {t: known_subscription(GroupState(), brought, "G", t) for t in ("T", "U")}
        return {topic: one.sub_version if one else None for topic, one in known.items()}

    apply(brought, brought.forget(1_000 + EXPIRED_TIMEOUT_MS).changes)
    assert versions() == {"T": 1_000, "U": 2_000}
    apply(brought, brought.forget(1_001 + EXPIRED_TIMEOUT_MS).changes)
    assert versions() == {"T": None, "U": 2_000}
    assert known_subscription(GroupState(), brought, "H", "U") is None
