"""A store goes both ways: Apache starts on what the reference wrote, and the other way round,
after a clean stop and after kill -9, and serves every message with offset, keys and progress."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from mqconform import requests
from mqconform.apache import Apache
from mqconform.cluster import Cluster
from mqconform.connection import Connection, eventually
from mqconform.fastjson import loads
from mqconform.frame import Frame
from mqconform.records import parse_records
from mqconform.reference import serve
from mqconform.target import Address
from mqconform.transcript import Transcript
from mqspec.core.bloom_filter import BITS, bit_positions

TOPIC, GROUP, QUEUES = "BothWays", "BothWaysGroup", 3
PERSISTED_S = 20.0  # offsets are written each 5 s, by Apache 10 s after its start
STOP_S = 30

# Small files, so that messages are in many; the names of the reference and of Apache.
SIZES = {
    ("segment-size", "mappedFileSizeCommitLog"): (65_536, 65_536),
    ("consume-queue-units", "mappedFileSizeConsumeQueue"): (20, 400),
    ("max-hash-slot-num", "maxHashSlotNum"): (100, 100),
    ("max-index-num", "maxIndexNum"): (60, 60),
}

# How a store puts messages on disk: by the time, before it answers, or from memory of its own.
ASYNC = ("--no-sync-flush", "flushDiskType=ASYNC_FLUSH\n")
SYNC = ("--sync-flush", "flushDiskType=SYNC_FLUSH\n")
POOL = ("--transient-store-pool-enable", "transientStorePoolEnable=true\n")


@dataclass(frozen=True)
class Stored:
    """A message as it was acknowledged."""

    queue_id: int
    queue_offset: int
    position: int
    key: str
    body: bytes


@dataclass
class Contents:
    """What one store must hold, and what it was sent in its life."""

    name: str
    stored: list[Stored] = field(default_factory=list)
    progress: dict[int, int] = field(default_factory=dict)  # offsets by queue

    def write(self, broker: Connection, count: int) -> None:
        """Send messages of many sizes, some of them as a batch, and commit offsets."""
        first = len(self.stored)
        for n in range(first, first + count):
            key, queue_id = f"key-{n}", n % QUEUES
            body = f"{self.name} {n} ".encode() * (1 + n * 37 % 150)
            properties = {"KEYS": key, "TAGS": f"tag{n % 3}", "n": str(n)}
            answer = ok(broker, requests.send(TOPIC, body, queue_id, properties))
            self._note(answer, queue_id, key, body)
        batch = [b"in a batch", b"x" * 5000]
        answer = ok(broker, requests.send_batch(TOPIC, batch, queue_id=0))
        for i, body in enumerate(batch):
            self._note(answer, 0, "", body, i)
        for queue_id in range(QUEUES):
            offset = first // QUEUES + 7 * queue_id
            ok(broker, requests.commit_offset(GROUP, TOPIC, offset, queue_id))
            self.progress[queue_id] = offset
            end = sum(each.queue_id == queue_id for each in self.stored)
            # With a pool it is acknowledged before it is seen.
            assert eventually(partial(_is_seen, broker, queue_id, end))

    def _note(self, answer: Frame, queue_id: int, key: str, body: bytes, i: int = 0) -> None:
        position = int(answer.fields["msgId"].split(",")[i][16:], 16)
        offset = answer.number("queueOffset") + i
        self.stored.append(Stored(queue_id, offset, position, key, body))

    def verify(self, broker: Connection) -> None:
        """Find every message by queue offset, by key and by id, and the group's progress."""
        for queue_id in range(QUEUES):
            wanted = [each for each in self.stored if each.queue_id == queue_id]
            found = list(read_all(broker, queue_id))
            assert found == wanted, f"{self.name}, queue {queue_id}"
            query = requests.query_offset(GROUP, TOPIC, queue_id)
            assert ok(broker, query).number("offset") == self.progress[queue_id]
        for each in self.stored:
            answer = ok(broker, requests.view_message(each.position))
            assert [record.body for record in parse_records(answer.body)] == [each.body]
            if each.key:
                answer = ok(broker, requests.query_message(TOPIC, each.key))
                bodies = {record.body for record in parse_records(answer.body)}
                assert each.body in bodies, f"{self.name}, {each.key}"

    def wait_for_progress(self, config: Path) -> None:
        """Wait until the group's progress is in its file."""
        assert eventually(lambda: self._is_persisted(config), PERSISTED_S)

    def _is_persisted(self, config: Path) -> bool:
        try:
            table = loads((config / "consumerOffset.json").read_bytes())["offsetTable"]
        except (OSError, ValueError, KeyError):
            return False
        offsets = table.get(f"{TOPIC}@{GROUP}", {})
        return {int(queue): at for queue, at in offsets.items()} == self.progress


def _is_seen(broker: Connection, queue_id: int, end: int) -> bool:
    return ok(broker, requests.max_offset(TOPIC, queue_id)).number("offset") == end


def ok(broker: Connection, request: requests.Request) -> Frame:
    answer = broker.call(request)
    assert answer.code == 0, f"{request.code}: {answer.code} {answer.remark}"
    return answer


