"""Conversations of the core, answered by a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mqspec.core.conversation import Ask, Conversation, LogOnDisk, Persist
from mqspec.core.delay import DelayState, persist_progress
from mqspec.core.offset_commit import OffsetKey, OffsetState, persist_offsets

KEY = OffsetKey("topic", "group", 0)


def asks(talk: Conversation[Any], answer: Callable[[Ask], object]) -> list[Ask]:
    """What a conversation yields that is answered so."""
    asked: list[Ask] = []
    try:
        asked.append(next(talk))
        while True:
            asked.append(talk.send(answer(asked[-1])))
    except StopIteration:
        return asked


@pytest.mark.parametrize(
    ("state", "talk"),
    [(OffsetState({KEY: 1}), persist_offsets), (DelayState({1: 1}), persist_progress)],
)
def test_nothing_is_written_before_the_log_is_on_disk(
    state: Any, talk: Callable[[Any], Conversation[None]]
) -> None:
    def fails(ask: Ask) -> bool:
        return False

    assert not any(isinstance(ask, Persist) for ask in asks(talk(state), fails))
    kinds = [type(ask) for ask in asks(talk(state), lambda _: True)]
    assert kinds.index(LogOnDisk) < kinds.index(Persist)


@pytest.mark.parametrize(
    ("state", "key", "talk"),
    [(OffsetState({KEY: 1}), KEY, persist_offsets), (DelayState({1: 1}), 1, persist_progress)],
)
def test_what_moves_while_the_log_is_flushed_is_not_written(
    state: Any, key: Any, talk: Callable[[Any], Conversation[None]]
) -> None:
    def flushes(ask: Ask) -> bool:
        if isinstance(ask, LogOnDisk):
            state.offset_table[key] = 2  # another request, meanwhile
        return True

    written = [ask.state for ask in asks(talk(state), flushes) if isinstance(ask, Persist)]
    assert [file.offset_table for file in written] == [{key: 1}]
