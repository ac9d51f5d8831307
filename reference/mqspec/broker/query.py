"""Messages by key and by id: 12 and 33 (QueryMessageProcessor.java, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqspec.core.response import ResponseCode
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import HeaderError, integer, long

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def query_message(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """12. A topic or a key that is missing is looked for as Java writes it (LOG-029)."""
    is_by_unique_key = request.ext_fields.get("_UNIQUE_KEY_QUERY") == "true"
    at_most = broker.config.limits.default_query_max_num
    count = at_most if is_by_unique_key else integer(request, "maxNum")
    if count < 0:
        raise HeaderError(f"the field maxNum is {count}")
    found = broker.store.query(
        request.ext_fields.get("topic", "null"),
        request.ext_fields.get("key", "null"),
        count,
        long(request, "beginTimestamp"),
        long(request, "endTimestamp"),
    )
    fields = {
        "indexLastUpdateTimestamp": str(found.index_last_update_timestamp),
        "indexLastUpdatePhyoffset": str(found.index_last_update_phy_offset),
    }
    if found.records:
        return request.response(ext_fields=fields, body=b"".join(found.records))
    remark = "can not find message, maybe time range not correct"
    return request.response(ResponseCode.QUERY_NOT_FOUND, remark, fields)


def view_message_by_id(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """33. Who asks has taken the position from the message id."""
    position = long(request, "offset")
    record = broker.store.record_at(position)
    if record:
        return request.response(body=record)
    remark = f"can not find message by the offset, {position}"
    return request.response(ResponseCode.SYSTEM_ERROR, remark)
