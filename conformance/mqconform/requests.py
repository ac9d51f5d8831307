"""The requests that the cases send, as the Java client 5.3.3, its mqadmin and a broker of 5.3.3
send them (mqconform.catalogue).

A field that a case wants to leave out or get wrong is given as `without` or `having`. The name of
the broker, which most requests carry, is added by the connection.
"""

from __future__ import annotations

import json
import struct
import time
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

# Request codes (RequestCode.java, 5.3.3), by their names there.
SEND_MESSAGE = 10
PULL_MESSAGE = 11
QUERY_MESSAGE = 12
QUERY_CONSUMER_OFFSET = 14
UPDATE_CONSUMER_OFFSET = 15
UPDATE_AND_CREATE_TOPIC = 17
UPDATE_AND_CREATE_TOPIC_LIST = 18
GET_ALL_TOPIC_CONFIG = 21
UPDATE_BROKER_CONFIG = 25
GET_BROKER_CONFIG = 26
GET_BROKER_RUNTIME_INFO = 28
SEARCH_OFFSET_BY_TIMESTAMP = 29
GET_MAX_OFFSET = 30
GET_MIN_OFFSET = 31
GET_EARLIEST_MSG_STORETIME = 32
VIEW_MESSAGE_BY_ID = 33
HEART_BEAT = 34
UNREGISTER_CLIENT = 35
CONSUMER_SEND_MSG_BACK = 36
END_TRANSACTION = 37
GET_CONSUMER_LIST_BY_GROUP = 38
CHECK_TRANSACTION_STATE = 39
NOTIFY_CONSUMER_IDS_CHANGED = 40
LOCK_BATCH_MQ = 41
UNLOCK_BATCH_MQ = 42
GET_ALL_CONSUMER_OFFSET = 43
CHECK_CLIENT_CONFIG = 46
PUT_KV_CONFIG = 100
GET_KV_CONFIG = 101
DELETE_KV_CONFIG = 102
REGISTER_BROKER = 103
UNREGISTER_BROKER = 104
GET_ROUTEINFO_BY_TOPIC = 105
GET_BROKER_CLUSTER_INFO = 106
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
GET_TOPIC_STATS_INFO = 202
GET_CONSUMER_CONNECTION_LIST = 203
GET_PRODUCER_CONNECTION_LIST = 204
WIPE_WRITE_PERM_OF_BROKER = 205
GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
DELETE_SUBSCRIPTIONGROUP = 207
GET_CONSUME_STATS = 208
DELETE_TOPIC_IN_BROKER = 215
DELETE_TOPIC_IN_NAMESRV = 216
REGISTER_TOPIC_IN_NAMESRV = 217
GET_KVLIST_BY_NAMESPACE = 219
RESET_CONSUMER_CLIENT_OFFSET = 220
GET_CONSUMER_STATUS_FROM_CLIENT = 221
INVOKE_BROKER_TO_RESET_OFFSET = 222
INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223
GET_TOPICS_BY_CLUSTER = 224
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225
QUERY_TOPIC_CONSUME_BY_WHO = 300
QUERY_CONSUME_TIME_SPAN = 303
GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305
GET_CONSUMER_RUNNING_INFO = 307
QUERY_CORRECTION_OFFSET = 308
CONSUME_MESSAGE_DIRECTLY = 309
SEND_MESSAGE_V2 = 310
CLONE_GROUP_OFFSET = 314
VIEW_BROKER_STATS_DATA = 315
GET_BROKER_CONSUME_STATS = 317
UPDATE_NAMESRV_CONFIG = 318
GET_NAMESRV_CONFIG = 319
SEND_BATCH_MESSAGE = 320
QUERY_CONSUME_QUEUE = 321
QUERY_DATA_VERSION = 322
RESUME_CHECK_HALF_MESSAGE = 323
SEND_REPLY_MESSAGE = 324
SEND_REPLY_MESSAGE_V2 = 325
PUSH_REPLY_MESSAGE_TO_CLIENT = 326
ADD_WRITE_PERM_OF_BROKER = 327
GET_ALL_PRODUCER_INFO = 328
QUERY_TOPICS_BY_CONSUMER = 343
QUERY_SUBSCRIPTION_BY_CONSUMER = 345
GET_TOPIC_CONFIG = 351
GET_SUBSCRIPTIONGROUP_CONFIG = 352
UPDATE_AND_GET_GROUP_FORBIDDEN = 353
LITE_PULL_MESSAGE = 361
RECALL_MESSAGE = 370
QUERY_ASSIGNMENT = 400
SET_MESSAGE_REQUEST_MODE = 401
GET_ALL_MESSAGE_REQUEST_MODE = 402
GET_BROKER_MEMBER_GROUP = 901
BROKER_HEARTBEAT = 904
POP_MESSAGE = 200050
ACK_MESSAGE = 200051
PEEK_MESSAGE = 200052
CHANGE_MESSAGE_INVISIBLETIME = 200053
NOTIFICATION = 200054
POLLING_INFO = 200055
BATCH_ACK_MESSAGE = 200151

