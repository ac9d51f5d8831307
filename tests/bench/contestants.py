"""The servers that are measured: `mqspec serve`, and Apache RocketMQ 5.3.3."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from fill import QUEUES

from mqconform import requests
from mqconform.apache import Apache
from mqconform.cluster import Cluster
from mqconform.connection import Connection, eventually
from mqconform.reference import serve
from mqconform.scene import done
from mqconform.target import parse_address
from mqconform.transcript import Transcript

_SERVER_JVM: Final = ("-Xms768m", "-Xmx768m", "-XX:MaxDirectMemorySize=512m", "-XX:-UsePerfData")


class Contestant(NamedTuple):
    """A nameserver with one broker, running."""

    name: str
    nameserver: str  # host:port
    broker: str
    pids: Sequence[int]  # the broker's last
    started_s: float  # from the start of the process to its first route

    def resume(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)

    def wait(self, topic: str) -> None:
        """Until it serves, and clients find a topic, which is made: a broker that was stopped in
        the middle of its registration may have to register again. Raises UserError where it does
        not serve."""
        address = parse_address(self.nameserver)
        cluster = Cluster(address)
        cluster.wait(1)
        (broker,) = cluster.brokers.values()
        with Connection(broker, Transcript()) as asked:
            done(asked.call(requests.create_topic(topic, QUEUES, QUEUES)))
        with Connection(address, Transcript()) as asked:
            assert eventually(lambda: asked.call(requests.route(topic)).code == 0), topic

    def pause(self) -> None:
        """Until `resume`: what waits is not to take the time of what is measured."""
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)

    @property
    def resident_mib(self) -> float:
        """Of its processes together."""
        return sum(int(_ps("rss", pid)) for pid in self.pids) / 1024

    @property
    def cpu_s(self) -> float:
        """What its processes took so far, in user and system mode: to the nanosecond on Linux,
        elsewhere to 10 ms."""
        return sum(map(_cpu_s, self.pids))


@contextlib.contextmanager
def apache(home: Path, own_sessions: bool = False) -> Iterator[Contestant]:
    """The real one. Its processes have sessions of their own, as services have, or the caller's."""
    begin = time.monotonic()
    with Apache(home, 1, _SERVER_JVM, own_sessions) as running:
        cluster = Cluster(running.nameserver)
        cluster.wait(1)
        try:
            took = time.monotonic() - begin
            (broker,) = cluster.brokers.values()
            address = str(running.nameserver)
            yield Contestant("apache", address, str(broker), running.pids, took)
        finally:
            _resume(running.pids)


@contextlib.contextmanager
def reference(home: Path, own_session: bool = False) -> Iterator[Contestant]:
    """`mqspec serve`, on a store that is there or not, in a session of its own or the caller's."""
    options = ["--store", str(home), "--nameserver-port", "0", "--broker-port", "0"]
    options += ["--log-level", "error"]  # a part of it that was paused warns of the other
    begin = time.monotonic()
    popen = partial(subprocess.Popen, start_new_session=own_session)
    process, listening = serve(home.with_name(f"{home.name}.log"), *options, popen=popen)
    with process:
        try:
            took = time.monotonic() - begin
            nameserver, broker = str(listening["nameserver"]), str(listening["broker"])
            yield Contestant("reference", nameserver, broker, [process.pid], took)
        finally:
            _resume([process.pid])
            process.terminate()


def _resume(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _ps(what: str, pid: int) -> str:
    command = ["ps", "-o", f"{what}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _cpu_s(pid: int) -> float:
    if sys.platform == "linux":
        # The clock that clock_getcpuclockid(3) names: its threads, also those that have ended.
        return time.clock_gettime(~pid << 3 | 2)
    minutes, _, seconds = _ps("time", pid).rpartition(":")
    return 60 * int(minutes) + float(seconds)
