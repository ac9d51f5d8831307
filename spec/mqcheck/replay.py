"""Replay: TLC's counterexample drives the reference's core to the same states, step by step.

A world holds the core's states of all processes of a model, and what lies between them: the
network, the file, the environment. Each action of the module is a method that calls the
functions which the reference's broker and consumer call, and `state` says in the module's
terms what the world then is.

TLC names the action of a step and not its parameters. They are found by trying: the step is
replayed where some choice of them leads to the state that TLC prints.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from mqcheck.manifest import Model
from mqcheck.values import FrozenDict, ModelValue, parse_value
from mqrules.scenario import Step
from mqspec.core import group, offset_commit, rebalance
from mqspec.core.allocation import AVG, AVG_BY_CIRCLE, Strategy, by_config
from mqspec.core.step import Step as CoreStep
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue

GROUP, TOPIC, BROKER = "group", "topic", "broker"

REPLAYED: tuple[Callable[..., Any], ...] = (
    group.close_channel,
    group.consumer_id_list,
    group.register_consumer,
    group.scan_not_active_channel,
    group.unregister_consumer,
    offset_commit.add_message_queue,
    offset_commit.load,
    offset_commit.persist,
    offset_commit.persist_all,
    offset_commit.process_consume_result,
    offset_commit.pull_message,
    offset_commit.query_consumer_offset,
    offset_commit.remove_unnecessary_message_queue,
    offset_commit.update_consumer_offset,
    offset_commit.update_offset,
    rebalance.compute_pull_from_where,
    rebalance.do_rebalance,
    rebalance.notify_consumer_ids_changed,
    rebalance.rebalance_by_topic,
    rebalance.update_process_queue_table,
)
"""The functions of the core that replays call."""


class ReplayError(Exception):
    """The reference does not come to the state that TLC came to."""


class NotEnabled(Exception):  # noqa: N818 - not an error: one choice of parameters less
    """The action cannot be taken with these parameters."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One step that the reference took as the model did."""

    action: str
    parameters: tuple[object, ...]
    changed: Mapping[str, object]


class World(ABC):
    """The core's states of all processes of a model, and what lies between them."""

    actions: ClassVar[Mapping[str, tuple[str, ...]]]
    """Name of an action, in the module and, in snake case, here, to its parameters' domains."""

    @abstractmethod
    def state(self) -> dict[str, object]:
        """The module's variables, as TLC prints them; budgets and ghosts left out."""

    @abstractmethod
    def domain(self, name: str) -> Iterable[object]:
        """What a parameter may be."""


def replay(world: World, steps: Sequence[Step]) -> list[Replayed]:
    """Take the steps of a counterexample one by one; `steps[0]` is the initial state.

    Raises ReplayError that names the first step which the reference does not take so.
    """
    _compare(world.state(), steps[0], "Init")
    done = []
    for number, step in enumerate(steps[1:], start=2):
        before = world.state()
        world, parameters = _take(world, step, f"step {number}, {step.action}")
        after = world.state()
        changed = {name: value for name, value in after.items() if before[name] != value}
        done.append(Replayed(step.action, parameters, changed))
    return done


def _take(world: World, step: Step, where: str) -> tuple[World, tuple[object, ...]]:
    if step.action not in world.actions:
        raise ReplayError(f"{where}: the reference has no such action")
    domains = [list(world.domain(name)) for name in world.actions[step.action]]
    for parameters in product(*domains):
        trial = deepcopy(world)
        try:
            getattr(trial, snake_case(step.action))(*parameters)
        except NotEnabled:
            continue
        if trial.state().items() <= step.state.items():
            return trial, parameters
    raise ReplayError(f"{where}: no parameters lead the reference to {dict(step.state)}")


def _compare(state: Mapping[str, object], step: Step, where: str) -> None:
    for name, value in state.items():
        if value != step.state[name]:
            raise ReplayError(f"{where}: {name} is {value!r}, in the model {step.state[name]!r}")


