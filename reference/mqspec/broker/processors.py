"""Which processor serves which request (BrokerController.registerProcessor, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mqspec.broker import admin, locks, membership, offsets, pulling, sending
from mqspec.service import Processor
from mqspec.wire.codes import RequestCode

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

PROCESSORS: Final[dict[int, Processor[Broker]]] = {
    RequestCode.SEND_MESSAGE: sending.send_message,
    RequestCode.SEND_MESSAGE_V2: sending.send_message_v2,
    RequestCode.SEND_BATCH_MESSAGE: sending.send_message_v2,
    RequestCode.PULL_MESSAGE: pulling.pull_message,
    RequestCode.LITE_PULL_MESSAGE: pulling.pull_message,
    RequestCode.HEART_BEAT: membership.heart_beat,
    RequestCode.UNREGISTER_CLIENT: membership.unregister_client,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: membership.get_consumer_list_by_group,
    RequestCode.CHECK_CLIENT_CONFIG: membership.check_client_config,
    RequestCode.LOCK_BATCH_MQ: locks.lock_batch_mq,
    RequestCode.UNLOCK_BATCH_MQ: locks.unlock_batch_mq,
    RequestCode.QUERY_CONSUMER_OFFSET: offsets.query_consumer_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: offsets.update_consumer_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search_offset_by_timestamp,
    RequestCode.GET_MAX_OFFSET: offsets.get_max_offset,
    RequestCode.GET_MIN_OFFSET: offsets.get_min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: offsets.get_earliest_msg_storetime,
    RequestCode.UPDATE_AND_CREATE_TOPIC: admin.update_and_create_topic,
    RequestCode.GET_ALL_TOPIC_CONFIG: admin.get_all_topic_config,
    RequestCode.GET_TOPIC_CONFIG: admin.get_topic_config,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: admin.update_and_create_subscription_group,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: admin.get_subscription_group_config,
}
