"""Lock on the reference: one queue of one broker, and the members that consume it in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict, ModelValue
from mqcheck.worlds.terms import GROUP, TOPIC, function, message_queue
from mqspec.core import consume_orderly, lock, offset_commit, rebalance
from mqspec.core.consume_orderly import is_locked
from mqspec.core.lock import LockBatch, LockState
from mqspec.core.metadata import BrokerConfig
from mqspec.core.offset_commit import ConsumerState, ProcessQueue
from mqspec.core.step import apply

MQ = message_queue(0)
NO_LOCK = ModelValue("NoLock")
MAX_LIVE_MS = BrokerConfig().rebalance_lock_max_live_time_ms
IDLE = -1


class LockWorld(World):
    """Everything of a model of Lock. A unit of its time is as long as the reference's broker,
    which keeps a lock for 60 s, makes it; each process has a clock of its own."""

    module = "Lock"
    actions: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "TryLockBatch": ("member",),
        "UnlockBatch": ("member",),
        "StartListening": ("member",),
        "StopListening": ("member",),
        "Tick": (),
        "Crash": ("member",),
        "Restart": (),
    }

    def __init__(
        self,
        members: Iterable[str],
        times: tuple[int, int, int],
        forced: bool,
        limits: tuple[int, int],
    ) -> None:
        self.max_live_time, self.belief_time, self.listen_time = times
        self.unit_ms = MAX_LIVE_MS // self.max_live_time
        self.forced = forced
        self.max_crashes, self.max_restarts = limits
        self.broker, self.broker_ms = LockState(), 0
        self.consumers = {m: _consumer() for m in members}
        self.clock_ms = dict.fromkeys(self.consumers, 0)
        self.listening = dict.fromkeys(self.consumers, IDLE)
        self.crashed: frozenset[str] = frozenset()
        self.restarts = 0

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> LockWorld:
        """The world at the beginning of a model with these constants."""
        return cls(
            sorted(constants["Members"]),
            (constants["MaxLiveTime"], constants["BeliefTime"], constants["ListenTime"]),
            constants["Forced"],
            (constants["MaxCrashes"], constants["MaxRestarts"]),
        )

    def domain(self, name: str) -> Iterable[object]:
        return {"member": self.consumers}[name]

    def state(self) -> dict[str, object]:
        return {
            "mqLockTable": self._lock(),
            "belief": function(self.consumers, self._belief),
            "listening": FrozenDict(self.listening),
            "crashed": self.crashed,
            "restarts": self.restarts,
        }

    def try_lock_batch(self, member: str) -> None:
        require(member not in self.crashed)
        event = LockBatch(GROUP, member, (MQ,))
        step = lock.try_lock_batch(self.broker, event, self.broker_ms, MAX_LIVE_MS)
        apply(self.broker, step.changes)
        state, refused = self.consumers[member], {MQ} - set(step.result)
        now_ms = self.clock_ms[member]
        apply(state, consume_orderly.lock(state, step.result, now_ms).changes)
        apply(state, consume_orderly.refuse_lock(state, refused).changes)

    def unlock_batch(self, member: str) -> None:
        self._give_up(member)
        self._unlock(member)

    def start_listening(self, member: str) -> None:
        require(self._believes(member) and self.listening[member] == IDLE)
        self.listening[member] = 0

    def stop_listening(self, member: str) -> None:
        require(self.listening[member] != IDLE)
        self.listening[member] = IDLE

    def tick(self) -> None:
        self.broker_ms += self.unit_ms
        for member in self.consumers:
            self._pass_time(member)

    def crash(self, member: str) -> None:
        require(member not in self.crashed and len(self.crashed) < self.max_crashes)
        self.crashed |= {member}
        self.consumers[member] = _consumer()
        self.listening[member] = IDLE

    def restart(self) -> None:
        require(self.restarts < self.max_restarts)
        self.restarts += 1
        self.broker = LockState()

    def _give_up(self, member: str) -> None:
        require(member not in self.crashed and self._believes(member))
        require(self.forced or self.listening[member] == IDLE)
        self._rebalance(member)
        if MQ in self.consumers[member].process_queue_table:  # dropped, its listener at work
            self._rebalance(member)
        require(MQ not in self.consumers[member].process_queue_table)
        self.consumers[member] = _consumer()

    def _unlock(self, member: str) -> None:
        step = lock.unlock_batch(self.broker, LockBatch(GROUP, member, (MQ,)))
        apply(self.broker, step.changes)

    def _pass_time(self, member: str) -> None:
        require(self.listening[member] < self.listen_time)
        self.clock_ms[member] += self.unit_ms
        self.listening[member] += self.listening[member] != IDLE

    def _rebalance(self, member: str) -> None:
        """The member has the queue in its slice no more."""
        state = self.consumers[member]
        consuming = () if self.listening[member] == IDLE else (MQ,)
        now_ms = self.clock_ms[member]
        step = rebalance.update_process_queue_table(
            state, GROUP, TOPIC, (), now_ms, consuming=consuming
        )
        apply(state, step.changes)

    def _queue(self, member: str) -> ProcessQueue:
        return self.consumers[member].process_queue_table[MQ]

    def _believes(self, member: str) -> bool:
        return is_locked(self._queue(member), self.clock_ms[member])

    def _lock(self) -> object:
        entry = self.broker.mq_lock_table.get(GROUP, {}).get(MQ)
        if entry is None:
            return NO_LOCK
        age = (self.broker_ms - entry.last_update_ms) // self.unit_ms
        fields = {"clientId": entry.client_id, "age": min(age, self.max_live_time + 1)}
        return FrozenDict(fields)

    def _belief(self, member: str) -> int:
        if not self._believes(member):
            return self.belief_time + 1
        return (self.clock_ms[member] - self._queue(member).last_lock_ms) // self.unit_ms


def _consumer() -> ConsumerState:
    """A member that holds the queue, and no lock of it yet."""
    state = ConsumerState()
    apply(state, offset_commit.add_message_queue(state, MQ, 0, 0, 0).changes)
    return state
