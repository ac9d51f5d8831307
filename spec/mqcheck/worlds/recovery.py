"""Recovery on the reference: a store that stops, cleanly or not, and opens again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import Any, ClassVar

from mqcheck.replay import require
from mqcheck.values import FrozenDict
from mqcheck.worlds.log import BLANK, Entry, LogWorld
from mqspec.core import recovery
from mqspec.core.log import LogState, Span, TopicQueue, Unit
from mqspec.core.recovery import (
    CHECKPOINT_MARGIN_MS,
    RESCAN,
    Checkpoint,
    Files,
    RecoveryState,
    Scanned,
    Segment,
)
from mqspec.core.step import apply


class RecoveryWorld(LogWorld):
    """Everything of a model of Recovery. A record is stored at the ms that its
    position is; how far the checkpoint is, and what a crash takes, is found by trying."""

    module = "Recovery"
    bounded = False
    actions: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Store": ("queue", "size"),
        "FlushCommitLog": (),
        "Reput": (),
        "FlushConsumeQueue": ("queue",),
        "SaveCheckpoint": ("position",),
        "Crash": ("lost", "kept"),
        "Shutdown": (),
        "LoseConsumeQueue": ("queue",),
        "Load": (),
        "Redispatch": (),
        "EndRecovery": (),
    }

    not_compared: ClassVar = {
        "index": "its files are the shell's",
        "dispatchFrom": "only Apache keeps it",
    }

    def __init__(self, *constants: Any) -> None:
        super().__init__(*constants)
        self.phase = "running"
        self.abort = True
        self.disk: frozenset[Entry] = frozenset()
        self.flushed_units = dict.fromkeys(self.queues, 0)
        self.checkpoint = 0
        self.walk = RecoveryState()
        self.before: tuple[Entry, ...] = ()

    def domain(self, name: str) -> Iterable[object]:
        match name:
            case "position":
                return sorted({0, *(entry.position for entry in self.log), self._end()})
            case "lost":
                return list(_subsets(self._unflushed()))
            case "kept":
                return list(product(*(range(len(self.units[q]) + 1) for q in self.queues)))
        return super().domain(name)

    def state(self) -> dict[str, object]:
        return super().state() | {
            "phase": self.phase,
            "abort": self.abort,
            "disk": frozenset(map(self._entry, self.disk)),
            "consumeQueueFlushed": FrozenDict(self.flushed_units),
            "checkpoint": self.checkpoint // self.unit_bytes,
            "scanFrom": self.walk.scan_from // self.unit_bytes,
            "processOffset": self.walk.process_offset // self.unit_bytes,
            "before": self._entries(self.before),
        }

    def store(self, queue: str, size: int) -> None:
        self._is("running")
        old = self.log
        self.append_message(queue, size)
        new = self.log[len(old) :]
        start = new[0].position
        self.disk = frozenset(e for e in self.disk if e.end <= start or new[-1].end <= e.position)
        self.disk |= set(new)

    def flush_commit_log(self) -> None:
        self._is("running")
        self.flush()

    def reput(self) -> None:
        self._is("running")
        self.dispatch()

    def flush_consume_queue(self, queue: str) -> None:
        self._is("running")
        self.flushed_units[queue] = len(self.units[queue])

    def save_checkpoint(self, position: int) -> None:
        self._is("running")
        self.checkpoint = position

    def crash(self, lost: frozenset[Entry], kept: tuple[int, ...]) -> None:
        require(self.phase != "stopped")
        if self.phase == "running":
            self.disk -= lost
        else:
            require(not lost)
        for queue, count in zip(self.queues, kept, strict=True):
            require(count >= self.flushed_units[queue])
            self.units[queue] = self.units[queue][:count]
        self._stop(self.log if self.phase == "running" else self.before)

    def shutdown(self) -> None:
        self._is("running")
        require(self.broker.reput_from_offset == self._end())
        self.abort = False
        self.checkpoint = self._end()
        self._flush_units()
        self._stop(self.log)

    def lose_consume_queue(self, queue: str) -> None:
        self._is("stopped")
        self.units[queue] = ()

    def load(self) -> None:
        self._is("stopped")
        self.phase = "recovering"
        self.walk = RecoveryState()
        apply(self.walk, recovery.load(self._files()).changes)
        self.log = tuple(e for e in self.before if e.position < self.walk.scan_from)
        self._flush_units()

    def redispatch(self) -> None:
        self._is("recovering")
        at = [entry for entry in self.disk if entry.position == self.walk.process_offset]
        require(bool(at))
        (entry,) = at
        record = None if entry.queue == BLANK else self._dispatch(entry)
        step = recovery.redispatch(self.walk, Scanned(entry.end, record), 0)
        apply(self.walk, step.changes)
        if step.result is RESCAN:
            self.log = ()
        else:
            self.log += (entry,)
            self._write(entry, step.result)

    def end_recovery(self) -> None:
        self._is("recovering")
        end = self.walk.process_offset
        require(all(entry.position != end for entry in self.disk))
        apply(self.walk, recovery.end_recovery(self.walk, self._read).changes)
        spans = self.walk.consume_queue
        for queue, place in self.queues.items():
            self.units[queue] = self.units[queue][: spans[place].max]
        next_offsets = {place: span.max for place, span in spans.items()}
        self.broker = LogState(Span(0, end), end, end, end, next_offsets, dict(spans))
        self.disk = frozenset(entry for entry in self.disk if entry.position < end)
        self.phase, self.abort, self.before = "running", True, ()
        self._flush_units()

    def _is(self, phase: str) -> None:
        require(self.phase == phase)

    def _stop(self, before: tuple[Entry, ...]) -> None:
        self.phase, self.before = "stopped", before
        self.broker, self.log = LogState(), ()

    def _flush_units(self) -> None:
        self.flushed_units = {queue: len(units) for queue, units in self.units.items()}

    def _files(self) -> Files:
        """What the store finds."""
        until = self.checkpoint - 1 + CHECKPOINT_MARGIN_MS
        starts = range(0, max((e.end for e in self.disk), default=0), self.segment_size)
        firsts = {entry.position for entry in self.disk}
        return Files(
            self.abort,
            Checkpoint(until, until),
            tuple(Segment(start, start if start in firsts else None) for start in starts),
            {place: Span(0, len(self.units[queue])) for queue, place in self.queues.items()},
            self._read,
            _not_called,
            _not_called,
        )

    def _read(self, queue: TopicQueue, offset: int) -> Unit:
        return next(self.units[q][offset] for q, place in self.queues.items() if place == queue)

    def _end(self) -> int:
        return self.log[-1].end if self.log else 0

    def _unflushed(self) -> list[Entry]:
        """What a crash may take of the log."""
        if self.phase != "running":
            return []
        return [entry for entry in self.log if entry.end > self.broker.flushed_where]


def _subsets(entries: list[Entry]) -> Iterator[frozenset[Entry]]:
    for count in range(len(entries) + 1):
        yield from map(frozenset, combinations(entries, count))


def _not_called(_: object) -> Any:
    """The walk is done step by step."""
    raise AssertionError
