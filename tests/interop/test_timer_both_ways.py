"""Messages that wait for a time go both ways with their store: whoever has it when they are due
delivers them, after a clean stop and after kill -9 of the one before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from test_store_both_ways import ok, served, use_small_files

from mqconform import requests
from mqconform.apache import Apache
from mqconform.cluster import Cluster
from mqconform.connection import Connection, eventually
from mqconform.records import Record, parse_records
from mqconform.transcript import Transcript
from mqspec.service import clock_ms
from mqspec.store.timer_check import read_timer_check

TOPIC, GROUP = "TimerBothWays", "TimerBothWaysGroup"
PERSISTED_S = 3.0  # progress is written each second
DELIVERED_S = 30.0  # at most, behind its time: Apache goes through its wheel first
NEXT_MS = 10_000  # due after the reference has stopped
STOP_MS = 25_000  # due after Apache has stopped


@dataclass
class Waiting:
    """The messages of one store: when they are due, and which were delivered when last seen."""

    name: str
    due_ms: dict[str, int] = field(default_factory=dict)  # by key
    delivered: Counter[str] = field(default_factory=Counter)

    def send(self, broker: Connection, key: str, delay_ms: int) -> None:
        """One message; the answer says that it is stored."""
        due = self.due_ms[key] = clock_ms() + delay_ms
        properties = {"KEYS": key, "UNIQ_KEY": f"{self.name}-{key}", "TIMER_DELIVER_MS": str(due)}
        ok(broker, requests.send(TOPIC, key.encode(), properties=properties))

    def await_(self, broker: Connection, keys: Iterable[str]) -> None:
        """Wait until messages are delivered, none of them before its time."""
        wanted = set(keys)

        def are_there() -> bool:
            found = read_all(broker)
            self.delivered = Counter(record.body.decode() for record in found)
            at = {record.body.decode(): record.store_timestamp for record in found}
            early = {key for key in at if at[key] < self.due_ms[key]}
            assert not early, f"{self.name}: {early}"
            return wanted <= self.delivered.keys()

        latest = max(self.due_ms[key] for key in wanted)
        in_time = eventually(are_there, max(0, latest - clock_ms()) / 1000 + DELIVERED_S)
        assert in_time, f"{self.name}: of {wanted} only {self.delivered}"


def read_all(broker: Connection) -> list[Record]:
    """All messages that were delivered."""
    found: list[Record] = []
    while (answer := broker.call(requests.pull(TOPIC, GROUP, len(found)))).code == 0:
        found += parse_records(answer.body)
    return found


def has_taken_in(store: Path, count: int) -> bool:
    """Whether config/timercheck says that so many messages of the timer queue were taken in."""
    return read_timer_check(store / "config" / "timercheck").master_timer_queue_offset >= count


def test_messages_that_wait_go_both_ways(tmp_path: Path) -> None:
    apache = Apache(tmp_path)
    homes = [tmp_path / "broker-a", tmp_path / "broker-b"]
    stores = [home / "store" for home in homes]
    both = [Waiting("clean"), Waiting("killed")]
    for home, store, waiting in zip(homes, stores, both, strict=True):
        use_small_files(home)
        with served(store, kill=waiting.name == "killed") as broker:
            ok(broker, requests.create_topic(TOPIC, 1, 1))
            ok(broker, requests.heartbeat("client", GROUP))
            waiting.send(broker, "before", 1_000)
            waiting.await_(broker, ["before"])
            waiting.send(broker, "ours, next", NEXT_MS)
            waiting.send(broker, "behind", 1_000)
            waiting.await_(broker, ["behind"])
            assert eventually(partial(has_taken_in, store, 3), PERSISTED_S)
            waiting.send(broker, "at the stop", 1_000)
        assert clock_ms() < waiting.due_ms["ours, next"]

    with apache:
        cluster = Cluster(apache.nameserver)
        cluster.wait(2)
        for address, waiting in zip(cluster.brokers.values(), both, strict=True):
            with Connection(address, Transcript()) as broker:
                waiting.await_(broker, ["at the stop", "ours, next"])
                waiting.send(broker, "theirs", 1_000)
                waiting.await_(broker, ["theirs"])
                waiting.send(broker, "theirs, next", STOP_MS)
                waiting.send(broker, "theirs, at the stop", 1_000)
        apache.stop()  # broker-a; the other one is killed
    stopped_ms = clock_ms()
    assert all(stopped_ms < waiting.due_ms["theirs, next"] for waiting in both)
    assert [(store / "abort").exists() for store in stores] == [False, True]

    for store, waiting in zip(stores, both, strict=True):
        with served(store, kill=False) as broker:
            waiting.await_(broker, waiting.due_ms)
        # What was delivered behind one that waits may come once more from Apache (TIMER-013),
        # and what was delivered while it stopped once more from us.
        again = {key for key, count in waiting.delivered.items() if count > 1}
        assert again <= {"behind", "at the stop", "theirs", "theirs, at the stop"}
