"""A store that refuses puts, as one on a full disk does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from mqspec.core.log import PutResult, PutStatus
from mqspec.core.record import Batch
from mqspec.core.types import Topic
from mqspec.store.message_store import MessageStore


@contextmanager
def refusing(
    store: MessageStore,
    *topics: Topic,
    after: int = 0,
    status: PutStatus = PutStatus.SERVICE_NOT_AVAILABLE,
) -> Iterator[list[Topic]]:
    """Refuse what is put for some topics, for any where none is named, meanwhile; but for the
    first `after` of it. Gives the topics of what was refused."""
    left = after
    refused: list[Topic] = []
    put_together = store.put_together

    def put(puts: Sequence[Batch]) -> list[PutResult]:
        return [result for batch in puts for result in put_one(batch)]

    def put_one(batch: Batch) -> list[PutResult]:
        nonlocal left
        topic = batch.shared.topic
        if topics and topic not in topics:
            return put_together((batch,))
        if left:
            left -= 1
            return put_together((batch,))
        refused.append(topic)
        return [PutResult(status)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "put_together", put)
        yield refused
