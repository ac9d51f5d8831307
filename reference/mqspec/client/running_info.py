"""What a consumer tells administrators about itself, and does for them.

Brokers pass on what mqadmin asks (requests 220, 221, 307 and 309).

Facts: client/impl/ClientRemotingProcessor.java, remoting/protocol/body/{ConsumerRunningInfo,
ProcessQueueInfo,ConsumeMessageDirectlyResult,GetConsumerStatusBody}.java, 5.3.3.
"""

from __future__ import annotations

from typing import Final

from mqspec.client.clock import now_ms, wall_ms
from mqspec.client.listener import ConsumeResult, ConsumeStatus
from mqspec.client.message import MessageExt
from mqspec.client.push_work import PushWork
from mqspec.client.subscription import subscription_body
from mqspec.core.offset_commit import ProcessQueue
from mqspec.core.response import ResponseCode
from mqspec.core.types import MessageQueue
from mqspec.wire import bodies, headers
from mqspec.wire.codec import RemotingCommand

CLIENT_VERSION: Final = "V5_3_3"

_CONSUME_RESULTS: Final = {
    ConsumeStatus.CONSUME_SUCCESS: "CR_SUCCESS",
    ConsumeStatus.RECONSUME_LATER: "CR_LATER",
}


def offsets_to_reset(request: RemotingCommand) -> dict[MessageQueue, int]:
    """Where to go on, by queue, as request 220 says it. Raises BodyError."""
    table = bodies.loads(request.body).get("offsetTable", {})
    return {mq: int(offset) for mq, offset in table.items() if isinstance(mq, MessageQueue)}


def consumer_status(consumer: PushWork, request: RemotingCommand) -> RemotingCommand:
    """The answer to request 221: progress by queue of a topic."""
    topic = headers.text(request, "topic")
    progress = {mq: n for mq, n in consumer.state.offset_store.items() if mq.topic == topic}
    return request.response(body=bodies.dumps({"messageQueueTable": progress}))


def consumer_running_info(consumer: PushWork, request: RemotingCommand) -> RemotingCommand:
    """The answer to request 307. Statistics and stacks are not in it."""
    config, state = consumer.config, consumer.state
    orderly = str(consumer.is_orderly).lower()
    body = {
        "properties": {
            "PROP_NAMESERVER_ADDR": consumer.instance.nameserver,
            "PROP_CONSUME_TYPE": consumer.CONSUME_TYPE.value,
            "PROP_CLIENT_VERSION": CLIENT_VERSION,
            "PROP_CONSUMEORDERLY": orderly,
            "PROP_THREADPOOL_CORE_SIZE": str(config.consume_threads),
            "PROP_CONSUMER_START_TIMESTAMP": str(consumer.started_ms),
        },
        "subscriptionSet": [
            bodies.to_plain(_subscription(consumer, topic)) for topic in consumer.subscriptions
        ],
        "mqTable": {
            mq: _process_queue_info(queue, state.offset_store.get(mq, -1))
            for mq, queue in state.process_queue_table.items()
        },
        "mqPopTable": {},
        "statusTable": {},
    }
    return request.response(body=bodies.dumps(body))


async def consume_message_directly(consumer: PushWork, request: RemotingCommand) -> RemotingCommand:
    """Request 309: the listener gets one message out of turn; its progress does not change."""
    (record,) = bodies.decode_messages(request.body)
    broker = request.ext_fields.get("brokerName", "")
    message = MessageExt(record, MessageQueue(record.topic, broker, record.queue_id))
    start_ms = now_ms()
    remark = None
    try:
        result = await consumer.listener([message])
        status = result.status if isinstance(result, ConsumeResult) else result
        outcome = _CONSUME_RESULTS[status]
    except Exception as error:
        outcome, remark = "CR_THROW_EXCEPTION", repr(error)
    body = {
        "order": consumer.is_orderly,
        "autoCommit": True,
        "consumeResult": outcome,
        "remark": remark,
        "spentTimeMills": now_ms() - start_ms,
    }
    return request.response(ResponseCode.SUCCESS, body=bodies.dumps(body))


def _subscription(consumer: PushWork, topic: str) -> bodies.SubscriptionData:
    return subscription_body(consumer.subscriptions[topic], consumer.version_ms)


def _process_queue_info(queue: ProcessQueue, commit_offset: int) -> dict[str, object]:
    tree, taken = queue.msg_tree_map, queue.consuming_msg_orderly_tree_map
    return {
        "commitOffset": commit_offset,
        "cachedMsgMinOffset": tree[0] if tree else 0,
        "cachedMsgMaxOffset": tree[-1] if tree else 0,
        "cachedMsgCount": len(tree),
        "cachedMsgSizeInMiB": queue.size_bytes >> 20,
        "transactionMsgMinOffset": taken[0] if taken else 0,
        "transactionMsgMaxOffset": taken[-1] if taken else 0,
        "transactionMsgCount": len(taken),
        "locked": queue.locked,
        "tryUnlockTimes": 0,
        "lastLockTimestamp": _since_epoch(queue.last_lock_ms),
        "droped": queue.dropped,
        "lastPullTimestamp": _since_epoch(queue.last_pull_ms),
        "lastConsumeTimestamp": 0,
    }


def _since_epoch(monotonic_ms: int) -> int:
    return wall_ms() - now_ms() + monotonic_ms
