"""Random recoveries: of a store that was damaged, Apache RocketMQ 5.3.3 and the reference recover
the same: the log to the same end, and of each queue the same messages, byte by byte; of what
waits for its time or for its producer, and of what a commit stored, the same units.

Where units of a ConsumeQueue are gone, or a start takes a kill for a clean stop, 5.3.3 may hide
messages that its log has (RECOV-003, RECOV-006); the reference may not.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pytest
from test_store_both_ways import (
    QUEUES,
    SIZES,
    TOPIC,
    Contents,
    Stored,
    make_ready,
    ok,
    served,
    use_small_files,
)

from mqconform import requests
from mqconform.apache import Apache
from mqconform.cluster import Cluster
from mqconform.connection import Connection
from mqconform.records import parse_records
from mqconform.transcript import Transcript
from mqspec.core.log import UNIT_BYTES, Unit
from mqspec.core.recovery import CHECKPOINT_MARGIN_MS, Checkpoint
from mqspec.store.checkpoint import write_checkpoint

RECOVERIES: Final = 6  # of which two brokers of one cluster do two at once
SEGMENT_BYTES: Final = SIZES["segment-size", "mappedFileSizeCommitLog"][0]
PAGE_BYTES: Final = 4096
BODY_AT: Final = 88  # bytes of a record before its body
GROUP: Final = "Recoveries"
OTHER_TOPIC: Final = "Others"
OTHER_QUEUES: Final = (
    (OTHER_TOPIC, 0),
    ("SCHEDULE_TOPIC_XXXX", 16),  # level 17: an hour
    ("SCHEDULE_TOPIC_XXXX", 17),
    ("RMQ_SYS_TRANS_HALF_TOPIC", 0),
)
COMMIT: Final = 8
NO_CHECKS: Final = "transactionCheckInterval=3600000\n"  # of halves, which are puts


class Recovered(NamedTuple):
    """What a broker has after its start."""

    end: int  # position where it puts the first message
    served: Mapping[tuple[int, int], bytes]  # records, by queue id and queue offset
    next_offsets: Sequence[int]  # by queue id
    units: Mapping[tuple[str, int], Sequence[Unit]] = {}  # of other queues, of what it recovered


def differences(
    stored: Sequence[Stored], ours: Recovered, theirs: Recovered, may_hide: bool
) -> list[str]:
    """What is not as it must be; `may_hide`: 5.3.3 messages that its log has."""
    found = []
    if ours.end != theirs.end:
        found.append(f"the log ends at {ours.end}, that of 5.3.3 at {theirs.end}")
    all_ours = set(ours.served.values())
    for place, record in theirs.served.items():
        # What it hides leaves a place, which it may give to a record that is ahead of it.
        if ours.served.get(place) != record and not (may_hide and record in all_ours):
            found.append(f"5.3.3 serves another record at {place}")
    for each in stored:
        place = each.queue_id, each.queue_offset
        if each.position < ours.end and place not in ours.served:
            found.append(f"the record at {place} is in the log, and is not served")
    if not may_hide and ours.served.keys() != theirs.served.keys():
        more = sorted(ours.served.keys() - theirs.served.keys())
        found.append(f"5.3.3 does not serve {more}")
    if not may_hide and ours.next_offsets != theirs.next_offsets:
        found.append(f"next come {ours.next_offsets}, with 5.3.3 {theirs.next_offsets}")
    for queue in OTHER_QUEUES:
        mine, others = ours.units.get(queue, ()), theirs.units.get(queue, ())
        if mine != others and not (may_hide and set(others) < set(mine)):
            found.append(f"{queue} has other units with 5.3.3")
    return found


def look(broker: Connection, store: Path) -> Recovered:
    """After its start something was put to the default topic first, of which it had nothing."""
    probe = ok(broker, requests.pull(requests.DEFAULT_TOPIC, GROUP, count=1)).body
    found = {}
    for queue_id in range(QUEUES):
        offset = ok(broker, requests.min_offset(TOPIC, queue_id)).number("offset")
        pull = requests.pull(TOPIC, GROUP, offset, queue_id, count=1)
        while (answer := broker.call(pull)).code == 0:
            found[queue_id, offset] = answer.body
            offset = answer.number("nextBeginOffset")
            pull = requests.pull(TOPIC, GROUP, offset, queue_id, count=1)
    end = parse_records(probe)[0].physical_offset
    units = {queue: units_of(broker, store, end, *queue) for queue in OTHER_QUEUES}
    puts = [ok(broker, requests.send(TOPIC, b"next", queue_id)) for queue_id in range(QUEUES)]
    return Recovered(
        end,
        found,
        [put.number("queueOffset") for put in puts],
        units,
    )


def units_of(
    broker: Connection, store: Path, log_end: int, topic: str, queue_id: int
) -> list[Unit]:
    """Those of records before a position of the log."""
    first = ok(broker, requests.min_offset(topic, queue_id)).number("offset")
    end = ok(broker, requests.max_offset(topic, queue_id)).number("offset")
    files = {
        int(path.name): path.read_bytes()
        for path in store.glob(f"consumequeue/{topic}/{queue_id}/*")
    }
    begin = min(files, default=0)
    data = b"".join(files[start] for start in sorted(files))
    written = data[first * UNIT_BYTES - begin : end * UNIT_BYTES - begin]
    units = map(Unit._make, struct.iter_unpack(">qiq", written))
    return [unit for unit in units if unit.position < log_end]


# Damages


class Damaged(NamedTuple):
    """A store that is to be damaged, and what chooses how."""

    store: Path
    stored: Sequence[Stored]
    chosen: random.Random

    def choose(self) -> Stored:
        """One of the last third of the records."""
        return self.chosen.choice(self.stored[len(self.stored) * 2 // 3 :])

    def zero(self, position: int, count: int) -> None:
        """Zeros in the log."""
        for path in self.store.glob("commitlog/*"):
            begin = max(0, position - int(path.name))
            overwrite(path, begin, min(SEGMENT_BYTES, position + count - int(path.name)) - begin)


def overwrite(path: Path, at: int, count: int) -> None:
    if count > 0:
        data = bytearray(path.read_bytes())
        data[at : at + count] = bytes(count)
        path.write_bytes(data)


def end_log(damaged: Damaged) -> None:
    """At a record or within it; what is behind is zeros, or not there."""
    record, chosen = damaged.choose(), damaged.chosen
    position = record.position + chosen.choice((0, 0, 8, BODY_AT, BODY_AT + len(record.body) // 2))
    damaged.zero(position, 1 << 30)
    if chosen.random() < 0.5:
        for path in damaged.store.glob("commitlog/*"):
            if int(path.name) > position:
                path.unlink()


def lose_page(damaged: Damaged) -> None:
    damaged.zero(damaged.choose().position // PAGE_BYTES * PAGE_BYTES, PAGE_BYTES)


def lose_last_segment(damaged: Damaged) -> None:
    max(damaged.store.glob("commitlog/*")).unlink()


def lose_byte(damaged: Damaged) -> None:
    record = damaged.choose()
    damaged.zero(record.position + BODY_AT + damaged.chosen.randrange(len(record.body)), 1)


def lose_units(damaged: Damaged) -> None:
    """The later ones of a queue: zeros."""
    record = damaged.choose()
    first = max(1, record.queue_offset) * UNIT_BYTES
    for path in damaged.store.glob(f"consumequeue/{TOPIC}/{record.queue_id}/*"):
        begin = max(0, first - int(path.name))
        overwrite(path, begin, path.stat().st_size - begin)


def set_checkpoint(damaged: Damaged) -> None:
    """To cover what was stored up to a record, of the first two thirds: its segment may be trusted,
    none behind it. What a checkpoint covers no crash damages."""
    position = damaged.chosen.choice(damaged.stored[: len(damaged.stored) * 2 // 3]).position
    path = damaged.store / "commitlog" / f"{position - position % SEGMENT_BYTES:020}"
    data = path.read_bytes()[position % SEGMENT_BYTES :]
    (record,) = parse_records(data[: int.from_bytes(data[:4], "big")])
    covered = record.store_timestamp + CHECKPOINT_MARGIN_MS
    write_checkpoint(damaged.store / "checkpoint", Checkpoint(covered, covered))


def lose_checkpoint(damaged: Damaged) -> None:
    (damaged.store / "checkpoint").unlink(missing_ok=True)


def lose_index(damaged: Damaged) -> None:
    shutil.rmtree(damaged.store / "index", ignore_errors=True)


def look_killed(damaged: Damaged) -> None:
    (damaged.store / "abort").touch()


def look_stopped(damaged: Damaged) -> None:
    (damaged.store / "abort").unlink(missing_ok=True)


Damage: TypeAlias = Callable[[Damaged], None]
DAMAGES: Final[tuple[Damage, ...]] = (  # done in this order: the first looks into the log
    *(set_checkpoint, lose_checkpoint, look_killed, look_stopped, lose_index, lose_units),
    *(end_log, end_log, lose_page, lose_last_segment, lose_byte),
)


# The stores

Bases: TypeAlias = Mapping[str, tuple[Path, Sequence[Stored]]]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    """Stores that are whole: one of a broker that was killed, and one that it stopped cleanly
    after it had gone on. Each with what is in it."""
    home = tmp_path_factory.mktemp("bases")
    life, found = Contents("life"), {}
    for name, count in (("killed", 150), ("clean", 30)):
        with served(home / "life", name == "killed") as broker:
            make_ready(broker)
            for _ in range(5):
                life.write(broker, count // 5)
                write_others(broker)
        shutil.copytree(home / "life", home / name, ignore=shutil.ignore_patterns("lock"))
        found[name] = home / name, tuple(life.stored)
    return found


def write_others(broker: Connection) -> None:
    """Messages that wait for hours, halves without an end, and what a commit stores."""
    for level in ("17", "18"):
        ok(broker, requests.send(OTHER_TOPIC, b"waits", properties={"DELAY": level, "TAGS": "a"}))
    ok(broker, requests.send_half(OTHER_TOPIC, GROUP))
    half = ok(broker, requests.send_half(OTHER_TOPIC, GROUP))
    position, offset = int(half.fields["msgId"][16:], 16), half.number("queueOffset")
    ok(broker, requests.end_transaction(GROUP, offset, position, COMMIT))


class Case(NamedTuple):
    """A store that was damaged."""

    what: str
    store: Path
    stored: Sequence[Stored]  # before
    may_hide: bool


def damaged_case(bases: Bases, home: Path, seed: int) -> Case:
    chosen = random.Random(seed)
    name = chosen.choice(sorted(bases))
    base, stored = bases[name]
    store = home / str(seed)
    shutil.copytree(base, store)
    damages = sorted(chosen.sample(DAMAGES, chosen.choice((1, 2, 2, 3))), key=DAMAGES.index)
    for damage in damages:
        damage(Damaged(store, stored, chosen))
    what = f"{name}, {', '.join(damage.__name__ for damage in damages)}"
    takes_kill_for_stop = name == "killed" and look_stopped in damages
    return Case(what, store, stored, lose_units in damages or takes_kill_for_stop)


def recovered_by_us(store: Path) -> Recovered:
    with served(store, kill=True) as broker:
        ok(broker, requests.send(requests.DEFAULT_TOPIC))
        return look(broker, store)


def recovered_by_apache(home: Path, stores: Sequence[Path]) -> list[Recovered]:
    """Each of two stores, which stay as they are, by a broker of its own."""
    apache = Apache(home)
    for name, store in zip(("broker-a", "broker-b"), stores, strict=True):
        shutil.copytree(store, home / name / "store")
        use_small_files(home / name, NO_CHECKS)
    found = []
    with apache:
        cluster = Cluster(apache.nameserver)
        cluster.wait(2)
        for name in ("broker-a", "broker-b"):
            with Connection(cluster.brokers[name], Transcript()) as broker:
                found.append(look(broker, home / name / "store"))
    return found


def test_a_damaged_store_is_recovered_as_apache_does(tmp_path: Path, bases: Bases) -> None:
    for first in range(0, RECOVERIES, 2):
        cases = [damaged_case(bases, tmp_path, seed) for seed in (first, first + 1)]
        all_theirs = recovered_by_apache(tmp_path / f"apache-{first}", [c.store for c in cases])
        for case, theirs in zip(cases, all_theirs, strict=True):
            ours = recovered_by_us(case.store)
            assert not differences(case.stored, ours, theirs, case.may_hide), case.what


STORED = [Stored(0, 0, 0, "", b"a"), Stored(0, 1, 100, "", b"b"), Stored(1, 0, 200, "", b"c")]
WHOLE = Recovered(300, {(0, 0): b"a", (0, 1): b"b", (1, 0): b"c"}, [2, 1])
CUT = Recovered(200, {(0, 0): b"a", (0, 1): b"b"}, [2, 0])
MOVED = Recovered(300, {(0, 0): b"b", (1, 0): b"c"}, [1, 1])
HIDDEN = Recovered(300, {(0, 0): b"a", (1, 0): b"c"}, [1, 1])


@pytest.mark.parametrize(
    ("ours", "theirs", "may_hide", "found"),
    [
        (WHOLE, WHOLE, False, 0),
        (CUT, CUT, False, 0),
        (WHOLE, HIDDEN, True, 0),
        (WHOLE, MOVED, True, 0),
        (WHOLE, MOVED, False, 3),
        (WHOLE, HIDDEN, False, 2),
        (HIDDEN, HIDDEN, True, 1),
        (HIDDEN, WHOLE, True, 2),
        (CUT, WHOLE, True, 2),
        (WHOLE, WHOLE._replace(served={**WHOLE.served, (0, 1): b"x"}), True, 1),
        (WHOLE, WHOLE._replace(served={**WHOLE.served, (0, 2): b"d"}), True, 1),
        (WHOLE, WHOLE._replace(units={OTHER_QUEUES[0]: [Unit(0, 9, 1)]}), True, 1),
        (WHOLE._replace(units={OTHER_QUEUES[0]: [Unit(0, 9, 1)]}), WHOLE, True, 0),
        (WHOLE._replace(units={OTHER_QUEUES[0]: [Unit(0, 9, 1)]}), WHOLE, False, 1),
    ],
)
def test_what_differs_is_said(
    ours: Recovered, theirs: Recovered, may_hide: bool, found: int
) -> None:
    assert len(differences(STORED, ours, theirs, may_hide)) == found
