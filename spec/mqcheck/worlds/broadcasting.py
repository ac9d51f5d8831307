"""Broadcasting on the reference: one queue, and processes that consume all of it, each with its
progress in the file of its host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.worlds.terms import GROUP, TOPIC, function, message_queue
from mqspec.core import offset_commit, rebalance
from mqspec.core.group import ConsumeFromWhere
from mqspec.core.offset_commit import NOT_FOUND, Consumed, ConsumerState, ProcessQueue, Pulled
from mqspec.core.step import Step, apply

MQ = message_queue(0)


class BroadcastingWorld(World):
    """Everything of a model of Broadcasting. What a host's file has is a number here."""

    module = "Broadcasting"
    actions: ClassVar = {
        "SendMessage": (),
        "Start": ("process",),
        "StartElsewhere": ("process",),
        "Consume": ("process",),
        "GiveUp": ("process",),
        "PersistAll": ("process",),
        "Shutdown": ("process",),
        "Kill": ("process",),
    }
    not_compared: ClassVar = {
        "begun": "a ghost",
        "reported": "a ghost",
        "consumed": "a ghost",
        "failed": "a ghost",
    }

    def __init__(self, constants: Mapping[str, Any]) -> None:
        self.processes = sorted(constants["Processes"])
        self.max_messages: int = constants["MaxMessages"]
        self.is_first = constants["FromFirst"]
        self.shares_file = constants["SharesFile"]
        self.loses_file = constants["LosesFile"]
        self.fails = constants["Fails"]
        self.none: int = self.max_messages + 1
        self.down: int = self.none + 1
        self.max_offset = 1
        self.stops = 0
        self.file: dict[str, int] = {}
        self.running: dict[str, ConsumerState] = {}

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> BroadcastingWorld:
        """The world at the beginning of a model with these constants."""
        return cls(constants)

    def domain(self, name: str) -> Iterable[object]:
        return {"process": self.processes}[name]

    def state(self) -> dict[str, object]:
        return {
            "maxOffset": self.max_offset,
            "file": function(self.processes, lambda name: self.file.get(name, self.none)),
            "nextOffset": function(self.processes, self._next_offset),
            "offsetTable": function(self.processes, self._progress),
            "stops": self.stops,
        }

    def send_message(self) -> None:
        require(self.max_offset < self.max_messages)
        self.max_offset += 1

    def start(self, process: str) -> None:
        require(process not in self.running)
        policy = (
            ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
            if self.is_first
            else ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        )
        stored = self.file.get(self._host(process), NOT_FOUND)
        begin = {
            rebalance.PullFrom.STORED: stored,
            rebalance.PullFrom.ZERO: 0,
            rebalance.PullFrom.MAX_OFFSET: self.max_offset,
        }
        offset = begin[rebalance.compute_pull_from_where(policy, TOPIC, stored)]
        state = self.running[process] = ConsumerState()
        apply(state, offset_commit.add_message_queue(state, MQ, offset, stored, 0).changes)

    def start_elsewhere(self, process: str) -> None:
        host = self._host(process)
        require(self.loses_file and process not in self.running and host in self.file)
        del self.file[host]

    def consume(self, process: str) -> None:
        self._pass_over(process)

    def give_up(self, process: str) -> None:
        require(self.fails)
        self._pass_over(process)

    def persist_all(self, process: str) -> None:
        self._queue(process)
        require(MQ in self.running[process].offset_store)
        self._write(process)

    def shutdown(self, process: str) -> None:
        self._queue(process)
        self._write(process)
        self.kill(process)

    def kill(self, process: str) -> None:
        require(process in self.running)
        self.spend("MaxRestarts")
        self.stops += 1
        del self.running[process]

    def _pass_over(self, process: str) -> None:
        """One message is pulled, and its listener is done with it, well or not: where a group
        broadcasts, neither is sent back."""
        queue, state = self._queue(process), self.running[process]
        offset = queue.next_offset
        require(offset < self.max_offset)
        pulled = Pulled(MQ, queue.generation, offset + 1, 0, (offset,))
        apply(state, offset_commit.pull_message(state, pulled).changes)
        done = Consumed(MQ, queue.generation, (offset,))
        apply(state, offset_commit.process_consume_result(state, done).changes)

    def _write(self, process: str) -> None:
        step: Step = offset_commit.persist_all(self.running[process], GROUP)
        for send in step.sends:
            self.file[self._host(process)] = send.commit_offset

    def _host(self, process: str) -> str:
        return self.processes[0] if self.shares_file else process

    def _queue(self, process: str) -> ProcessQueue:
        require(process in self.running)
        return self.running[process].process_queue_table[MQ]

    def _next_offset(self, process: str) -> int:
        return self._queue(process).next_offset if process in self.running else self.down

    def _progress(self, process: str) -> int:
        state = self.running.get(process)
        return state.offset_store.get(MQ, self.none) if state else self.none
