"""The store while it runs: puts, reads, limits, visibility."""

from __future__ import annotations

import itertools
import mmap
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from store_images import (
    SMALL,
    Clock,
    batch,
    contents,
    image_of,
    keys,
    message,
    new_store,
    violations,
    write_image,
)

from mqspec.core.log import Dispatch, Limits, TopicQueue, arrivals, pack_units
from mqspec.core.record import (
    PROPERTIES_BYTES_MAX,
    Batch,
    BatchMessage,
    Magic,
    Record,
    SysFlag,
    alone,
    decode_record,
    tags_code,
)
from mqspec.fast.run import Row, kind_of
from mqspec.store import GetMessageStatus, MessageStore, PutStatus, StoreConfig, commit_log
from mqspec.store.checkpoint import read_checkpoint
from mqspec.store.consume_queue import ConsumeQueue
from mqspec.store.files import DISK
from mqspec.store.index_file import IndexService
from mqspec.store.mapped_file import MappedFileQueue
from mqspec.store.message_store import Boundary


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    store = new_store(tmp_path / "store")
    store.open()
    return store


def test_what_is_put_is_read_in_the_order_of_its_queue(store: MessageStore) -> None:
    for i in range(30):
        result = store.put(message(f"k{i}", queue_id=i % 2))
        assert result.queue_offset == i // 2
    assert keys(store, 0) == [f"k{i}" for i in range(0, 30, 2)]
    assert keys(store, 1) == [f"k{i}" for i in range(1, 30, 2)]
    assert len(list((store.root / "commitlog").iterdir())) > 1
    assert not violations(contents(store.root))


def test_a_record_names_its_place(store: MessageStore) -> None:
    store.put(message("a"))
    result = store.put(message("b"))
    record = decode_record(store.get("T", 0, 1, 1).records[0])
    assert isinstance(record, Record)
    assert record.queue_offset == 1
    assert record.store_timestamp == result.store_timestamp
    assert result.message_ids == record.message_id
    assert contents(store.root).log[1] == record


def test_a_damaged_body_is_served_by_whatever_way_it_is_asked_for(store: MessageStore) -> None:
    first, damaged = store.put(message("a")), store.put(message("b", pad=9))
    path = store.root / "commitlog" / f"{0:020}"
    path.write_bytes(path.read_bytes().replace(b"b.........", b"b....X...."))
    (served,) = store.get("T", 0, 1, 1).records
    found = store.look_message_by_offset(first.end)
    assert found
    assert found.body == b"b....X...."
    assert store.record_at(first.end) == served
    assert store.query("T", "b", 9, 0, 1 << 62).records == (served,)
    assert store.stored_at("T", 0, 1) == damaged.store_timestamp


