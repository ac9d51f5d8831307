"""Long polling: a pull that finds nothing yet is held until a message comes, or its time is up.
Twin of LongPolling.tla.

A held pull is looked at when a message arrives in its queue, and every 5 seconds; nothing
else ends it, so that it is held up to 5 seconds longer than it asked for (PULL-009). A message
that arrives between the read and the hold is noticed by the next look (PULL-014). A woken
pull is carried out again, and is not held a second time.

Facts: PullRequestHoldService.java (5.3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mqspec.core.group import SubscriptionData
from mqspec.core.log import TopicQueue
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.subscription import is_matched_by_commit_log, is_matched_by_consume_queue

CHECK_INTERVAL_MS: Final = 5_000


class PullRequest(NamedTuple):
    """A pull that is held."""

    token: Hashable  # the shell's name for it
    pull_from_this_offset: int
    subscription: SubscriptionData
    deadline_ms: int


@dataclass(slots=True)
class LongPollingState:
    """The held pulls of one broker."""

    pull_request_table: dict[TopicQueue, tuple[PullRequest, ...]] = field(default_factory=dict)


def suspend_pull_request(state: LongPollingState, queue: TopicQueue, request: PullRequest) -> Step:
    """LongPolling!SuspendPullRequest. A pull found nothing, and is held."""
    held = state.pull_request_table.get(queue, ())
    return Step((Change("pull_request_table", queue, (*held, request)),))


def notify_message_arriving(
    state: LongPollingState,
    queue: TopicQueue,
    max_offset: int,
    tags_code: int | None,
    now_ms: int,
    properties: str | None = None,
) -> Step:
    """LongPolling!NotifyMessageArriving. The queue's max offset is seen, with the tag and the
    properties of the message that came last (None: unknown, which every filter passes).

    Result: the tokens of the pulls to carry out again.
    """
    held = state.pull_request_table.get(queue, ())
    woken = [
        request
        for request in held
        if now_ms >= request.deadline_ms
        or (
            max_offset > request.pull_from_this_offset
            and is_matched_by_consume_queue(request.subscription, tags_code)
            and (properties is None or is_matched_by_commit_log(request.subscription, properties))
        )
    ]
    if not woken:
        return Step(result=())
    rest = tuple(request for request in held if request not in woken)
    change = Change("pull_request_table", queue, rest or REMOVED)
    return Step((change,), result=tuple(request.token for request in woken))


def check_hold_request(
    state: LongPollingState, max_offset: Callable[[TopicQueue], int], now_ms: int
) -> Step:
    """LongPolling!CheckHoldRequest. Every 5 s all queues with held pulls are looked at."""
    steps = [
        notify_message_arriving(state, queue, max_offset(queue), None, now_ms)
        for queue in state.pull_request_table
    ]
    changes = tuple(change for step in steps for change in step.changes)
    return Step(changes, result=tuple(token for step in steps for token in step.result))


def forget_pull_requests(state: LongPollingState, is_gone: Callable[[Hashable], bool]) -> Step:
    """Pulls whose connection is closed are held no longer; Apache carries them out in vain."""
    changes = []
    for queue, held in state.pull_request_table.items():
        rest = tuple(request for request in held if not is_gone(request.token))
        if len(rest) < len(held):
            changes.append(Change("pull_request_table", queue, rest or REMOVED))
    return Step(tuple(changes))
