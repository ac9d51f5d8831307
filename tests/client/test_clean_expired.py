"""How many messages of a queue a look for stuck ones takes away, and when it goes on.

As ProcessQueue.cleanExpiredMsg does in 5.3.3.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from mqspec.client.consume_concurrently import ConsumeMessageConcurrentlyService
from mqspec.core.offset_commit import ProcessQueue
from mqspec.core.push_consumer import CLEAN_EXPIRED_MSG_DELAY_LEVEL
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


@pytest.mark.parametrize("failures", [0, 1, 15, 16, 99])
def test_a_message_that_cannot_be_sent_back_is_tried_again_in_the_same_look(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []
    finished: list[list[str]] = []
    mq, _ = QUEUES

    async def send_message_back(message: str, delay_level: int) -> bool:
        asked.append((message, delay_level))
        return len(asked) > failures

    consumer: Any = SimpleNamespace(
        state=SimpleNamespace(
            process_queue_table={mq: ProcessQueue(7, 5, 6, msg_tree_map=(5,))},
        ),
        messages=SimpleNamespace(consume_start_ms=lambda _: {5: 0}, get=lambda *_: ("stuck",)),
        config=SimpleNamespace(consume_timeout_ms=1),
        send_back=SimpleNamespace(send_message_back=send_message_back),
        record=lambda *_, **__: None,
        message_fields=lambda _: {},
    )

    async def finish(self: object, request: object, messages: list[str]) -> None:
        finished.append(messages)
        consumer.state.process_queue_table[mq] = ProcessQueue(7, 6, 6)

    monkeypatch.setattr(ConsumeMessageConcurrentlyService, "_finish", finish)
    asyncio.run(ConsumeMessageConcurrentlyService(consumer)._clean_expired_messages())
    assert asked == [("stuck", CLEAN_EXPIRED_MSG_DELAY_LEVEL)] * min(failures + 1, 16)
    assert finished == [["stuck"]] * (failures < 16)
