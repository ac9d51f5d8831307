"""The reference's producers and consumers, on asyncio."""

from mqspec.client.instance import BrokerError, ClientError, UnreachableError
from mqspec.client.listener import ConsumeResult, ConsumeStatus, Listener
from mqspec.client.lite_pull_consumer import LitePullConfig, LitePullConsumer
from mqspec.client.message import Message, MessageExt
from mqspec.client.pop_consumer import PopConfig, PopConsumer, PopMessage
from mqspec.client.producer import Producer, ProducerConfig
from mqspec.client.publish import MessageError, PublishConfig, SendResult
from mqspec.client.pull import PullResult
from mqspec.client.pull_consumer import PullConsumer
from mqspec.client.push_consumer import PushConsumer
from mqspec.client.push_work import ConsumerConfig
from mqspec.client.recorder import Recorder
from mqspec.client.subscription import MessageSelector
from mqspec.client.transaction_producer import (
    LocalTransactionState,
    TransactionListener,
    TransactionProducer,
    TransactionSendResult,
)

__all__ = [
    "BrokerError",
    "ClientError",
    "ConsumeResult",
    "ConsumeStatus",
    "ConsumerConfig",
    "Listener",
    "LitePullConfig",
    "LitePullConsumer",
    "LocalTransactionState",
    "Message",
    "MessageError",
    "MessageExt",
    "MessageSelector",
    "PopConfig",
    "PopConsumer",
    "PopMessage",
    "Producer",
    "ProducerConfig",
    "PublishConfig",
    "PullConsumer",
    "PullResult",
    "PushConsumer",
    "Recorder",
    "SendResult",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "UnreachableError",
]
