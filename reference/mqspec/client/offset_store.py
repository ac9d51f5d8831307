"""Where a consumer keeps its progress: at the brokers, or, where it broadcasts, in a file.

Facts: client/consumer/store/{RemoteBrokerOffsetStore,LocalFileOffsetStore}.java, 5.3.3.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from mqrules import UserError
from mqspec.client.instance import NOT_ANSWERED, ClientInstance, int_field, succeeded
from mqspec.core.offset_commit import NOT_FOUND, UpdateConsumerOffset
from mqspec.core.route import MASTER_ID
from mqspec.core.types import BrokerName, Group, MessageQueue
from mqspec.wire import bodies
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

log = logging.getLogger(__name__)

_STRING_OR_SPACE = re.compile(rb'("(?:[^"\\]|\\.)*")|\s+')  # the real client's file is indented


class OffsetStore(Protocol):
    """Reads and writes the progress of one consumer."""

    async def read_offset(self, mq: MessageQueue) -> int:
        """What is stored; NOT_FOUND. Raises what a request raises."""

    async def persist(self, updates: Sequence[UpdateConsumerOffset]) -> None:
        """Store these."""


async def ask_offset(
    instance: ClientInstance,
    code: RequestCode,
    mq: MessageQueue,
    fields: Mapping[str, str],
    broker_id: int = MASTER_ID,
) -> int:
    """One of a queue's offsets; NOT_FOUND. Raises what a request raises."""
    where = {"topic": mq.topic, "queueId": str(mq.queue_id), "bname": mq.broker_name}
    request = RemotingCommand(code, {**fields, **where})
    response = await instance.invoke(mq.broker_name, request, broker_id=broker_id)
    if response.code == ResponseCode.QUERY_NOT_FOUND:
        return NOT_FOUND
    return int_field(succeeded(response), "offset")


class RemoteBrokerOffsetStore:
    """Each queue's progress is at its broker, or at a replica where no route names the master."""

    def __init__(self, instance: ClientInstance, group: Group) -> None:
        self._instance, self._group = instance, group

    async def read_offset(self, mq: MessageQueue) -> int:
        """What the broker has, or makes up for a group that it does not know (OFFSET-013)."""
        fields = {"consumerGroup": self._group}
        code, broker_id = RequestCode.QUERY_CONSUMER_OFFSET, self._find(mq)
        return await ask_offset(self._instance, code, mq, fields, broker_id)

    async def persist(self, updates: Sequence[UpdateConsumerOffset]) -> None:
        """One-way: what does not arrive is reported again by the next one. A broker that is not
        reached is not tried again for its other queues, and keeps no other broker waiting."""
        by_broker: dict[BrokerName, list[UpdateConsumerOffset]] = {}
        for update in updates:
            by_broker.setdefault(update.mq.broker_name, []).append(update)
        await asyncio.gather(*map(self._report, by_broker.values()))

    async def _report(self, of_broker: Sequence[UpdateConsumerOffset]) -> None:
        for update in of_broker:
            fields = {
                "consumerGroup": update.group,
                "topic": update.mq.topic,
                "queueId": str(update.mq.queue_id),
                "commitOffset": str(update.commit_offset),
                "bname": update.mq.broker_name,
            }
            request = RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
            broker = update.mq.broker_name
            try:
                await self._instance.oneway(broker, request, self._find(update.mq))
            except NOT_ANSWERED as error:
                log.warning("progress at %s is not reported: %s", broker, error)
                break

    def _find(self, mq: MessageQueue) -> int:
        return self._instance.find_in_subscribe(mq.broker_name)


class LocalFileOffsetStore:
    """`DIRECTORY/CLIENT_ID/GROUP/offsets.json`, with its last content beside it as `.bak`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bak = path.with_name(path.name + ".bak")
        self._offsets = self._load()

    async def read_offset(self, mq: MessageQueue) -> int:
        """What the file has."""
        return self._offsets.get(mq, NOT_FOUND)

    async def persist(self, updates: Sequence[UpdateConsumerOffset]) -> None:
        """The file is replaced. Where the disk does not take it, the next one has it."""
        if not updates:
            return
        self._offsets.update((update.mq, update.commit_offset) for update in updates)
        try:
            self._replace()
        except OSError as error:
            log.error("progress is not written: %s", error)

    def _replace(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(self.path.name + ".tmp")
        with new.open("wb") as file:
            file.write(bodies.dumps({"offsetTable": self._offsets}))
            file.flush()
            os.fsync(file.fileno())
        if self.path.exists():
            self.path.replace(self._bak)
        new.replace(self.path)

    def _load(self) -> dict[MessageQueue, int]:
        # Empty counts as missing, as in 5.3.3: only what is there and no JSON is damaged.
        for path in (self.path, self._bak):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue
            try:
                if content:
                    compact = _STRING_OR_SPACE.sub(lambda match: match[1] or b"", content)
                    table = bodies.loads(compact)["offsetTable"]
                    return {mq: int(offset) for mq, offset in table.items()}
            except (bodies.BodyError, KeyError, TypeError, ValueError) as error:
                log.warning("%s is damaged: %s", path, error)
                if path == self._bak:
                    raise UserError(
                        str(self.path),
                        "neither it nor its .bak can be read",
                        "remove both to consume as a new group does",
                    ) from None
        return {}
