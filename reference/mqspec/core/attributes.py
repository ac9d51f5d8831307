"""Attributes of topics and groups, and how an administrator alters them.

An alteration names an attribute with a sign: `+message.type=FIFO` gives it a value,
`-message.type` takes it away. Only what is in a table of attributes can be set.

Facts: AttributeParser.java, AttributeUtil.java, TopicAttributes.java,
SubscriptionGroupAttributes.java (5.3.3), and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mqspec.core.java import java_split
from mqspec.core.response import Refusal, ResponseCode


@dataclass(frozen=True, slots=True)
class Attribute:
    """What values an attribute may have, and whether it can change after the creation."""

    values: tuple[str, ...] = ()  # none: a number
    least: int = 0
    is_changeable: bool = False


TOPIC_ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    "queue.type": Attribute(("SimpleCQ", "BatchCQ")),
    "cleanup.policy": Attribute(("DELETE", "COMPACTION")),
    "message.type": Attribute(
        ("UNSPECIFIED", "TRANSACTION", "FIFO", "MIXED", "DELAY", "NORMAL"), is_changeable=True
    ),
    "reserve.time": Attribute(least=-1, is_changeable=True),  # ms
}
GROUP_ATTRIBUTES: Final[Mapping[str, Attribute]] = {}

_LONG_MAX: Final = (1 << 63) - 1


def parse_alterations(text: str) -> dict[str, str] | Refusal:
    """The alterations of request 17: a signed name to its value, "" where it is taken away. A
    value ends before a second `=`, and one that would be empty there is none."""
    found: dict[str, str] = {}
    for item in java_split(text, ",") if text else ():
        has_value = "=" in item
        parts = java_split(item, "=") if has_value else [item, ""]
        if len(parts) < 2:
            return _refusal(f"Index {len(parts)} out of bounds for length {len(parts)}")
        name, value, *_ = parts
        if ("+" if has_value else "-") not in name:
            kind = "add/alter" if has_value else "delete"
            return _refusal(f"{kind} attribute format is wrong: {name}")
        if name in found:
            return _refusal(f"key duplication: {name}")
        found[name] = value

    return found


def alter(
    known: Mapping[str, Attribute],
    current: Mapping[str, str] | None,
    alterations: Mapping[str, str],
) -> dict[str, str] | Refusal:
    """The attributes after the alterations; `current` None: of what is being created."""
    altered, names = dict(current or {}), set[str]()
    for signed, value in alterations.items():
        sign, name = signed[:1], signed[1:]
        if not name or "+" in name or "-" in name:
            return _refusal("kv string format wrong.")
        if name in names:
            return _refusal(f"alter duplication key. key: {name}")
        names.add(name)
        if refusal := _check(known, current, sign, name, value):
            return refusal
        if sign == "+":
            altered[name] = value
        else:
            del altered[name]

    return altered


def _check(
    known: Mapping[str, Attribute],
    current: Mapping[str, str] | None,
    sign: str,
    name: str,
    value: str,
) -> Refusal | None:
    if current is None and sign != "+":
        return _refusal(f"only add attribute is supported while creating topic. key: {name}")
    if sign == "-" and current is not None and name not in current:
        return _refusal(f"attempt to delete a nonexistent key: {name}")
    if sign not in ("+", "-"):
        return _refusal(f"wrong format key: {name}")
    attribute = known.get(name)
    if attribute is None:
        return _refusal(f"unsupported key: {name}")
    if current is not None and not attribute.is_changeable:
        return _refusal(f"attempt to update an unchangeable attribute. key: {name}")
    return None if sign == "-" else _check_value(attribute, value)


def _check_value(attribute: Attribute, value: str) -> Refusal | None:
    if attribute.values:
        if value in attribute.values:
            return None
        return _refusal(f"value is not in set: [{', '.join(attribute.values)}]")
    try:
        number = int(value)
    except ValueError:
        return _refusal(f'For input string: "{value}"')
    if attribute.least <= number <= _LONG_MAX:
        return None
    return _refusal(f"value is not in range({attribute.least}, {_LONG_MAX})")


def _refusal(remark: str) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_ERROR, remark)
