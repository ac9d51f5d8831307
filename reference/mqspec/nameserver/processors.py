"""What the nameserver answers, by request code (DefaultRequestProcessor.java, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mqspec.core import route
from mqspec.core.response import SEE_FAQ, ResponseCode
from mqspec.service import Processor, clock_ms
from mqspec.transport import Connection
from mqspec.wire.bodies import dumps, to_body
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode
from mqspec.wire.headers import boolean, integer, long, text
from mqspec.wire.registration import body_crc, decode_registration

if TYPE_CHECKING:
    from mqspec.nameserver.nameserver import NameServer

STANDARD_JSON_SINCE: Final = 401  # MQVersion.V4_9_4


def register_broker(
    server: NameServer, connection: Connection, request: RemotingCommand
) -> RemotingCommand:
    """103. Of the required fields only brokerId is missed (NAMESRV-014)."""
    fields = request.ext_fields
    crc = integer(request, "bodyCrc32", 0)
    if crc and crc != body_crc(request.body):
        return request.response(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    registration = decode_registration(
        request.body, request.version, boolean(request, "compressed")
    )
    event = route.RegisterBroker(
        cluster=fields.get("clusterName", ""),
        broker_name=fields.get("brokerName", ""),
        address=fields.get("brokerAddr", ""),
        broker_id=long(request, "brokerId"),
        channel=connection,
        topics=registration.topics,
        data_version=registration.data_version,
        timeout_ms=long(request, "heartbeatTimeoutMillis", route.BROKER_EXPIRED_MS),
        enable_acting_master=boolean(request, "enableActingMaster"),
    )
    step = server.carry(route.register_broker(server.state, event, clock_ms()))
    if step.result is None:
        return request.response(ResponseCode.SYSTEM_ERROR, "register broker failed")
    master = step.result.master_address
    return request.response(ext_fields={"masterAddr": master} if master else {})


def unregister_broker(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """104. Whoever it is, the answer is 0."""
    fields = request.ext_fields
    at = route.BrokerAddr(fields.get("clusterName", ""), fields.get("brokerAddr", ""))
    server.carry(
        route.unregister_broker(
            server.state, at, fields.get("brokerName", ""), long(request, "brokerId", 0)
        )
    )
    return request.response()


def get_route_info_by_topic(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """105."""
    topic = request.ext_fields.get("topic")
    found = route.pick_topic_route(server.state, topic) if topic is not None else None
    if found is None:
        name = "null" if topic is None else topic
        remark = f"No topic route info in name server for the topic: {name}{SEE_FAQ}"
        return request.response(ResponseCode.TOPIC_NOT_EXIST, remark)
    standard = request.version >= STANDARD_JSON_SINCE or boolean(request, "acceptStandardJsonOnly")
    return request.response(body=to_body(found, standard))


def get_broker_cluster_info(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """106. Its broker ids are never quoted."""
    return request.response(body=to_body(route.cluster_info(server.state)))


def get_all_topic_list(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """206."""
    return request.response(body=dumps({"topicList": list(server.state.topic_queue_table)}))


def get_topics_by_cluster(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """224."""
    topics = route.topics_of_cluster(server.state, text(request, "cluster"))
    return request.response(body=dumps({"topicList": topics}))


PROCESSORS: Final[dict[int, Processor[NameServer]]] = {
    RequestCode.REGISTER_BROKER: register_broker,
    RequestCode.UNREGISTER_BROKER: unregister_broker,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: get_route_info_by_topic,
    RequestCode.GET_BROKER_CLUSTER_INFO: get_broker_cluster_info,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: get_all_topic_list,
    RequestCode.GET_TOPICS_BY_CLUSTER: get_topics_by_cluster,
}
