"""Carries out conversations of the core on a model's states, as the shell does on a broker's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from mqspec.core import conversation
from mqspec.core.conversation import Ask, Conversation
from mqspec.core.step import apply

T = TypeVar("T")
Answers: TypeAlias = Mapping[type[Ask], Callable[[Any], object]]
"""By what a conversation asks for: the answer."""


def converse(talk: Conversation[T], answers: Answers) -> T:
    """The result of a conversation. Its steps are applied to the states that it names; what else
    it asks for `answers` tells."""
    answer: object = None
    try:
        while True:
            ask = talk.send(answer)
            answer = (answers.get(type(ask)) or _USUAL[type(ask)])(ask)
    except StopIteration as end:
        result: T = end.value
        return result


def _carry(ask: conversation.Carry) -> Any:
    apply(ask.state, ask.step.changes)
    return ask.step.result


_USUAL: Final[Answers] = {
    conversation.Carry: _carry,
    conversation.Count: lambda _: None,
    conversation.Note: lambda _: None,
    conversation.Told: lambda _: None,
    conversation.NotifyPops: lambda _: None,
}
