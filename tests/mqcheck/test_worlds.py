"""Every step of small models, taken by the core; and a core that decides otherwise is found."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from graphs import counterexample, graph, smaller
from msgspec import structs

from mqcheck import worlds
from mqcheck.behaviours import take_every_edge
from mqcheck.manifest import TLA, check_model, models
from mqcheck.mutants import ghosts_of
from mqcheck.replay import ReplayError, World, replay
from mqcheck.scenario import begin
from mqcheck.twins import read_twin, twins
from mqcheck.worlds import world_of
from mqrules import UserError
from mqspec.core import (
    assignment,
    check_transaction,
    consume_orderly,
    delay,
    due_messages,
    group,
    lock,
    log,
    long_polling,
    offset_commit,
    pop,
    pop_order,
    pop_polling,
    pop_revive,
    producer,
    pull,
    push_consumer,
    rebalance,
    recovery,
    retention,
    retry,
    route,
    subscription,
    transaction,
)
from mqspec.core.conversation import Conversation, LogOnDisk, Persist
from mqspec.core.offset_commit import ConsumerState
from mqspec.core.pop_order import OrderKey, PopOrderState
from mqspec.core.record import Record
from mqspec.core.retention import Round, StoredSegment
from mqspec.core.revive_log import AckMsg, PopCheckPoint
from mqspec.core.step import Change, Step
from mqspec.core.types import MessageQueue

_ack, _change = pop_order.ack, pop.change_invisible_time
_remove = offset_commit.remove_unnecessary_message_queue
_dispatch, _load, _redispatch = log.dispatch, recovery.load, recovery.redispatch

STEPS = [(m.name, m.every_step) for m in models().values() if m.every_step is not None]


@pytest.mark.parametrize(("name", "less"), STEPS)
def test_the_core_takes_every_step(name: str, less: Mapping[str, int]) -> None:
    model, drawn, world = models()[name], graph(name, **less), begin(smaller(name, **less))
    assert (len(drawn.states) < model.counts.distinct) == bool(less)
    taken = take_every_edge(world, drawn, and_no_other=world.bounded)
    assert taken == len(drawn.edges) >= len(drawn.states) - 1


def _nothing(*_: object, **__: object) -> Step:
    return Step()


def _kept(state: ConsumerState, mq: MessageQueue, group: str) -> Step:
    """The queue's offset is committed, and the queue is kept."""
    return Step(sends=_remove(state, mq, group).sends)


def _as_apache(state: PopOrderState, key: OrderKey, offset: int, pop_time: int) -> Step:
    """What 5.3.3 does where it has lost the batch (AcksForgotten)."""
    return _ack(state, key, offset, pop_time) if state.order_info else Step(result=offset + 1)


def _passes_young(
    segments: Sequence[StoredSegment], _: int, before_ms: int, at_once: bool
) -> Iterator[int]:
    """A young segment stays, and an old one behind it goes."""
    return (s.start for s in segments[:-1] if at_once or s.last_modified_ms <= before_ms)


def _full_disk(*_: object, **__: object) -> Round:
    return Round((), is_disk_full=True)


def _at_the_same_time(event: pop.ChangeInvisibleTime, now_ms: int) -> tuple[PopCheckPoint, AckMsg]:
    """What 5.3.3 does in the millisecond of the pop (SameMillisecond)."""
    made, ack = _change(event, now_ms)
    return replace(made, key=made.key._replace(pop_time=event.handle.pop_time)), ack


def _unflushed(state: object) -> Conversation[None]:
    """A file is written, and nobody looks how much of the log is on disk."""
    yield Persist(state)


def _whatever_the_disk_says(state: object) -> Conversation[None]:
    """The log is flushed, and the file written also where that failed."""
    yield LogOnDisk()
    yield Persist(state)


def _says(value: object) -> Callable[..., Conversation[object]]:
    """A part of a conversation that does nothing, and says this."""

    def part(*_: object) -> Conversation[object]:
        yield from ()
        return value

    part.__name__ = f"_says_{value}"  # as the test's id has it
    return part


_ALL = group.SubscriptionData("topic")


def _early(_: object, event: delay.TimeUp, __: int) -> Step:
    return Step((Change("offset_table", event.level, event.offset + 1),), result=True)


def _first(tree: tuple[int, ...], *_: object) -> int | None:
    return tree[0] if tree else None


def _unseen(state: log.LogState, events: Sequence[log.Dispatch]) -> Step:
    """The unit is written, and the queue is as long as before."""
    step = _dispatch(state, events)
    return Step(tuple(c for c in step.changes if c.variable != "consume_queue"), result=step.result)