_NAMES = {code: name for name, code in globals().items() if name.isupper()}


def name_of(code: int) -> str:
    """A request by its name and code."""
    return f"{_NAMES.get(code, 'request')} ({code})"


# Bits of a pull's sysFlag (PullSysFlag.java, 5.3.3).
COMMIT_OFFSET, SUSPEND, SUBSCRIPTION = 1, 2, 4

# What becomes of a half message (MessageSysFlag.java, 5.3.3).
UNKNOWN, COMMIT, ROLLBACK = 0, 8, 12

CLIENT_GROUP = "CLIENT_INNER_PRODUCER"  # of producers, which each client has and names
MAX_BYTES = 256 * 1024  # what a push consumer asks for at most
RETRIES = 16  # how often a message comes again, unless a consumer says otherwise
DEFAULT_TOPIC = "TBW102"  # the template of topics that are created by sending to them

_V1_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
    "n": "brokerName",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask: a code, fields, a body."""

    code: int
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def without(self, *names: str) -> Request:
        """The same without some fields."""
        kept = {name: value for name, value in self.fields.items() if name not in names}
        return replace(self, fields=kept)

    def having(self, **fields: object) -> Request:
        """The same with other values of some fields."""
        return replace(self, fields={**self.fields, **text_fields(fields)})


def send(
    topic: str,
    body: bytes = b"hello",
    queue_id: int = 0,
    properties: Mapping[str, str] | None = None,
) -> Request:
    """SEND_MESSAGE_V2, as every client since 3.x sends it, with the properties that it adds."""
    fields = {
        "a": "conformance",
        "b": topic,
        "c": DEFAULT_TOPIC,
        "d": 4,
        "e": queue_id,
        "f": 0,
        "g": time.time_ns() // 1_000_000,
        "h": 0,
        "i": property_string(usual_properties() | dict(properties or {})),
        "j": 0,
        "k": False,
        "m": False,
    }
    return Request(SEND_MESSAGE_V2, text_fields(fields), body)


def usual_properties() -> dict[str, str]:
    """What a producer adds to each message."""
    return {"UNIQ_KEY": uuid.uuid4().hex.upper(), "WAIT": "true"}


def send_v1(request: Request) -> Request:
    """The same as SEND_MESSAGE, whose fields have long names."""
    fields = {_V1_NAMES[name]: value for name, value in request.fields.items()}
    return replace(request, code=SEND_MESSAGE, fields=fields)


def send_batch(
    topic: str,
    bodies: Sequence[bytes],
    queue_id: int = 0,
    properties: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
    *,
    flags: Sequence[int] | None = None,
) -> Request:
    """SEND_BATCH_MESSAGE: several messages of one queue in one request, all with the same
    properties, or each with its own; `flags`: one for each, 0 where none are given."""
    each = properties if isinstance(properties, Sequence) else [properties or {}] * len(bodies)
    besides = [property_string(of).encode() for of in each]
    inner = b"".join(
        struct.pack(">iiiii", 22 + len(body) + len(beside), 0, 0, flag, len(body))
        + body
        + struct.pack(">h", len(beside))
        + beside
        for body, beside, flag in zip(bodies, besides, flags or [0] * len(bodies), strict=True)
    )
    return replace(send(topic, inner, queue_id).having(m=True), code=SEND_BATCH_MESSAGE)


def send_half(
    topic: str, group: str, body: bytes = b"half", properties: Mapping[str, str] | None = None
) -> Request:
    """SEND_MESSAGE_V2 of a half message."""
    marks = {"TRAN_MSG": "true", "PGROUP": group}
    request = send(topic, body, properties={**marks, **(properties or {})})
    return request.having(a=group, f=4)


def end_transaction(
    group: str, queue_offset: int, position: int, kind: int, *, from_check: bool = False
) -> Request:
    """END_TRANSACTION of the half at a queue offset, which lies at a position of the log."""
    fields = {
        "producerGroup": group,
        "tranStateTableOffset": queue_offset,
        "commitLogOffset": position,
        "commitOrRollback": kind,
        "fromTransactionCheck": from_check,
        "msgId": "7F000001000000000000000000000001",
        "transactionId": "7F000001000000000000000000000001",
    }
    return Request(END_TRANSACTION, text_fields(fields))


def pull(
    topic: str,
    group: str,
    offset: int = 0,
    queue_id: int = 0,
    *,
    subscription: str | None = "*",
    count: int = 32,
    suspend_ms: int = 0,
    commit: int | None = None,
    sub_version: int = 0,
) -> Request:
    """PULL_MESSAGE. `suspend_ms` > 0 asks for long polling; subscription None relies on the
    subscription that a heartbeat brought."""
    flags = (
        (COMMIT_OFFSET if commit is not None else 0)
        | (SUSPEND if suspend_ms else 0)
        | (SUBSCRIPTION if subscription is not None else 0)
    )
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": count,
        "maxMsgBytes": MAX_BYTES,
        "sysFlag": flags,
        "commitOffset": commit or 0,
        "suspendTimeoutMillis": suspend_ms,
        "subscription": subscription if subscription is not None else "*",
        "subVersion": sub_version,
        "expressionType": "TAG",
    }
    return Request(PULL_MESSAGE, text_fields(fields))


def query_message(topic: str, key: str, count: int = 32) -> Request:
    """QUERY_MESSAGE: by key, whenever the message was stored."""
    fields = {
        "topic": topic,
        "key": key,
        "maxNum": count,
        "beginTimestamp": 0,
        "endTimestamp": (1 << 63) - 1,
        "_UNIQUE_KEY_QUERY": False,
    }
    return Request(QUERY_MESSAGE, text_fields(fields))


def view_message(physical_offset: int) -> Request:
    """VIEW_MESSAGE_BY_ID, as 4.9.7 asks it: 5.3.3 names the topic, too."""
    return Request(VIEW_MESSAGE_BY_ID, text_fields({"offset": physical_offset}))


def query_offset(group: str, topic: str, queue_id: int = 0) -> Request:
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id}
    return Request(QUERY_CONSUMER_OFFSET, text_fields(fields))


def commit_offset(group: str, topic: str, offset: int, queue_id: int = 0) -> Request:
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "commitOffset": offset,
    }
    return Request(UPDATE_CONSUMER_OFFSET, text_fields(fields))


def reset_offset(group: str, topic: str, **where: object) -> Request:
    """INVOKE_BROKER_TO_RESET_OFFSET; `where` is a timestamp, or a queueId and an offset."""
    nothing = {"timestamp": 0, "queueId": -1, "offset": -1}
    fields = {"group": group, "topic": topic, "isForce": True, **nothing, **where}
    return Request(INVOKE_BROKER_TO_RESET_OFFSET, text_fields(fields))


def clone_offset(source: str, target: str, topic: str, *, offline: bool = False) -> Request:
    """CLONE_GROUP_OFFSET; offline: whatever the members of the source want."""
    fields = {"srcGroup": source, "destGroup": target, "topic": topic, "offline": offline}
    return Request(CLONE_GROUP_OFFSET, text_fields(fields))


def query_consume_queue(topic: str, index: int, count: int, queue_id: int = 0) -> Request:
    """QUERY_CONSUME_QUEUE."""
    fields = {"topic": topic, "queueId": queue_id, "index": index, "count": count}
    return Request(QUERY_CONSUME_QUEUE, text_fields(fields))


def update_broker_config(**options: object) -> Request:
    """UPDATE_BROKER_CONFIG: options of a running broker, by their names."""
    lines = (f"{name}={value}\n" for name, value in text_fields(options).items())
    return Request(UPDATE_BROKER_CONFIG, body="".join(lines).encode())


def max_offset(topic: str, queue_id: int = 0) -> Request:
    fields = {"topic": topic, "queueId": queue_id, "committed": True}
    return Request(GET_MAX_OFFSET, text_fields(fields))


def correction_offset(topic: str, filter_groups: str) -> Request:
    """QUERY_CORRECTION_OFFSET; `filter_groups` are joined by commas."""
    fields = {"topic": topic, "filterGroups": filter_groups, "compareGroup": ""}
    return Request(QUERY_CORRECTION_OFFSET, text_fields(fields))


def min_offset(topic: str, queue_id: int = 0) -> Request:
    return Request(GET_MIN_OFFSET, text_fields({"topic": topic, "queueId": queue_id}))


def earliest_time(topic: str, queue_id: int = 0) -> Request:
    return Request(GET_EARLIEST_MSG_STORETIME, text_fields({"topic": topic, "queueId": queue_id}))


def search_offset(topic: str, time_ms: int, queue_id: int = 0) -> Request:
    fields = {"topic": topic, "queueId": queue_id, "timestamp": time_ms, "boundaryType": "LOWER"}
    return Request(SEARCH_OFFSET_BY_TIMESTAMP, text_fields(fields))


def create_topic(topic: str, read: int, write: int, perm: int = 6) -> Request:
    fields = {
        "topic": topic,
        "defaultTopic": DEFAULT_TOPIC,
        "readQueueNums": read,
        "writeQueueNums": write,
        "perm": perm,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": "",
        "force": False,
    }
    return Request(UPDATE_AND_CREATE_TOPIC, text_fields(fields))


def create_topics(*topics: tuple[str, int]) -> Request:
    """UPDATE_AND_CREATE_TOPIC_LIST: names, and how many queues to read and to write."""
    configs = [_topic_config(*topic) for topic in topics]
    body = json.dumps({"topicConfigList": configs}).encode()
    return Request(UPDATE_AND_CREATE_TOPIC_LIST, body=body)


def delete_topic(topic: str) -> Request:
    return Request(DELETE_TOPIC_IN_BROKER, {"topic": topic})


def topic_config(topic: str) -> Request:
    return Request(GET_TOPIC_CONFIG, {"topic": topic, "lo": "true"})


def create_group(group: str, **settings: object) -> Request:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP; a setting that is not given has its default."""
    body = json.dumps(_group_config(group, settings)).encode()
    return Request(UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def _group_config(group: str, settings: Mapping[str, object]) -> dict[str, object]:
    """SubscriptionGroupConfig as mqadmin sends it: with a value of each setting."""
    return {
        "groupName": group,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeBroadcastEnable": True,
        "consumeMessageOrderly": False,
        "retryQueueNums": 1,
        "retryMaxTimes": RETRIES,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "brokerId": 0,
        "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": True,
        "groupSysFlag": 0,
        "consumeTimeoutMinute": 15,
        "attributes": {},
        **settings,
    }


def create_groups(*groups: str, **settings: object) -> Request:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, with the same settings of each."""
    configs = [_group_config(group, settings) for group in groups]
    body = json.dumps({"groupConfigList": configs}).encode()
    return Request(UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)


def group_forbidden(group: str, topic: str, readable: bool | None = None) -> Request:
    """UPDATE_AND_GET_GROUP_FORBIDDEN: whether a group may read a topic, or may from now on."""
    fields = {"group": group, "topic": topic}
    told = {} if readable is None else {"readable": readable}
    return Request(UPDATE_AND_GET_GROUP_FORBIDDEN, text_fields({**fields, **told}))


def query_subscription(group: str, topic: str) -> Request:
    return Request(QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": group, "topic": topic})


def consumer_status(group: str, topic: str, client_id: str = "") -> Request:
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS; without a client id, of all members."""
    fields = {"group": group, "topic": topic, "clientAddr": client_id}
    return Request(INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields)


def delete_group(group: str, clean_offset: bool = False) -> Request:
    fields = {"groupName": group, "cleanOffset": clean_offset}
    return Request(DELETE_SUBSCRIPTIONGROUP, text_fields(fields))


def group_config(group: str) -> Request:
    return Request(GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})


