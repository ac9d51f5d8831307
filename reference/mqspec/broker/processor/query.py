"""Messages by key and by id, and the units of a queue: 12, 33 and 321
(QueryMessageProcessor.java, AdminBrokerProcessor.java, 5.3.3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mqspec.broker.processor.connections import subscription_body
from mqspec.core import consumer_filter, query
from mqspec.core.consumer_filter import FilterKey
from mqspec.core.log import Span
from mqspec.core.subscription import known_subscription
from mqspec.service import answered
from mqspec.transport import Connection
from mqspec.wire.bodies import dumps
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import HeaderError, integer, long, text

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
    return answered(request, query.by_key(found.records, fields))


def view_message_by_id(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """33. Who asks has taken the position from the message id."""
    position = long(request, "offset")
    return answered(request, query.by_position(broker.store.record_at(position), position))


def query_consume_queue(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """321 (LOG-032), up to the end of a file. `eval` would be of units with a bit map."""
    topic, queue_id = text(request, "topic"), integer(request, "queueId", 0)
    index, count = long(request, "index", 0), integer(request, "count", 0)
    store, queue = broker.store, (topic, queue_id)
    minimum, maximum = store.min_offset(*queue), store.max_offset(*queue)
    nothing = query.check_consume_queue(topic, queue_id, index, Span(minimum, maximum))
    if nothing:
        return answered(request, nothing)
    units_of_file = store.config.consume_queue_units
    units = store.units(*queue, index, min(count, units_of_file - index % units_of_file))
    body: dict[str, Any] = {
        "maxQueueIndex": maximum,
        "minQueueIndex": minimum,
        "queueData": [
            {
                "eval": False,
                "physicOffset": unit.position,
                "physicSize": unit.size,
                "tagsCode": unit.tags_code,
            }
            for unit in units
        ],
    }
    if (group := request.ext_fields.get("consumerGroup")) is not None:
        body = _filter_of(broker, topic, group) | body
    return answered(request, query.CONSUME_QUEUE_SHOWN, dumps(body))


def _filter_of(broker: Broker, topic: str, group: str) -> dict[str, Any]:
    """What a group wants of a topic, and by what else than tags it is filtered, as text."""
    wanted = known_subscription(broker.groups, broker.brought, group, topic)
    if wanted is None:
        return {"filterData": f"{group}@{topic} is not online!"}
    key = FilterKey(topic, group)
    data = broker.filters.filter_data.get(key)
    kept = consumer_filter.plain(key, data) if data else None
    text_of = json.dumps(kept, indent="\t", separators=(",", ":"), ensure_ascii=False)
    return {"filterData": text_of, "subscriptionData": subscription_body(wanted)}
