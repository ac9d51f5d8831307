"""MC_Span on the reference: one process queue, whose messages are finished in any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.worlds.terms import message_queue
from mqspec.core import offset_commit
from mqspec.core.offset_commit import Consumed, ConsumerState, FlowControl, ProcessQueue, Pulled
from mqspec.core.step import apply

MQ = message_queue(0)


class SpanWorld(World):
    """Everything of a model of MC_Span."""

    module = "MC_Span"
    actions: ClassVar = {"PullMessage": ("count",), "ProcessConsumeResult": ("offset",)}

    def __init__(self, messages: int, span: int, batch: int) -> None:
        self.messages, self.batch = messages, batch
        self.limits = FlowControl(consume_concurrently_max_span=span)
        self.consumer = ConsumerState()
        apply(self.consumer, offset_commit.add_message_queue(self.consumer, MQ, 0, 0, 0).changes)

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> SpanWorld:
        """The world at the beginning of a model with these constants."""
        return cls(constants["Messages"], constants["Span"], constants["Batch"])

    def domain(self, name: str) -> Iterable[object]:
        return {"count": range(1, self.batch + 1), "offset": range(self.messages)}[name]

    def state(self) -> dict[str, object]:
        queue = self._queue()
        return {"nextOffset": queue.next_offset, "msgTreeMap": frozenset(queue.msg_tree_map)}

    def pull_message(self, count: int) -> None:
        queue = self._queue()
        end = queue.next_offset + count
        require(not offset_commit.must_wait(queue, self.limits) and end <= self.messages)
        offsets = tuple(range(queue.next_offset, end))
        pulled = Pulled(MQ, queue.generation, end, 0, offsets)
        apply(self.consumer, offset_commit.pull_message(self.consumer, pulled).changes)

    def process_consume_result(self, offset: int) -> None:
        queue = self._queue()
        require(offset in queue.msg_tree_map)
        consumed = Consumed(MQ, queue.generation, (offset,))
        apply(self.consumer, offset_commit.process_consume_result(self.consumer, consumed).changes)

    def _queue(self) -> ProcessQueue:
        return self.consumer.process_queue_table[MQ]
