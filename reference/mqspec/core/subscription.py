"""Subscription: which messages of a topic a group wants, as the broker understands it. Twin of
Subscription.tla, with the parts of group, pull and push_consumer that have to do with it.

By tags, the broker filters by the Java hash of a message's tag only, so that it may let a message
through whose tag merely collides; the client compares the text (SUBS-015). By SQL92, the broker
looks at the properties of each message, and the client at nothing; an expression that cannot be
read keeps nothing off where a pull carries it (SUBS-012).

Facts: FilterAPI.java, ExpressionMessageFilter.java, ConsumerFilterManager.java (5.3.3), and what
5.3.3 answered over the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from mqspec.core.group import GroupState, SubscriptionData, subscription
from mqspec.core.java import java_split
from mqspec.core.record import Record, decode_properties, decode_record, string_hash
from mqspec.core.sql92 import Condition, ExpressionError, matches
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import Group, Topic

ALL: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"
EXPIRED_TIMEOUT_MS: Final = 600_000  # subscriptionExpiredTimeout


class SubscriptionError(ValueError):
    """The expression is none."""


def build_subscription_data(
    topic: Topic, sub_string: str, sub_version: int = 0, expression_type: str = TAG
) -> SubscriptionData:
    """The subscription that an expression means: by default one of tags, `A || B`.

    Any other is taken as it is, unless there is none; of a type without a name nothing is read,
    and what is not `*` means nothing. Of tags, nothing and `*` mean all; `||`
    alone is an error, whereas `|| ||` has tokens, all of them blank, and means nothing at all.
    Raises SubscriptionError.
    """
    if expression_type != TAG:
        if not sub_string:
            raise SubscriptionError("no expression")
        return SubscriptionData(
            topic, sub_string, sub_version=sub_version, expression_type=expression_type or TAG
        )
    if sub_string in ("", ALL):
        return SubscriptionData(topic, ALL, sub_version=sub_version)
    tokens = java_split(sub_string, "||")
    if not tokens:
        raise SubscriptionError(sub_string)
    tags = frozenset(tag for token in tokens if (tag := token.strip()))
    codes = frozenset(map(string_hash, tags))
    return SubscriptionData(topic, sub_string, tags, codes, sub_version)


def is_matched_by_consume_queue(subscription: SubscriptionData, tags_code: int | None) -> bool:
    """Subscription!IsMatchedByConsumeQueue. Whether a message with this tags code may be wanted;
    None: nobody knows its tag."""
    return (
        tags_code is None
        or subscription.expression_type != TAG
        or subscription.sub_string == ALL
        or tags_code in subscription.code_set
    )


def is_matched_by_commit_log(subscription: SubscriptionData, properties: str | bytes) -> bool:
    """Whether a message with these properties, as they are stored, is wanted. A subscription by
    tags looks at none of them."""
    if subscription.expression_type == TAG:
        return True
    try:
        condition = condition_of(subscription)
    except SubscriptionError:
        return True
    return matches(condition, decode_properties(properties))


def is_wanted_record(subscription: SubscriptionData, data: bytes) -> bool:
    """Whether a record, as it lies in the log, is one that the subscription wants."""
    record = decode_record(data)
    return isinstance(record, Record) and is_matched_by_commit_log(subscription, record.properties)


def condition_of(subscription: SubscriptionData) -> Condition:
    """What a subscription that is not by tags wants. Raises SubscriptionError where its type is
    not known, or its expression is none."""
    # Its library takes a while to load, for which a broker that starts need not wait.
    from mqspec.core.sql92_parser import compile_expression

    if subscription.expression_type != SQL92:
        raise SubscriptionError(f"no filter is of type {subscription.expression_type:.40}")
    try:
        return compile_expression(subscription.sub_string)
    except ExpressionError as error:
        raise SubscriptionError(str(error)) from None


@dataclass(slots=True)
class BroughtSubscriptions:
    """The subscriptions that a group's pulls and pops brought, of each topic the last (ADMIN-027).

    They count for tools, where no member subscribes the topic, and for nothing else
    (ConsumerManager.compensateSubscribeData, 5.3.3).
    """

    wanted: dict[tuple[Group, Topic], SubscriptionData] = field(default_factory=dict)

    def note(self, group: Group, wanted: SubscriptionData, now_ms: int) -> Step:
        """One was brought. It is as new as that, whatever version the request said."""
        brought = replace(wanted, sub_version=now_ms)
        return Step((Change("wanted", (group, wanted.topic), brought),))

    def forget(self, now_ms: int) -> Step:
        """What was brought more than ten minutes ago counts no more."""
        first_ms = now_ms - EXPIRED_TIMEOUT_MS
        gone = (key for key, wanted in self.wanted.items() if wanted.sub_version < first_ms)
        return Step(tuple(Change("wanted", key, REMOVED) for key in gone))


def known_subscription(
    groups: GroupState, brought: BroughtSubscriptions, group: Group, topic: Topic
) -> SubscriptionData | None:
    """What a group wants of a topic: as its members say, or else as its requests said last."""
    return subscription(groups, group, topic) or brought.wanted.get((group, topic))


def may_consume(
    groups: GroupState, brought: BroughtSubscriptions, group: Group, topic: Topic
) -> bool:
    """Whether a group wants the topic, or no member of it says what it wants."""
    members = groups.consumer_table.get(group)
    if members is None or not members.subscription_table:
        return True
    return known_subscription(groups, brought, group, topic) is not None
