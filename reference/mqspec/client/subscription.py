"""What a member says that it wants, and how that travels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mqrules import UserError
from mqspec.core.group import SubscriptionData
from mqspec.core.subscription import SQL92, TAG, SubscriptionError, build_subscription_data
from mqspec.core.types import Group, Topic
from mqspec.wire import bodies


@dataclass(frozen=True, slots=True)
class MessageSelector:
    """What a member wants of a topic, where that is not said by tags (MessageSelector.bySql)."""

    expression: str
    type: str = SQL92


Subscriptions: TypeAlias = Mapping[Topic, str | MessageSelector]
"""What a member wants, by topic: `*`, the tags `A || B`, or a selector."""


def build_subscriptions(
    group: Group, subscriptions: Subscriptions
) -> dict[Topic, SubscriptionData]:
    """By topic. Raises UserError."""
    found = {}
    for topic, wanted in subscriptions.items():
        selector = wanted if isinstance(wanted, MessageSelector) else MessageSelector(wanted, TAG)
        try:
            found[topic] = build_subscription_data(
                topic, selector.expression, expression_type=selector.type
            )
        except SubscriptionError as error:
            raise UserError(
                group, f"{str(error)!r} subscribes to nothing", "write A || B"
            ) from None
    return found


def subscription_body(data: SubscriptionData, version_ms: int) -> bodies.SubscriptionData:
    """As it travels."""
    return bodies.SubscriptionData(
        topic=data.topic,
        sub_string=data.sub_string,
        tags_set=tuple(sorted(data.tags_set)),
        code_set=tuple(sorted(data.code_set)),
        sub_version=version_ms,
        expression_type=data.expression_type,
    )
