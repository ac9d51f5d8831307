"""What a broker logs of its own life and of its members, a line an event."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mqspec.core.group import Close, ConsumerGroupInfo, NotifyConsumerIdsChanged
from mqspec.core.step import Step
from mqspec.store.message_store import RecoveryReport
from mqspec.transport import Connection

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

log = logging.getLogger(__name__)


def started(broker: Broker, report: RecoveryReport) -> None:
    """It serves, after what recovery found."""
    name = broker.config.broker_name
    first, end = report.commit_log
    log.info(
        "store recovered",
        extra={
            "broker": name,
            "directory": str(broker.store.root),
            "abnormal": report.abnormal,
            "scan_from": report.scan_from,
            "commit_log_min": first,
            "commit_log_max": end,
            "redispatched": report.redispatched,
        },
    )
    log.info("broker registered", extra={"broker": name, "address": broker.address})


def stopped(broker: Broker) -> None:
    """It has written everything, and is gone."""
    log.info("broker stopped", extra={"broker": broker.config.broker_name})


def membership(broker: Broker, step: Step) -> None:
    """Members come and go by a step that is about to be applied."""
    if not log.isEnabledFor(logging.INFO):
        return
    name = broker.config.broker_name
    expired = {send.channel for send in step.sends if isinstance(send, Close)}
    for change in step.changes:
        if change.variable != "consumer_table":
            continue
        group, value = change.key, change.value
        assert isinstance(group, str)
        old = broker.groups.consumer_table.get(group)
        before = old.channel_info_table if old else {}
        after = value.channel_info_table if isinstance(value, ConsumerGroupInfo) else {}
        for channel, info in (*before.items(), *after.items()):
            if channel in before and channel in after:
                continue
            assert isinstance(channel, Connection)
            gone = "member expired" if channel in expired else "member left"
            log.info(
                gone if channel in before else "member joined",
                extra={
                    "broker": name,
                    "group": group,
                    "client_id": info.client_id,
                    "peer": channel.peer,
                    "members": len(after),
                },
            )
    for send in step.sends:
        if isinstance(send, NotifyConsumerIdsChanged):
            assert isinstance(send.channel, Connection)
            about = {"broker": name, "group": send.group, "peer": send.channel.peer}
            log.info("rebalance notice", extra=about)
