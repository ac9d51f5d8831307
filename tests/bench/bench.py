"""Speed: Apache RocketMQ 5.3.3 and the reference in turn, on this machine, with the real client.

A figure alone says more about the machine than about the broker, so what counts is the ratio
reference / Apache of medians, both measured within the same minutes. While one of the two is
measured, the other is stopped (SIGSTOP), since an idle Apache broker takes a third of a core.

    python3 run.py bench [--rounds 5] [--messages 20000]

Writes build/bench.json. Exits with 1 where a ratio is below its bound.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from mqconform.apache import Apache
from mqconform.cluster import Cluster
from mqspec import toolchain

HERE: Final = Path(__file__).parent
RESULT: Final = Path("build/bench.json")
BODY_BYTES: Final = 128
BOUNDS: Final = {"sync1": 1.0, "sync16": 1.0, "async": 1.0, "batch": 1.0, "consume": 0.7}
# Of --messages: what a round of each work takes part in, so that each takes seconds.
SHARES: Final = {"sync1": 0.25, "sync16": 0.5, "async": 1.0, "batch": 2.0, "consume": 0.0}
_SERVER_JVM: Final = ("-Xms768m", "-Xmx768m", "-XX:MaxDirectMemorySize=512m", "-XX:-UsePerfData")


class Contestant(NamedTuple):
    """A nameserver with one broker, running."""

    name: str
    nameserver: str
    pids: Sequence[int]  # the broker's last
    started_s: float  # from the start of the process to its first route

    def resume(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)

    def pause(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)

    def resident_mib(self) -> float:
        """Of its processes together."""
        return sum(map(_resident_mib, self.pids))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="measured ones, after one to warm up")
    parser.add_argument("--messages", type=int, default=20_000, help="of a round's largest work")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        client = _client(home)
        contestants = []
        for starts in (apache, reference):
            contestant = stack.enter_context(starts(home / starts.__name__))
            memory = contestant.resident_mib()
            contestant.pause()
            say(f"{contestant.name}: up in {contestant.started_s:.2f} s, {memory:.0f} MiB idle")
            contestants.append((contestant, memory))
        rates = measure([one for one, _ in contestants], client, args.rounds, args.messages)
    (a, a_memory), (r, r_memory) = contestants
    ratios = {work: median(rates[r.name][work]) / median(rates[a.name][work]) for work in BOUNDS}
    result = {
        "messages_per_s": rates,
        "ratios": ratios,
        "start_s": {a.name: a.started_s, r.name: r.started_s},
        "idle_mib": {a.name: a_memory, r.name: r_memory},
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1))
    for work, ratio in ratios.items():
        told = " ".join(f"{name} {median(of[work]):.0f}" for name, of in rates.items())
        verdict = "" if ratio >= BOUNDS[work] else f"   below {BOUNDS[work]}"
        say(f"{work:8} {told}: ratio {ratio:.2f}{verdict}")
    say(f"written to {RESULT}")
    return int(any(ratio < BOUNDS[work] for work, ratio in ratios.items()))


def measure(
    contestants: Sequence[Contestant], client: Sequence[str], rounds: int, messages: int
) -> dict[str, dict[str, list[float]]]:
    """Messages a second: by contestant, by work, one a round. Round 0 only warms up."""
    rates: dict[str, dict[str, list[float]]] = {
        one.name: {work: [] for work in BOUNDS} for one in contestants
    }
    work = [f"{name}={int(messages * share)}" for name, share in SHARES.items()]
    for number in range(rounds + 1):
        for one in contestants:
            one.resume()
            command = [*client, "Bench", one.nameserver, f"Round{number}", str(BODY_BYTES), *work]
            done = subprocess.run(command, capture_output=True, text=True)
            one.pause()
            if done.returncode:
                sys.exit(f"bench: {one.name}: {done.stderr.strip() or done.stdout.strip()}")
            # The client's library prints warnings of its own.
            words = (line.split() for line in done.stdout.splitlines())
            lines = {word[0]: word[1] for word in words if word and word[0] in BOUNDS}
            say(f"round {number} {one.name}: " + " ".join(map(" ".join, lines.items())))
            if number:
                for name in BOUNDS:
                    rates[one.name][name].append(float(lines[name]))
    return rates


@contextlib.contextmanager
def apache(home: Path) -> Iterator[Contestant]:
    """The real one."""
    begin = time.monotonic()
    with Apache(home, brokers=1, jvm=_SERVER_JVM) as running:
        Cluster(running.nameserver).wait(1)
        try:
            took = time.monotonic() - begin
            yield Contestant("apache", str(running.nameserver), running.pids, took)
        finally:
            _resume(running.pids)


@contextlib.contextmanager
def reference(home: Path) -> Iterator[Contestant]:
    """`mqspec serve`."""
    options = ["--store", str(home), "--nameserver-port", "0", "--broker-port", "0"]
    begin = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "mqspec.cli", "serve", *options],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said: dict[str, str] = {}
            for line in process.stdout:
                words = line.split()
                said[words[0]] = words[-1]
                if words == ["ready"]:
                    break
            took = time.monotonic() - begin
            yield Contestant("reference", said["nameserver"], [process.pid], took)
        finally:
            _resume([process.pid])
            process.terminate()


def _client(home: Path) -> list[str]:
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


def _resume(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _resident_mib(pid: int) -> float:
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True)
    return int(told.stdout) / 1024


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
