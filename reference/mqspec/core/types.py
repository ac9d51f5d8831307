"""The names that every part of the specification shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering
from typing import TypeAlias

ClientId: TypeAlias = str
Group: TypeAlias = str
Topic: TypeAlias = str
BrokerName: TypeAlias = str


def string_order(text: str) -> bytes:
    """A sort key: the order of Java's String.compareTo, which is that of UTF-16 code units.

    Python's own order is that of code points, which differs above U+FFFF: two members that
    sorted their ids differently would compute overlapping slices.
    """
    return text.encode("utf-16-be", "surrogatepass")


@total_ordering
@dataclass(frozen=True, slots=True)
class MessageQueue:
    """One queue of a topic on one broker (MessageQueue.java, 5.3.3).

    Ordered by topic, then broker name, both as Java orders strings, then queue id.
    """

    topic: Topic
    broker_name: BrokerName
    queue_id: int

    def __lt__(self, other: MessageQueue) -> bool:
        return self._order() < other._order()

    def __str__(self) -> str:
        """Java's toString: consistent hashing hashes exactly this text."""
        return (
            f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, "
            f"queueId={self.queue_id}]"
        )

    def _order(self) -> tuple[bytes, bytes, int]:
        return string_order(self.topic), string_order(self.broker_name), self.queue_id
