"""How a member of a consumer group behaves: what the kinds of consumers have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext

from mqspec.client.credentials import SessionCredentials
from mqspec.client.instance import POLL_NAME_SERVER_INTERVAL_MS
from mqspec.core.allocation import AVG, Strategy
from mqspec.core.group import HEARTBEAT_INTERVAL_MS, ConsumeFromWhere, MessageModel
from mqspec.core.offset_commit import PERSIST_FIRST_DELAY_MS, PERSIST_INTERVAL_MS, FlowControl
from mqspec.core.push_consumer import PULL_BATCH_SIZE
from mqspec.core.rebalance import MIN_INTERVAL_MS, WAIT_INTERVAL_MS
from mqspec.trace import Trace


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """How a member behaves; the defaults are those of 5.3.3."""

    message_model: MessageModel = MessageModel.CLUSTERING
    strategy: Strategy = AVG
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_timestamp_ms: int | None = None  # None: half an hour before the start
    pull_batch_size: int = PULL_BATCH_SIZE
    flow_control: FlowControl = field(default_factory=FlowControl)
    heartbeat_broker_interval_ms: int = HEARTBEAT_INTERVAL_MS
    poll_name_server_interval_ms: int = POLL_NAME_SERVER_INTERVAL_MS
    persist_consumer_offset_interval_ms: int = PERSIST_INTERVAL_MS
    persist_first_delay_ms: int = PERSIST_FIRST_DELAY_MS
    rebalance_wait_interval_ms: int = WAIT_INTERVAL_MS
    rebalance_min_interval_ms: int = MIN_INTERVAL_MS
    local_offset_store_dir: Path | None = None  # None: ~/.rocketmq_offsets; of broadcasting
    ssl: SSLContext | None = None  # mqspec.tls.client_context
    credentials: SessionCredentials | None = None
    trace: Trace | None = None  # where the member writes what it does