def consumer_list(group: str) -> Request:
    return Request(GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})


def send_back(
    group: str, topic: str, offset: int, level: int = 0, maximum: int | None = None
) -> Request:
    """CONSUMER_SEND_MSG_BACK of the message at a physical offset, first sent to `topic`.

    Without a maximum the group's counts, which no consumer of 5.3.3 leaves to it.
    """
    fields = {
        "group": group,
        "offset": offset,
        "delayLevel": level,
        "originTopic": topic,
        "originMsgId": f"7F00000100002A9F{offset & (1 << 64) - 1:016X}",
        "unitMode": False,
    }
    if maximum is not None:
        fields["maxReconsumeTimes"] = maximum
    return Request(CONSUMER_SEND_MSG_BACK, text_fields(fields))


def lock(group: str, client_id: str, *queues: tuple[str, str, int]) -> Request:
    """LOCK_BATCH_MQ: a queue is a topic, a broker's name and a queue id."""
    return Request(LOCK_BATCH_MQ, body=_lock_body(group, client_id, queues))


def unlock(group: str, client_id: str, *queues: tuple[str, str, int]) -> Request:
    return Request(UNLOCK_BATCH_MQ, body=_lock_body(group, client_id, queues))


def _lock_body(group: str, client_id: str, queues: Iterable[tuple[str, str, int]]) -> bytes:
    data = {
        "consumerGroup": group,
        "clientId": client_id,
        "onlyThisBroker": False,
        "mqSet": [
            {"topic": topic, "brokerName": broker, "queueId": queue_id}
            for topic, broker, queue_id in queues
        ],
    }
    return json.dumps(data).encode()


