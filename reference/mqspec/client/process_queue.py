"""The messages of the process queues that a consumer holds.

core.offset_commit.ProcessQueue knows their offsets; the messages themselves are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mqspec.client.message import MessageExt
from mqspec.core.types import MessageQueue


class ProcessQueueMessages:
    """Messages pulled and not finished, by queue and offset."""

    def __init__(self) -> None:
        self._messages: dict[MessageQueue, dict[int, MessageExt]] = {}
        self._consume_start_ms: dict[MessageQueue, dict[int, int]] = {}

    def begin(self, mq: MessageQueue) -> None:
        """A process queue is new: what an earlier one held is gone."""
        self._messages[mq] = {}
        self._consume_start_ms[mq] = {}

    def end(self, mq: MessageQueue) -> None:
        """The process queue was removed."""
        self._messages.pop(mq, None)
        self._consume_start_ms.pop(mq, None)

    def put(self, mq: MessageQueue, messages: Iterable[MessageExt]) -> None:
        """Messages were pulled, or are to be consumed again as they are now."""
        self._messages[mq].update((message.queue_offset, message) for message in messages)

    def get(self, mq: MessageQueue, offsets: Iterable[int]) -> list[MessageExt]:
        """Those that are still there."""
        held = self._messages.get(mq, {})
        return [held[offset] for offset in offsets if offset in held]

    def start(self, mq: MessageQueue, messages: Iterable[MessageExt], now_ms: int) -> None:
        """The listener has them."""
        self._consume_start_ms[mq].update((message.queue_offset, now_ms) for message in messages)

    def consume_start_ms(self, mq: MessageQueue) -> Mapping[int, int]:
        """Since when the listener has which, by offset."""
        return self._consume_start_ms.get(mq, {})

    def remove(self, mq: MessageQueue, offsets: Sequence[int]) -> int:
        """They are finished. The size of the bodies of those that were there, in bytes."""
        held, started = self._messages.get(mq, {}), self._consume_start_ms.get(mq, {})
        for offset in offsets:
            started.pop(offset, None)
        removed = (held.pop(offset, None) for offset in offsets)
        return sum(len(message.record.body) for message in removed if message is not None)
