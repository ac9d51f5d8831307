"""Locks over the wire: what is granted, and what a trace tells of what is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from peer import Peer, meet, running

from mqcheck.traces.lock import lock_traces
from mqcheck.traces.trace import read_lines
from mqspec.trace import Trace
from mqspec.wire.codes import RequestCode


async def lock(peer: Peer, client_id: str, *queue_ids: int) -> list[int]:
    """The queues that a member was granted."""
    wanted = [{"topic": "T", "brokerName": "broker-a", "queueId": one} for one in queue_ids]
    body = {"consumerGroup": "G", "clientId": client_id, "mqSet": wanted}
    answer = await peer.ask(RequestCode.LOCK_BATCH_MQ, json.dumps(body).encode())
    assert answer.code == 0
    return sorted(mq["queueId"] for mq in json.loads(answer.body)["lockOKMQSet"])


def test_a_trace_tells_of_each_queue_whether_it_was_granted(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"

    async def scenario() -> None:
        async with running(tmp_path / "store", trace=Trace(file)) as cluster:
            peer = await meet(cluster.brokers[0].address)
            assert await lock(peer, "a", 0, 1) == [0, 1]
            assert await lock(peer, "b", 0, 1, 2) == [2]
            await peer.close()

    asyncio.run(scenario())
    told = {
        trace.subject: [
            (event.x, event.y) for event in trace.events if event.action == "TryLockBatch"
        ]
        for trace in lock_traces(read_lines(file))
    }
    assert list(told.values()) == [
        [("a", 1), ("b", 0)],
        [("a", 1), ("b", 0)],
        [("b", 1)],
    ]
