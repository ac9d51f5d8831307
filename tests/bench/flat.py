"""Whether a message costs the same with few and with many messages and topics in the store.

What counts is the processor time of the reference for each message that is sent, and for each
that is pulled, 32 at once. Of several rounds the cheapest counts: what else the machine does
can only make a message dearer.
"""

from __future__ import annotations

import contextlib
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from contestants import Contestant, reference
from figures import Figure, Part
from fill import QUEUES, fill, topics
from load import PULLED, Load, create_topic, pull, pulled, send

BODY_BYTES: Final = 128
MOST: Final = 1.25  # cost with the most, of the cost with the least: else it is not flat
SENDS: Final = 3_000  # of a round
PULLS: Final = 3_000
WARM_UP: Final = 300  # of each in each round, not measured


class Size(NamedTuple):
    """What is in a store when the measuring begins."""

    messages: int
    topics: int


BY_MESSAGES: Final = tuple(Size(messages, 1) for messages in (10**3, 10**4, 10**5, 10**6))
BY_TOPICS: Final = tuple(Size(10**5, topics) for topics in (1, 20, 200))


class Costs(NamedTuple):
    """Of one store: microseconds of processor time a message, a value a round."""

    send: list[float]
    consume: list[float]


def flat(home: Path, rounds: int) -> Part:
    """Stores of all sizes are served side by side, and measured in turn."""
    costs: dict[Size, Costs] = {}
    with contextlib.ExitStack() as stack:
        servers: dict[Size, Contestant] = {}
        for size in dict.fromkeys((*BY_MESSAGES, *BY_TOPICS)):
            root = home / f"{size.messages}-{size.topics}"
            fill(root, size.topics, size.messages, BODY_BYTES)
            servers[size] = server = stack.enter_context(reference(root))
            with Load(server.broker) as load:
                load.ask([create_topic(topic, QUEUES) for topic in topics(size.topics)])
            server.pause()
            costs[size] = Costs([], [])
        numbers = count(10**9)
        for number in range(rounds):
            for size, server in servers.items():
                server.resume()
                with Load(server.broker) as load:
                    costs[size].send.append(_send(server, load, size, numbers))
                    costs[size].consume.append(_consume(server, load, size, number / rounds))
                server.pause()
    figures = []
    for sizes, what in ((BY_MESSAGES, "messages"), (BY_TOPICS, "topics")):
        least, most = sizes[0], sizes[-1]
        for work in Costs._fields:
            few, many = (min(getattr(costs[size], work)) for size in (least, most))
            figures.append(Figure(f"flat, {work}, by {what}", many / few, most=MOST))
    return Part(
        tuple(figures),
        {
            f"{size.messages} messages, {size.topics} topics: us a message": cost._asdict()
            for size, cost in costs.items()
        },
    )


def _send(server: Contestant, load: Load, size: Size, numbers: count[int]) -> float:
    body = b"x" * BODY_BYTES
    names = topics(size.topics)

    def some(how_many: int) -> None:
        load.ask(
            [
                send(names[i // QUEUES % len(names)], i % QUEUES, number, body)
                for i, number in zip(range(how_many), numbers, strict=False)
            ]
        )

    some(WARM_UP)
    begin = server.cpu_s
    some(SENDS)
    return (server.cpu_s - begin) / SENDS * 1e6


def _consume(server: Contestant, load: Load, size: Size, fraction: float) -> float:
    """Beginning at that fraction of each queue, another in each round."""
    names = topics(size.topics)
    in_queue = size.messages // (len(names) * QUEUES)
    requests = []
    for i in range(WARM_UP + PULLS):
        queue = i % (len(names) * QUEUES)
        step = i // (len(names) * QUEUES)
        offset = (int(fraction * in_queue) + step * PULLED) % (in_queue - PULLED + 1)
        requests.append(pull(names[queue // QUEUES], queue % QUEUES, offset))
    load.ask(requests[:WARM_UP])
    begin = server.cpu_s
    answers = load.ask(requests[WARM_UP:])
    took = server.cpu_s - begin
    for request, answer in zip(requests[WARM_UP:], answers, strict=True):
        assert pulled(request, answer) == PULLED, answer
    return took / (PULLS * PULLED) * 1e6