def unregister(client_id: str, group: str) -> Request:
    """UNREGISTER_CLIENT of a consumer."""
    return Request(UNREGISTER_CLIENT, {"clientID": client_id, "consumerGroup": group})


def unregister_producer(client_id: str, group: str) -> Request:
    """UNREGISTER_CLIENT of a producer."""
    return Request(UNREGISTER_CLIENT, {"clientID": client_id, "producerGroup": group})


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member wants of a topic."""

    topic: str
    expression: str = "*"
    version: int = 1  # subVersion, ms: the newest wins
    kind: str = "TAG"

    def data(self) -> dict[str, object]:
        """SubscriptionData as clients send it, with the codes that the broker filters by."""
        words = self.expression.split("||") if self.kind == "TAG" else ()
        tags = [word.strip() for word in words if word.strip() not in ("", "*")]
        return {
            "topic": self.topic,
            "subString": self.expression,
            "tagsSet": tags,
            "codeSet": [java_hash(tag) for tag in tags],
            "subVersion": self.version,
            "expressionType": self.kind,
            "classFilterMode": False,
        }


def heartbeat(
    client_id: str | None,
    group: str | None,
    subscriptions: Iterable[Subscription] = (),
    *,
    model: str = "CLUSTERING",
) -> Request:
    """HEART_BEAT of one consumer; group None: of a client without any."""
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": model,
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "unitMode": False,
        "subscriptionDataSet": [subscription.data() for subscription in subscriptions],
    }
    data: dict[str, object] = {
        "heartbeatFingerprint": 0,
        "withoutSub": False,
        "producerDataSet": [{"groupName": CLIENT_GROUP}],
        "consumerDataSet": [consumer] if group is not None else [],
    }
    if client_id is not None:
        data["clientID"] = client_id
    return Request(HEART_BEAT, body=json.dumps(data).encode())


def producer_heartbeat(client_id: str, group: str) -> Request:
    """HEART_BEAT of one producer."""
    data = {
        "clientID": client_id,
        "heartbeatFingerprint": 0,
        "withoutSub": False,
        "producerDataSet": [{"groupName": CLIENT_GROUP}, {"groupName": group}],
        "consumerDataSet": [],
    }
    return Request(HEART_BEAT, body=json.dumps(data).encode())


def check_client_config(group: str, topic: str, expression: str, kind: str = "TAG") -> Request:
    subscription = Subscription(topic, expression, kind=kind).data()
    data = {"clientId": "checker", "group": group, "subscriptionData": subscription}
    return Request(CHECK_CLIENT_CONFIG, body=json.dumps(data).encode())


def pop(
    topic: str,
    group: str,
    queue_id: int = 0,
    *,
    count: int = 32,
    invisible_ms: int = 60_000,
    poll_ms: int = 0,
    order: bool = False,
    attempt_id: str | None = None,
) -> Request:
    """POP_MESSAGE. `poll_ms` > 0 asks for long polling; queue_id -1 is every queue."""
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "maxMsgNums": count,
        "invisibleTime": invisible_ms,
        "pollTime": poll_ms,
        "bornTime": _born_time(poll_ms),
        "initMode": 0,
        "expType": "TAG",
        "exp": "*",
        "order": order,
    }
    if attempt_id is not None:
        fields["attemptId"] = attempt_id
    return Request(POP_MESSAGE, text_fields(fields))


def _born_time(poll_ms: int) -> int:
    # A request is refused 500 ms behind its deadline, by the broker's clock. One that is not to
    # be held has its deadline late, for busy machines and for clocks that differ.
    return time.time_ns() // 1_000_000 + (0 if poll_ms > 0 else 10_000)


def set_request_mode(topic: str, group: str, mode: str = "POP", share: int = 0) -> Request:
    """SET_MESSAGE_REQUEST_MODE: whether the group's members are told to POP or to PULL."""
    data = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": share}
    return Request(SET_MESSAGE_REQUEST_MODE, body=json.dumps(data).encode())


