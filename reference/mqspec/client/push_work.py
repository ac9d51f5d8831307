"""What a push consumer is to those who work for it: the services that call its listener, and what
tells administrators about it. It is all that they know of the consumer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from mqspec.client.instance import ClientInstance
from mqspec.client.listener import Listener
from mqspec.client.member_config import MemberConfig
from mqspec.client.message import MessageExt
from mqspec.client.process_queue import ProcessQueueMessages
from mqspec.client.recorder import Recorder
from mqspec.client.send_back import SendBack
from mqspec.client.tasks import Tasks
from mqspec.core import consume_orderly
from mqspec.core.group import ConsumeType, SubscriptionData
from mqspec.core.offset_commit import ConsumerState
from mqspec.core.push_consumer import (
    CONSUME_AGAIN_DELAY_MS,
    CONSUME_TIMEOUT_MS,
    PULL_BATCH_SIZE_IN_BYTES,
    RESET_OFFSET_WAIT_MS,
)
from mqspec.core.rebalance import FIRST_PULL_DELAY_MS
from mqspec.core.step import Step
from mqspec.core.types import ClientId, Group, MessageQueue, Topic


@dataclass(frozen=True, slots=True)
class ConsumerConfig(MemberConfig):
    """How a push consumer behaves; the defaults are those of DefaultMQPushConsumer, 5.3.3."""

    orderly: bool = False
    consume_message_batch_max_size: int = 1
    consume_threads: int = 20  # listener calls at once
    max_reconsume_times: int | None = None  # None: 16, or without end where it is orderly
    consume_timeout_ms: int = CONSUME_TIMEOUT_MS
    consume_again_delay_ms: int = CONSUME_AGAIN_DELAY_MS
    first_pull_delay_ms: int = FIRST_PULL_DELAY_MS  # of a queue just added
    pull_interval_ms: int = 0
    pull_batch_size_in_bytes: int = PULL_BATCH_SIZE_IN_BYTES
    lock_interval_ms: int = consume_orderly.REBALANCE_LOCK_INTERVAL_MS
    lock_first_delay_ms: int = consume_orderly.LOCK_FIRST_DELAY_MS
    reset_offset_wait_ms: int = RESET_OFFSET_WAIT_MS


class PushWork(Protocol):
    """A push consumer, as its services see it."""

    CONSUME_TYPE: ClassVar[ConsumeType]
    config: ConsumerConfig
    group: Group
    instance: ClientInstance
    listener: Listener
    max_reconsume_times: int
    messages: ProcessQueueMessages  # what is pulled and not finished
    record: Recorder
    send_back: SendBack
    started_ms: int  # since the epoch
    state: ConsumerState
    subscriptions: dict[Topic, SubscriptionData]
    tasks: Tasks
    version_ms: int  # of the subscriptions
    is_broadcasting: bool

    @property
    def client_id(self) -> ClientId:
        """Its id in the group."""

    @property
    def is_orderly(self) -> bool:
        """Whether it consumes in order."""

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues that it holds."""

    async def carry_out(self, step: Step) -> None:
        """Apply a step to its state, and send what is to be sent."""

    def rebalance_immediately(self) -> None:
        """Have it rebalance soon."""

    def at(self, mq: MessageQueue) -> dict[str, Any]:
        """The fields of an event that say where it happened."""

    def message_fields(self, message: MessageExt) -> dict[str, Any]:
        """The fields of an event that say with which message."""
