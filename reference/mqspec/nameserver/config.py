"""The options of a nameserver."""

from __future__ import annotations

from dataclasses import dataclass
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
