"""The pull consumer: its user says which queue, from where, and how far it is.

Facts: client/impl/consumer/DefaultMQPullConsumerImpl.java, client/consumer/
DefaultMQPullConsumer.java, 5.3.3.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mqrules import EventKind, UserError
from mqspec.client.instance import UnreachableError
from mqspec.client.member import GroupMember
from mqspec.client.member_config import MemberConfig
from mqspec.client.message import MessageExt
from mqspec.client.offset_store import ask_offset
from mqspec.client.publish import CLIENT_INNER_PRODUCER, Publisher
from mqspec.client.pull import PullRequest, PullResult, pull
from mqspec.client.recorder import Recorder
from mqspec.client.send_back import SendBack
from mqspec.core.group import ConsumeType
from mqspec.core.offset_commit import UpdateConsumerOffset
from mqspec.core.pull import PullSysFlag
from mqspec.core.push_consumer import MAX_RECONSUME_TIMES, PULL_BATCH_SIZE
from mqspec.core.step import Step
from mqspec.core.subscription import ALL, SubscriptionError, build_subscription_data
from mqspec.core.types import ClientId, Group, MessageQueue, Topic
from mqspec.wire.codes import RequestCode

BROKER_SUSPEND_MAX_TIME_MS: Final = 20_000
CONSUMER_PULL_TIMEOUT_MS: Final = 10_000


class PullConsumer(GroupMember):
    """A consumer that pulls when it is told to; an async context manager.

    It is in its group's list of members and holds no queue. Raises UserError on entry where the
    nameserver does not answer; its methods raise what a request raises.
    """

    CONSUME_TYPE = ConsumeType.CONSUME_ACTIVELY

    def __init__(
        self,
        nameserver: str,
        group: Group,
        config: MemberConfig | None = None,
        recorder: Recorder | None = None,
        client_id: ClientId | None = None,
    ) -> None:
        super().__init__(nameserver, group, {}, config or MemberConfig(), recorder, client_id)
        self._topics: set[Topic] = set()
        publisher = Publisher(self.instance, CLIENT_INNER_PRODUCER)
        self._send_back = SendBack(self.instance, publisher, group, MAX_RECONSUME_TIMES)

    @property
    def topics(self) -> Collection[Topic]:
        return self._topics

    async def fetch_subscribe_message_queues(self, topic: Topic) -> tuple[MessageQueue, ...]:
        """The queues of a topic, whose brokers learn of the consumer thereby."""
        await self.instance.update_routes([topic])
        queues = self.subscribed_queues(topic)
        if not queues:
            raise UnreachableError(f"no route to the topic {topic}")
        if topic not in self._topics:
            self._topics.add(topic)
            await self.heartbeat()
        return queues

    async def pull(
        self,
        mq: MessageQueue,
        offset: int,
        max_nums: int = PULL_BATCH_SIZE,
        tags: str = ALL,
        *,
        block_if_not_found: bool = False,
    ) -> PullResult:
        """What the queue holds from `offset` on; with `block_if_not_found` the broker waits for
        20 s where that is nothing. Raises UserError where `tags` are none."""
        try:
            subscription = build_subscription_data(mq.topic, tags)
        except SubscriptionError:
            raise UserError(self.group, f"{tags!r} wants nothing", "write A || B") from None
        flags = PullSysFlag.SUBSCRIPTION
        timeout_ms = CONSUMER_PULL_TIMEOUT_MS
        if block_if_not_found:
            flags |= PullSysFlag.SUSPEND
            timeout_ms += BROKER_SUSPEND_MAX_TIME_MS
        request = PullRequest(
            self.group,
            mq,
            subscription,
            offset,
            max_nums,
            flags,
            suspend_ms=BROKER_SUSPEND_MAX_TIME_MS,
        )
        result = await pull(self.instance, request, timeout_ms)
        for message in result.messages:
            self.record(EventKind.RECEIVE, **self.message_fields(message))
        return result

    async def fetch_consume_offset(self, mq: MessageQueue) -> int:
        """The progress that is stored for the group; -1: none."""
        return await self.offset_store.read_offset(mq)

    async def update_consume_offset(self, mq: MessageQueue, offset: int) -> None:
        """Report progress, at once."""
        update = UpdateConsumerOffset(self.group, mq, offset)
        await self.carry_out(Step(sends=(update,)))

    async def max_offset(self, mq: MessageQueue) -> int:
        """The offset after the last message."""
        return await ask_offset(self.instance, RequestCode.GET_MAX_OFFSET, mq, {})

    async def min_offset(self, mq: MessageQueue) -> int:
        """The offset of the first message that is left."""
        return await ask_offset(self.instance, RequestCode.GET_MIN_OFFSET, mq, {})

    async def search_offset(self, mq: MessageQueue, timestamp_ms: int) -> int:
        """Where the messages stored at that time or later begin."""
        fields = {"timestamp": str(timestamp_ms)}
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return await ask_offset(self.instance, code, mq, fields)

    async def send_message_back(self, message: MessageExt, delay_level: int = 0) -> bool:
        """Have a message come again, in the group's retry topic. Whether it is stored there."""
        return await self._send_back.send_message_back(message, delay_level)
