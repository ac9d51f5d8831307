"""KvConfig: small values that a nameserver keeps for whoever asks, by namespace and key.

Used for little else than ORDER_TOPIC_CONFIG, the queues of ordered topics by broker, which
a nameserver may add to routes and returns to each broker that registers. Unlike routes they
survive the nameserver: nobody would tell it again.

Facts: KVConfigManager.java (5.3.3), and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mqspec.core.response import Answer, ResponseCode
from mqspec.core.step import Change, Step

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"


@dataclass(slots=True)
class KvState:
    """All values, by namespace and key."""

    config_table: dict[str, Mapping[str, str | None]] = field(default_factory=dict)


def put_kv_config(state: KvState, namespace: str, key: str, value: str | None) -> Step:
    """KvConfig!Put. A value, or one that is null, which is as good as none."""
    known = state.config_table.get(namespace, {})
    return Step((Change("config_table", namespace, {**known, key: value}),))


def delete_kv_config(state: KvState, namespace: str, key: str) -> Step:
    """KvConfig!Delete. The namespace stays, though it may be empty now."""
    known = state.config_table.get(namespace)
    if known is None:
        return Step()
    left = {name: value for name, value in known.items() if name != key}
    return Step((Change("config_table", namespace, left),))


def get_kv_config(state: KvState, namespace: str, key: str) -> str | None:
    """A value; None where there is none."""
    return state.config_table.get(namespace, {}).get(key)


NOT_NAMED: Final = Answer(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
"""The answer to a put of what has no name."""


def no_item(namespace: str, key: str | None = None) -> Answer:
    """The answer where there is no such value, or no such namespace."""
    named = f"Namespace: {namespace}" if key is None else f"Namespace: {namespace} Key: {key}"
    return Answer(ResponseCode.QUERY_NOT_FOUND, f"No config item, {named}")