def read_all(broker: Connection, queue_id: int) -> Iterator[Stored]:
    """All messages of a queue, as the broker serves them."""
    offset = 0
    while (answer := broker.call(requests.pull(TOPIC, GROUP, offset, queue_id))).code == 0:
        for record in parse_records(answer.body):
            assert record.properties.get("TAGS", "") == (
                f"tag{int(record.properties['n']) % 3}" if record.key else ""
            )
            yield Stored(
                record.queue_id,
                record.queue_offset,
                record.physical_offset,
                record.key or "",
                record.body,
            )
        offset = answer.number("nextBeginOffset")
    assert answer.code == 19, answer.remark


def make_ready(broker: Connection) -> None:
    """The topic and the group."""
    ok(broker, requests.create_topic(TOPIC, QUEUES, QUEUES))
    ok(broker, requests.heartbeat("client", GROUP))
    ok(broker, requests.unregister("client", GROUP))


def filter_by_sql(broker: Connection, group: str) -> None:
    """A group that filters by SQL92, and leaves."""
    wants = requests.Subscription(TOPIC, "a = 1", 1, "SQL92")
    ok(broker, requests.heartbeat("client", group, [wants]))
    ok(broker, requests.unregister("client", group))


def filters(store: Path) -> dict[str, object]:
    """The bits in consumerFilter.json that stand for each group of the topic."""
    content = loads((store / "config" / "consumerFilter.json").read_bytes())
    kept = content["filterDataByTopic"][TOPIC]["groupFilterData"]
    return {group: data["bloomFilterData"] for group, data in kept.items()}


def use_small_files(home: Path, more: str = "") -> None:
    """Have a broker of Apache's, with its store in this directory, do so; with more lines of its
    configuration."""
    with (home / "conf" / "this.conf").open("a", encoding="utf-8") as config:
        config.writelines(f"{name}={size}\n" for (_, name), (_, size) in SIZES.items())
        config.write(more)


@contextmanager
def served(store: Path, kill: bool, *options: str) -> Iterator[Connection]:
    """The reference on a store, with more options of `mqspec serve`; in the end it is killed, or
    stopped cleanly."""
    sizes = [f"--{ours}={size}" for (ours, _), (size, _) in SIZES.items()]
    log = store.with_name(f"{store.name}.log")
    process, listening = serve(
        log, "--store", str(store), "--nameserver-port=0", "--broker-port=0", *sizes, *options
    )
    with process:
        try:
            with Connection(listening["broker"], Transcript()) as broker:
                yield broker
            if not kill:
                process.terminate()
                assert process.wait(STOP_S) == 0
        finally:
            process.kill()


@pytest.fixture
def stores() -> list[Contents]:
    """What the two stores are to hold: the first is always stopped cleanly, the other killed."""
    return [Contents("clean"), Contents("killed")]


@pytest.mark.parametrize("flushes", [(ASYNC, ASYNC), (SYNC, POOL)], ids=["async", "sync and pool"])
def test_a_store_goes_both_ways(
    tmp_path: Path, stores: list[Contents], flushes: tuple[tuple[str, str], ...]
) -> None:
    apache = Apache(tmp_path)
    homes = [tmp_path / "broker-a", tmp_path / "broker-b"]

    def write_first(home: Path, contents: Contents, flush: tuple[str, str]) -> None:
        ours, theirs = flush
        use_small_files(home, theirs)
        with served(home / "store", contents.name == "killed", ours) as broker:
            make_ready(broker)
            filter_by_sql(broker, "FilteredHere")
            contents.write(broker, 150)
            contents.wait_for_progress(home / "store" / "config")

    def go_on(address: Address, home: Path, contents: Contents) -> None:
        with Connection(address, Transcript()) as broker:
            contents.verify(broker)
            filter_by_sql(broker, "FilteredThere")
            contents.write(broker, 100)
            contents.verify(broker)
            contents.wait_for_progress(home / "store" / "config")

    def write_last(home: Path, contents: Contents, flush: tuple[str, str]) -> None:
        with served(home / "store", False, flush[0]) as broker:
            contents.verify(broker)
            contents.write(broker, 20)
            contents.verify(broker)

    # Both stores go side by side: most of it is waiting for what is persisted now and then.
    with ThreadPoolExecutor() as pool:
        list(pool.map(write_first, homes, stores, flushes))
        assert [(home / "store" / "abort").exists() for home in homes] == [False, True]

        with apache:
            cluster = Cluster(apache.nameserver)
            cluster.wait(2)
            brokers = [cluster.brokers["broker-a"], cluster.brokers["broker-b"]]
            list(pool.map(go_on, brokers, homes, stores))
            apache.stop()  # broker-a; the other one is killed
        assert [(home / "store" / "abort").exists() for home in homes] == [False, True]
        kept = filters(homes[0] / "store")
        assert kept == {
            group: {"bitNum": BITS, "bitPos": [*bit_positions(f"{group}#{TOPIC}")]}
            for group in ("FilteredHere", "FilteredThere")
        }

        list(pool.map(write_last, homes, stores, flushes))
    assert filters(homes[0] / "store") == kept