def _trusts_all(files: recovery.Files) -> Step:
    """The walk begins in the last segment, whatever the checkpoint covers."""
    last = max((segment.start for segment in files.segments), default=0)
    changes = [change for change in _load(files).changes if change.key is not None]
    at = (Change(name, None, last) for name in ("scan_from", "process_offset"))
    return Step((*at, *changes))


def _same(*events: object, **_: object) -> Step:
    """A message that is sent back is stored as it is, but for its first topic's name."""
    found = (getattr(event, "message", event) for event in events)
    message = next(one for one in found if isinstance(one, Record))
    return Step(result=structs.replace(message, properties=b"RETRY_TOPIC\x01topic"))


@pytest.mark.parametrize(
    ("name", "module", "function", "broken", "action"),
    [
        ("MC_LongPolling", long_polling, "suspend_pull_request", _nothing, "SuspendPullRequest"),
        (
            "MC_LongPolling",
            long_polling,
            "notify_message_arriving",
            lambda *_: Step(result=()),
            "NotifyMessageArriving",
        ),
        ("MC_ChangedSubscription", group, "register_consumer", _nothing, "RegisterConsumer"),
        (
            "MC_ChangedSubscription",
            push_consumer,
            "is_wanted",
            lambda *_: True,
            "CheckPull",
        ),
        (
            "MC_ChangedSubscription",
            subscription,
            "is_matched_by_consume_queue",
            lambda *_: False,
            "CheckPull",
        ),
        (
            "MC_OneByOne",
            consume_orderly,
            "make_message_to_consume_again",
            _nothing,
            "Suspend",
        ),
        ("MC_OneByOne", consume_orderly, "commit", _nothing, "Commit"),
        ("MC_OneByOne", offset_commit, "remove_unnecessary_message_queue", _kept, "Release"),
        ("MC_HoldsAtOnce", pop_polling, "forget", lambda *_: Step(result=True), "Forget"),
        (
            "MC_HoldsAtOnce",
            pop_polling,
            "notify_message_arriving",
            lambda *_: Step(result=()),
            "NotifyMessageArriving",
        ),
        ("MC_PublishAvoids", producer, "is_tried_again", lambda *_, **__: False, "LoseAnswer"),
        ("MC_PublishAvoids", producer, "update_fault_item", _nothing, "LoseAnswer"),
        ("MC_System", assignment, "do_load_balance", lambda *_: None, "DoLoadBalance"),
        ("MC_System", offset_commit, "process_consume_result", _nothing, "ProcessConsumeResult"),
        ("MC_SystemAsyncFlush", offset_commit, "offset_illegal", _nothing, "OffsetIllegal"),
        ("MC_Lock", lock, "try_lock_batch", lambda *_: Step(result=()), "TryLockBatch"),
        ("MC_Lock", lock, "unlock_batch", _nothing, "UnlockBatch"),
        ("MC_ForcedUnlock", rebalance, "update_process_queue_table", _nothing, "UnlockBatch"),
        ("MC_BrokerRestarts", consume_orderly, "refuse_lock", _nothing, "TryLockBatch"),
        (
            "MC_Broadcasting",
            rebalance,
            "compute_pull_from_where",
            lambda *_: rebalance.PullFrom.ZERO,
            "Start",
        ),
        ("MC_BroadcastingKept", offset_commit, "process_consume_result", _nothing, "Consume"),
        ("MC_BroadcastingKept", offset_commit, "persist_all", _nothing, "PersistAll"),
        ("MC_Retry", retry, "consumer_send_msg_back", _same, "ConsumerSendMsgBack"),
        ("MC_Retry", retry, "handle_retry_and_dlq", _same, "HandleRetryAndDlq"),
        ("MC_Doubling", retry, "consumer_send_msg_back", _same, "ConsumerSendMsgBack"),
        ("MC_Span", offset_commit, "must_wait", lambda *_: True, "PullMessage"),
        ("MC_Span", offset_commit, "process_consume_result", _nothing, "ProcessConsumeResult"),
        ("MC_Release", group, "scan_not_active_channel", _nothing, "action"),
        ("MC_Release", rebalance, "notify_consumer_ids_changed", _nothing, "action"),
        ("MC_Release", lock, "unlock_batch", _nothing, "action"),
        ("MC_Release", lock, "_is_expired", lambda *_: True, "action"),
        ("MC_Group", group, "unregister_consumer", _nothing, "UnregisterConsumer"),
        ("MC_Group", group, "close_channel", _nothing, "CloseChannel"),
        ("MC_Delay", delay, "deliver", lambda *_: Step(result=True), "Deliver"),
        ("MC_Delay", delay, "persist", lambda _: {}, "Persist"),
        ("MC_Delay", delay, "persist_progress", _unflushed, "Persist"),
        ("MC_Delay", delay, "persist_progress", _whatever_the_disk_says, "Persist"),
        ("MC_Delay", due_messages, "_deliver", _says(True), "Deliver"),
        ("MC_Delay", due_messages, "_deliver", _says(False), "Deliver"),
        ("MC_PopChange", offset_commit, "persist_offsets", _unflushed, "Persist"),
        ("MC_PopChange", offset_commit, "persist_offsets", _whatever_the_disk_says, "Persist"),
        ("MC_Transaction", transaction, "check", _nothing, "Check"),
        ("MC_Transaction", check_transaction, "_read_ops", _says(True), "Check"),
        ("MC_Transaction", check_transaction, "_ask_producer", _says(None), "Check"),
        ("MC_Transaction", check_transaction, "_park", _says(True), "Check"),
        ("MC_Transaction", check_transaction, "commit_offset", _nothing, "Persist"),
        ("MC_Transaction", transaction, "end_transaction", _nothing, "EndTransaction"),
        ("MC_Route", route, "unregister_broker", _nothing, "ScanNotActiveBroker"),
        ("MC_Route", route, "expired_brokers", lambda *_: (), "ScanNotActiveBroker"),
        ("MC_TopicRoute", pull, "check_pull", _nothing, "PullMessage"),
        ("MC_TopicRoute", producer, "publish_queues", lambda *_: [], "SendMessage"),
        ("MC_Log", log, "append_message", lambda *_: Step(result=[None]), "AppendMessage"),
        ("MC_Log", log, "dispatch", _unseen, "Dispatch"),
        ("MC_LogSyncFlush", log, "may_dispatch", lambda *_: False, "Dispatch"),
        ("MC_LogTransientStorePool", log, "commit", _nothing, "Commit"),
        ("MC_RecoveryTwice", recovery, "load", _trusts_all, "Load"),
        ("MC_Recovery", recovery, "end_recovery", _nothing, "EndRecovery"),
        ("MC_PopChange", pop, "change_invisible_time", _at_the_same_time, "action"),
        ("MC_PopChange", pop, "commit_revive_offset", _nothing, "Persist"),
        ("MC_PopProgress", pop, "consume_revive_message", _nothing, "ConsumeReviveMessage"),
        ("MC_PopProgress", pop, "revive", _nothing, "Revives"),
        ("MC_PopProgress", pop_revive, "_retry", _says(True), "Revives"),
        ("MC_PopProgress", pop_revive, "_read_some", _says(False), "ConsumeReviveMessage"),
        ("MC_PopOrder", pop_order, "ack", _as_apache, "Ack"),
        ("MC_PopOrder", pop_order, "load", lambda _: PopOrderState(), "Persist"),
        ("MC_CleanExpired", push_consumer, "first_expired", lambda *_: None, "FirstExpired"),
        ("MC_Retention", retention, "clean_commit_log", _full_disk, "CleanCommitLog"),
        ("MC_Retention", retention, "_expired", _passes_young, "CleanCommitLog"),
        ("MC_Retention", retention, "delete_expired_file", _nothing, "DeleteExpiredFile"),
    ],
)
def test_a_core_that_decides_otherwise_is_found(
    name: str,
    module: ModuleType,
    function: str,
    broken: Callable[..., object],
    action: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    says = f"no {action} leads the reference"
    _is_refused(monkeypatch, name, module, function, broken, says)


@pytest.mark.parametrize(
    ("name", "module", "function", "broken", "action"),
    [
        ("MC_Delay", delay, "deliver", _early, "Deliver"),
        ("MC_CleanExpired", push_consumer, "first_expired", _first, "FirstExpired"),
        ("MC_PopOrder", pop_order, "is_blocked", lambda *_: False, "Pop"),
        ("MC_LogSyncFlush", log, "may_dispatch", lambda *_: True, "Dispatch"),
        ("MC_Span", offset_commit, "must_wait", lambda *_: False, "PullMessage"),
        ("MC_TopicRoute", pull, "check_pull", lambda *_: Step(result=_ALL), "PullMessage"),
    ],
)
def test_a_core_that_does_more_is_found(
    name: str,
    module: ModuleType,
    function: str,
    broken: Callable[..., object],
    action: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    says = f"only the reference has {action}"
    _is_refused(monkeypatch, name, module, function, broken, says, and_no_other=True)


def test_a_core_that_begins_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = (rebalance, "rebalance_by_topic", _not_balanced)
    _is_refused(monkeypatch, "MC_TopicRoute", *broken, "Init: processQueueTable")


def _is_refused(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    module: ModuleType,
    function: str,
    broken: Callable[..., object],
    says: str,
    *,
    and_no_other: bool = False,
) -> None:
    """A core in which one function is broken does not do what a model does, and the replay of
    the model's steps says so."""
    less = models()[name].every_step or {}
    drawn = graph(name, **less)
    monkeypatch.setattr(module, function, broken)
    with pytest.raises(ReplayError, match=says):
        take_every_edge(begin(smaller(name, **less)), drawn, and_no_other=and_no_other)


def _not_balanced(*_: object) -> Step:
    return Step(result=rebalance.Rebalanced(balanced=False))


def _never_back(state: recovery.RecoveryState, event: recovery.Scanned, log_min: int) -> Step:
    """A record that is ahead of its queue is taken for one that enters none."""
    step = _redispatch(state, event, log_min)
    if step.result is recovery.RESCAN:
        return Step((Change("process_offset", None, event.end),))
    return step


def test_a_walk_that_does_not_go_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model, steps = counterexample("MC_RecoveryLostQueue", "NeverGoesBack")
    assert len(replay(begin(model), steps)) == len(steps) - 1
    monkeypatch.setattr(recovery, "redispatch", _never_back)
    with pytest.raises(ReplayError, match="no Redispatch leads the reference"):
        replay(begin(model), steps)


@pytest.mark.parametrize("name", ["MC_LooksAgain", "MC_SystemCommitEach", "MC_EndsOnce"])
def test_a_protocol_that_the_reference_does_not_have_is_not_replayed(name: str) -> None:
    assert world_of(models()[name]) is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"world": ""}, "MC_Lock: it names no world; give `world`"),
        ({"not_replayed": "because"}, "MC_Lock: it names a world and why it has none"),
    ],
)
def test_a_model_says_what_replays_it(change: dict[str, Any], says: str) -> None:
    model = models()["MC_Lock"]
    check_model(model, model.config, "Lock.toml")
    with pytest.raises(UserError, match=says):
        check_model(replace(model, **change), model.config, "Lock.toml")