def test_where_no_record_begins_no_more_than_its_head_is_read(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    begins = [store.positions.commit_log.max]
    for i in range(3):
        begins.append(store.put(message(f"k{i}", pad=100 * i)).end)
    end = begins.pop()
    # A body that looks like the head of a record, a long one.
    forged = b"\x7f\xff\xff\xff" + Magic.V1.to_bytes(4, "big")
    store.put(Record("T", forged * 10, b""))
    read = store._commit_log._files.read

    def noted(position: int, length: int) -> bytes:
        lengths.append(length)
        return read(position, length)

    monkeypatch.setattr(store._commit_log._files, "read", noted)
    found = [at for at in range(end) if store.look_message_by_offset(at)]
    assert found == begins
    assert max(lengths) <= end
    behind = store.positions.commit_log.max
    assert [at for at in range(end, behind + 9) if store.look_message_by_offset(at)] == [end]
    assert max(lengths) <= end


def test_a_batch_lies_together_or_not_at_all(store: MessageStore) -> None:
    store.put(message("first", pad=1700))
    result = store.put_batch(batch([f"k{i}" for i in range(4)]))
    assert (result.status, result.queue_offset) == ("PUT_OK", 1)
    found = contents(store.root)
    assert result.message_ids == ",".join(record.message_id for record in found.log[1:])
    assert found.log[1].physical_offset == SMALL.segment_size
    assert keys(store) == ["first", "k0", "k1", "k2", "k3"]
    too_long = BatchMessage(b"", b"p" * (PROPERTIES_BYTES_MAX + 1))
    refused = store.put_batch(Batch(message("x"), (message("x"), too_long)))
    assert refused.status is PutStatus.PROPERTIES_SIZE_EXCEEDED
    assert store.max_offset("T", 0) == 5


def test_what_arrives_together_is_stored_as_if_it_came_one_by_one(tmp_path: Path) -> None:
    chance = random.Random(7)
    one, together = (
        MessageStore(tmp_path / name, SMALL, lambda: 1_000_000) for name in ("one", "together")
    )
    for store in (one, together):
        store.open()
    sent = [
        batch(
            [f"k{number}-{i}" for i in range(chance.choice((1, 1, 1, 3)))],
            queue_id,
            pad=chance.randrange(90),
            sys_flag=sys_flag,
        )
        for number in range(120)
        for queue_id, sys_flag in [
            (chance.randrange(3), chance.choice((0, 0, 0, SysFlag.PREPARED)))
        ]
    ]
    for begin in range(0, len(sent), 8):
        some = sent[begin : begin + 8]
        assert together.put_together(some) == [one.put_batch(each) for each in some]
    assert len(contents(one.root).log) == sum(len(each.messages) for each in sent)
    for store in (one, together):
        store.close()
    assert image_of(together.root) == image_of(one.root)


def test_what_cannot_be_stored_keeps_nothing_else_from_it(store: MessageStore) -> None:
    too_long = Record("T", b"", b"p" * (PROPERTIES_BYTES_MAX + 1))
    huge = message("huge", pad=SMALL.segment_size)
    puts = (message("a"), too_long, message("b"), huge, message("c"))
    results = store.put_together(list(map(alone, puts)))
    ok, refused, illegal = "PUT_OK", "PROPERTIES_SIZE_EXCEEDED", "MESSAGE_ILLEGAL"
    assert [result.status for result in results] == [ok, refused, ok, illegal, ok]
    assert [result.queue_offset for result in results if result.message_ids] == [0, 1, 2]
    assert keys(store) == ["a", "b", "c"]


def test_the_units_of_a_batch_may_lie_in_several_files(tmp_path: Path) -> None:
    config = StoreConfig(segment_size=1 << 16, consume_queue_units=20)
    store = new_store(tmp_path, config)
    store.open()
    sent = [f"k{i}" for i in range(50)]
    for some in (sent[:7], sent[7:]):
        assert store.put_batch(batch(some)).status is PutStatus.PUT_OK
    assert keys(store) == sent
    files = sorted((tmp_path / "consumequeue" / "T" / "0").iterdir())
    assert [int(path.name) for path in files] == [0, 400, 800]
    store.close()
    again = new_store(tmp_path, config)
    assert again.open().redispatched == 0
    assert keys(again) == sent
    again.close()


def test_limits(tmp_path: Path) -> None:
    store = new_store(tmp_path, StoreConfig(segment_size=1 << 24))
    store.open()
    cases = [
        (Record("T" * 128, b""), PutStatus.MESSAGE_ILLEGAL),
        (Record("T" * 127, b""), PutStatus.PUT_OK),
        (Record("%RETRY%" + "T" * 128, b""), PutStatus.PUT_OK),
        (Record("T", b"", b"p" * (PROPERTIES_BYTES_MAX + 1)), PutStatus.PROPERTIES_SIZE_EXCEEDED),
        (Record("T", b"", b"p" * PROPERTIES_BYTES_MAX), PutStatus.PUT_OK),
        (Record("T", bytes(Limits().max_message_size + 1)), PutStatus.MESSAGE_ILLEGAL),
        (Record("T", bytes(Limits().max_message_size)), PutStatus.PUT_OK),
    ]
    assert [store.put(record).status for record, _ in cases] == [status for _, status in cases]


def test_a_failed_put_takes_no_offset(store: MessageStore) -> None:
    store.put(message("a"))
    assert store.put(Record("T", b"x" * SMALL.segment_size)).status is PutStatus.MESSAGE_ILLEGAL
    assert store.put(message("b")).queue_offset == 1


@pytest.mark.parametrize(("pad", "segments"), [(0, 1), (1, 2)])
def test_the_biggest_record_leaves_room_for_a_blank(
    store: MessageStore, pad: int, segments: int
) -> None:
    first = store.put(message("a"))
    overhead = contents(store.root).end - len("a")
    room = SMALL.segment_size - contents(store.root).end
    store.put(message("a", pad=room - 8 - overhead - len("a") + pad))
    assert first.queue_offset == 0
    assert len(list((store.root / "commitlog").iterdir())) == segments


def test_prepared_records_enter_no_queue(store: MessageStore) -> None:
    half = Record("T", b"half", sys_flag=SysFlag.PREPARED)
    assert store.put(half).queue_offset == 0
    assert store.put(message("a")).queue_offset == 0
    assert keys(store) == ["a"]
    assert len(contents(store.root).log) == 2


def test_status_of_a_read(store: MessageStore) -> None:
    status = GetMessageStatus
    assert store.get("T", 0, 0, 32)[:4] == (status.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    for i in range(3):
        store.put(message(f"k{i}"))
    assert store.get("T", 0, 0, 32)[:4] == (status.FOUND, 3, 0, 3)
    assert store.get("T", 0, -1, 32)[:4] == (status.OFFSET_TOO_SMALL, 0, 0, 3)
    assert store.get("T", 0, 3, 32)[:4] == (status.OFFSET_OVERFLOW_ONE, 3, 0, 3)
    assert store.get("T", 0, 4, 32)[:4] == (status.OFFSET_OVERFLOW_BADLY, 3, 0, 3)
    assert store.get("T", 0, 1, 32, lambda code: False)[:2] == (status.NO_MATCHED_MESSAGE, 3)


@pytest.mark.parametrize(("asked", "got"), [(-1, 1), (0, 1), (1, 1), (10, 10), (32, 32), (99, 32)])
def test_how_many_a_read_returns(tmp_path: Path, asked: int, got: int) -> None:
    store = new_store(tmp_path, StoreConfig(1 << 20, 300))
    store.open()
    store.put_batch(batch([f"k{i}" for i in range(40)]))
    result = store.get("T", 0, 0, asked)
    assert len(result.records) == got
    assert result.next_begin_offset == got


def test_how_many_bytes_a_read_returns(tmp_path: Path) -> None:
    store = new_store(tmp_path, StoreConfig(1 << 22, 300))
    store.open()
    for size in (300_000, 100_000, 100_000, 100_000):
        store.put(Record("T", bytes(size)))
    assert len(store.get("T", 0, 0, 32).records) == 1
    assert len(store.get("T", 0, 1, 32).records) == 2


def test_a_filter_passes_over_messages(store: MessageStore) -> None:
    for tag in "abab":
        store.put(Record("T", tag.encode(), f"TAGS\x01{tag}\x02".encode()))
    wanted = tags_code("b")
    result = store.get("T", 0, 0, 1, lambda code: code == wanted)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.FOUND, 2)
    assert len(result.records) == 1
    result = store.get("T", 0, 1, 3, lambda code: code != wanted)
    assert (result.next_begin_offset, len(result.records)) == (4, 1)


def test_arrivals_are_told_by_queue(store: MessageStore) -> None:
    told: list[Mapping[TopicQueue, Sequence[Dispatch]]] = []
    store.on_arrival = lambda visible: told.append(visible())
    tagged = [Record("T", b"x", b"TAGS\x01a\x02", queue_id=number) for number in (3, 4, 3)]
    store.put_together(list(map(alone, tagged)))
    (visible,) = told
    assert list(visible) == [("T", 3), ("T", 4)]
    code, properties = tags_code("a"), "TAGS\x01a\x02"
    assert list(arrivals(visible["T", 3])) == [(1, code, properties), (2, code, properties)]


def test_a_run_is_told_once_though_the_index_cannot_grow(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    store.on_arrival = lambda visible: told.extend(
        each[0] for dispatches in visible().values() for each in arrivals(dispatches)
    )
    kind = kind_of(Record("T", b""))
    rows = [Row(kind, ("T", 0), 0, b"x", b"KEYS\x01k%d\x02" % number) for number in range(4)]
    assert store.put(message("a")).queue_offset == 0  # another kind, dispatched by itself
    with monkeypatch.context() as patch:
        patch.setattr(IndexService, "add_run", _full_disk)
        assert store.put_run(rows[:2], is_batch=False)
        assert store.put_run(rows[2:], is_batch=False) is None
    assert store.put_together([]) == []  # tried again
    assert store.put_run(rows[2:], is_batch=False)
    assert told == [1, 2, 3, 4, 5]
    assert [store.get("T", 0, at, 1).status for at in range(5)] == [GetMessageStatus.FOUND] * 5
    for number in range(4):
        assert len(store.query("T", f"k{number}", 9, 0, 1 << 60).records) == 1


def test_a_run_of_a_topic_that_was_deleted_enters_no_queue(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stored, and could not be dispatched before."""
    assert store.put(message("a")).queue_offset == 0
    rows = [Row(kind_of(Record("T", b"")), ("T", 0), 0, b"old", b"") for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(ConsumeQueue, "put", _full_disk)
        assert store.put_run(rows, is_batch=False)
        store.delete_topic("T")
    assert store.put(message("new")).queue_offset == 0
    assert keys(store) == ["new"]


def test_an_arrival_is_told_once_though_the_index_cannot_grow(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    store.on_arrival = lambda visible: told.extend(
        each[0] for dispatches in visible().values() for each in arrivals(dispatches)
    )
    with monkeypatch.context() as patch:
        patch.setattr(IndexService, "add", _full_disk)
        assert store.put(message("a")).status is PutStatus.PUT_OK
        assert store.put(message("b")).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert told == [1]
    assert store.put(message("c")).queue_offset == 1
    assert told == [1, 2]
    assert keys(store) == ["a", "c"]


def test_with_sync_flush_nothing_is_visible_that_is_not_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path, StoreConfig(4096, 20, sync_flush=True))
    store.open()
    with monkeypatch.context() as patch:
        patch.setattr(store, "flush_commit_log", _full_disk)
        assert store.put(message("a")).status is PutStatus.FLUSH_DISK_TIMEOUT
        assert store.max_offset("T", 0) == 0
    assert store.put(message("b")).status is PutStatus.PUT_OK
    assert keys(store) == ["a", "b"]


@pytest.mark.parametrize(
    ("operation", "units", "refused"),
    [
        ("create", 100, PutStatus.CREATE_MAPPED_FILE_FAILED),
        ("allocate", 100, PutStatus.CREATE_MAPPED_FILE_FAILED),
        ("write_at", 100, PutStatus.CREATE_MAPPED_FILE_FAILED),
        ("create", 4, PutStatus.SERVICE_NOT_AVAILABLE),  # the log grows, the ConsumeQueue cannot
    ],
)
def test_where_the_disk_is_full_nothing_is_lost(
    tmp_path: Path,
    operation: str,
    units: int,
    refused: PutStatus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commit_log, "BY_CALL_MIN", 0)
    config = replace(SMALL, consume_queue_units=units)
    store = new_store(tmp_path, config)
    store.open()
    stored = []
    with monkeypatch.context() as patch:
        for n in itertools.count():
            result = store.put(message(f"k{n}", pad=100))
            if result.status is not PutStatus.PUT_OK:
                break
            stored.append(f"k{n}")
            patch.setattr(DISK, operation, _full_disk)
        assert result.status is refused
        assert store.put(message("too", pad=100)).status is refused
        visible = keys(store)
        assert visible == stored[: len(visible)]
        assert len(stored) - len(visible) == (refused is PutStatus.SERVICE_NOT_AVAILABLE)
    assert store.put(message("later", pad=100)).queue_offset == len(stored)
    assert keys(store) == [*stored, "later"]
    store.close()
    store = new_store(tmp_path, config)
    store.open()
    assert keys(store) == [*stored, "later"]
    assert not violations(contents(tmp_path))
    store.close()


def over_queues() -> list[Batch]:
    """Nine messages that came together, over three queues."""
    return [alone(message(f"q{queue_id}-{n}", queue_id)) for n in range(3) for queue_id in range(3)]


def test_what_came_together_is_refused_together_where_the_log_has_no_room(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(message("first"))
    puts = [*over_queues(), alone(message("long", pad=SMALL.segment_size - 500))]
    with monkeypatch.context() as patch:
        patch.setattr(DISK, "allocate", _full_disk)
        refused = store.put_together(puts)
        assert {result.status for result in refused} == {PutStatus.CREATE_MAPPED_FILE_FAILED}
        assert store.put(message("short")).queue_offset == 1  # where the others would have been
    assert {result.status for result in store.put_together(puts)} == {PutStatus.PUT_OK}
    assert keys(store) == ["first", "short", "q0-0", "q0-1", "q0-2", "long"]
    assert not violations(contents(store.root))


def test_what_came_together_waits_together_where_one_queue_has_no_room(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(message("first"))
    with monkeypatch.context() as patch:
        patch.setattr(DISK, "create", _full_disk)
        results = store.put_together(over_queues())
        assert {result.status for result in results} == {PutStatus.PUT_OK}
        assert [keys(store, queue_id) for queue_id in range(3)] == [["first"], [], []]
        assert store.put(message("too")).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert store.put(message("last")).status is PutStatus.PUT_OK
    assert keys(store) == ["first", "q0-0", "q0-1", "q0-2", "last"]
    assert keys(store, 1) == ["q1-0", "q1-1", "q1-2"]
    assert not violations(contents(store.root))


def test_a_flush_in_the_middle_of_a_write_leaves_its_queue_to_be_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another thread may do it."""
    queue = ConsumeQueue(tmp_path, 20)
    write = MappedFileQueue.write

    def flushed_before(files: MappedFileQueue, position: int, data: bytes) -> None:
        queue.flush()
        write(files, position, data)

    monkeypatch.setattr(MappedFileQueue, "write", flushed_before)
    for offset in range(2):
        queue.put(offset, pack_units([(100 * offset, 100, 0)]))
        assert queue.is_dirty
    queue.flush()
    assert not queue.is_dirty
    queue.close()


def test_the_checkpoint_waits_for_units_whose_flush_failed(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which units are on disk: what fails once is flushed again before it is written."""
    done: list[str] = []
    sync, write = DISK.sync, DISK.write

    def synced(path: Path, mapped: mmap.mmap, begin: int, size: int) -> None:
        sync(path, mapped, begin, size)
        done.append(path.relative_to(store.root).parts[0])

    def written(path: Path, data: bytes) -> None:
        write(path, data)
        done.append(path.name)

    def failing(path: Path, *_: object) -> None:
        if "consumequeue" in path.parts:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(DISK, "write", written)
    for key in ("a", "b"):
        put = store.put(message(key))
        for _ in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(DISK, "sync", failing)
                with pytest.raises(OSError, match="Input/output error"):
                    store.flush()
        assert done == []
        with monkeypatch.context() as patch:
            patch.setattr(DISK, "sync", synced)
            store.flush()
        assert done == ["consumequeue", "checkpoint"]
        stamp = read_checkpoint(store.root / "checkpoint").logics_msg_timestamp
        assert stamp == put.store_timestamp
        done.clear()


def test_a_flush_after_one_that_failed_begins_where_that_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = ConsumeQueue(tmp_path, 20)
    flushed: list[tuple[int, int]] = []
    queue.put(0, pack_units([(0, 100, 0)]))
    queue.flush()
    queue.put(1, pack_units([(100, 100, 0)]))
    with monkeypatch.context() as patch:
        patch.setattr(MappedFileQueue, "flush", _full_disk)
        with pytest.raises(OSError, match="No space"):
            queue.flush()
    assert queue.is_dirty
    queue.put(2, pack_units([(200, 100, 0)]))
    monkeypatch.setattr(MappedFileQueue, "flush", lambda _, *span: flushed.append(span))
    queue.flush()
    assert flushed == [(20, 60)]
    queue.close()


def test_what_is_in_the_transient_store_pool_is_lost_by_a_kill(tmp_path: Path) -> None:
    config = replace(SMALL, transient_store_pool_enable=True)
    store = new_store(tmp_path / "a", config)
    store.open()
    for n in range(10):
        assert store.put(message(f"k{n}")).queue_offset == n
    assert keys(store) == []
    store.commit_commit_log()
    assert len(keys(store)) == 10
    assert store.unflushed.min < store.unflushed.max
    store.flush_commit_log()
    assert store.unflushed.min == store.unflushed.max
    assert store.put(message("pooled")).status is PutStatus.PUT_OK
    write_image(tmp_path / "b", image_of(tmp_path / "a"))
    killed = new_store(tmp_path / "b", config)
    killed.open()
    assert keys(killed) == [f"k{n}" for n in range(10)]
    killed.close()
    store.close()
    store = new_store(tmp_path / "a", config)
    store.open()
    assert keys(store)[-1] == "pooled"
    store.close()


def _full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_store_timestamps_never_go_back_when_the_clock_does(tmp_path: Path) -> None:
    clock = Clock()
    store = new_store(tmp_path, clock=clock)
    store.open()
    times = [store.put(message("a")).store_timestamp]
    clock.now -= 1000
    times.append(store.put(message("b")).store_timestamp)
    store.close()
    clock.now -= 1000
    store = new_store(tmp_path, clock=clock)
    store.open()
    times.append(store.put(message("c")).store_timestamp)
    clock.now += 10_000
    times.append(store.put(message("d")).store_timestamp)
    assert times == [times[0]] * 3 + [clock.now]
    assert [record.store_timestamp for record in contents(tmp_path).log] == times
    assert store.offset_by_time("T", 0, times[0], Boundary.UPPER) == 2
    store.close()


def test_offsets_by_time(tmp_path: Path) -> None:
    clock = Clock()
    store = new_store(tmp_path, clock=clock)
    store.open()
    assert store.earliest_time("T", 0) == -1
    times = []
    for i in range(4):
        clock.now += 10
        times.append(store.put(message(f"k{i}")).store_timestamp)
    lower = [store.offset_by_time("T", 0, t, Boundary.LOWER) for t in (0, times[2], times[3] + 1)]
    upper = [store.offset_by_time("T", 0, t, Boundary.UPPER) for t in (0, times[2], times[3] + 1)]
    assert lower == [0, 2, 4]
    assert upper == [0, 2, 3]
    assert store.offset_by_time("T", 0, times[1] + 1, Boundary.LOWER) == 2
    assert store.offset_by_time("T", 0, times[1] + 1, Boundary.UPPER) == 1
    assert store.earliest_time("T", 0) == times[0]
