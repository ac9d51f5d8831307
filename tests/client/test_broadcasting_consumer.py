"""The broadcasting push consumer, on the reference's brokers, and the file of its progress."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from scene import GROUP, QUICK, TOPIC, create_topic, keys_of, run, send, taking, until

from mqrules import UserError
from mqspec.client.listener import ConsumeStatus
from mqspec.client.message import MessageExt
from mqspec.client.offset_store import LocalFileOffsetStore
from mqspec.client.push_consumer import PushConsumer
from mqspec.cluster import Cluster
from mqspec.core.group import MessageModel
from mqspec.core.offset_commit import UpdateConsumerOffset
from mqspec.core.types import MessageQueue

A1 = MessageQueue(TOPIC, "broker-a", 1)

# As the real client writes it.
OF_THE_REAL_CLIENT = b"""{
	"offsetTable":{{
			"brokerName":"broker-a",
			"queueId":1,
			"topic":"T"
		}:5
	}
}"""


def test_every_member_gets_every_message_and_remembers_where_it_was(tmp_path: Path) -> None:
    config = replace(
        QUICK, message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path / "offsets"
    )

    async def scene(cluster: Cluster) -> None:
        def member(name: str, got: list[MessageExt]) -> PushConsumer:
            address = cluster.nameserver.address
            topics = {TOPIC: "*"}
            return PushConsumer(address, GROUP, topics, taking(got), config, client_id=name)

        first: list[MessageExt] = []
        second: list[MessageExt] = []
        await create_topic(cluster, 2)
        await send(cluster, *"abcd")
        async with member("first", first), member("second", second):
            await until(lambda: len(first) == len(second) == 4)
        assert sorted(keys_of(first)) == sorted(keys_of(second)) == list("abcd")
        await send(cluster, "e")
        async with member("first", first):
            await until(lambda: len(first) == 5)
        assert keys_of(first)[4] == "e"

    run(tmp_path / "store", scene)
    files = sorted(path.relative_to(tmp_path) for path in (tmp_path / "offsets").rglob("*.json"))
    names = [Path("offsets") / name / GROUP / "offsets.json" for name in ("first", "second")]
    assert files == names


def test_processes_of_one_host_share_the_file(tmp_path: Path) -> None:
    """One that has consumed nothing goes on where another one is (BCAST-002)."""
    config = replace(
        QUICK, message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path / "offsets"
    )

    async def scene(cluster: Cluster) -> None:
        def process(got: list[MessageExt]) -> PushConsumer:
            return PushConsumer(
                cluster.nameserver.address, GROUP, {TOPIC: "*"}, taking(got), config
            )

        first: list[MessageExt] = []
        second: list[MessageExt] = []
        await create_topic(cluster, 1)
        await send(cluster, *"abcd")
        async with process(first):
            await until(lambda: len(first) == 4)
        await send(cluster, "e")
        async with process(second):
            await until(lambda: len(second) == 1)
        assert (keys_of(first), keys_of(second)) == (list("abcd"), ["e"])

    run(tmp_path / "store", scene)


def test_what_a_broadcasting_member_fails_on_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = replace(
        QUICK, message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path
    )
    seen: list[str] = []

    async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
        seen.extend(keys_of(messages))
        return ConsumeStatus.RECONSUME_LATER

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "a")
        address = cluster.nameserver.address
        async with PushConsumer(address, GROUP, {TOPIC: "*"}, listen, config) as consumer:
            assert consumer.client_id.endswith("@DEFAULT")
            await until(lambda: 1 in consumer.state.offset_store.values())

    run(tmp_path / "store", scene)
    assert seen == ["a"]
    assert "1 messages are given up" in caplog.text


@pytest.mark.parametrize(
    ("content", "backup", "offset"),
    [
        (None, None, -1),
        (OF_THE_REAL_CLIENT, None, 5),
        (None, OF_THE_REAL_CLIENT, 5),
        (b"", OF_THE_REAL_CLIENT, 5),
        (b"{", OF_THE_REAL_CLIENT, 5),
        (b'{"offsetTable":{}}', OF_THE_REAL_CLIENT, -1),
    ],
)
def test_progress_is_read_from_the_file_or_the_one_before(
    tmp_path: Path, content: bytes | None, backup: bytes | None, offset: int
) -> None:
    path = tmp_path / "offsets.json"
    for file, data in ((path, content), (tmp_path / "offsets.json.bak", backup)):
        if data is not None:
            file.write_bytes(data)
    assert asyncio.run(LocalFileOffsetStore(path).read_offset(A1)) == offset


def test_where_both_files_are_damaged_nothing_is_made_up(tmp_path: Path) -> None:
    for name in ("offsets.json", "offsets.json.bak"):
        (tmp_path / name).write_bytes(b"{")
    with pytest.raises(UserError, match=r"neither it nor its \.bak can be read"):
        LocalFileOffsetStore(tmp_path / "offsets.json")


def test_progress_is_on_disk_before_it_takes_the_place_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "offsets.json"
    synced: list[tuple[int, int]] = []

    def note(descriptor: int) -> None:
        synced.append(place(os.fstat(descriptor)))
        assert path.exists() is (len(synced) > 1), "it is replaced after that"

    def place(stat: os.stat_result) -> tuple[int, int]:
        return stat.st_ino, stat.st_size

    monkeypatch.setattr(os, "fsync", note)
    store = LocalFileOffsetStore(path)
    for offset in (5, 16):
        asyncio.run(store.persist([UpdateConsumerOffset(GROUP, A1, offset)]))
        assert synced[-1] == place(path.stat())
    assert asyncio.run(LocalFileOffsetStore(path).read_offset(A1)) == 16
    path.unlink()
    assert asyncio.run(LocalFileOffsetStore(path).read_offset(A1)) == 5


def test_what_a_disk_does_not_take_is_in_the_file_the_next_time(tmp_path: Path) -> None:
    in_the_way = tmp_path / "group"
    store = LocalFileOffsetStore(in_the_way / "offsets.json")
    in_the_way.touch()
    asyncio.run(store.persist([UpdateConsumerOffset(GROUP, A1, 5)]))
    in_the_way.unlink()
    other = replace(A1, queue_id=2)
    asyncio.run(store.persist([UpdateConsumerOffset(GROUP, other, 7)]))
    again = LocalFileOffsetStore(in_the_way / "offsets.json")
    assert [asyncio.run(again.read_offset(mq)) for mq in (A1, other)] == [5, 7]
