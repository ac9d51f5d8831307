"""Following beside a load, killed twice: it tells what the batch tells.

    python tests/mqaudit/follow_load.py [--minutes 10] [--rate 5000] [--seed 1] [--keep DIR]

`mqspec serve`, `mqspec record` before it, and `mqspec audit --follow` on what that writes are
processes of their own, and so is the load: a producer, and a group whose members die now and then.
Among the recorder's files come those of other recorders, each with an anomaly made by hand, whole
or in two halves. The follower is killed with -9 after a third of the time and after two, and
started again each time. On the same processors as the load it may fall behind: in the end it reads
what is left, and how far it is is said meanwhile.

Exit code 1 where the findings are not the batch's, or an anomaly was not told, or the load fell
below the rate. Says which rate was reached, how far behind the follower was when the load ended,
and which process took how much of a processor.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).resolve().parents[1] / "bench"))

from audits import cpu_s, family
from handmade import Recorder, table
from recording import STOP_S, recording
from test_follow import findings, told
from test_follow_command import following
from test_planted import PLANTED, renamed

from mqaudit.session import session
from mqconform.reference import serve
from mqrules.schema import encode
from mqspec.client import (
    ConsumerConfig,
    ConsumeStatus,
    Message,
    Producer,
    PushConsumer,
    SendResult,
)

TOPIC, GROUP = "Loaded", "LoadedGroup"
MEMBERS: Final = 2
BATCH: Final = 50  # messages that are sent together
TOGETHER: Final = 8  # batches in flight
BODY: Final = b"x" * 100
RECENT_S: Final = 60
LIFE_S: Final = 45  # of a member
ENOUGH: Final = 0.98  # of the rate
DRAINED_S: Final = 3600  # by when a follower must have read what is left
SAID_S: Final = 30  # so often it is said how far it is


# The load, in a process of its own.


async def load(nameserver: str, rate: float, seconds: float) -> tuple[int, float]:
    """Send at a rate, and consume. How many messages were sent, and in how long."""
    got = 0

    async def listen(messages: Sequence[object]) -> ConsumeStatus:
        nonlocal got
        got += len(messages)
        return ConsumeStatus.CONSUME_SUCCESS

    def member() -> PushConsumer:
        config = ConsumerConfig(consume_message_batch_max_size=32)
        return PushConsumer(nameserver, GROUP, {TOPIC: "*"}, listen, config)

    async with Producer(nameserver) as producer, contextlib.AsyncExitStack() as stack:
        await producer.send(Message(TOPIC, BODY))  # so that the topic is there
        members = [await stack.enter_async_context(member()) for _ in range(MEMBERS)]
        sending = set[asyncio.Task[SendResult]]()
        began, sent, born = time.monotonic(), 0, time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            if now > born + LIFE_S:
                await members.pop(0).kill()
                members.append(await stack.enter_async_context(member()))
                born = now
            due = int((now - began) * rate) - sent
            if due < BATCH:
                await asyncio.sleep((BATCH - due) / rate)
                continue
            numbers = range(sent, sent + BATCH)
            batch = [Message(TOPIC, BODY, keys=f"K{n}") for n in numbers]
            sending.add(asyncio.create_task(producer.send_batch(batch)))
            sent += BATCH
            if len(sending) == TOGETHER:
                done, sending = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
        await asyncio.gather(*sending)
        took = time.monotonic() - began
        while got < sent:
            await asyncio.sleep(0.1)
    return sent, took


# What comes between the recorder's files.


def anomalies(into: Path, chance: random.Random) -> list[list[Path]]:
    """A recorder's files for each anomaly: one, or two that may come apart."""
    recorders = []
    for case in PLANTED:
        recorder, name = Recorder(), case.__name__
        case(recorder)
        events = [replace(renamed(event, name), run=name) for event in recorder.events]
        spans_s = (events[-1].time_ns - events[0].time_ns) / 1e9
        is_cut = len(events) > 1 and spans_s < RECENT_S and chance.random() < 0.5
        place = chance.randrange(1, len(events)) if is_cut else len(events)
        files = []
        for number, part in enumerate(filter(None, (events[:place], events[place:]))):
            files.append(into / f"{name}-{number}.parquet")
            pq.write_table(table(part), files[-1])
        recorders.append(files)
    return recorders


def plant(recorders: list[list[Path]], folder: Path, seconds: float, chance: random.Random) -> None:
    """Put the files into the folder, spread by chance over so many seconds; halves in a row."""
    times = sorted(chance.uniform(0, seconds) for _ in chain(*recorders))
    order = list(chain(*recorders))
    chance.shuffle(order)
    began = time.monotonic()
    ended = threading.Event()
    for at, file in zip(times, order, strict=True):
        ended.wait(max(0.0, began + at - time.monotonic()))
        (folder / file.name).hardlink_to(file)


# The whole.


class Processors:
    """How much of a processor each process took, with those that it started."""

    def __init__(self) -> None:
        self._taken: dict[str, dict[int, float]] = defaultdict(dict)
        self._roots: dict[str, int] = {}
        self._ended = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def watch(self, name: str, pid: int) -> None:
        self._roots[name] = pid

    def end(self) -> dict[str, float]:
        """Seconds, by name."""
        self._ended.set()
        self._watching.join()
        return {name: sum(taken.values()) for name, taken in self._taken.items()}

    def _watch(self) -> None:
        while not self._ended.wait(1):
            for name, root in list(self._roots.items()):
                known = self._taken[name]
                for pid in family(root):
                    known[pid] = max(cpu_s(pid), known.get(pid, 0.0))  # 0 where it has ended


