"""Which processor serves which request (BrokerController.registerProcessor, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mqspec.broker.processor import (
    admin,
    assignment,
    cleaning,
    connections,
    locks,
    membership,
    offsets,
    pop,
    progress,
    pulling,
    query,
    relay,
    replying,
    runtime,
    send_back,
    sending,
    timers,
    transactions,
)
from mqspec.core import flow_control
from mqspec.core.flow_control import Pool
from mqspec.service import Processor
from mqspec.wire.codes import RequestCode

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

PROCESSORS: Final[dict[int, Processor[Broker]]] = {
    RequestCode.SEND_MESSAGE: sending.send_message,
    RequestCode.SEND_MESSAGE_V2: sending.send_message_v2,
    RequestCode.SEND_BATCH_MESSAGE: sending.send_message_v2,
    RequestCode.SEND_REPLY_MESSAGE: replying.send_reply_message,
    RequestCode.SEND_REPLY_MESSAGE_V2: replying.send_reply_message_v2,
    RequestCode.RECALL_MESSAGE: timers.recall_message,
    RequestCode.PULL_MESSAGE: pulling.pull_message,
    RequestCode.LITE_PULL_MESSAGE: pulling.pull_message,
    RequestCode.END_TRANSACTION: transactions.end_transaction,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: transactions.resume_check_half_message,
    RequestCode.QUERY_MESSAGE: query.query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: query.view_message_by_id,
    RequestCode.QUERY_CONSUME_QUEUE: query.query_consume_queue,
    RequestCode.POP_MESSAGE: pop.pop_message,
    RequestCode.ACK_MESSAGE: pop.ack,
    RequestCode.BATCH_ACK_MESSAGE: pop.batch_ack,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: pop.change_message_invisible_time,
    RequestCode.PEEK_MESSAGE: pop.peek_message,
    RequestCode.POP_ROLLBACK: pop.pop_rollback,
    RequestCode.NOTIFICATION: pop.notification,
    RequestCode.POLLING_INFO: pop.polling_info,
    RequestCode.HEART_BEAT: membership.heart_beat,
    RequestCode.UNREGISTER_CLIENT: membership.unregister_client,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: membership.get_consumer_list_by_group,
    RequestCode.CHECK_CLIENT_CONFIG: membership.check_client_config,
    RequestCode.CONSUMER_SEND_MSG_BACK: send_back.send_back,
    RequestCode.QUERY_ASSIGNMENT: assignment.query_assignment,
    RequestCode.SET_MESSAGE_REQUEST_MODE: assignment.set_request_mode,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: assignment.get_all_message_request_mode,
    RequestCode.LOCK_BATCH_MQ: locks.lock_batch_mq,
    RequestCode.UNLOCK_BATCH_MQ: locks.unlock_batch_mq,
    RequestCode.QUERY_CONSUMER_OFFSET: offsets.query_consumer_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: offsets.update_consumer_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search_offset_by_timestamp,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: offsets.invoke_broker_to_reset_offset,
    RequestCode.CLONE_GROUP_OFFSET: offsets.clone_group_offset,
    RequestCode.GET_MAX_OFFSET: offsets.get_max_offset,
    RequestCode.GET_MIN_OFFSET: offsets.get_min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: offsets.get_earliest_msg_storetime,
    RequestCode.UPDATE_AND_CREATE_TOPIC: admin.update_and_create_topic,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: admin.update_and_create_topic_list,
    RequestCode.GET_ALL_TOPIC_CONFIG: admin.get_all_topic_config,
    RequestCode.GET_TOPIC_CONFIG: admin.get_topic_config,
    RequestCode.DELETE_TOPIC_IN_BROKER: admin.delete_topic_in_broker,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: admin.get_system_topic_list_from_broker,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: admin.get_all_subscription_group_config,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: admin.delete_subscription_group_in_broker,
    RequestCode.GET_ALL_CONSUMER_OFFSET: progress.get_all_consumer_offset,
    RequestCode.GET_ALL_DELAY_OFFSET: progress.get_all_delay_offset,
    RequestCode.GET_TOPIC_STATS_INFO: progress.get_topic_stats_info,
    RequestCode.GET_CONSUME_STATS: progress.get_consume_stats,
    RequestCode.GET_BROKER_CONSUME_STATS: progress.get_broker_consume_stats,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: progress.query_topic_consume_by_who,
    RequestCode.QUERY_CONSUME_TIME_SPAN: progress.query_consume_time_span,
    RequestCode.QUERY_CORRECTION_OFFSET: progress.query_correction_offset,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: progress.query_topics_by_consumer,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: connections.get_consumer_connection_list,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: connections.query_subscription_by_consumer,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: connections.get_producer_connection_list,
    RequestCode.GET_ALL_PRODUCER_INFO: connections.get_all_producer_info,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: cleaning.clean_expired_consume_queue,
    RequestCode.CLEAN_UNUSED_TOPIC: cleaning.clean_unused_topic,
    RequestCode.DELETE_EXPIRED_COMMITLOG: cleaning.delete_expired_commit_log,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: relay.get_consumer_status,
    RequestCode.GET_CONSUMER_RUNNING_INFO: relay.get_consumer_running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: relay.consume_message_directly,
    RequestCode.UPDATE_BROKER_CONFIG: runtime.update_broker_config,
    RequestCode.GET_BROKER_CONFIG: runtime.get_broker_config,
    RequestCode.GET_BROKER_RUNTIME_INFO: runtime.get_broker_runtime_info,
    RequestCode.VIEW_BROKER_STATS_DATA: runtime.view_broker_stats_data,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: admin.update_and_create_subscription_group,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (
        admin.update_and_create_subscription_group_list
    ),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: admin.update_and_get_group_forbidden,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: admin.get_subscription_group_config,
}

MAIN_PORT_ONLY: Final = frozenset(
    {
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.NOTIFICATION,
        RequestCode.POLLING_INFO,
    }
)
"""What the fast port does not serve: what may wait for messages (WIRE-014)."""

_POOLS: Final[dict[int, Pool]] = {
    RequestCode.SEND_MESSAGE: flow_control.SEND,
    RequestCode.SEND_MESSAGE_V2: flow_control.SEND,
    RequestCode.SEND_BATCH_MESSAGE: flow_control.SEND,
    RequestCode.CONSUMER_SEND_MSG_BACK: flow_control.SEND,
    RequestCode.RECALL_MESSAGE: flow_control.SEND,
    RequestCode.SEND_REPLY_MESSAGE: flow_control.REPLY,
    RequestCode.SEND_REPLY_MESSAGE_V2: flow_control.REPLY,
    RequestCode.PULL_MESSAGE: flow_control.PULL,
    RequestCode.LITE_PULL_MESSAGE: flow_control.LITE_PULL,
    RequestCode.PEEK_MESSAGE: flow_control.PULL,
    RequestCode.POP_MESSAGE: flow_control.PULL,
    RequestCode.NOTIFICATION: flow_control.PULL,
    RequestCode.POLLING_INFO: flow_control.PULL,
    RequestCode.ACK_MESSAGE: flow_control.ACK,
    RequestCode.BATCH_ACK_MESSAGE: flow_control.ACK,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: flow_control.ACK,
    RequestCode.QUERY_MESSAGE: flow_control.QUERY,
    RequestCode.VIEW_MESSAGE_BY_ID: flow_control.QUERY,
    RequestCode.HEART_BEAT: flow_control.HEARTBEAT,
    RequestCode.UNREGISTER_CLIENT: flow_control.CLIENT_MANAGE,
    RequestCode.CHECK_CLIENT_CONFIG: flow_control.CLIENT_MANAGE,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: flow_control.CONSUMER_MANAGE,
    RequestCode.UPDATE_CONSUMER_OFFSET: flow_control.CONSUMER_MANAGE,
    RequestCode.QUERY_CONSUMER_OFFSET: flow_control.CONSUMER_MANAGE,
    RequestCode.QUERY_ASSIGNMENT: flow_control.LOAD_BALANCE,
    RequestCode.SET_MESSAGE_REQUEST_MODE: flow_control.LOAD_BALANCE,
    RequestCode.END_TRANSACTION: flow_control.END_TRANSACTION,
}


def pool_of(code: int) -> Pool:
    """Where requests of a code wait, if they have to."""
    return _POOLS.get(code, flow_control.ADMIN)
