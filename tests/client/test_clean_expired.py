"""How many messages of a queue a look for stuck ones takes away, and when it goes on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from mqspec.client.consume_concurrently import ConsumeMessageConcurrentlyService
from mqspec.core.offset_commit import ProcessQueue
from mqspec.core.types import MessageQueue

QUEUES = tuple(MessageQueue("T", "broker-a", number) for number in range(2))


@pytest.mark.parametrize(
    ("stuck", "looked_at"),
    [(0, 1), (3, 4), (15, 16), (16, 16), (99, 16)],  # one that is not stuck ends it
)
def test_a_queue_is_cleaned_of_its_stuck_messages_up_to_sixteen(
    stuck: int, looked_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[tuple[MessageQueue, int]] = []

    async def clean(self: object, mq: MessageQueue, generation: int) -> bool:
        looks.append((mq, generation))
        return looks.count((mq, generation)) <= stuck

    monkeypatch.setattr(ConsumeMessageConcurrentlyService, "_clean_one", clean)
    held = {mq: ProcessQueue(7, 0, 0) for mq in QUEUES}
    consumer: Any = SimpleNamespace(state=SimpleNamespace(process_queue_table=held))
    asyncio.run(ConsumeMessageConcurrentlyService(consumer)._clean_expired_messages())
    assert looks == [(mq, 7) for mq in QUEUES for _ in range(looked_at)]
