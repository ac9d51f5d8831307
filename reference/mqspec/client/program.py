"""The reference's own client as a program: `python -m mqspec.client.program NAMESERVER TOPIC GROUP
MODE [ID]`, as `mqspec conform --client` tests it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from itertools import count
from typing import Final

from mqspec.client import ConsumerConfig, ConsumeStatus, Message, Producer, PushConsumer
from mqspec.client.instance import BrokerError
from mqspec.client.message import MessageExt
from mqspec.core.group import ConsumeFromWhere

SLOW_S: Final = 15
_failed: Final[set[str | None]] = set()  # keys


async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
    """What the body of a message says: it is taken, fails at first, is slow, or stays for ever."""
    (message,) = messages
    print(message.keys, flush=True)
    match message.body:
        case b"stays":
            await asyncio.Event().wait()
        case b"slow":
            await asyncio.sleep(SLOW_S)
        case b"fails" if message.keys not in _failed:
            _failed.add(message.keys)
            return ConsumeStatus.RECONSUME_LATER
    return ConsumeStatus.CONSUME_SUCCESS


async def consume(
    nameserver: str, topic: str, group: str, orderly: bool, client_id: str | None = None
) -> None:
    """A member of the group, until SIGTERM."""
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    config = ConsumerConfig(orderly=orderly, consume_from_where=first)
    wanted = {topic: "a || AaAa"}
    async with PushConsumer(nameserver, group, wanted, listen, config, client_id=client_id):
        await _stopped()


async def produce(nameserver: str, topic: str, group: str) -> None:
    """Send one message after another until SIGTERM, and print the keys of those that are sent."""
    async with Producer(nameserver, group) as producer:
        sending = asyncio.create_task(_send(producer, topic))
        await _stopped()
        sending.cancel()


async def _send(producer: Producer, topic: str) -> None:
    for number in count():
        key = f"{topic}-{number}"
        try:
            await producer.send(Message(topic, b"takes", tags="a", keys=key))
            print(key, flush=True)
        except BrokerError:
            await asyncio.sleep(0.1)


async def _stopped() -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()


def main() -> None:
    """Consume, in order or not, or produce, as the words say."""
    nameserver, topic, group, mode, *client_id = sys.argv[1:]
    if mode == "produce":
        asyncio.run(produce(nameserver, topic, group))
    else:
        asyncio.run(consume(nameserver, topic, group, mode == "orderly", *client_id))


if __name__ == "__main__":
    main()
