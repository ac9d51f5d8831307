"""A queue whose lock is refused is asked for again after a while, and not at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mqspec.client import consume_orderly
from mqspec.client.consume_orderly import ConsumeMessageOrderlyService
from mqspec.core.offset_commit import ProcessQueue
from mqspec.core.types import MessageQueue

MQ = MessageQueue("T", "broker-a", 0)


@pytest.mark.parametrize(
    ("locked_by", "slept"), [(1, []), (2, [3_000]), (4, [3_000, 3_000, 3_000])]
)
def test_a_lock_that_is_refused_is_waited_for(
    locked_by: int, slept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOCK_AGAIN_DELAY_MS; `locked_by` is the first try that is not refused."""
    queue = ProcessQueue(1, 0, 0, msg_tree_map=(0,))
    table = {MQ: queue}
    state: Any = SimpleNamespace(process_queue_table=table)
    tries: list[Sequence[MessageQueue]] = []
    pauses: list[int] = []

    async def lock(self: object, mqs: Sequence[MessageQueue]) -> None:
        tries.append(mqs)

    async def consume(*_: object) -> int:
        table.clear()  # it is given up, which ends the work
        return 0

    async def sleep_ms(delay_ms: int) -> None:
        if delay_ms:
            pauses.append(delay_ms)

    service = ConsumeMessageOrderlyService
    monkeypatch.setattr(service, "_lock", lock)
    monkeypatch.setattr(service, "is_locked", lambda *_: len(tries) >= locked_by)
    monkeypatch.setattr(service, "_consume_continuously", consume)
    monkeypatch.setattr(consume_orderly, "sleep_ms", sleep_ms)

    async def scene() -> None:
        consumer: Any = SimpleNamespace(state=state, config=SimpleNamespace(consume_threads=1))
        await service(consumer)._work(MQ, 1, asyncio.Event())

    asyncio.run(asyncio.wait_for(scene(), 20))
    assert tries == [[MQ]] * locked_by
    assert pauses == slept