def peek(topic: str, group: str, queue_id: int = 0, count: int = 32) -> Request:
    """PEEK_MESSAGE; below 0, all queues."""
    fields = {"topic": topic, "consumerGroup": group, "queueId": queue_id, "maxMsgNums": count}
    return Request(PEEK_MESSAGE, text_fields(fields))


def ack(topic: str, group: str, handle: str, offset: int, queue_id: int = 0) -> Request:
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "extraInfo": handle,
        "offset": offset,
    }
    return Request(ACK_MESSAGE, text_fields(fields))


def batch_ack(broker_name: str, *acks: Mapping[str, object]) -> Request:
    """BATCH_ACK_MESSAGE: an entry a read of a queue, with the names of BatchAck.java."""
    body = {"brokerName": broker_name, "acks": acks}
    return Request(BATCH_ACK_MESSAGE, body=json.dumps(body).encode())


def change_invisible_time(
    topic: str, group: str, handle: str, offset: int, invisible_ms: int, queue_id: int = 0
) -> Request:
    request = ack(topic, group, handle, offset, queue_id).having(invisibleTime=invisible_ms)
    return replace(request, code=CHANGE_MESSAGE_INVISIBLETIME)


def notification(topic: str, group: str, queue_id: int = 0, poll_ms: int = 0) -> Request:
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "pollTime": poll_ms,
        "bornTime": _born_time(poll_ms),
    }
    return Request(NOTIFICATION, text_fields(fields))