def main() -> int:
    args = _arguments()
    if args.load:
        print(*asyncio.run(load(args.load, args.rate, args.minutes * 60)))
        return 0
    with tempfile.TemporaryDirectory(prefix="mqspec-") as home:
        return followed(args.keep or Path(home), args.minutes * 60, args.rate, args.seed)


def followed(home: Path, seconds: float, rate: float, seed: int) -> int:
    """All of it below a folder. The exit code."""
    chance, processors = random.Random(seed), Processors()
    folder, made, store = (home / name for name in ("recorded", "made", "store"))
    for each in (folder, made):
        each.mkdir(parents=True)
    recorders = anomalies(made, chance)
    broker, listening = serve(home / "broker.log", "--brokers", "1", "--nameserver-port", "0",
                              "--broker-port", "0", "--store", str(store))  # fmt: skip
    words = [str(folder), "--recent", str(RECENT_S), "--every", "2", "--json"]
    words += ["--checkpoint", "known", "--alerts", "alerts.jsonl"]

    with broker, recording(str(listening["nameserver"]), folder) as (recorder, nameserver):
        processors.watch("broker", broker.pid)
        processors.watch("recorder", recorder)
        command = [sys.executable, __file__, "--load", nameserver, "--rate", str(rate)]
        command += ["--minutes", str(seconds / 60)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as loading:
            processors.watch("load", loading.pid)
            planting = threading.Thread(target=plant, args=(recorders, folder, seconds, chance))
            planting.start()
            for number in range(3):
                with following(*words, cwd=home) as follower:
                    processors.watch(f"follower {number}", follower.pid)
                    _wait(loading, seconds / 3 if number < 2 else STOP_S + seconds)
                    if number < 2:
                        follower.kill()
                    else:
                        follower.terminate()
                        follower.communicate(timeout=STOP_S)
            said, _ = loading.communicate()
            planting.join()
        sent, took = map(float, said.split())
        broker.terminate()  # once the recorder has seen all
    there = sum(pq.read_metadata(file).num_rows for file in folder.glob("**/*.parquet"))
    behind = there - judged(home)
    with following(*words, "--once", cwd=home) as follower:
        drained = once_drained(follower, lambda: f"{judged(home)} of {there} events are judged")
    shares = {name: taken / took for name, taken in processors.end().items()}

    spark = session()
    batch, expected = findings(spark, folder)
    spark.stop()
    lines = (home / "alerts.jsonl").read_text(encoding="utf-8").splitlines()
    problems = [*differences(lines, expected)]
    if json.loads(drained)["checks"] != json.loads(json.dumps(encode(batch)))["checks"]:
        problems.append("the report is not the batch's")
    if sent / took < ENOUGH * rate:
        problems.append(f"the load did not reach {rate:g} a second")
    print(
        f"{sent / took:.0f} messages a second for {took:.0f} s, {batch.coverage['events']} events"
    )
    print(f"{behind} of them were not judged yet when the load had ended")
    print(f"{sum(expected.values())} findings, {len(lines)} lines of alerts")
    print("processors:", ", ".join(f"{name} {share:.2f}" for name, share in shares.items()))
    print(*problems[:20] or ["the follower told what the batch tells"], sep="\n")
    return int(bool(problems))


def judged(home: Path) -> int:
    """How many events the follower has judged by now."""
    known = home / "known" / "state" / "current.json"
    return int(json.loads(known.read_text())["coverage"]["events"]) if known.exists() else 0


def once_drained(
    follower: subprocess.Popen[str], how_far: Callable[[], str], most_s: float = DRAINED_S
) -> str:
    """What a follower says that has read all there is. Raises TimeoutError where it never does."""
    until = time.monotonic() + most_s
    while True:
        try:
            said, _ = follower.communicate(timeout=min(SAID_S, most_s))
        except subprocess.TimeoutExpired:
            print(how_far(), flush=True)
            if time.monotonic() > until:
                raise TimeoutError(f"not drained after {most_s:g} s: {how_far()}") from None
        else:
            return said


def differences(lines: Sequence[str], expected: Counter[tuple[Any, ...]]) -> Iterator[str]:
    """Where lines of alerts are not what the batch finds, or it finds nothing in a recorder."""
    alerts = told(map(json.loads, lines))
    yield from (f"told, and not found: {one}" for one in alerts - expected)
    yield from (f"found, and not told: {one}" for one in expected - alerts)
    yield from (f"told {n} times: {line}" for line, n in Counter(lines).items() if n > 1)
    runs = {dict(one)["run"] for one in expected}
    yield from (f"planted, and not found: {c.__name__}" for c in PLANTED if c.__name__ not in runs)


def _wait(loading: subprocess.Popen[str], seconds: float) -> None:
    """So long, or until the load has ended."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        loading.wait(seconds)


def _arguments() -> argparse.Namespace:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=float, default=5000, help="messages a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where all files are to be left")
    parser.add_argument("--load", metavar="NAMESERVER", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