@pytest.mark.parametrize(
    ("world", "says"),
    [
        ("nobody", "MC_Lock: there is no world 'nobody'"),
        ("terms", "MC_Lock: 'terms' is no world"),
        ("rebalance", "MC_Lock: its world rebalance needs the constant"),
    ],
)
def test_a_world_that_does_not_fit_is_one_line(world: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        world_of(replace(models()["MC_Lock"], world=world))


def test_most_models_of_what_the_core_has_are_replayed() -> None:
    """And of their defects: the core departs from these."""
    sound = [model for model in models().values() if not model.defect]
    seeded = [model for model in models().values() if model.defect]
    assert sum(bool(world_of(model)) for model in sound) > len(sound) / 2
    assert sum(bool(model.departs) for model in seeded) > len(seeded) / 2


def unnamed(named: Iterable[str]) -> set[str]:
    """The modules of mqcheck.worlds with a world that is not among those that are named."""
    found = {each.name for each in pkgutil.iter_modules(worlds.__path__)}
    with_world = {
        name
        for name in found
        if any(
            isinstance(item, type)
            and issubclass(item, World)
            and item.__module__ == f"{worlds.__name__}.{name}"
            for item in vars(import_module(f"{worlds.__name__}.{name}")).values()
        )
    }
    assert with_world
    return with_world - {*named}


def test_every_world_is_named_by_a_manifest() -> None:
    """One that nothing names replays nothing."""
    named = {model.world for model in models().values() if model.world}
    assert not unnamed(named)
    assert unnamed(named - {"lock"}) == {"lock"}


def test_a_world_says_what_it_does_not_compare() -> None:
    counts = {"crashes", "failures", "losses", "perturbations", "moves", "changes", "brokerCrashes"}
    counts |= {"seeks"}
    worlds = {
        type(world): (world, model) for model in models().values() if (world := world_of(model))
    }
    for world, model in worlds.values():
        library = TLA / f"{world.module}.tla"
        text = (library if library.is_file() else model.module).read_text(encoding="utf-8")
        variables = read_twin(world.module, text).variables
        left = {*variables} - world.state().keys() - ghosts_of(text) - counts
        assert left == world.not_compared.keys(), world.module


def test_every_module_that_has_a_core_is_replayed() -> None:
    replayed = {world.module for model in models().values() if (world := world_of(model))}
    # Allocation's twin is a function, without a state to compare: it is proved (mqspec prove).
    assert {twin.name for twin in twins() if twin.cores} - replayed == {"Allocation"}
