"""Recalls as a conversation: a producer takes a message back that waits for its time.

Facts: RecallMessageProcessor.java (5.3.3), and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

from mqspec.core import timer
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import Conversation, Put
from mqspec.core.log import PutResult
from mqspec.core.publish import PUT_CODES, when_stored
from mqspec.core.response import NOT_SET, Answer, Refusal, ResponseCode


def recall_message(broker: BrokerStates, event: timer.Recall, now_ms: int) -> Conversation[Answer]:
    """Request 370. The answer has the UNIQ_KEY of the message, whether it waits or not."""
    always = {"MSG_REGION": broker.config.region_id}  # refusals too
    recall = timer.recall_message(broker.metadata, broker.config, event, now_ms)
    if isinstance(recall, Refusal):
        return Answer(recall.code, recall.remark, always)

    put: PutResult = yield Put(recall)
    if put.status not in PUT_CODES:
        return Answer(ResponseCode.SYSTEM_ERROR, "recall failed, execute error", always)
    yield from when_stored(broker.sync_flush, put, recall.properties)
    fields = always | {"msgId": timer.recalled_key(event.recall_handle)}
    return Answer(remark=NOT_SET, ext_fields=fields)
