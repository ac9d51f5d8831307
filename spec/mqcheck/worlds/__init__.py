"""The worlds: the reference's core as the modules of TLA+ see it, one world a module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module

from mqcheck.manifest import Model
from mqcheck.replay import World
from mqcheck.source import snake_case
from mqcheck.values import parse_value

# By a constant that its models have, and no model that stands further down.
_WORLDS: Mapping[str, str] = {
    "MaxOffset": "OffsetCommit",
    "MqAll": "Rebalance",
    "Notices": "Group",
    "MaxDrift": "LockDrift",
    "Overtaken": "LockLateUnlock",
    "BeliefTime": "Lock",
    "DropsSendBack": "Retry",
    "Delays": "Delay",
    "EndsFirst": "Transaction",
    "RevivesUnread": "Pop",
    "MaxOffsetMoves": "PopOrderMoved",
    "Attempts": "PopOrder",
    "InitialTopics": "Route",
    "DrainsFirst": "TopicRoute",
    "MaxStops": "Recovery",
    "OffsetBeforeChecks": "Log",
    "SegmentRecords": "Retention",
    "EndsWhile": "CleanExpired",
    "CheckInterval": "LongPolling",
    "RetriesNotStoreOk": "Publish",
    "PostsSubscription": "Subscription",
    "Forever": "ConsumeOrderly",
    "HoldsAtOnce": "PopPolling",
    "Remedies": "System",
    "LeavesCommitted": "LitePullConsumer",
}
# Ends of the names of modules with steps that the core of theirs does not have: those of defects,
# of a group beside a store, of a topic that is made again, and of a group that comes to pull.
_MORE_STEPS = (
    *("Seeded", "RetentionUnread", "RetentionReadInTime"),
    *("RecreatedTopic", "RecreatedTopicOffline", "PopSwitched", "PopSwitchedAcknowledged"),
)
# A model of a protocol that Apache might have had is not one of the reference, nor is one
# whose actions are called otherwise.
_OTHER_PROTOCOLS = {
    "Handover": "clean",
    "Epochs": True,
    "WaitForRelease": True,
    "Leave": "LeaveIfFirst",
    "Acks": "AcksInOrder",
    "KeepsNotice": False,
    "LooksAgain": True,
    "BeliefTime": 7,
    "Fenced": True,
    "FailedPutCounts": True,
    "NotesFailedCommits": True,
    "EndTransaction": "EndOnce",
    "RevivesUnread": True,
    "OffsetsBeforeLog": True,
    "AckBeforeCheckPoint": True,
    "SameMillisecond": True,
    "RoutesOnce": True,
    "ReadsWritten": True,
    "OffsetBeforeChecks": True,
    "DispatchBeforeFlush": True,
    "KeepsOldTail": True,
    "DispatchesBehind": True,
    "NotBlocked": True,
    "AckPassesUnacked": True,
    "AcksForgotten": True,
    "LooksForOld": True,
    "RemovesFirst": True,
    "KeepsProgress": True,
    "ReportsBegin": True,
}

_CONSTANT = re.compile(r'(\w+)\s*(?:=|<-)\s*(\{[^}]*\}|"[^"]*"|\w+)')


def world_of(model: Model) -> World | None:
    """The reference at the beginning of a model; None where it does not have that protocol."""
    if model.module.stem.endswith(_MORE_STEPS):
        return None
    given = {name: parse_value(value) for name, value in _CONSTANT.findall(model.config.rest)}
    if given.get("Defect", "none") != "none":
        return None
    if any(given.get(name) == value for name, value in _OTHER_PROTOCOLS.items()):
        return None
    if given.get("Remedies", frozenset()) - {"SyncFlush"}:
        return None
    named = next((module for constant, module in _WORLDS.items() if constant in given), None)
    if named is None:
        return None
    world = _load(named).of(given)
    world.budgets = {name: value for name, value in given.items() if name.startswith("Max")}
    return world


def _load(module: str) -> type[World]:
    """Of a module of TLA+. Most runs need none: they are imported when they are asked for."""
    found = import_module(f"{__name__}.{snake_case(module)}")
    world: type[World] = getattr(found, f"{module}World")
    return world
