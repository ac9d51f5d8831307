"""System on the reference: a group, its broker, the log of each queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, ClassVar

from mqcheck.replay import require
from mqcheck.values import FrozenDict
from mqcheck.worlds.offset_commit import OffsetCommitWorld
from mqcheck.worlds.terms import (
    GROUP,
    NONE,
    TOPIC,
    consume_from_where,
    function,
    message_queue,
    store_offset,
)
from mqspec.core import assignment, group, offset_commit
from mqspec.core.allocation import AVG, allocate
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue


class SystemWorld(OffsetCommitWorld):
    """Everything of a model of System: OffsetCommit's, whose members are assigned their queues by
    the core, and whose messages have numbers, since a log that was cut uses offsets again.

    A member's client id is its number, in decimal digits.
    """

    module = "System"
    actions: ClassVar = {
        "Join": ("member",),
        "Leave": ("member",),
        "UnregisterConsumer": ("member",),
        "CrashMember": ("member",),
        "RebalanceByTopic": ("member",),
        "DoLoadBalance": ("member",),
        "AddMessageQueue": ("member", "queue"),
        "RemoveUnnecessaryMessageQueue": ("member", "queue"),
        "PullMessage": ("member", "queue"),
        "OffsetIllegal": ("member", "queue"),
        "ProcessConsumeResult": ("member", "queue", "offset"),
        "FinishOrphan": ("member", "queue", "offset"),
        "PersistAll": ("member",),
        "UpdateConsumerOffset": ("commit",),
        "LoseCommit": ("commit",),
        "SendMessage": ("queue",),
        "Flush": ("queue",),
        "Persist": (),
        "Load": ("length",),
    }
    not_compared: ClassVar = {"orphans": "the model notes with each a ghost: why it may come again"}

    def __init__(
        self,
        members: Iterable[int],
        initial: Iterable[int],
        queues: Iterable[int],
        max_messages: int,
        sent_before: int,
        policy: group.ConsumeFromWhere,
        assigner: str,
        sync_flush: bool,
    ) -> None:
        super().__init__(map(str, members), queues, max_messages, sent_before, policy)
        self.status = {m: "in" if int(m) in initial else "out" for m in self.consumers}
        self.assigned: dict[str, frozenset[int]] = dict.fromkeys(self.consumers, frozenset())
        self.log = {q: list(range(1, sent_before + 1)) for q in self.queues}
        self.flushed = dict.fromkeys(self.queues, sent_before)
        self.sent = dict.fromkeys(self.queues, sent_before)
        self.assigner, self.sync_flush = assigner, sync_flush
        self.done: dict[int, frozenset[int]] = dict.fromkeys(self.queues, frozenset())
        # The number of a message by the process queue that has it, and its offset.
        self.pulled: dict[tuple[str, int, int, int], int] = {}
        self.dropped: set[tuple[str, int, int, int]] = set()

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> SystemWorld:
        """The world at the beginning of a model with these constants."""
        return cls(
            sorted(constants["Members"]),
            constants["InitialMembers"],
            sorted(constants["Queues"]),
            constants["MaxMessages"],
            constants["SentBefore"],
            consume_from_where(constants),
            constants["Assigner"],
            "SyncFlush" in constants["Remedies"],
        )

    def domain(self, name: str) -> Iterable[object]:
        if name == "length":
            lengths = (range(len(self.log[q]) + 1) for q in self.queues)
            return [dict(zip(self.queues, chosen, strict=True)) for chosen in product(*lengths)]
        return super().domain(name)

    def state(self) -> dict[str, object]:
        inherited = super().state()
        return {
            **{
                name: inherited[name]
                for name in ("processQueueTable", "offsetStore", "offsetTable", "offsetFile")
            },
            "status": self._of_members(lambda m: self.status[m]),
            "assigned": self._of_members(lambda m: self.assigned[m]),
            "network": frozenset(
                FrozenDict({"member": int(m), "queue": q, "offset": o}) for m, q, o in self.network
            ),
            "commitLog": function(self.queues, lambda q: tuple(self.log[q])),
            "flushed": FrozenDict(self.flushed),
            "sent": FrozenDict(self.sent),
            "consumed": FrozenDict(self.done),
        }

    def join(self, member: str) -> None:
        require(self.status[member] == "out")
        self.status[member] = "in"

    def leave(self, member: str) -> None:
        require(self.status[member] == "in")
        self.status[member] = "leaving"
        self.assigned[member] = frozenset()

    def unregister_consumer(self, member: str) -> None:
        require(self.status[member] == "leaving")
        require(not self.consumers[member].process_queue_table)
        self.status[member] = "left"
        self._forget_dropped(member)

    def crash_member(self, member: str) -> None:
        require(self.status[member] in ("in", "leaving"))
        super().crash_member(member)
        self.status[member] = "crashed"
        self.assigned[member] = frozenset()
        self._forget_dropped(member)

    def rebalance_by_topic(self, member: str) -> None:
        require(self.status[member] == "in" and self.assigner != "broker")
        taken = allocate(AVG, GROUP, member, self._queues(), self._listed())
        self.assigned[member] = frozenset(mq.queue_id for mq in taken)

    def do_load_balance(self, member: str) -> None:
        require(self.status[member] == "in" and self.assigner != "member")
        model = group.MessageModel.CLUSTERING
        event = assignment.QueryAssignment(TOPIC, GROUP, model, member, AVG.name)
        mode = assignment.SetMessageRequestMode(TOPIC, GROUP)
        found = assignment.do_load_balance(event, mode, self._queues(), self._listed())
        self.assigned[member] = frozenset(a.message_queue.queue_id for a in found or ())

    def add_message_queue(self, member: str, queue: int) -> None:
        require(queue in self.assigned[member])
        super().add_message_queue(member, queue)

    def remove_unnecessary_message_queue(self, member: str, queue: int) -> None:
        require(queue not in self.assigned[member])
        self._drop(member, queue)
        super().remove_unnecessary_message_queue(member, queue)

    def pull_message(self, member: str, queue: int) -> None:
        state = self._running(member)
        held = self._held(state, message_queue(queue))
        super().pull_message(member, queue)
        place = (member, queue, held.generation, held.next_offset)
        self.pulled[place] = self.log[queue][held.next_offset]

    def offset_illegal(self, member: str, queue: int) -> None:
        state, mq = self._running(member), message_queue(queue)
        held, end = self._held(state, mq), len(self.log[queue])
        require(held.next_offset > end)
        self._drop(member, queue)
        step = offset_commit.offset_illegal(state, mq, held.generation, end, GROUP)
        apply(state, step.changes)
        for commit in step.sends:
            store_offset(self.offsets, queue, commit.commit_offset)  # in the model, at once

    def finish_orphan(self, member: str, queue: int, offset: int) -> None:
        places = [p for p in sorted(self.dropped) if (p[0], p[1], p[3]) == (member, queue, offset)]
        require(bool(places))
        self.dropped.remove(places[0])
        self._finish(self._running(member), message_queue(queue), places[0][2], offset)

    def send_message(self, queue: int) -> None:
        require(self.sent[queue] < self.offset_end)
        self.sent[queue] += 1
        self.log[queue].append(self.sent[queue])
        self.max_offset[queue] = len(self.log[queue])
        if self.sync_flush:
            self.flush(queue)

    def flush(self, queue: int) -> None:
        self.flushed[queue] = len(self.log[queue])

    def load(self, length: Mapping[int, int] | None = None) -> None:
        """The broker dies and starts; of each log that much is left, all of it if not told."""
        super().load()
        for queue, kept in (length or {}).items():
            require(kept >= self.flushed[queue])
            del self.log[queue][kept:]
            self.max_offset[queue] = self.flushed[queue] = kept

    def _queues(self) -> list[MessageQueue]:
        return [message_queue(q) for q in self.queues]

    def _listed(self) -> list[str]:
        return [m for m in self.consumers if self.status[m] in ("in", "leaving")]

    def _drop(self, member: str, queue: int) -> None:
        held = self._held(self._running(member), message_queue(queue))
        self.dropped |= {(member, queue, held.generation, o) for o in held.msg_tree_map}

    def _forget_dropped(self, member: str) -> None:
        self.dropped = {place for place in self.dropped if place[0] != member}

    def _finish(
        self, state: offset_commit.ConsumerState, mq: MessageQueue, generation: int, offset: int
    ) -> None:
        (member,) = (m for m, its in self.consumers.items() if its is state)
        consumed = offset_commit.Consumed(mq, generation, (offset,))
        apply(state, offset_commit.process_consume_result(state, consumed).changes)
        number = self.pulled[member, mq.queue_id, generation, offset]
        self.done[mq.queue_id] |= {number}

    def _of_members(self, value: Callable[[str], object]) -> object:
        numbers = [int(m) for m in self.consumers]
        if numbers == list(range(1, len(numbers) + 1)):  # to TLC a sequence
            return tuple(map(value, self.consumers))
        return function(numbers, lambda number: value(str(number)))

    def _of_each(self, value: Callable[[str, int], object]) -> Any:
        return self._of_members(lambda m: function(self.queues, lambda q: value(m, q)))

    def _process_queue(self, member: str, queue: int) -> object:
        held = self.consumers[member].process_queue_table.get(message_queue(queue))
        if held is None:
            return NONE
        tree = frozenset(
            FrozenDict({"offset": o, "id": self.pulled[member, queue, held.generation, o]})
            for o in held.msg_tree_map
        )
        return FrozenDict({"nextOffset": held.next_offset, "msgTreeMap": tree})
