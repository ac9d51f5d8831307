"""Every step of small models of what clients and held pulls do, taken by the core; and a core
that decides otherwise is found."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from graphs import graph

from mqcheck.behaviours import take_every_edge
from mqcheck.manifest import models
from mqcheck.replay import ReplayError
from mqcheck.scenario import begin
from mqcheck.worlds import world_of
from mqspec.core import (
    assignment,
    consume_orderly,
    group,
    long_polling,
    offset_commit,
    pop_polling,
    producer,
    push_consumer,
    subscription,
)
from mqspec.core.step import Step


@pytest.mark.parametrize(
    "name",
    [
        "MC_LongPolling",
        "MC_ChangedSubscription",
        "MC_OneByOne",
        "MC_HoldsAtOnce",
        "MC_PublishOrderly",
        "MC_PublishAvoids",
        "MC_System",
        "MC_SystemAsyncFlush",
    ],
)
def test_the_core_takes_every_step(name: str) -> None:
    model, drawn = models()[name], graph(name)
    assert len(drawn.states) == model.counts.distinct
    assert take_every_edge(begin(model), drawn) == len(drawn.edges) >= len(drawn.states) - 1


def _nothing(*_: object, **__: object) -> Step:
    return Step()


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
    drawn = graph(name)
    monkeypatch.setattr(module, function, broken)
    with pytest.raises(ReplayError, match=f"no {action} leads the reference"):
        take_every_edge(begin(models()[name]), drawn)


@pytest.mark.parametrize(
    "name", ["MC_LooksAgain", "MC_LongPolling__WakesOne", "MC_SystemCommitEach"]
)
def test_a_protocol_that_the_reference_does_not_have_is_not_replayed(name: str) -> None:
    assert world_of(models()[name]) is None
