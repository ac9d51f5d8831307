"""`client.py NAMESERVER TOPIC GROUP MODE [WRONG]`: the reference's own client, under test.

It is wrong in one thing where the last word names a wrong client.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))
from wrong_clients import CLIENTS

from mqspec.client import ConsumerConfig, ConsumeStatus, Message, Producer, PushConsumer
from mqspec.client.instance import BrokerError
from mqspec.client.message import MessageExt
from mqspec.core.group import ConsumeFromWhere

SLOW_S = 15
failed: set[str | None] = set()  # keys


async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
    """What the body of a message says: it is taken, fails at first, is slow, or stays for ever."""
    (message,) = messages
    print(message.keys, flush=True)
    match message.body:
        case b"stays":
            await asyncio.Event().wait()
        case b"slow":
            await asyncio.sleep(SLOW_S)
        case b"fails" if message.keys not in failed:
            failed.add(message.keys)
            return ConsumeStatus.RECONSUME_LATER
    return ConsumeStatus.CONSUME_SUCCESS


async def consume(nameserver: str, topic: str, group: str, orderly: bool) -> None:
    """A member of the group, until SIGTERM."""
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    config = ConsumerConfig(orderly=orderly, consume_from_where=first)
    async with PushConsumer(nameserver, group, {topic: "a || AaAa"}, listen, config):
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
    nameserver, topic, group, mode, *wrong = sys.argv[1:]
    with pytest.MonkeyPatch.context() as monkey:
        for name in wrong:
            CLIENTS[name].apply(monkey)
        if mode == "produce":
            asyncio.run(produce(nameserver, topic, group))
        else:
            asyncio.run(consume(nameserver, topic, group, mode == "orderly"))


if __name__ == "__main__":
    main()
