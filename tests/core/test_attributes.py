"""Attributes, as 5.3.3 answered over the wire."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mqspec.core.attributes import (
    GROUP_ATTRIBUTES,
    TOPIC_ATTRIBUTES,
    Attribute,
    alter,
    parse_alterations,
)
from mqspec.core.response import Refusal


def altered(current: dict[str, str] | None, text: str) -> dict[str, str] | str | None:
    """The attributes after the alterations, or the remark of the refusal."""
    alterations = parse_alterations(text)
    if isinstance(alterations, Refusal):
        return alterations.remark
    result = alter(TOPIC_ATTRIBUTES, current, alterations)
    return result.remark if isinstance(result, Refusal) else result


@pytest.mark.parametrize(
    ("current", "text", "result"),
    [
        (None, "", {}),
        (None, "+message.type=FIFO,+reserve.time=5", {"message.type": "FIFO", "reserve.time": "5"}),
        ({"message.type": "FIFO"}, "+message.type=NORMAL", {"message.type": "NORMAL"}),
        ({"message.type": "FIFO"}, "-message.type", {}),
        ({}, "+reserve.time=-1", {"reserve.time": "-1"}),
        (None, "+message.type=FIFO=x,", {"message.type": "FIFO"}),
        (None, ",,", {}),
        (None, " +message.type=FIFO", "kv string format wrong."),
        (None, "+=x", "kv string format wrong."),
        (None, "-", "kv string format wrong."),
        (None, "+message.type=", "Index 1 out of bounds for length 1"),
        (None, "=", "Index 0 out of bounds for length 0"),
        (None, "+queue.type=X", "value is not in set: [SimpleCQ, BatchCQ]"),
        ({"reserve.time": "5"}, "+reserve.time=6,-reserve.time",
         "alter duplication key. key: reserve.time"),
        (None, "message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        (None, "+message.type", "delete attribute format is wrong: +message.type"),
        (None, "+message.type=FIFO,+message.type=DELAY", "key duplication: +message.type"),
        (None, "-a", "only add attribute is supported while creating topic. key: a"),
        ({}, "-message.type", "attempt to delete a nonexistent key: message.type"),
        ({}, "+no.such=1", "unsupported key: no.such"),
        ({}, "+queue.type=BatchCQ", "attempt to update an unchangeable attribute. key: queue.type"),
        (None, "+cleanup.policy=BLUE", "value is not in set: [DELETE, COMPACTION]"),
        ({}, "+reserve.time=-2", "value is not in range(-1, 9223372036854775807)"),
        ({}, "+reserve.time=soon", 'For input string: "soon"'),
    ],
)  # fmt: skip
def test_alterations(
    current: dict[str, str] | None, text: str, result: dict[str, str] | str
) -> None:
    before = dict(current or {})
    assert altered(current, text) == result
    assert (current or {}) == before, "what there was is left as it was"


@pytest.mark.parametrize("signed", ["message.type", "*message.type"])
@pytest.mark.parametrize("known", [TOPIC_ATTRIBUTES, GROUP_ATTRIBUTES])
def test_what_has_no_sign_alters_nothing(known: Mapping[str, Attribute], signed: str) -> None:
    """Those of a group come as a map: `parse_alterations` has not looked at them."""
    refused = alter(known, {"message.type": "FIFO"}, {signed: "NORMAL"})
    assert isinstance(refused, Refusal)
    assert refused.remark == f"wrong format key: {signed[1:]}"
