"""`client.py NAMESERVER TOPIC GROUP MODE [WRONG]`: the reference's own client, under test.

It is wrong in one thing where the last word names a wrong client.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))
from wrong_clients import CLIENTS

from mqspec.client import ConsumerConfig, ConsumeStatus, PushConsumer
from mqspec.client.message import MessageExt
from mqspec.core.group import ConsumeFromWhere


async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
    """What the body of a message says: it is taken, fails at first, or stays for ever."""
    (message,) = messages
    print(message.keys, flush=True)
    if message.body == b"stays":
        await asyncio.Event().wait()
    if message.body == b"fails" and message.reconsume_times == 0:
        return ConsumeStatus.RECONSUME_LATER
    return ConsumeStatus.CONSUME_SUCCESS


async def consume(nameserver: str, topic: str, group: str, mode: str) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    config = ConsumerConfig(orderly=mode == "orderly", consume_from_where=first)
    async with PushConsumer(nameserver, group, {topic: "*"}, listen, config):
        await stopped.wait()


def main() -> None:
    nameserver, topic, group, mode, *wrong = sys.argv[1:]
    with pytest.MonkeyPatch.context() as monkey:
        for name in wrong:
            CLIENTS[name].apply(monkey)
        asyncio.run(consume(nameserver, topic, group, mode))


if __name__ == "__main__":
    main()
