"""A message that could not be consumed goes back, to come again later.

Facts: client/impl/consumer/{DefaultMQPushConsumerImpl,ConsumeMessageOrderlyService}.java, 5.3.3.
"""

from __future__ import annotations

import logging
import zlib
from typing import Final

from mqspec.client.instance import NOT_ANSWERED, ClientInstance, succeeded
from mqspec.client.message import (
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    RECONSUME_TIME,
    RETRY_TOPIC,
    RETRY_TOPIC_PREFIX,
    TRAN_MSG,
    WAIT,
    Message,
    MessageExt,
)
from mqspec.client.publish import Publisher
from mqspec.core.types import Group
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

TIMEOUT_MS: Final = 5_000
_FIRST_DELAY_LEVEL: Final = 3

log = logging.getLogger(__name__)


class SendBack:
    """Sends messages of one group back."""

    def __init__(
        self, instance: ClientInstance, publisher: Publisher, group: Group, max_reconsume_times: int
    ) -> None:
        self._instance, self._publisher = instance, publisher
        self._group, self._max_reconsume_times = group, max_reconsume_times

    async def send_message_back(self, message: MessageExt, delay_level: int) -> bool:
        """To the broker that has it, which stores it for the group's retry topic, or parks it
        after too many times; where that fails, as a new message. Whether one of them worked.

        A broker whose answer is lost has it all the same: then it comes again twice.
        """
        fields = {
            "offset": str(message.record.physical_offset),
            "group": self._group,
            "delayLevel": str(delay_level),
            "originMsgId": message.message_id,
            "originTopic": message.topic,
            "unitMode": "false",
            "maxReconsumeTimes": str(self._max_reconsume_times),
            "bname": message.queue.broker_name,
        }
        request = RemotingCommand(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        try:
            broker = message.queue.broker_name
            succeeded(await self._instance.invoke(broker, request, TIMEOUT_MS))
        except NOT_ANSWERED as error:
            log.warning("%s: %s is not taken back: %s", self._group, message.message_id, error)
            return await self.send_as_normal_message(message)
        return True

    async def send_as_normal_message(self, message: MessageExt) -> bool:
        """Send it to the group's retry topic, on any broker. Whether it is stored."""
        properties = {
            ORIGIN_MESSAGE_ID: message.message_id,
            **message.properties,
            RETRY_TOPIC: message.topic,
            RECONSUME_TIME: str(message.reconsume_times + 1),
            MAX_RECONSUME_TIMES: str(self._max_reconsume_times),
        }
        try:
            again = Message(
                RETRY_TOPIC_PREFIX + self._group,
                message.body,
                properties={n: v for n, v in properties.items() if n not in (TRAN_MSG, WAIT)},
                flag=message.record.flag,
                delay_level=_FIRST_DELAY_LEVEL + message.reconsume_times,
            )
            await self._publisher.send(self._publisher.message(again))
        except (*NOT_ANSWERED, ValueError, zlib.error) as error:  # or its body cannot be read
            log.warning("%s: %s is not sent back: %s", self._group, message.message_id, error)
            return False
        return True
