"""A broker with synchronous flush and small files, in a process that can be killed.

    python sync_flush_broker.py DIRECTORY

says `broker HOST:PORT` and serves until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mqspec.cluster import Cluster, ClusterConfig
from mqspec.store import StoreConfig

CONFIG = StoreConfig(segment_size=65_536, consume_queue_units=300, sync_flush=True)


async def _serve(store: Path) -> None:
    async with Cluster(ClusterConfig(store, store_config=CONFIG)) as cluster:
        print("broker", cluster.brokers[0].address, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
