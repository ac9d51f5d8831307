"""OffsetCommit on the reference: consumers, and one broker with its file."""

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
    load_offsets,
    message_queue,
    offset_file,
    offset_key,
    persist_offsets,
    records,
    store_offset,
)
from mqspec.core import group, offset_commit, rebalance
from mqspec.core.allocation import by_config
from mqspec.core.step import Step, apply
from mqspec.core.types import MessageQueue


class OffsetCommitWorld(World):
    """Everything of a model of OffsetCommit."""

    module = "OffsetCommit"
    bounded = False
    actions: ClassVar = {
        "SendMessage": ("queue",),
        "AddMessageQueue": ("member", "queue"),
        "PullMessage": ("member", "queue"),
        "ProcessConsumeResult": ("member", "queue", "offset"),
        "FinishOrphan": ("member", "queue", "offset"),
        "PersistAll": ("member",),
        "RemoveUnnecessaryMessageQueue": ("member", "queue"),
        "UpdateConsumerOffset": ("commit",),
        "LoseCommit": ("commit",),
        "Persist": (),
        "Load": (),
        "CrashMember": ("member",),
    }

    def __init__(
        self,
        members: Iterable[str],
        queues: Iterable[int],
        max_offset: int,
        sent_before: int,
        policy: group.ConsumeFromWhere,
    ) -> None:
        self.consumers = {m: offset_commit.ConsumerState() for m in members}
        self.queues = tuple(queues)
        self.policy = policy
        self.offset_end = max_offset
        self.max_offset = dict.fromkeys(self.queues, sent_before)
        self.offsets = offset_commit.OffsetState()
        self.file = offset_file(self.offsets)
        self.network: set[tuple[str, int, int]] = set()
        self.orphans: dict[tuple[str, int, int], int] = {}  # to the generation that had it
        self.crashed: set[str] = set()
        self.consumed = {(q, o): 0 for q in self.queues for o in range(max_offset)}

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> OffsetCommitWorld:
        """The world at the beginning of a model with these constants."""
        return cls(
            sorted(constants["Members"]),
            constants["Queues"],
            constants["MaxOffset"],
            constants["SentBefore"],
            consume_from_where(constants),
        )

    def domain(self, name: str) -> Iterable[object]:
        return {
            "member": self.consumers,
            "queue": self.queues,
            "offset": range(self.offset_end),
            "commit": sorted(self.network),
        }[name]

    def state(self) -> dict[str, object]:
        return {
            "processQueueTable": self._of_each(self._process_queue),
            "offsetStore": self._of_each(
                lambda m, q: self.consumers[m].offset_store.get(message_queue(q), NONE)
            ),
            "offsetTable": self._stored(self.offsets),
            "offsetFile": self._stored(load_offsets(self.file)),
            "network": records(self.network),
            "orphans": records(self.orphans),
            "crashed": frozenset(self.crashed),
            "maxOffset": FrozenDict(self.max_offset),
            "consumed": function(
                self.queues,
                lambda q: function(range(self.offset_end), lambda o: self.consumed[q, o]),
            ),
        }

    def send_message(self, queue: int) -> None:
        require(self.max_offset[queue] < self.offset_end)
        self.max_offset[queue] += 1

    def add_message_queue(self, member: str, queue: int) -> None:
        state, mq = self._running(member), message_queue(queue)
        require(mq not in state.process_queue_table)
        changed = self._rebalance(member, {*state.process_queue_table, mq})
        require(changed.added == (mq,))
        answer = offset_commit.query_consumer_offset(
            self.offsets, offset_key(queue), set_zero_if_not_found=False, queue_is_young=False
        )
        stored = offset_commit.NOT_FOUND if answer.offset is None else answer.offset
        begin = {
            rebalance.PullFrom.STORED: stored,
            rebalance.PullFrom.ZERO: 0,
            rebalance.PullFrom.MAX_OFFSET: self.max_offset[queue],
        }
        start = begin[rebalance.compute_pull_from_where(self.policy, TOPIC, stored)]
        apply(state, offset_commit.add_message_queue(state, mq, start, stored, 0).changes)

    def pull_message(self, member: str, queue: int) -> None:
        state, mq = self._running(member), message_queue(queue)
        held = self._held(state, mq)
        require(held.next_offset < self.max_offset[queue])
        pulled = offset_commit.Pulled(
            mq, held.generation, held.next_offset + 1, 0, (held.next_offset,)
        )
        apply(state, offset_commit.pull_message(state, pulled).changes)

    def process_consume_result(self, member: str, queue: int, offset: int) -> None:
        state, mq = self._running(member), message_queue(queue)
        held = self._held(state, mq)
        require(offset in held.msg_tree_map)
        self._finish(state, mq, held.generation, offset)

    def finish_orphan(self, member: str, queue: int, offset: int) -> None:
        state = self._running(member)
        require((member, queue, offset) in self.orphans)
        generation = self.orphans.pop((member, queue, offset))
        self._finish(state, message_queue(queue), generation, offset)

    def persist_all(self, member: str) -> None:
        state = self._running(member)
        self._carry(member, offset_commit.persist_all(state, GROUP))

    def remove_unnecessary_message_queue(self, member: str, queue: int) -> None:
        state, mq = self._running(member), message_queue(queue)
        held = self._held(state, mq)
        self.orphans |= {(member, queue, o): held.generation for o in held.msg_tree_map}
        changed = self._rebalance(member, state.process_queue_table.keys() - {mq})
        require(changed.removed == (mq,))

    def update_consumer_offset(self, commit: tuple[str, int, int]) -> None:
        self.network.remove(commit)
        _, queue, offset = commit
        store_offset(self.offsets, queue, offset)

    def lose_commit(self, commit: tuple[str, int, int]) -> None:
        self.network.remove(commit)

    def persist(self) -> None:
        self.file = persist_offsets(self.offsets)

    def load(self) -> None:
        self.offsets = load_offsets(self.file)

    def crash_member(self, member: str) -> None:
        self._running(member)
        self.crashed.add(member)
        self.consumers[member] = offset_commit.ConsumerState()
        self.orphans = {task: g for task, g in self.orphans.items() if task[0] != member}

    def _running(self, member: str) -> offset_commit.ConsumerState:
        require(member not in self.crashed)
        return self.consumers[member]

    def _held(
        self, state: offset_commit.ConsumerState, mq: MessageQueue
    ) -> offset_commit.ProcessQueue:
        require(mq in state.process_queue_table)
        return state.process_queue_table[mq]

    def _rebalance(self, member: str, wanted: Iterable[MessageQueue]) -> rebalance.Rebalanced:
        state = self.consumers[member]
        who = rebalance.Member(GROUP, member, by_config(sorted(wanted)))
        view = rebalance.View(TOPIC, tuple(map(message_queue, self.queues)), (member,))
        step = rebalance.rebalance_by_topic(state, who, view, 0)
        self._carry(member, step)
        changed: rebalance.Rebalanced = step.result
        return changed

    def _finish(
        self, state: offset_commit.ConsumerState, mq: MessageQueue, generation: int, offset: int
    ) -> None:
        consumed = offset_commit.Consumed(mq, generation, (offset,))
        apply(state, offset_commit.process_consume_result(state, consumed).changes)
        # The model counts no further than `more than once`.
        self.consumed[mq.queue_id, offset] = min(self.consumed[mq.queue_id, offset] + 1, 2)

    def _carry(self, member: str, step: Step) -> None:
        apply(self.consumers[member], step.changes)
        self.network |= {(member, s.mq.queue_id, s.commit_offset) for s in step.sends}

    def _of_each(self, value: Callable[[str, int], object]) -> FrozenDict:
        return function(self.consumers, lambda m: function(self.queues, lambda q: value(m, q)))

    def _process_queue(self, member: str, queue: int) -> object:
        held = self.consumers[member].process_queue_table.get(message_queue(queue))
        if held is None:
            return NONE
        tree = frozenset(held.msg_tree_map)
        return FrozenDict({"nextOffset": held.next_offset, "msgTreeMap": tree})

    def _stored(self, offsets: offset_commit.OffsetState) -> FrozenDict:
        return function(self.queues, lambda q: offsets.offset_table.get(offset_key(q), NONE))
