"""The options of a nameserver, and the text in which administrators read and set them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

NEVER_UPDATED: Final = frozenset(
    {"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}
)
"""What request 318 may not set (NamesrvConfig.configBlackList, 5.3.3)."""


@dataclass(frozen=True, slots=True)
class NamesrvConfig:
    """The options that answers depend on, with the real defaults (NamesrvConfig.java, 5.3.3)."""

    order_message_enable: bool = False  # a route carries the topic's ORDER_TOPIC_CONFIG
    return_order_topic_config_to_broker: bool = True
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    delete_topic_with_broker_registration: bool = False
    scan_not_active_broker_interval: int = 5_000  # ms
    need_wait_for_service: bool = False  # no route is given in the first seconds
    wait_seconds_for_service: int = 45


def to_properties(config: NamesrvConfig) -> str:
    """`name=value` a line, sorted, with the real names."""
    lines = (f"{_camel(f.name)}={_text(getattr(config, f.name))}\n" for f in fields(config))
    return "".join(sorted(lines))


def parse_properties(text: str) -> dict[str, str]:
    """The names and values of `name=value` lines; empty lines and comments say nothing."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
    return {name.strip(): value.strip() for name, _, value in pairs}


def updated(config: NamesrvConfig, properties: Mapping[str, str]) -> NamesrvConfig:
    """The options after some were set. A name or value that is none is ignored."""
    changes: dict[str, bool | int] = {}
    for f in fields(config):
        value = properties.get(_camel(f.name))
        if value is None:
            continue
        if isinstance(getattr(config, f.name), bool):
            changes[f.name] = value.lower() == "true"
        elif value.removeprefix("-").isdecimal():
            changes[f.name] = int(value)
    return replace(config, **changes)  # type: ignore[arg-type] # each has the type of its field


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _text(value: bool | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
