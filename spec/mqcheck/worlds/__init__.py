"""The worlds: the reference's core as the modules of TLA+ see it, one world a module."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from mqcheck.manifest import Model
from mqcheck.replay import World
from mqcheck.values import parse_value
from mqcheck.worlds.consume_orderly import ConsumeOrderlyWorld
from mqcheck.worlds.long_polling import LongPollingWorld
from mqcheck.worlds.offset_commit import OffsetCommitWorld
from mqcheck.worlds.pop_polling import PopPollingWorld
from mqcheck.worlds.publish import PublishWorld
from mqcheck.worlds.rebalance import RebalanceWorld
from mqcheck.worlds.subscription import SubscriptionWorld
from mqcheck.worlds.system import SystemWorld
from mqspec.core import group, offset_commit, rebalance

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
"""The functions of the core that replays of OffsetCommit and Rebalance call."""

# By a constant that only models of its module have.
_WORLDS: Mapping[str, Callable[[Mapping[str, Any]], World]] = {
    "MaxOffset": OffsetCommitWorld.of,
    "MqAll": RebalanceWorld.of,
    "CheckInterval": LongPollingWorld.of,
    "RetriesNotStoreOk": PublishWorld.of,
    "PostsSubscription": SubscriptionWorld.of,
    "Forever": ConsumeOrderlyWorld.of,
    "HoldsAtOnce": PopPollingWorld.of,
    "Remedies": SystemWorld.of,
}
# A model of a protocol that Apache might have had is not one of the reference.
_OTHER_PROTOCOLS = {
    "Handover": "clean",
    "Epochs": True,
    "WaitForRelease": True,
    "KeepsNotice": False,
    "LooksAgain": True,
}

_CONSTANT = re.compile(r'(\w+)\s*(?:=|<-)\s*(\{[^}]*\}|"[^"]*"|\w+)')


def world_of(model: Model) -> World | None:
    """The reference at the beginning of a model; None where it does not have that protocol."""
    if model.module.stem.endswith("Seeded"):
        return None  # it has steps that the reference does not
    given = {name: parse_value(value) for name, value in _CONSTANT.findall(model.config.rest)}
    if given.get("Defect", "none") != "none":
        return None
    if any(given.get(name) == value for name, value in _OTHER_PROTOCOLS.items()):
        return None
    if given.get("Remedies", frozenset()) - {"SyncFlush"}:
        return None
    return next((of(given) for name, of in _WORLDS.items() if name in given), None)
