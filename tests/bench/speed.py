"""The reference beside Apache RocketMQ 5.3.3, in turn, with the real client.

A figure alone says more about the machine than about the broker, and the machine is another one a
quarter of a minute later. So in each round each work is done to one, twice to the other, and to the
first again, each first in turn, and what counts is the median of the rounds' ratios. While one of
the two is measured, the other is stopped (SIGSTOP), since an idle Apache broker takes a third of a
core; and what it left to be written to the disk is written before.

Linux shares processors between sessions, and within one between threads (sched(7), autogroup): a
server that a script starts beside its client is so many more of the client's threads, a service,
with a session of its own, is not.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import harmonic_mean, median
from typing import Final

from contestants import Contestant, apache, reference
from figures import Figure, Part

from mqspec import toolchain

HERE: Final = Path(__file__).parent
BODY_BYTES: Final = 128
LEAST: Final = {"sync1": 1.0, "sync16": 1.0, "async": 1.0, "batch": 1.0, "consume": 0.7}
# What a client does, each in a process of its own: the Java compiler in it is busy for seconds
# behind a work, and would be so at the cost of the next one. Each with its part of --messages, so
# that each takes seconds; what is consumed is what was sent.
CLIENTS: Final[Sequence[Mapping[str, float]]] = (
    {"sync1": 0.1},
    {"sync16": 0.3},
    {"async": 1.0},
    {"batch": 1.0, "consume": 0.0},
)
START_S_MOST: Final = 1.0


def speed(
    home: Path, rounds: int, messages: int, repeats: int = 1, own_sessions: bool = False
) -> Part:
    """Both are started, and measured after one round to warm up. Of the `repeats` times that a
    client sends, the last one counts."""
    with contextlib.ExitStack() as stack:
        client = java_client(home)
        contestants, idle_mib = [], {}
        for starts in (apache, reference):
            contestant = stack.enter_context(starts(home / starts.__name__, own_sessions))
            idle_mib[contestant.name] = memory = contestant.resident_mib
            contestant.pause()
            print(f"{contestant.name}: up in {contestant.started_s:.2f} s, {memory:.0f} MiB idle")
            contestants.append(contestant)
        rates = measure(contestants, client, rounds, messages, repeats)
    a, r = contestants
    figures = [
        Figure(f"{work}, of Apache's", ratio(rates, work), least=least)
        for work, least in LEAST.items()
    ]
    figures += (
        Figure("start, s", r.started_s, most=START_S_MOST),
        Figure("idle memory, of Apache's", idle_mib[r.name] / idle_mib[a.name], most=1.0),
    )
    return Part(
        tuple(figures),
        {
            "messages_per_s": rates,
            "start_s": {one.name: one.started_s for one in contestants},
            "idle_mib": idle_mib,
        },
    )


def ratio(rates: Mapping[str, Mapping[str, Sequence[float]]], work: str) -> float:
    """The median of the rounds' ratios, reference / Apache, of what `measure` found."""
    pairs = zip(rates["reference"][work], rates["apache"][work], strict=True)
    return median(ours / theirs for ours, theirs in pairs)


def measure(
    contestants: Sequence[Contestant],
    client: Sequence[str],
    rounds: int,
    messages: int,
    repeats: int = 1,
) -> dict[str, dict[str, list[float]]]:
    """Messages a second: by contestant, by work, one a round, over the two times that it was done
    in it. Round 0 only warms up."""
    rates: dict[str, dict[str, list[float]]] = {
        one.name: {work: [] for work in LEAST} for one in contestants
    }
    for number in range(rounds + 1):
        print(f"round {number}:", end="", flush=True)
        first, second = contestants if number % 2 else contestants[::-1]
        for work in CLIENTS:
            found = defaultdict(list)
            for turn, one in enumerate((first, second, second, first)):
                topic = "_".join((f"Round{number}", str(turn), *work))
                command = [*client, "Bench", one.nameserver, topic]
                print(f" {one.name}", end="", flush=True)
                os.sync()
                one.resume()
                one.wait(topic)
                for name, rate in run_client(command, work, messages, number > 0, repeats).items():
                    print(f" {name} {rate}", end="", flush=True)
                    found[one.name, name].append(rate)
                one.pause()
            if number:
                for (contestant, name), twice in found.items():
                    rates[contestant][name].append(harmonic_mean(twice))
        print()
    return rates


def run_client(
    command: Sequence[str],
    work: Mapping[str, float],
    messages: int,
    is_measured: bool,
    repeats: int = 1,
) -> dict[str, float]:
    """Messages a second, by work, the last of the times that it was done. No send may fail, but
    those to a broker that is not warm yet."""
    counts = [
        f"{name}={int(messages * share)}"
        for name, share in work.items()
        for _ in range(repeats if share else 1)
    ]
    done = subprocess.run([*command, str(BODY_BYTES), *counts], capture_output=True, text=True)
    # The client's library prints warnings of its own.
    words = (line.split() for line in done.stdout.splitlines())
    lines = [word for word in words if word and word[0] in work]
    failed = any(int(failures) for _, _, failures in lines)
    if done.returncode or (failed and is_measured):
        said = done.stderr.strip() or done.stdout.strip()
        sys.exit(f"\nbench: {' '.join(counts)}: {said}")
    return {name: float(rate) for name, rate, _ in lines}


def java_client(home: Path) -> list[str]:
    """How to start a class of tests/bench/java on the real client."""
    classes = home / "classes"
    jars = os.pathsep.join(map(str, toolchain.classpath("apache")))
    (compiler,) = toolchain.classpath("ecj")
    java = str(toolchain.java())
    options = ["-source", "17", "-target", "17", "-nowarn", "-d", str(classes), "-cp", jars]
    sources = sorted(map(str, (HERE / "java").glob("*.java")))
    subprocess.run([java, "-jar", str(compiler), *options, *sources], check=True)
    path = os.pathsep.join((str(classes), jars))
    return [java, "-Xmx384m", f"-Duser.home={home}", "-cp", path]
