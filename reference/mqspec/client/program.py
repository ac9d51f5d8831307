"""The reference's own client as a program: `python -m mqspec.client.program NAMESERVER TOPIC GROUP
MODE [ID]`, as `mqspec conform --client` tests it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from mqspec.client import (
    ConsumerConfig,
    ConsumeStatus,
    LitePullConfig,
    LitePullConsumer,
    Message,
    PopConfig,
    PopConsumer,
    PopMessage,
    Producer,
    PushConsumer,
)
from mqspec.client.clock import wall_ms
from mqspec.client.instance import NOT_ANSWERED, BrokerError
from mqspec.client.message import MessageExt
from mqspec.client.producer import ProducerConfig
from mqspec.client.publish import PublishConfig
from mqspec.core.group import ConsumeFromWhere, MessageModel
from mqspec.core.pop_consumer import (
    POP_THRESHOLD_FOR_QUEUE,
    invisible_after_failure_ms,
    is_pop_timeout,
)

FIRST: Final = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
WANTED: Final = "a || AaAa"
SLOW_S: Final = 15
POLL_MS: Final = 1_000  # a pop waits at one broker while the other may have messages
THREADS: Final = 20  # as the Java client has them where it pops
AGAIN_S: Final = 1
Send = Callable[[Producer, Message], Awaitable[object]]
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
    config: ConsumerConfig, nameserver: str, topic: str, group: str, client_id: str | None = None
) -> None:
    """A member of the group, until SIGTERM."""
    async with PushConsumer(
        nameserver, group, {topic: WANTED}, listen, config, client_id=client_id
    ):
        await _stopped()


async def poll(nameserver: str, topic: str, group: str, client_id: str | None = None) -> None:
    """A lite-pull consumer, whose user is done with what it polled before it polls again."""
    config = LitePullConfig(consume_from_where=FIRST)
    wanted = {topic: WANTED}
    async with LitePullConsumer(nameserver, group, wanted, config, client_id=client_id) as consumer:
        polling = asyncio.create_task(_poll(consumer))
        await _stopped()
        polling.cancel()


async def _poll(consumer: LitePullConsumer) -> None:
    while True:
        for message in await consumer.poll():
            await listen([message])


async def pop(nameserver: str, topic: str, group: str, client_id: str | None = None) -> None:
    """A consumer that pops, with a listener as a push consumer has it."""
    config = PopConfig(poll_time_ms=POLL_MS)
    async with PopConsumer(nameserver, group, topic, WANTED, config, client_id) as consumer:
        popping = asyncio.create_task(_pop(consumer))
        await _stopped()
        popping.cancel()


async def _pop(consumer: PopConsumer) -> None:
    free, unfinished = asyncio.Semaphore(THREADS), set[asyncio.Task[None]]()
    while True:
        await room(unfinished)
        try:
            messages = await consumer.pop()
        except NOT_ANSWERED:
            await asyncio.sleep(AGAIN_S)
            continue
        for message in messages:
            unfinished.add(task := asyncio.create_task(_consume_popped(consumer, message, free)))
            task.add_done_callback(unfinished.discard)


async def room(unfinished: Collection[asyncio.Task[None]]) -> None:
    """Wait until so few messages are unfinished that more may be popped."""
    while len(unfinished) > POP_THRESHOLD_FOR_QUEUE:
        await asyncio.wait(unfinished, return_when=asyncio.FIRST_COMPLETED)


async def _consume_popped(
    consumer: PopConsumer, message: PopMessage, free: asyncio.Semaphore
) -> None:
    """Give it to the listener, and tell the broker what came of it, while it is ours."""
    async with free:
        if is_pop_timeout(message.handle, wall_ms()):
            return
        status = await listen([message])
    now_ms = wall_ms()
    if is_pop_timeout(message.handle, now_ms):
        return
    age_ms = now_ms - message.record.born_timestamp
    put_away_ms = invisible_after_failure_ms(
        message.reconsume_times, age_ms, consumer.config.max_reconsume_times
    )
    with contextlib.suppress(*NOT_ANSWERED):  # then it comes again
        if status is ConsumeStatus.CONSUME_SUCCESS or put_away_ms is None:
            await consumer.ack(message)
        else:
            await consumer.change_invisible_time(message, put_away_ms)


async def produce(by: Send, config: PublishConfig, *words: str) -> None:
    """Send one message after another until SIGTERM, and print the keys of those that are sent."""
    nameserver, topic, group, *_ = words
    async with Producer(nameserver, group, config=ProducerConfig(config)) as producer:
        sending = asyncio.create_task(_send(partial(by, producer), topic))
        await _stopped()
        sending.cancel()


async def _send(sent: Callable[[Message], Awaitable[object]], topic: str) -> None:
    for number in count():
        key = f"{topic}-{number}"
        try:
            await sent(Message(topic, b"takes", tags="a", keys=key))
            print(key, flush=True)
        except BrokerError:
            await asyncio.sleep(0.1)


async def send(producer: Producer, message: Message) -> None:
    await producer.send(message)


async def send_oneway(producer: Producer, message: Message) -> None:
    await producer.send_oneway(message)
    await asyncio.sleep(0.01)  # nobody says when it is done


async def send_to_first(producer: Producer, message: Message) -> None:
    await producer.send_orderly(message, lambda queues, _: min(queues))


async def _stopped() -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()


_MODES: Final[dict[str, Callable[..., Coroutine[Any, Any, None]]]] = {
    "consume": partial(consume, ConsumerConfig(consume_from_where=FIRST)),
    "orderly": partial(consume, ConsumerConfig(consume_from_where=FIRST, orderly=True)),
    "expire": partial(consume, ConsumerConfig(consume_from_where=FIRST, consume_timeout_ms=60_000)),
    "broadcast": partial(
        consume,
        ConsumerConfig(
            consume_from_where=FIRST,
            message_model=MessageModel.BROADCASTING,
            local_offset_store_dir=Path(tempfile.gettempdir()) / "mqspec-offsets",
        ),
    ),
    "poll": poll,
    "pop": pop,
    "produce": partial(produce, send, PublishConfig()),
    "oneway": partial(produce, send_oneway, PublishConfig()),
    "select": partial(produce, send_to_first, PublishConfig()),
    "avoid": partial(produce, send, PublishConfig(send_latency_fault_enable=True)),
}


def main() -> None:
    """Do what the words say."""
    nameserver, topic, group, mode, *client_id = sys.argv[1:]
    if mode not in _MODES:
        sys.exit(os.EX_USAGE)
    asyncio.run(_MODES[mode](nameserver, topic, group, *client_id))


if __name__ == "__main__":
    main()
