"""Whether a message costs the same with few and with many messages and topics in the store.

What counts is the processor time of the reference for each message that is sent, and for each
that is pulled, 32 at once: all that its process takes meanwhile, since a broker puts some of
its work off. What else the machine does makes that dearer, by half and for seconds. So the two
stores that are compared are asked in turn, a few requests each time, and all run on one
processor; what is compared are their costs in the same round, and the median of the rounds
counts.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, count, cycle, islice
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from contestants import Contestant, reference
from figures import Figure, Part
from fill import QUEUES, fill, topics
from load import PULLED, Load, create_topic, pull, pulled, send

from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

BODY_BYTES: Final = 128
MOST: Final = 1.25  # cost with the most, of the cost with the least: else it is not flat
TURN: Final = 200  # requests to a store before it is the other's turn: some 30 ms
SEND_TURNS: Final = 25  # of a round, for each store: half a second of processor time
PULL_TURNS: Final = 20
WARM_UP: Final = 800  # requests at the begin of a round: one for each queue of any store


class Size(NamedTuple):
    """What is in a store when the measuring begins."""

    messages: int
    topics: int


SERIES: Final = {
    "messages": tuple(Size(messages, 1) for messages in (10**3, 10**4, 10**5, 10**6)),
    "topics": tuple(Size(10**5, topics) for topics in (1, 20, 200)),
}


class Costs(NamedTuple):
    """Of one store: microseconds of processor time a message, a value a round."""

    send: list[float]
    consume: list[float]


def flat(home: Path, rounds: int) -> Part:
    """Stores of all sizes are served. Those that are not measured are paused."""
    found = {by: {size: Costs([], []) for size in sizes} for by, sizes in SERIES.items()}
    numbers = count(10**9)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_one_processor())
        servers = {
            size: _serve(home, size, stack) for size in dict.fromkeys(chain(*SERIES.values()))
        }
        for number in range(rounds):
            for by, sizes in SERIES.items():
                for together in ((sizes[0], sizes[-1]), sizes[1:-1]):
                    asked = [servers[size] for size in together]
                    sent = costs(asked, [sends(size, numbers) for size in together], SEND_TURNS)
                    got = costs(
                        asked, [pulls(size, number / rounds) for size in together], PULL_TURNS
                    )
                    for size, send_us, pull_us in zip(together, sent, got, strict=True):
                        found[by][size].send.append(send_us)
                        found[by][size].consume.append(pull_us / PULLED)
    figures = []
    for by, of in found.items():
        least, *_, most = of.values()
        for work in Costs._fields:
            rounds_of = zip(getattr(least, work), getattr(most, work), strict=True)
            ratio = median(many / few for few, many in rounds_of)
            figures.append(Figure(f"flat, {work}, by {by}", ratio, most=MOST))
    return Part(
        tuple(figures),
        {
            f"by {by}, {size.messages} messages, {size.topics} topics: us a message": cost._asdict()
            for by, of in found.items()
            for size, cost in of.items()
        },
    )


@contextlib.contextmanager
def _one_processor() -> Iterator[None]:
    """What is started within runs where this process does, where the system knows how: a server
    is not slowed by who asks it, at work on the other thread of its core."""
    if sys.platform != "linux":
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _serve(home: Path, size: Size, stack: contextlib.ExitStack) -> Contestant:
    """A store of that size, its server paused."""
    root = home / f"{size.messages}-{size.topics}"
    fill(root, size.topics, size.messages, BODY_BYTES)
    server = stack.enter_context(reference(root))
    with Load(server.broker) as load:
        load.ask([create_topic(topic, QUEUES) for topic in topics(size.topics)])
    server.pause()
    return server


def costs(
    servers: Sequence[Contestant], works: Sequence[Iterator[RemotingCommand]], turns: int
) -> list[float]:
    """Of each server: microseconds of processor time a request, once it is warm."""
    with contextlib.ExitStack() as stack:
        for server in servers:
            server.resume()
            stack.callback(server.pause)
        loads = [stack.enter_context(Load(server.broker)) for server in servers]
        for load, work in zip(loads, works, strict=True):
            _ask(load, list(islice(work, WARM_UP)))
        begin = [server.cpu_s for server in servers]
        for _ in range(turns):
            for load, work in zip(loads, works, strict=True):
                _ask(load, list(islice(work, TURN)))
        took = (server.cpu_s - since for server, since in zip(servers, begin, strict=True))
        return [each / (turns * TURN) * 1e6 for each in took]


def _ask(load: Load, requests: Sequence[RemotingCommand]) -> None:
    for request, answer in zip(requests, load.ask(requests), strict=True):
        if request.code == RequestCode.PULL_MESSAGE:
            assert pulled(request, answer) == PULLED, answer


def sends(size: Size, numbers: Iterator[int]) -> Iterator[RemotingCommand]:
    """To all queues in turn."""
    body = b"x" * BODY_BYTES
    queues = cycle((topic, i) for topic in topics(size.topics) for i in range(QUEUES))
    return (send(*queue, number, body) for queue, number in zip(queues, numbers, strict=False))


def pulls(size: Size, fraction: float) -> Iterator[RemotingCommand]:
    """From all queues in turn, of what was there at first. Beginning at that fraction of each,
    another in each round."""
    queues = [(topic, i) for topic in topics(size.topics) for i in range(QUEUES)]
    in_queue = size.messages // len(queues)
    for step in count():
        offset = (int(fraction * in_queue) + step * PULLED) % (in_queue - PULLED + 1)
        for queue in queues:
            yield pull(*queue, offset)
