"""The benchmark's own parts: what says no, what fills a store, what asks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path

import audits
import flat
import histories
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import record
import speed
from contestants import Contestant
from figures import Figure
from fill import QUEUES, fill, topics
from load import PULLED, Load, pull, pulled, send

from mqspec.service import clock_ms
from mqspec.store.message_store import MessageStore, StoreConfig
from mqspec.transport import Connection, serve
from mqspec.wire.codec import RemotingCommand


@pytest.mark.parametrize(
    ("figure", "holds"),
    [
        (Figure("f", 200.0, least=200), True),
        (Figure("f", 199.9, least=200), False),
        (Figure("f", 1.25, most=1.25), True),
        (Figure("f", 1.26, most=1.25), False),
        (Figure("f", 2.0, least=1, most=3), True),
    ],
)
def test_a_figure_is_within_its_bounds_or_not(figure: Figure, holds: bool) -> None:
    assert figure.holds is figure.plain["holds"] is holds
    assert figure.line.endswith("holds" if holds else "MISSED")


def client(failures: int, code: int) -> list[str]:
    """One that says of each work that some of its sends failed, and ends with a code."""
    said = (
        f"print('WARNING: of a library'); [print(w.replace('=', ' '), {failures}) for w in works]"
    )
    return [sys.executable, "-c", f"import sys; works = sys.argv[2:]; {said}; sys.exit({code})"]


def test_a_client_tells_its_rates() -> None:
    work = {"batch": 0.5, "consume": 0.0}
    rates = {"batch": 50, "consume": 0}
    assert speed.run_client(client(0, 0), work, 100, is_measured=True) == rates
    assert speed.run_client(client(3, 0), work, 100, is_measured=False) == rates


def test_of_what_a_client_repeats_the_last_counts() -> None:
    said = "[print(w.split('=')[0], number, 0) for number, w in enumerate(sys.argv[2:])]"
    command = [sys.executable, "-c", f"import sys; {said}"]
    work = {"batch": 0.5, "consume": 0.0}
    assert speed.run_client(command, work, 100, True, repeats=3) == {"batch": 2, "consume": 3}


@pytest.mark.parametrize(("failures", "code", "is_measured"), [(3, 0, True), (0, 1, False)])
def test_a_client_whose_sends_fail_ends_the_benchmark(
    failures: int, code: int, is_measured: bool
) -> None:
    with pytest.raises(SystemExit, match="async=100: WARNING"):
        speed.run_client(client(failures, code), {"async": 1.0}, 100, is_measured)


def test_each_work_is_done_to_both_twice_a_round_each_first_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rate_of = {"apache": 1.0, "reference": 2.0}
    done: list[tuple[str, str]] = []
    running: list[str] = []
    waited: list[tuple[str, str]] = []
    synced = [False]

    class Watched(Contestant):
        def resume(self) -> None:
            assert synced == [True]  # what the other one left is on disk
            synced[:] = [False]
            running.append(self.name)

        def wait(self, topic: str) -> None:
            waited.append((self.name, topic))

        def pause(self) -> None:
            running.remove(self.name)

    def client(command: Sequence[str], work: Iterable[str], *_: object) -> dict[str, float]:
        assert [waited[-1]] == [(name, command[3]) for name in running]
        assert running == [command[2]]
        done.append((command[2], command[3]))
        is_second_time = command[3].split("_")[1] in "23"
        return dict.fromkeys(work, rate_of[command[2]] * (3 if is_second_time else 1))

    def sync() -> None:
        assert not running
        synced[:] = [True]

    monkeypatch.setattr(speed, "run_client", client)
    monkeypatch.setattr("os.sync", sync)
    both = [Watched(name, name, "", [], 0.0) for name in rate_of]
    rates = speed.measure(both, ["java"], 2, 100)
    assert done == [
        (name, f"Round{number}_{turn}_{work}")
        for number in range(3)
        for work in ("sync1", "sync16", "async", "batch_consume")
        for turn, name in enumerate(
            ("apache", "reference", "reference", "apache")
            if number % 2
            else ("reference", "apache", "apache", "reference")
        )
    ]
    # As many messages as in both turns, in as much time.
    assert rates == {
        name: {work: [1.5 * rate] * 2 for work in speed.LEAST} for name, rate in rate_of.items()
    }
    assert running == []


def test_rates_are_compared_round_by_round() -> None:
    # The machine gets slower; of the medians, 60 and 55, the ratio would be 1.09.
    rates = {"reference": {"async": [90, 60, 10]}, "apache": {"async": [100, 55, 20]}}
    assert speed.ratio(rates, "async") == 0.9


def test_what_a_recorder_costs_is_compared_round_by_round() -> None:
    rates = {"apache": {"sync1": [1000, 500, 2000]}, "recorded": {"sync1": [500, 400, 1000]}}
    assert record.shares(rates, "sync1") == [0.5, 0.8, 0.5]
    assert record.added_ms(rates) == 0.5  # of 1, 0.5 and 0.5


@pytest.mark.parametrize("messages", [1, 8, 1_000])
def test_a_store_is_filled_evenly(tmp_path: Path, messages: int) -> None:
    fill(tmp_path, 2, messages, body_bytes=10)
    store = MessageStore(tmp_path, StoreConfig(), clock_ms)
    assert not store.open().abnormal
    ends = [store.max_offset(topic, i) for topic in topics(2) for i in range(QUEUES)]
    store.close()
    assert sum(ends) == messages
    assert max(ends) - min(ends) <= 1


@pytest.fixture
def server() -> Iterator[str]:
    """One that answers a send with the code that is its body, a pull with two messages."""

    def handle(_: Connection, request: RemotingCommand) -> RemotingCommand:
        if request.body:
            return request.response(int(request.body))
        return request.response(ext_fields={"nextBeginOffset": "12"})

    loop = asyncio.new_event_loop()
    listening = loop.run_until_complete(serve("127.0.0.1", 0, handle))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"127.0.0.1:{listening.port}"
    asyncio.run_coroutine_threadsafe(listening.close(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_load_takes_only_answers_that_say_yes(server: str) -> None:
    with Load(server) as load:
        assert len(load.ask([send("T", 0, i, b"0") for i in range(100)])) == 100
        request = pull("T", 0, 10)
        (answer,) = load.ask([request])
        assert pulled(request, answer) == 2
        with pytest.raises(AssertionError, match="code=17"):
            load.ask([send("T", 0, 0, b"17")])


def test_stores_are_measured_in_turn_each_by_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    class Remembered(Load):
        def __init__(self, address: str) -> None:
            self._address = address

        def __exit__(self, *_: object) -> None:
            pass

        def ask(self, requests: Sequence[RemotingCommand]) -> list[RemotingCommand]:
            asked.append((self._address, len(requests)))
            return [request.response() for request in requests]

    class Priced(Contestant):
        """Takes for each request as many seconds as its name says, and a hundred to start."""

        @property
        def cpu_s(self) -> float:
            requests = sum(how_many for who, how_many in asked if who == self.broker)
            return 100 + requests * int(self.name)

    monkeypatch.setattr(flat, "Load", Remembered)
    servers = [Priced("2", "", "few", [], 0.0), Priced("3", "", "many", [], 0.0)]
    works = [flat.sends(flat.Size(10, 1), count()) for _ in servers]
    assert flat.costs(servers, works, 2) == [2e6, 3e6]
    assert [who for who, _ in asked] == ["few", "many"] * 3  # the first of them to warm up
    assert [how_many for _, how_many in asked[2:]] == [flat.TURN] * 4


def test_all_queues_are_used_alike_and_only_what_was_there_is_pulled() -> None:
    size = flat.Size(1_000, 5)
    queues = 5 * QUEUES
    for requests in (flat.sends(size, count()), flat.pulls(size, 0.8)):
        some = [each.ext_fields for each in islice(requests, 3 * queues)]
        topic, queue_id = ("b", "e") if "b" in some[0] else ("topic", "queueId")
        used = Counter((fields[topic], fields[queue_id]) for fields in some)
        assert set(used.values()) == {3}
        assert len(used) == queues
    offsets = {int(fields["queueOffset"]) for fields in some}
    assert len(offsets) == 3
    assert max(offsets) + PULLED <= 1_000 // queues


def test_processor_time_is_known_as_it_is_taken() -> None:
    this = Contestant("this", "", "", [os.getpid()], 0.0)
    begin, begin_s = this.cpu_s, time.process_time()
    while time.process_time() < begin_s + 0.05:
        pass
    resolution = 0.002 if sys.platform == "linux" else 0.02
    assert this.cpu_s - begin == pytest.approx(time.process_time() - begin_s, abs=resolution)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells it")
def test_memory_is_that_of_a_process_and_of_those_that_it_started() -> None:
    before = audits.memory_bytes(os.getpid())
    command = [sys.executable, "-c", "b = bytearray(10**8); print(len(b), flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it has its memory now
        assert audits.memory_bytes(os.getpid()) > before + 10**8
        child.communicate(b"\n")


def test_a_history_is_written_as_large_as_it_says(tmp_path: Path) -> None:
    shape = histories.Shape(messages=1_000, queues=4, members=2, hot=0.9, round=400)
    events = histories.write(tmp_path / "even.parquet", shape)
    table = pq.read_table(tmp_path / "even.parquet")
    assert table.num_rows == events == 4 * 1_000 + 3 * 4 + 2 * 4 + 2 * 2
    assert table["seq"].to_pylist() == list(range(events))
    stored = table.filter(pc.equal(table["kind"], "receive"))
    assert pc.mean(pc.equal(stored["queue_id"], 0)).as_py() > 0.85
