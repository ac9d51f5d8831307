"""Send-backs: 36 (AbstractSendMessageProcessor.consumerSendMsgBack, 5.3.3)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from mqspec.broker.conversing import served_once_registered
from mqspec.core import retry
from mqspec.core.retry import SendBack
from mqspec.service import Served, clock_ms
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import boolean, integer, long, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def send_back(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
    """36."""
    event = SendBack(
        text(request, "group"),
        long(request, "offset"),
        integer(request, "delayLevel"),
        integer(request, "maxReconsumeTimes", None),
        request.version,
        random.randrange(1 << 31),
        boolean(request, "unitMode"),
    )
    talk = retry.send_back(broker, event, clock_ms())
    return served_once_registered(broker, connection, request, talk)
