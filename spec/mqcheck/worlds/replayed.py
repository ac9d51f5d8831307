"""What of the core the replays of OffsetCommit and Rebalance go through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
