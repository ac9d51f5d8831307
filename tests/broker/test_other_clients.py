"""Clients in C++, Go, Node and Rust, by the frames that they sent: header fields that nobody knows,
fields that are left out, enumerations by number, old versions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import client_frames
import pytest
from peer import meet, running

from mqspec.wire.bodies import decode_messages
from mqspec.wire.codec import Decoder, Language, RemotingCommand
from mqspec.wire.codes import RequestCode

DEADLINE_S = 10.0
CLIENTS = {
    "cpp": client_frames.CPP,
    "go": client_frames.GO,
    "node": client_frames.NODE,
    "rust": client_frames.RUST,
}
LANGUAGES = {  # as they say
    "cpp": Language.CPP,
    "go": Language.GO,
    "node": Language.JAVA,
    "rust": Language.RUST,
}


def sent(frames: Mapping[int, str]) -> dict[int, RemotingCommand]:
    return {
        code: request
        for code, text in frames.items()
        for request in Decoder().feed(bytes.fromhex(text))
    }


class Replayed:
    """A client's frames, sent as they were."""

    def __init__(
        self,
        frames: Mapping[int, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._frames, self._reader, self._writer = frames, reader, writer

    def tell(self, code: int) -> None:
        """Send its frame of a code."""
        self._writer.write(bytes.fromhex(self._frames[code]))

    async def ask(self, code: int) -> RemotingCommand:
        """The answer to its frame of a code."""
        self.tell(code)
        async with asyncio.timeout(DEADLINE_S):
            while True:
                size = await self._reader.readexactly(4)
                frame = size + await self._reader.readexactly(int.from_bytes(size, "big"))
                (command,) = Decoder().feed(frame)
                if command.is_response:
                    return command

    def close(self) -> None:
        self._writer.close()


async def replay(frames: Mapping[int, str], address: str) -> Replayed:
    host, _, port = address.rpartition(":")
    return Replayed(frames, *await asyncio.open_connection(host, int(port)))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_of_another_language_is_served(tmp_path: Path, name: str) -> None:
    frames = CLIENTS[name]
    requests = sent(frames)
    assert {request.language for request in requests.values()} == {LANGUAGES[name]}
    (send,) = {10, 310} & set(frames)
    topic = requests[105].ext_fields["topic"]
    group = requests[38].ext_fields["consumerGroup"]
    client_id = json.loads(requests[34].body)["clientID"]

    async def scene() -> None:
        async with running(tmp_path / "store") as cluster:
            (broker,) = cluster.brokers
            admin = await meet(broker.address)
            created = await admin.ask(
                RequestCode.UPDATE_AND_CREATE_TOPIC,
                topic=topic,
                defaultTopic="TBW102",
                readQueueNums=8,
                writeQueueNums=8,
                perm=6,
                topicFilterType="SINGLE_TAG",
                order="false",
            )
            assert created.code == 0
            client = await replay(frames, broker.address)
            assert (await client.ask(send)).code == 0
            if 320 in frames:
                assert (await client.ask(320)).ext_fields["queueOffset"] == "0"
            assert (await client.ask(34)).code == 0
            assert json.loads((await client.ask(38)).body) == {"consumerIdList": [client_id]}
            assert (await client.ask(14)).ext_fields["offset"] == "0"
            pulled = await client.ask(11)
            (record,) = decode_messages(pulled.body)
            assert record.body == requests[send].body
            if requests[15].is_oneway:
                client.tell(15)
            else:
                assert (await client.ask(15)).code == 0
            committed = requests[15].ext_fields["commitOffset"]
            assert (await client.ask(14)).ext_fields["offset"] == committed
            if 35 in frames:
                assert (await client.ask(35)).code == 0
                remark = f"no consumer for this group, {group}"
                assert (await client.ask(38)).remark == remark
            client.close()
            router = await replay(frames, cluster.nameserver.address)
            route = await router.ask(105)
            assert (route.code, b'"writeQueueNums":8' in route.body) == (0, True)
            router.close()
            await admin.close()

    asyncio.run(scene())
