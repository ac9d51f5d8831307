"""Records what a real cluster keeps: a store with message trace, and the logs of all processes.

    python tests/interop/record_cluster.py FILE.zip [MESSAGES]

starts Apache RocketMQ 5.3.3 with its trace topic, a producer and members of one group on the
Java client (java/Traced.java), all with message trace. One member is there, a second joins, a
third joins as the first leaves, and the second is killed with SIGKILL. The archive holds the
broker's store, the log of each process, and in `said/` what each program said of itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

from record_requests import compiled

from mqconform.apache import VERSION, Apache
from mqconform.cluster import Cluster
from mqconform.connection import eventually
from mqconform.target import Address

TOPIC, GROUP, PRODUCERS = "Traced", "TracedGroup", "TracedProducers"
BETWEEN_MS, TRANSACTIONS = 40, 4
WAIT_S = 120

TRACED = "traceTopicEnable=true\n"
# Small files. What comes last of a property counts.
SMALL = """\
mappedFileSizeCommitLog=1048576
mappedFileSizeConsumeQueue=6000
maxHashSlotNum=500
maxIndexNum=2000
"""
SERVERS = tuple(f"rocketmq-{name}-" for name in ("broker", "namesrv", "controller", "tools"))
STORED = ("commitlog/", "consumequeue/", "config/consumerOffset.json", "config/topics.json")


class Traced(Apache):
    """Apache with its trace topic, and small files."""

    options = TRACED + SMALL

    def _config(self, name: str, port: int, ha_port: int, nameserver: Address) -> str:
        return super()._config(name, port, ha_port, nameserver) + self.options


class Program:
    """A process of a class in java/, and what it says."""

    def __init__(
        self, name: str, home: Path, java: list[str], *words: str, main: str = "Traced"
    ) -> None:
        self.name, self.logs, self.said = name, home / "logs" / name, list[str]()
        root = f"-Drocketmq.log.root={self.logs}"
        self._process = subprocess.Popen(
            [java[0], root, *java[1:], main, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def wait_for(self, word: str, count: int = 1) -> None:
        """Until it has said so many lines that begin with a word."""
        if not eventually(lambda: sum(s.startswith(word) for s in self.said) >= count, WAIT_S):
            raise TimeoutError(f"{self.name}: no {count} lines {word!r} in {self.said[-3:]}")

    def leave(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(WAIT_S)
        self._reading.join()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self.said.append(line.rstrip("\n"))


def clients(java: list[str]) -> list[str]:
    """The words that start Java for a client, without the jars of servers: with them it would log
    as a broker does."""
    jars = java[-1].split(os.pathsep)
    kept = [jar for jar in jars if not Path(jar).name.startswith(SERVERS)]
    return [*java[:-1], os.pathsep.join(kept)]


def record(home: Path, messages: int) -> list[Program]:
    """A run of a cluster below `home`; the programs that took part."""
    classes = home / "classes"
    classes.mkdir()
    java, _ = compiled(VERSION, classes, "Traced.java")
    java = clients(java)
    programs: list[Program] = []

    def start(name: str, *words: str) -> Program:
        programs.append(Program(name, home, java, str(apache.nameserver), *words))
        return programs[-1]

    with Traced(home / "apache", brokers=1) as apache:
        Cluster(apache.nameserver).wait(1)
        try:
            producer = start(
                "producer", PRODUCERS, TOPIC, str(messages), str(BETWEEN_MS), str(TRANSACTIONS)
            )
            producer.wait_for("sent")
            first = start("first", GROUP, TOPIC)
            first.wait_for("got")
            second = start("second", GROUP, TOPIC)
            second.wait_for("got", 8)
            third = start("third", GROUP, TOPIC)
            first.leave()
            third.wait_for("got", 8)
            second.kill()
            producer.leave()
            sent = {line.split()[1] for line in producer.said if line.startswith("sent")}

            def is_all_got() -> bool:
                got = {s.split()[1] for p in programs for s in p.said if s.startswith("got")}
                return sent <= got

            if not eventually(is_all_got, WAIT_S):
                raise TimeoutError("what was sent was not got")
            third.leave()
        finally:
            for program in programs:
                program.kill()
        apache.stop()
    return programs


def pack(home: Path, programs: list[Program], file: Path) -> None:
    """The archive of a run."""
    store = home / "apache" / "broker-a" / "store"
    logs = home / "apache" / "broker-a" / "logs"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(p for p in store.rglob("*") if p.is_file()):
            name = path.relative_to(store).as_posix()
            if name.startswith(STORED):
                archive.write(path, f"store/{name}")
        for path in logs.rglob("broker.log"):
            archive.write(path, "logs/broker/broker.log")
        for program in programs:
            for path in sorted(p for p in program.logs.rglob("*") if p.is_file()):
                archive.write(path, f"logs/{program.name}/{path.relative_to(program.logs)}")
            archive.writestr(f"said/{program.name}.txt", "".join(s + "\n" for s in program.said))


def main(file: str, messages: str = "240") -> None:
    with tempfile.TemporaryDirectory(prefix="mqspec-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        pack(home, record(home, int(messages)), Path(file))


if __name__ == "__main__":
    main(*sys.argv[1:])
