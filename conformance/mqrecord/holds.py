"""Which queues a member owns, as far as one can tell who sees what it asks for and is told.

What a client decides is not on the wire. These rules derive it, and are named in the how-to:

- *begins*: it owns a queue from when it is told where to begin, or else first pulls;
- *ends*: `LAST_MS` after it next commits it, once it unlocked it or left its group (5.3.3's client
  may be overtaken by itself: its last commits come behind), or was told a list of members that
  leaves the queue to another (its timer may commit just before its rebalance does); if it commits
  it no more, until another begins what it gave up, or for `LEAVING_MS`;
- *doubt*: what comes behind that commit is dropped, if it was the rebalance's, and consumed, if it
  was the timer's: it was received if a later commit passes it;
- *silence*: or until it has no connection any more, or has neither pulled nor committed the queue
  for `SILENT_MS`; a member whose last connection its broker ends then is cut off;
- *back*: who was silent, or cut off, and then pulls or commits without having asked where to begin
  had kept the queue, and owns it from then on again, where it was;
- *share*: what a list of members leaves to whom says `allocate()`, averagely, which is the default,
  until a member goes on pulling what that does not give it: then silence alone counts. Where the
  queues of a topic change, who was told when is not seen: either route may be a client's for
  `BELIEVED_MS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from mqspec.core.group import SubscriptionData
from mqspec.core.types import MessageQueue, Topic

LEAVING_MS: Final = 10_000  # a rebalance, from the list of members to the commit of a queue
LAST_MS: Final = 1_000  # from a commit of a queue that is left to the last one
SILENT_MS: Final = 60_000  # a held pull waits for 15 s, and an owner commits every 5 s
UNFINISHED_MAX: Final = 100_000  # messages of a queue that are remembered until they are committed


@dataclass(slots=True)
class Received:
    """A message that waits to be committed past."""

    key: str | None
    tag: str | None
    attempt: int
    level: int  # of its delay
    physical_offset: int  # by which it is given back


@dataclass(slots=True)
class Hold:
    """A queue in a member's hands."""

    next_offset: int | None = None  # from where it is to pull next
    seen_ms: float = 0
    leaving_since_ms: float | None = None  # when it was told that the queue is another's
    committed_ms: float | None = None  # when it first committed it after that
    is_given_up: bool = False  # the member said itself that it leaves
    unfinished: dict[int, Received] = field(default_factory=dict)  # by queue offset, in their order
    doubtful: dict[int, Received] = field(default_factory=dict)  # likewise: received, or dropped

    @property
    def is_taking(self) -> bool:
        """Whether what comes is for its listener; else it is in doubt."""
        return self.committed_ms is None

    def finished(self, committed: int) -> Iterator[tuple[int, Received]]:
        """What was received below an offset and had not been finished: it is, from now on."""
        yield from _below(committed, self.unfinished)

    def no_longer_doubtful(self, committed: int) -> Iterator[tuple[int, Received]]:
        """What was received below an offset after all."""
        for offset, message in _below(committed, self.doubtful):
            self.received(offset, message)
            yield offset, message

    def received(self, offset: int, message: Received) -> None:
        self.unfinished[offset] = message
        if len(self.unfinished) > UNFINISHED_MAX:  # of a group that commits nothing
            del self.unfinished[next(iter(self.unfinished))]

    def goes_on(self, offset: int) -> None:
        """From elsewhere: what it had received is nothing to it any more."""
        self.next_offset = offset
        self.unfinished.clear()
        self.doubtful.clear()

    def leaves(self, now_ms: float, given_up: bool = False) -> None:
        """What it commits within `LAST_MS` of its next commit is the last of it."""
        if self.leaving_since_ms is None:
            self.leaving_since_ms = now_ms
        self.is_given_up |= given_up

    def stays(self) -> None:
        """It is the member's after all."""
        if not self.is_given_up:
            self.leaving_since_ms = self.committed_ms = None

    def commits(self, now_ms: float) -> None:
        """If it leaves: little more is to come."""
        if self.leaving_since_ms is not None and self.committed_ms is None:
            self.committed_ms = now_ms

    def is_over(self, now_ms: float) -> bool:
        """Whether nothing more is to come of a queue that was left, or of a silent owner."""
        since_and_for = (
            (self.leaving_since_ms, LEAVING_MS),
            (self.committed_ms, LAST_MS),
            (self.seen_ms, SILENT_MS),
        )
        return any(since is not None and now_ms > since + ms for since, ms in since_and_for)


def _below(end: int, messages: dict[int, Received]) -> Iterator[tuple[int, Received]]:
    """The messages up to an offset, taken out."""
    for offset in list(messages):
        if offset >= end:
            break
        yield offset, messages.pop(offset)


@dataclass(slots=True)
class Membership:
    """A member's place in a group, and the queues that it holds."""

    group: str  # as it is written: a group that broadcasts is one for each member
    subscriptions: dict[Topic, SubscriptionData] = field(default_factory=dict)
    holds: dict[MessageQueue, Hold] = field(default_factory=dict)
    silent: dict[MessageQueue, Hold] = field(default_factory=dict)  # which it may have kept
    left: dict[MessageQueue, float] = field(default_factory=dict)  # when it left which queue
    unregistered_ms: float | None = None  # when it said that it leaves the group
    view: str = ""  # the list of members that it was told last
    is_averaging: bool = True  # it took its average share so far
    is_locking: bool = False  # it consumes in order: it keeps a queue until it unlocks it
    is_cut_off: bool = False  # its brokers have forgotten it, and it may not know

    def may_own(self, queue: MessageQueue) -> bool:
        return queue in self.holds or queue in self.silent
