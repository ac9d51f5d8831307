"""Pop polling: a pop that finds nothing is held until there may be something, or its time is up.
Twin of PopPolling.tla.

Held pops wait by topic, group and queue, those of all queues (-1) apart. A message that arrives
wakes one of them in each of the two places, the one that waited longest, if the message
matches its filter; the woken pop is carried out again, and is held again if others were
quicker. Nobody is woken by a message of a retry topic (POP-017): a revived message waits for
the next pop.

Notifications, which ask only whether there is something, wait apart in the same way.

Facts: PopLongPollingService.java (5.3.3), and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from mqspec.core.group import SubscriptionData
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.subscription import is_matched_by_commit_log, is_matched_by_consume_queue
from mqspec.core.types import Group, Topic

ALL_QUEUES: Final = -1
EARLY_MS: Final = 50  # before its deadline a held pop is answered
FORCE_NOTIFY_INTERVAL: Final = 800
"""Each message with such an offset wakes whatever the filter says: a read looks at no more
messages than that, and one that matches may be behind them (popLongPollingForceNotifyInterval)."""


class PollingResult(Enum):
    """What became of a pop that found nothing."""

    POLLING_SUC = auto()
    POLLING_FULL = auto()
    POLLING_TIMEOUT = auto()
    NOT_POLLING = auto()


class PollingKey(NamedTuple):
    """Where a pop waits."""

    topic: Topic
    group: Group
    queue_id: int  # ALL_QUEUES: wherever a message comes


class PopRequest(NamedTuple):
    """A pop that is held."""

    token: Hashable  # the shell's name for it
    subscription: SubscriptionData | None  # None: whatever comes
    expired_ms: int


@dataclass(slots=True)
class PopPollingState:
    """The held pops of one broker, or its held notifications."""

    polling_map: dict[PollingKey, tuple[PopRequest, ...]] = field(default_factory=dict)
    groups: dict[Topic, frozenset[Group]] = field(default_factory=dict)  # who ever waited


def polling(
    state: PopPollingState,
    key: PollingKey,
    request: PopRequest,
    is_asked: bool,
    size_max: int,
    now_ms: int,
) -> Step:
    """PopPolling!Polling. A pop found nothing. Result: the PollingResult; it is held if that is
    POLLING_SUC."""
    if not is_asked:
        return Step(result=PollingResult.NOT_POLLING)
    if now_ms > request.expired_ms - EARLY_MS:
        return Step(result=PollingResult.POLLING_TIMEOUT)
    held = state.polling_map.get(key, ())
    if len(held) > size_max:
        return Step(result=PollingResult.POLLING_FULL)
    groups = state.groups.get(key.topic, frozenset()) | {key.group}
    waiting = tuple(sorted((*held, request), key=lambda one: one.expired_ms))
    changes = (Change("polling_map", key, waiting), Change("groups", key.topic, groups))
    return Step(changes, result=PollingResult.POLLING_SUC)


def notify_message_arriving(
    state: PopPollingState,
    topic: Topic,
    queue_id: int,
    offset: int,
    tags_code: int | None,
    properties: str | None = None,
) -> Step:
    """PopPolling!NotifyMessageArriving. A message arrived; `offset` is that behind it. Result: the
    tokens to carry out again."""
    if offset % FORCE_NOTIFY_INTERVAL == 0:
        tags_code = properties = None
    steps = [
        notify_group(state, PollingKey(topic, group, waiting_for), tags_code, properties)
        for group in sorted(state.groups.get(topic, ()))
        for waiting_for in (ALL_QUEUES, queue_id)
    ]
    changes = tuple(change for step in steps for change in step.changes)
    return Step(changes, result=tuple(token for step in steps for token in step.result))


def notify_group(
    state: PopPollingState,
    key: PollingKey,
    tags_code: int | None = None,
    properties: str | None = None,
) -> Step:
    """PopPolling!NotifyGroup. There may be something for one that waits at a key: a message with
    these tags and properties, as far as that is known. Result: its token, or nobody's."""
    held = state.polling_map.get(key, ())
    if not held:
        return Step(result=())
    first, *rest = held
    wanted = first.subscription
    if wanted and not (
        is_matched_by_consume_queue(wanted, tags_code)
        and (properties is None or is_matched_by_commit_log(wanted, properties))
    ):
        return Step(result=())
    change = Change("polling_map", key, tuple(rest) or REMOVED)
    return Step((change,), result=(first.token,))


def notify_lock_free(state: PopPollingState, key: PollingKey) -> Step:
    """A queue that was blocked is not any more: one that waits for all queues is told, or else
    one that waits for this one."""
    step = notify_group(state, key._replace(queue_id=ALL_QUEUES))
    return step if step.result else notify_group(state, key)


def forget(state: PopPollingState, key: PollingKey, token: Hashable) -> Step:
    """PopPolling!Forget. The time of a held pop is up. Result: whether it was still held."""
    held = state.polling_map.get(key, ())
    rest = tuple(request for request in held if request.token is not token)
    if len(rest) == len(held):
        return Step(result=False)
    return Step((Change("polling_map", key, rest or REMOVED),), result=True)


def forget_closed(state: PopPollingState, is_gone: Callable[[Hashable], bool]) -> Step:
    """Pops whose connection is closed are held no longer."""
    changes = []
    for key, held in state.polling_map.items():
        rest = tuple(request for request in held if not is_gone(request.token))
        if len(rest) < len(held):
            changes.append(Change("polling_map", key, rest or REMOVED))
    return Step(tuple(changes))
