"""Log on the reference: one broker's CommitLog and its ConsumeQueues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.terms import TOPIC, function
from mqspec.core import log
from mqspec.core.log import Append, Dispatch, LogState, Put, Unit
from mqspec.core.record import BLANK_BYTES_MIN
from mqspec.core.step import apply

BLANK = "blank"
NO_QUEUE = ("", 0)
TAGS_CODE = 0  # of a message without tags


class Entry(NamedTuple):
    """A record of the log, or a blank; position and size are in bytes."""

    queue: str
    queue_offset: int
    position: int
    size: int
    message: int

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.position + self.size


class LogWorld(World):
    """Everything of a model of Log. A unit of its positions and sizes is as many bytes as make
    its blank one of the reference."""

    module = "Log"
    actions: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "AppendMessage": ("queue", "size"),
        "FailToAppend": ("queue",),
        "Commit": (),
        "Flush": (),
        "Dispatch": (),
    }

    def __init__(
        self,
        queues: Iterable[str],
        sizes: Iterable[int],
        segment_size: int,
        blank_size: int,
        max_messages: int,
        sync_flush: bool,
        transient_store_pool: bool,
    ) -> None:
        self.queues = {name: (TOPIC, number) for number, name in enumerate(queues)}
        self.unit_bytes = BLANK_BYTES_MIN // blank_size
        self.sizes = tuple(sizes)
        self.segment_size = segment_size * self.unit_bytes
        self.max_messages = max_messages
        self.sync_flush, self.transient_store_pool = sync_flush, transient_store_pool
        self.broker = LogState()
        self.log: tuple[Entry, ...] = ()
        self.units: dict[str, tuple[Unit, ...]] = dict.fromkeys(self.queues, ())
        self.stored: tuple[Entry, ...] = ()  # all that were ever appended

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> LogWorld:
        """The world at the beginning of a model with these constants."""
        names = ("SegmentSize", "BlankSize", "MaxMessages", "SyncFlush", "TransientStorePool")
        numbers = (constants[name] for name in names)
        return cls(sorted(constants["Queues"]), sorted(constants["Sizes"]), *numbers)

    def domain(self, name: str) -> Iterable[object]:
        return {"queue": self.queues, "size": self.sizes}[name]

    def state(self) -> dict[str, object]:
        broker = self.broker
        return {
            "commitLog": self._entries(self.log),
            "committedWhere": broker.committed_where // self.unit_bytes,
            "flushedWhere": broker.flushed_where // self.unit_bytes,
            "reputFromOffset": broker.reput_from_offset // self.unit_bytes,
            "topicQueueTable": function(
                self.queues, lambda q: broker.topic_queue_table.get(self.queues[q], 0)
            ),
            "consumeQueue": function(self.queues, lambda q: tuple(map(self._unit, self.units[q]))),
        }

    def append_message(self, queue: str, size: int) -> None:
        require(len(self.stored) < self.max_messages)
        step = log.append_message(self.broker, self._append(queue, size * self.unit_bytes))
        (place,) = step.result
        require(place is not None)
        apply(self.broker, step.changes)
        if blank := place.blank:
            self.log += (Entry(BLANK, 0, blank.min, blank.max - blank.min, 0),)
        entry = Entry(
            queue, place.queue_offset, place.position, size * self.unit_bytes, len(self.stored) + 1
        )
        self.log += (entry,)
        self.stored += (entry,)

    def fail_to_append(self, queue: str) -> None:
        step = log.append_message(self.broker, self._append(queue, self.segment_size))
        require(step.result == [None])
        apply(self.broker, step.changes)

    def commit(self) -> None:
        require(self.broker.committed_where < self.broker.commit_log.max)
        apply(self.broker, log.commit(self.broker).changes)

    def flush(self) -> None:
        require(self.broker.flushed_where < self.broker.committed_where)
        apply(self.broker, log.flush(self.broker, self.broker.committed_where).changes)

    def dispatch(self) -> None:
        at = [entry for entry in self.log if entry.position == self.broker.reput_from_offset]
        require(bool(at))
        event = self._dispatch(at[0])
        require(log.may_dispatch(self.broker, event.end, self.sync_flush))
        step = log.dispatch(self.broker, (event,))
        apply(self.broker, step.changes)
        self._write(at[0], event if step.result else None)
        # What the core lets consumers see of a queue is what was written to it.
        ends = {place: span.max for place, span in self.broker.consume_queue.items()}
        require(all(len(self.units[q]) == ends.get(place, 0) for q, place in self.queues.items()))

    def _append(self, queue: str, size: int) -> Append:
        place = self.queues[queue]
        puts = (Put(place, size),)
        return Append(puts, self.segment_size, self.transient_store_pool)

    def _dispatch(self, entry: Entry) -> Dispatch:
        is_blank = entry.queue == BLANK
        queue = NO_QUEUE if is_blank else self.queues[entry.queue]
        place, size = entry.position, entry.end - entry.position
        return Dispatch(queue, entry.queue_offset, not is_blank, (place,), (size,), (TAGS_CODE,))

    def _write(self, entry: Entry, visible: Dispatch | None) -> None:
        """What a dispatch gave goes to the ConsumeQueue, at the entry's offset."""
        if visible:
            before = self.units[entry.queue][: entry.queue_offset]
            self.units[entry.queue] = (*before, visible.unit)

    def _entries(self, entries: Iterable[Entry]) -> tuple[FrozenDict, ...]:
        return tuple(map(self._entry, entries))

    def _entry(self, entry: Entry) -> FrozenDict:
        return FrozenDict(
            {
                "queue": entry.queue,
                "queueOffset": entry.queue_offset,
                "position": entry.position // self.unit_bytes,
                "size": entry.size // self.unit_bytes,
                "message": entry.message,
            }
        )

    def _unit(self, unit: Unit) -> FrozenDict:
        position, size = unit.position // self.unit_bytes, unit.size // self.unit_bytes
        at = (entry.message for entry in reversed(self.stored) if entry.position == unit.position)
        return FrozenDict({"position": position, "size": size, "message": next(at)})