def snake_case(name: str) -> str:
    """The core's name for a name of a module."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def require(condition: bool) -> None:
    """The guard of an action."""
    if not condition:
        raise NotEnabled


NONE = ModelValue("None")


def _message_queue(number: int) -> MessageQueue:
    return MessageQueue(TOPIC, BROKER, number)


def _offset_key(number: int) -> offset_commit.OffsetKey:
    return offset_commit.OffsetKey(TOPIC, GROUP, number)


class OffsetCommitWorld(World):
    """OffsetCommit: consumers, and one broker with its file."""

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
        self.file = json.dumps(offset_commit.persist(self.offsets))
        self.network: set[tuple[str, int, int]] = set()
        self.orphans: dict[tuple[str, int, int], int] = {}  # to the generation that had it
        self.crashed: set[str] = set()
        self.consumed = {(q, o): 0 for q in self.queues for o in range(max_offset)}

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
                lambda m, q: self.consumers[m].offset_store.get(_message_queue(q), NONE)
            ),
            "offsetTable": self._stored(self.offsets),
            "offsetFile": self._stored(offset_commit.load(json.loads(self.file))),
            "network": _records(self.network),
            "orphans": _records(self.orphans),
            "crashed": frozenset(self.crashed),
            "maxOffset": FrozenDict(self.max_offset),
            "consumed": _function(
                self.queues,
                lambda q: _function(range(self.offset_end), lambda o: self.consumed[q, o]),
            ),
        }

    def send_message(self, queue: int) -> None:
        require(self.max_offset[queue] < self.offset_end)
        self.max_offset[queue] += 1

    def add_message_queue(self, member: str, queue: int) -> None:
        state, mq = self._running(member), _message_queue(queue)
        require(mq not in state.process_queue_table)
        changed = self._rebalance(member, {*state.process_queue_table, mq})
        require(changed.added == (mq,))
        answer = offset_commit.query_consumer_offset(
            self.offsets, _offset_key(queue), set_zero_if_not_found=False, queue_is_young=False
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
        state, mq = self._running(member), _message_queue(queue)
        held = self._held(state, mq)
        require(held.next_offset < self.max_offset[queue])
        pulled = offset_commit.Pulled(
            mq, held.generation, held.next_offset + 1, 0, (held.next_offset,)
        )
        apply(state, offset_commit.pull_message(state, pulled).changes)

    def process_consume_result(self, member: str, queue: int, offset: int) -> None:
        state, mq = self._running(member), _message_queue(queue)
        held = self._held(state, mq)
        require(offset in held.msg_tree_map)
        self._finish(state, mq, held.generation, offset)

    def finish_orphan(self, member: str, queue: int, offset: int) -> None:
        state = self._running(member)
        require((member, queue, offset) in self.orphans)
        generation = self.orphans.pop((member, queue, offset))
        self._finish(state, _message_queue(queue), generation, offset)

    def persist_all(self, member: str) -> None:
        state = self._running(member)
        self._carry(member, offset_commit.persist_all(state, GROUP))

    def remove_unnecessary_message_queue(self, member: str, queue: int) -> None:
        state, mq = self._running(member), _message_queue(queue)
        held = self._held(state, mq)
        self.orphans |= {(member, queue, o): held.generation for o in held.msg_tree_map}
        changed = self._rebalance(member, state.process_queue_table.keys() - {mq})
        require(changed.removed == (mq,))

    def update_consumer_offset(self, commit: tuple[str, int, int]) -> None:
        self.network.remove(commit)
        _, queue, offset = commit
        event = offset_commit.CommitOffset(GROUP, TOPIC, queue, offset)
        step = offset_commit.update_consumer_offset(
            self.offsets, event, group_exists=True, topic_exists=True
        )
        apply(self.offsets, step.changes)

    def lose_commit(self, commit: tuple[str, int, int]) -> None:
        self.network.remove(commit)

    def persist(self) -> None:
        self.file = json.dumps(offset_commit.persist(self.offsets))

    def load(self) -> None:
        self.offsets = offset_commit.load(json.loads(self.file))

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
        view = rebalance.View(TOPIC, tuple(map(_message_queue, self.queues)), (member,))
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

    def _carry(self, member: str, step: CoreStep) -> None:
        apply(self.consumers[member], step.changes)
        self.network |= {(member, s.mq.queue_id, s.commit_offset) for s in step.sends}

    def _of_each(self, value: Callable[[str, int], object]) -> FrozenDict:
        return _function(self.consumers, lambda m: _function(self.queues, lambda q: value(m, q)))

    def _process_queue(self, member: str, queue: int) -> object:
        held = self.consumers[member].process_queue_table.get(_message_queue(queue))
        if held is None:
            return NONE
        tree = frozenset(held.msg_tree_map)
        return FrozenDict({"nextOffset": held.next_offset, "msgTreeMap": tree})

    def _stored(self, offsets: offset_commit.OffsetState) -> FrozenDict:
        return _function(self.queues, lambda q: offsets.offset_table.get(_offset_key(q), NONE))


class RebalanceWorld(World):
    """Rebalance: the brokers' tables, and the members' services and process queues."""

    actions: ClassVar = {
        "Join": ("member",),
        "Leave": ("member",),
        "Crash": ("member",),
        "RegisterConsumer": ("member", "broker"),
        "UnregisterConsumer": ("member", "broker"),
        "CloseChannel": ("member", "broker"),
        "ScanNotActiveChannel": ("member", "broker"),
        "LoseNotice": ("member",),
        "NotifyConsumerIdsChanged": ("member",),
        "DoRebalance": ("member", "broker"),
        "RebalanceByTopic": ("member",),
    }

    def __init__(
        self,
        brokers: Iterable[str],
        ids: Mapping[str, int],
        initial: Iterable[str],
        routes: Mapping[str, Iterable[int]],
        strategies: Mapping[str, Strategy],
        notices: bool,
    ) -> None:
        self.brokers = {b: group.GroupState() for b in brokers}
        self.ids, self.routes, self.strategies = ids, routes, strategies
        self.sends_notices = notices
        self.consumers = {m: offset_commit.ConsumerState() for m in ids}
        self.services = {m: rebalance.RebalanceState(has_notified=False) for m in ids}
        self.status = dict.fromkeys(ids, "out")
        self.cid_all: dict[str, tuple[str, ...] | None] = dict.fromkeys(ids)
        self.notices: set[str] = set()
        self._begin(tuple(initial))

    def domain(self, name: str) -> Iterable[object]:
        return {"member": self.ids, "broker": self.brokers}[name]

    def state(self) -> dict[str, object]:
        no_list = ModelValue("NoList")
        return {
            "consumerTable": _function(self.brokers, lambda b: frozenset(self._channels(b))),
            "notices": frozenset(self.notices),
            "status": FrozenDict(self.status),
            "processQueueTable": _function(
                self.ids,
                lambda m: frozenset(q.queue_id for q in self.consumers[m].process_queue_table),
            ),
            "hasNotified": _function(self.ids, lambda m: self.services[m].has_notified),
            "cidAll": _function(
                self.ids,
                lambda m: no_list if (read := self.cid_all[m]) is None else frozenset(read),
            ),
        }

    def join(self, member: str) -> None:
        require(self.status[member] == "out")
        self.status[member] = "in"
        self.services[member] = rebalance.RebalanceState()

    def leave(self, member: str) -> None:
        self._stop(member, "left")

    def crash(self, member: str) -> None:
        self._stop(member, "crashed")

    def register_consumer(self, member: str, broker: str) -> None:
        require(self.status[member] == "in" and member not in self._channels(broker))
        self._heartbeat(member, broker, now_ms=0)

    def unregister_consumer(self, member: str, broker: str) -> None:
        require(self.status[member] == "left" and member in self._channels(broker))
        self._carry(broker, group.unregister_consumer(self.brokers[broker], GROUP, member))

    def close_channel(self, member: str, broker: str) -> None:
        require(self.status[member] in ("in", "crashed") and member in self._channels(broker))
        self._carry(broker, group.close_channel(self.brokers[broker], member))

    def scan_not_active_channel(self, member: str, broker: str) -> None:
        require(self.status[member] == "crashed" and member in self._channels(broker))
        now_ms = group.CHANNEL_EXPIRED_TIMEOUT_MS + 1
        others = [other for other in self._channels(broker) if other != member]
        for other in others:
            self._heartbeat(other, broker, now_ms)
        self._carry(broker, group.scan_not_active_channel(self.brokers[broker], now_ms))
        for other in others:
            self._heartbeat(other, broker, now_ms=0)

    def lose_notice(self, member: str) -> None:
        require(member in self.notices)
        self.notices.remove(member)

    def notify_consumer_ids_changed(self, member: str) -> None:
        require(member in self.notices)
        self.notices.remove(member)
        if self.status[member] == "in":
            service = self.services[member]
            apply(service, rebalance.notify_consumer_ids_changed(service).changes)

    def do_rebalance(self, member: str, broker: str) -> None:
        require(self.status[member] == "in" and self.cid_all[member] is None)
        service = self.services[member]
        apply(service, rebalance.do_rebalance(service).changes)
        self.cid_all[member] = self._channels(broker)

    def rebalance_by_topic(self, member: str) -> None:
        channels = self.cid_all[member]
        require(channels is not None)
        self.cid_all[member] = None
        self._rebalance(member, channels or ())

    def _begin(self, initial: tuple[str, ...]) -> None:
        for member, broker in product(initial, self.brokers):
            self._heartbeat(member, broker, now_ms=0)
        self.notices.clear()
        for member in initial:
            self.status[member] = "in"
            self._rebalance(member, initial)

    def _stop(self, member: str, status: str) -> None:
        require(self.status[member] == "in")
        self.status[member] = status
        self.consumers[member] = offset_commit.ConsumerState()
        self.services[member] = rebalance.RebalanceState(has_notified=False)
        self.cid_all[member] = None

    def _rebalance(self, member: str, channels: tuple[str, ...]) -> None:
        state = self.consumers[member]
        who = rebalance.Member(GROUP, str(self.ids[member]), self.strategies[member])
        queues = tuple(map(_message_queue, self.routes[member]))
        cids = tuple(str(self.ids[channel]) for channel in channels) or None
        step = rebalance.rebalance_by_topic(state, who, rebalance.View(TOPIC, queues, cids), 0)
        apply(state, step.changes)
        for mq in step.result.added:
            apply(state, offset_commit.add_message_queue(state, mq, 0, 0, 0).changes)

    def _channels(self, broker: str) -> tuple[str, ...]:
        """The members that a broker lists, by channel; their ids are what it answers."""
        state = self.brokers[broker]
        info = state.consumer_table.get(GROUP)
        channels = tuple(map(str, info.channel_info_table)) if info else ()
        listed = group.consumer_id_list(state, GROUP) or []
        if sorted(map(str, listed)) != sorted(str(self.ids[channel]) for channel in channels):
            raise ReplayError(f"{broker} lists {listed} for the channels {channels}")
        return channels

    def _heartbeat(self, member: str, broker: str, now_ms: int) -> None:
        info = group.ClientChannelInfo(str(self.ids[member]), "JAVA", 0, now_ms)
        subscribed = (group.SubscriptionData(TOPIC),)
        event = group.RegisterConsumer(GROUP, member, info, subscribed)
        self._carry(broker, group.register_consumer(self.brokers[broker], event))

    def _carry(self, broker: str, step: CoreStep) -> None:
        apply(self.brokers[broker], step.changes)
        if self.sends_notices:
            sent = (s for s in step.sends if isinstance(s, group.NotifyConsumerIdsChanged))
            self.notices |= {str(notice.channel) for notice in sent}


# What MC_Rebalance.tla calls by name.
_IDS: Mapping[str, Callable[[int], int]] = {"UniqueIds": lambda place: place, "OneId": lambda _: 1}
_STRATEGIES: Mapping[str, Callable[[int], Strategy]] = {
    "AllAveragely": lambda _: AVG,
    "MixedStrategies": lambda place: AVG if place == 1 else AVG_BY_CIRCLE,
}
_ROUTES: Mapping[str, Callable[[int], range]] = {
    "AllQueues": lambda _: range(3),
    "MixedRoutes": lambda place: range(3 if place == 1 else 2),
}
# A model of a protocol that Apache might have had is not one of the reference.
_OTHER_PROTOCOLS = {"Handover": "clean", "WaitForRelease": True, "KeepsNotice": False}

_CONSTANT = re.compile(r'(\w+)\s*(?:=|<-)\s*(\{[^}]*\}|"[^"]*"|\w+)')


def world_of(model: Model) -> World | None:
    """The reference at the beginning of a model; None where it does not have that protocol."""
    if model.module.stem.endswith("Seeded"):
        return None  # it has steps that the reference does not
    given = {name: parse_value(value) for name, value in _CONSTANT.findall(model.config.rest)}
    if any(given.get(name) == value for name, value in _OTHER_PROTOCOLS.items()):
        return None
    if "MaxOffset" in given:
        last, first = (
            group.ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            group.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        return OffsetCommitWorld(
            sorted(given["Members"]),
            given["Queues"],
            given["MaxOffset"],
            given["SentBefore"],
            last if given["FromLast"] else first,
        )
    if "MqAll" in given:
        places = {m: place for place, m in enumerate(sorted(given["Members"]), start=1)}
        return RebalanceWorld(
            sorted(given["Brokers"]),
            {m: _IDS[given["ClientId"]](place) for m, place in places.items()},
            sorted(given["InitialMembers"]),
            {m: _ROUTES[given["MqAll"]](place) for m, place in places.items()},
            {m: _STRATEGIES[given["Strategy"]](place) for m, place in places.items()},
            notices=given["Notices"] != "none",
        )
    return None


def _function(domain: Iterable[Any], value: Callable[[Any], object]) -> FrozenDict:
    return FrozenDict({x: value(x) for x in domain})


def _records(triples: Iterable[tuple[str, int, int]]) -> frozenset[FrozenDict]:
    return frozenset(FrozenDict({"member": m, "queue": q, "offset": o}) for m, q, o in triples)
