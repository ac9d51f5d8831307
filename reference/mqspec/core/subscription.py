"""Subscription: which messages of a topic a group wants, as the broker understands it.

The broker filters by the Java hash of a message's tag only, so that it may let a message
through whose tag merely collides; the client compares the text.

Facts: FilterAPI.java, DefaultMessageFilter.java (5.3.3).
"""

from __future__ import annotations

from typing import Final

from mqspec.core.group import SubscriptionData
from mqspec.core.record import string_hash
from mqspec.core.types import Topic

ALL: Final = "*"
TAG: Final = "TAG"


class SubscriptionError(ValueError):
    """The expression is none."""


def build_subscription_data(
    topic: Topic, sub_string: str, sub_version: int = 0, expression_type: str = TAG
) -> SubscriptionData:
    """The subscription that an expression of tags, `A || B`, means.

    Nothing and `*` mean all. `||` alone is an error, whereas `|| ||` has tokens, all of them
    blank, and means nothing at all. Raises SubscriptionError.
    """
    if sub_string in ("", ALL):
        return SubscriptionData(topic, ALL, sub_version=sub_version)
    tokens = sub_string.split("||")
    while tokens and not tokens[-1]:  # as Java's split, which drops empty ones at the end
        tokens.pop()
    if not tokens:
        raise SubscriptionError(sub_string)
    tags = frozenset(tag for token in tokens if (tag := token.strip()))
    codes = frozenset(map(string_hash, tags))
    return SubscriptionData(topic, sub_string, tags, codes, sub_version, expression_type)


def is_matched_by_consume_queue(subscription: SubscriptionData, tags_code: int | None) -> bool:
    """Whether a message with this tags code may be wanted; None: nobody knows its tag."""
    return tags_code is None or subscription.sub_string == ALL or tags_code in subscription.code_set
