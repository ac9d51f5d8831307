"""LitePullConsumer on the reference: one queue, its consumers, and their users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.terms import (
    GROUP,
    NONE,
    TOPIC,
    consume_from_where,
    function,
    message_queue,
    offset_key,
    store_offset,
)
from mqspec.core import lite_pull_consumer, offset_commit, rebalance
from mqspec.core.lite_pull_consumer import LitePullState
from mqspec.core.offset_commit import NOT_FOUND, Consumed, OffsetState, ProcessQueue, Pulled
from mqspec.core.step import Step, apply

MQ, KEY = message_queue(0), offset_key(0)


class LitePullConsumerWorld(World):
    """Everything of a model of LitePullConsumer. Its clock stands still: when a user commits is
    its own affair."""

    module = "LitePullConsumer"
    actions: ClassVar = {
        "SendMessage": (),
        "AddMessageQueue": ("member",),
        "Ask": ("member",),
        "PullMessage": ("member",),
        "DropAnswer": ("member", "offset"),
        "Poll": ("member",),
        "Finish": ("member", "offset"),
        "Commit": ("member",),
        "CommitOffset": ("member",),
        "Seek": ("member", "progress"),
        "PersistAll": ("member",),
        "RemoveUnnecessaryMessageQueue": ("member",),
        "CrashMember": ("member",),
    }

    def __init__(self, constants: Mapping[str, Any]) -> None:
        self.members = sorted(constants["Members"])
        self.max_messages = constants["MaxMessages"]
        self.policy = consume_from_where(constants)
        self.waits = constants["Waits"]
        self.commits = constants["Commits"]
        self.leaves_committed = constants["LeavesCommitted"]
        self.max_offset = constants["SentBefore"]
        self.broker = OffsetState()
        self.consumers = {member: LitePullState() for member in self.members}
        self.asked: set[tuple[str, int, int]] = set()  # member, generation and offset of a pull
        self.work: dict[str, set[int]] = {member: set() for member in self.members}

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> LitePullConsumerWorld:
        """The world at the beginning of a model with these constants."""
        return cls(constants)

    def domain(self, name: str) -> Iterable[object]:
        return {
            "member": self.members,
            "offset": range(self.max_messages),
            "progress": range(self.max_messages + 1),
        }[name]

    def state(self) -> dict[str, object]:
        stored = self._stored()
        return {
            "processQueueTable": function(self.members, self._process_queue),
            "consumeOffset": self._of_each(lambda state: state.consume_offset.get(MQ, NONE)),
            "offsetStore": self._of_each(lambda state: state.offset_store.get(MQ, NONE)),
            "offsetTable": NONE if stored == NOT_FOUND else stored,
            "late": function(self.members, self._late),
            "work": function(self.members, lambda name: frozenset(self.work[name])),
            "maxOffset": self.max_offset,
        }

    def send_message(self) -> None:
        require(self.max_offset < self.max_messages)
        self.max_offset += 1

    def add_message_queue(self, member: str) -> None:
        require(not any(one.process_queue_table for one in self.consumers.values()))
        state, stored = self.consumers[member], self._stored()
        begin = {
            rebalance.PullFrom.STORED: stored,
            rebalance.PullFrom.ZERO: 0,
            rebalance.PullFrom.MAX_OFFSET: self.max_offset,
        }
        start = begin[rebalance.compute_pull_from_where(self.policy, TOPIC, stored)]
        apply(state, offset_commit.add_message_queue(state, MQ, start, stored, 0).changes)

    def ask(self, member: str) -> None:
        queue = self._held(member)
        require(not self._is_asked(member) and queue.next_offset < self.max_offset)
        self.asked.add((member, queue.generation, queue.next_offset))

    def pull_message(self, member: str) -> None:
        queue = self._held(member)
        require(self._is_asked(member))
        self._answer(member, queue.generation, queue.next_offset)

    def drop_answer(self, member: str, offset: int) -> None:
        require(offset in self._late(member))
        for pull in [each for each in self._late_pulls(member) if each[2] == offset]:
            self._answer(*pull)

    def poll(self, member: str) -> None:
        queue = self._held(member)
        require(bool(queue.msg_tree_map) and self._is_turn(member))
        offset = queue.msg_tree_map[0]
        state = self.consumers[member]
        event = Consumed(MQ, queue.generation, (offset,))
        apply(state, lite_pull_consumer.poll(state, event).changes)
        self.work[member].add(offset)

    def finish(self, member: str, offset: int) -> None:
        require(offset in self.work[member])
        self.work[member].remove(offset)

    def commit(self, member: str) -> None:
        require(self.commits == "polled" and self._is_turn(member))
        self._has_polled(member)
        state = self.consumers[member]
        apply(state, lite_pull_consumer.commit(state, (MQ,)).changes)

    def commit_offset(self, member: str) -> None:
        require(self.commits == "done")
        polled = self._has_polled(member)
        state, offset = self.consumers[member], min(self.work[member], default=polled)
        apply(state, lite_pull_consumer.commit_offset(state, {MQ: offset}).changes)

    def seek(self, member: str, progress: int) -> None:
        self._held(member)
        require(progress <= self.max_offset and self._is_turn(member))
        self.spend("MaxSeeks")
        state = self.consumers[member]
        apply(state, lite_pull_consumer.seek(state, MQ, progress, 0).changes)

    def persist_all(self, member: str) -> None:
        self._held(member)
        require(MQ in self.consumers[member].offset_store)
        self._carry(member, offset_commit.persist_all(self.consumers[member], GROUP))

    def remove_unnecessary_message_queue(self, member: str) -> None:
        self._held(member)
        state = self.consumers[member]
        if self.leaves_committed:
            require(not self.work[member])
            polled = state.consume_offset.get(MQ)
            require(polled is None or state.offset_store.get(MQ) == polled)
        self.spend("MaxMoves")
        self._carry(member, offset_commit.remove_unnecessary_message_queue(state, MQ, GROUP))
        apply(state, lite_pull_consumer.release(MQ).changes)

    def crash_member(self, member: str) -> None:
        self.spend("MaxCrashes")
        self.consumers[member] = LitePullState()
        self.asked = {pull for pull in self.asked if pull[0] != member}
        self.work[member] = set()

    def _answer(self, member: str, generation: int, offset: int) -> None:
        """An answer comes, with one message, to whatever became of who asked."""
        self.asked.remove((member, generation, offset))
        state = self.consumers[member]
        event = Pulled(MQ, generation, offset + 1, 0, (offset,))
        apply(state, offset_commit.pull_message(state, event).changes)

    def _held(self, member: str) -> ProcessQueue:
        require(MQ in self.consumers[member].process_queue_table)
        return self.consumers[member].process_queue_table[MQ]

    def _has_polled(self, member: str) -> int:
        self._held(member)
        require(MQ in self.consumers[member].consume_offset)
        return self.consumers[member].consume_offset[MQ]

    def _is_asked(self, member: str) -> bool:
        queue = self.consumers[member].process_queue_table.get(MQ)
        return queue is not None and (member, queue.generation, queue.next_offset) in self.asked

    def _is_turn(self, member: str) -> bool:
        return not (self.waits and self.work[member])

    def _late_pulls(self, member: str) -> set[tuple[str, int, int]]:
        queue = self.consumers[member].process_queue_table.get(MQ)
        now = queue.generation if queue else 0
        return {pull for pull in self.asked if pull[0] == member and pull[1] != now}

    def _late(self, member: str) -> frozenset[int]:
        return frozenset(offset for _, _, offset in self._late_pulls(member))

    def _stored(self) -> int:
        return self.broker.offset_table.get(KEY, NOT_FOUND)

    def _carry(self, member: str, step: Step) -> None:
        apply(self.consumers[member], step.changes)
        for send in step.sends:
            store_offset(self.broker, MQ.queue_id, send.commit_offset)

    def _of_each(self, value: Callable[[LitePullState], object]) -> FrozenDict:
        return function(self.members, lambda member: value(self.consumers[member]))

    def _process_queue(self, member: str) -> object:
        queue = self.consumers[member].process_queue_table.get(MQ)
        if queue is None:
            return NONE
        return FrozenDict(
            {
                "nextOffset": queue.next_offset,
                "msgTreeMap": frozenset(queue.msg_tree_map),
                "isAsked": self._is_asked(member),
            }
        )
