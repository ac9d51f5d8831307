"""What `mqspec record` costs: Apache RocketMQ 5.3.3 and its client, with it between and without.

One broker; clients are told the nameserver's address, or the recorder's, in turn, as in `speed`.
While they are told the nameserver's, the recorder is stopped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from contestants import Contestant, apache
from figures import Figure, Part
from recording import recording
from speed import LEAST, java_client, measure

RATE_LEAST: Final = 0.9
LATENCY_MS_MOST: Final = 1.0


def record(home: Path, rounds: int, messages: int) -> Part:
    """Rates with the recorder, of those without, and what it adds to a send that is waited for."""
    client = java_client(home)
    with apache(home / "apache") as alone, recorded(alone, home / "recorded") as with_it:
        with_it.pause()
        rates = measure([alone._replace(pids=[]), with_it], client, rounds, messages)
        with_it.resume()
    figures = [
        Figure(f"{work}, recorded, of without", median(shares(rates, work)), least=RATE_LEAST)
        for work in LEAST
    ]
    added = Figure("latency that a recorder adds, ms", added_ms(rates), most=LATENCY_MS_MOST)
    return Part((*figures, added), {"messages_per_s": rates})


def shares(rates: Mapping[str, Mapping[str, Sequence[float]]], work: str) -> list[float]:
    """The ratio of each round."""
    pairs = zip(rates["recorded"][work], rates["apache"][work], strict=True)
    return [recorded / alone for recorded, alone in pairs]


def added_ms(rates: Mapping[str, Mapping[str, Sequence[float]]]) -> float:
    """Of one thread that sends when its last send was answered, by the median of the rounds."""
    pairs = zip(rates["recorded"]["sync1"], rates["apache"]["sync1"], strict=True)
    return median(1000 / recorded - 1000 / alone for recorded, alone in pairs)


@contextlib.contextmanager
def recorded(apache: Contestant, out: Path) -> Iterator[Contestant]:
    """The same cluster behind a recorder, which alone is paused."""
    with recording(apache.nameserver, out) as (pid, nameserver):
        yield Contestant("recorded", nameserver, apache.broker, [pid], 0.0)
