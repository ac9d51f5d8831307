"""The benchmark's own parts: what says no, what fills a store, what asks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from figures import Figure
from fill import QUEUES, fill, topics
from load import Load, pull, pulled, send

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
