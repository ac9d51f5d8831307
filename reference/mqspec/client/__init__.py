"""The reference producer and push consumer, on asyncio."""

from mqspec.client.consumer import ConsumerConfig, ConsumeStatus, Listener, PushConsumer
from mqspec.client.instance import BrokerError, ClientError, UnreachableError
from mqspec.client.message import Message, MessageExt
from mqspec.client.producer import Producer, SendResult
from mqspec.client.recorder import Recorder

__all__ = [
    "BrokerError",
    "ClientError",
    "ConsumeStatus",
    "ConsumerConfig",
    "Listener",
    "Message",
    "MessageExt",
    "Producer",
    "PushConsumer",
    "Recorder",
    "SendResult",
    "UnreachableError",
]