def polling_info(topic: str, group: str, queue_id: int = 0) -> Request:
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id}
    return Request(POLLING_INFO, text_fields(fields))


def route(topic: str) -> Request:
    return Request(GET_ROUTEINFO_BY_TOPIC, {"topic": topic})


def register_broker(
    name: str, address: str, topics: Mapping[str, int], *, cluster: str, state_version: int = 0
) -> Request:
    """REGISTER_BROKER of a master: `topics` maps each topic to its number of queues."""
    fields = {
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": cluster,
        "haServerAddr": "127.0.0.1:1",
        "brokerId": 0,
        "compressed": False,
        "enableActingMaster": False,
    }
    wrapper = topic_table(topics, state_version)
    request = Request(REGISTER_BROKER, text_fields(fields))
    return with_body(request, {"topicConfigSerializeWrapper": wrapper, "filterServerList": []})


def with_body(registration: Request, body: object) -> Request:
    """A registration with another body and its checksum."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return replace(registration, body=data).having(bodyCrc32=zlib.crc32(data) & 0x7FFFFFFF)


def _topic_config(topic: str, queues: int) -> dict[str, object]:
    return {
        "topicName": topic,
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": {},
    }


def topic_table(topics: Mapping[str, int], state_version: int = 0) -> dict[str, object]:
    """TopicConfigSerializeWrapper."""
    version = {
        "stateVersion": state_version,
        "timestamp": time.time_ns() // 1_000_000,
        "counter": 1,
    }
    return {
        "topicConfigTable": {
            topic: _topic_config(topic, queues) for topic, queues in topics.items()
        },
        "dataVersion": version,
        "mappingDataVersion": {"stateVersion": 0, "timestamp": 0, "counter": 0},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }


def unregister_broker(name: str, address: str, *, cluster: str) -> Request:
    fields = {"brokerName": name, "brokerAddr": address, "clusterName": cluster, "brokerId": 0}
    return Request(UNREGISTER_BROKER, text_fields(fields))


def property_string(properties: Mapping[str, str]) -> str:
    """Message properties as they travel: name \\x01 value \\x02."""
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def java_hash(text: str) -> int:
    """String.hashCode: what a broker compares of a tag."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def text_fields(fields: Mapping[str, object]) -> dict[str, str]:
    """Values as they travel."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in fields.items()
    }
