"""ConsumeOrderly on the reference: the owners of one queue, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.worlds.terms import GROUP, function, message_queue, offset_key, store_offset
from mqspec.core import consume_orderly, offset_commit
from mqspec.core.offset_commit import ConsumerState, OffsetState, ProcessQueue, Pulled
from mqspec.core.step import apply

MQ, KEY = message_queue(0), offset_key(0)


class ConsumeOrderlyWorld(World):
    """Everything of a model of ConsumeOrderly."""

    module = "ConsumeOrderly"
    actions: ClassVar = {
        "Begin": (),
        "PullMessage": (),
        "TakeMessages": ("count",),
        "Commit": (),
        "Suspend": (),
        "UpdateConsumerOffset": (),
        "Release": (),
        "Crash": (),
    }

    def __init__(
        self,
        max_messages: int,
        max_batch: int,
        max_reconsume_times: int,
        forever: bool,
        max_crashes: int,
    ) -> None:
        self.max_messages = max_messages
        self.max_batch = max_batch
        self.max_reconsume_times = max_reconsume_times
        self.forever = forever
        self.crashes_left = max_crashes
        self.offsets = OffsetState()
        self.dead_letters: frozenset[int] = frozenset()
        self.is_held = False
        self.owner = ConsumerState()
        self.tries = [0] * max_messages

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> ConsumeOrderlyWorld:
        """The world at the beginning of a model with these constants."""
        names = ("MaxMessages", "MaxBatch", "MaxReconsumeTimes", "Forever", "MaxCrashes")
        return cls(*(constants[name] for name in names))

    def domain(self, name: str) -> Iterable[object]:
        return {"count": range(1, self.max_batch + 1)}[name]

    def state(self) -> dict[str, object]:
        queue = self.owner.process_queue_table.get(MQ) if self.is_held else None
        return {
            "isHeld": self.is_held,
            "nextOffset": queue.next_offset if queue else 0,
            "msgTreeMap": frozenset(queue.msg_tree_map if queue else ()),
            "consumingMsgOrderlyTreeMap": frozenset(
                queue.consuming_msg_orderly_tree_map if queue else ()
            ),
            "offsetStore": self.owner.offset_store.get(MQ, 0),
            "offsetTable": self.offsets.offset_table.get(KEY, 0),
            "tries": function(range(self.max_messages), lambda o: self.tries[o]),
            "deadLetters": self.dead_letters,
        }

    def begin(self) -> None:
        require(not self.is_held)
        self.is_held = True
        stored = self.offsets.offset_table.get(KEY, 0)
        step = offset_commit.add_message_queue(self.owner, MQ, stored, stored, 0)
        apply(self.owner, step.changes)

    def pull_message(self) -> None:
        queue = self._queue()
        require(queue.next_offset < self.max_messages)
        offset = queue.next_offset
        pulled = Pulled(MQ, queue.generation, offset + 1, 0, (offset,))
        apply(self.owner, offset_commit.pull_message(self.owner, pulled).changes)

    def take_messages(self, count: int) -> None:
        queue = self._queue()
        require(not queue.consuming_msg_orderly_tree_map)
        step = consume_orderly.take_messages(self.owner, MQ, queue.generation, count)
        require(len(step.result) == count)
        apply(self.owner, step.changes)

    def commit(self) -> None:
        generation = self._working().generation
        apply(self.owner, consume_orderly.commit(self.owner, MQ, generation, 0).changes)

    def suspend(self) -> None:
        queue = self._working()
        taken = queue.consuming_msg_orderly_tree_map
        parked = () if self.forever else tuple(o for o in taken if self._is_tried_too_often(o))
        self.dead_letters = self.dead_letters.union(parked)
        for offset in taken:
            self.tries[offset] += not self._is_tried_too_often(offset)
        if parked == taken:
            self.commit()
        else:
            step = consume_orderly.make_message_to_consume_again(self.owner, MQ, queue.generation)
            apply(self.owner, step.changes)

    def update_consumer_offset(self) -> None:
        self._queue()
        for send in offset_commit.persist_all(self.owner, GROUP).sends:
            store_offset(self.offsets, MQ.queue_id, send.commit_offset)

    def release(self) -> None:
        queue = self._queue()
        require(not queue.consuming_msg_orderly_tree_map)
        require(self.offsets.offset_table.get(KEY, 0) < self.max_messages)
        step = offset_commit.remove_unnecessary_message_queue(self.owner, MQ, GROUP)
        for send in step.sends:
            store_offset(self.offsets, MQ.queue_id, send.commit_offset)
        apply(self.owner, step.changes)
        require(MQ not in self.owner.process_queue_table)
        self._start_anew()

    def crash(self) -> None:
        self._queue()
        require(self.crashes_left > 0)
        self.crashes_left -= 1
        self._start_anew()

    def _start_anew(self) -> None:
        self.is_held = False
        self.owner = ConsumerState()
        self.tries = [0] * self.max_messages

    def _queue(self) -> ProcessQueue:
        require(self.is_held)
        return self.owner.process_queue_table[MQ]

    def _working(self) -> ProcessQueue:
        queue = self._queue()
        require(bool(queue.consuming_msg_orderly_tree_map))
        return queue

    def _is_tried_too_often(self, offset: int) -> bool:
        return self.tries[offset] == self.max_reconsume_times
