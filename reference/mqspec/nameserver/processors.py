"""What the nameserver answers, by request code (DefaultRequestProcessor.java, 5.3.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mqspec.core import flow_control, kv_config, route
from mqspec.core.flow_control import Pool
from mqspec.core.kv_config import ORDER_TOPIC_CONFIG
from mqspec.core.metadata import DataVersion, TopicSysFlag
from mqspec.core.response import Refusal
from mqspec.core.route import TopicRouteData
from mqspec.nameserver.config import NEVER_UPDATED
from mqspec.options import to_properties, updated
from mqspec.service import Processor, answered, clock_ms, options_to_set, refused
from mqspec.transport import Connection
from mqspec.wire.bodies import dumps, from_body, to_body, to_plain
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
        return answered(request, route.CRC_NOT_MATCHED)
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
        enable_acting_master=(
            boolean(request, "enableActingMaster") if "enableActingMaster" in fields else None
        ),
        ha_server_address=fields.get("haServerAddr"),
        zone_name=fields.get("__ZONE_NAME"),
    )
    step = server.carry(
        route.register_broker(
            server.state,
            event,
            clock_ms(),
            deletes_topics=server.config.delete_topic_with_broker_registration,
        ),
        event,
    )
    if step.result is None:
        return answered(request, route.NOT_REGISTERED)
    answer = {
        "haServerAddr": step.result.ha_server_address,
        "masterAddr": step.result.master_address,
    }
    orders = server.kv.config_table.get(ORDER_TOPIC_CONFIG)
    is_told = orders is not None and server.config.return_order_topic_config_to_broker
    return request.response(
        ext_fields={name: value for name, value in answer.items() if value is not None},
        body=dumps({"table": orders}) if is_told else b"",
    )


def unregister_broker(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """104. Whoever it is, the answer is 0."""
    fields = request.ext_fields
    # Of a broker that is not named in full 5.3.3 fails to take anything out, after its answer.
    if {"clusterName", "brokerId"} <= fields.keys():
        address = route.BrokerAddr(fields["clusterName"], fields.get("brokerAddr", ""))
        name = fields.get("brokerName", "")
        server.carry(route.unregister_broker(server.state, address, name))
    return request.response()


def broker_heartbeat(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """904. Whoever it is, the answer is 0."""
    server.carry(route.broker_heartbeat(server.state, _address(request), clock_ms()))
    return request.response()


def query_data_version(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """322."""
    asked = from_body(DataVersion, request.body) if request.body else None
    step = server.carry(
        route.query_data_version(server.state, _address(request), asked, clock_ms())
    )
    is_changed, known = step.result
    return request.response(
        ext_fields={"changed": str(is_changed).lower()}, body=to_body(known) if known else b""
    )


def _address(request: RemotingCommand) -> route.BrokerAddr:
    return route.BrokerAddr(text(request, "clusterName"), text(request, "brokerAddr"))


def get_route_info_by_topic(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """105."""
    config = server.config
    is_early = clock_ms() - server.started_ms < 1000 * config.wait_seconds_for_service
    if config.need_wait_for_service and is_early:
        return answered(request, route.NOT_READY)
    topic = request.ext_fields.get("topic")
    found = route.pick_topic_route(server.state, topic) if topic is not None else None
    if topic is not None:
        server.note_told("topic_queue_table", topic, found)
    if topic is None or found is None:
        return answered(request, route.no_route(topic))
    if config.order_message_enable:
        orders = kv_config.get_kv_config(server.kv, ORDER_TOPIC_CONFIG, topic)
        found = replace(found, order_topic_conf=orders)
    standard = request.version >= STANDARD_JSON_SINCE or boolean(request, "acceptStandardJsonOnly")
    return request.response(body=to_body(found, standard))


def get_broker_cluster_info(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """106. Its broker ids are never quoted."""
    return request.response(body=to_body(route.cluster_info(server.state)))


def get_broker_member_group(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """901."""
    fields = request.ext_fields
    group = route.broker_member_group(
        server.state, fields.get("clusterName"), fields.get("brokerName")
    )
    return answered(
        request, route.MEMBER_GROUP_SHOWN, dumps({"brokerMemberGroup": to_plain(group)})
    )


# Permissions and topics


def wipe_write_perm_of_broker(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """205. Of a broker that is not known: no topic, and 0 all the same."""
    name = request.ext_fields.get("brokerName", "")
    step = server.carry(route.wipe_write_perm(server.state, name))
    return request.response(ext_fields={"wipeTopicCount": str(step.result)})


def add_write_perm_of_broker(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """327. As 205."""
    name = request.ext_fields.get("brokerName", "")
    step = server.carry(route.add_write_perm(server.state, name))
    return request.response(ext_fields={"addTopicCount": str(step.result)})


def delete_topic_in_namesrv(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """216. Whatever it is, the answer is 0."""
    fields = request.ext_fields
    cluster = fields.get("clusterName")
    server.carry(route.delete_topic(server.state, fields.get("topic", ""), cluster))
    return request.response()


def register_topic_in_namesrv(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """217. The body is a route, of which the queues count."""
    if request.body and "topic" in request.ext_fields:
        queues = from_body(TopicRouteData, request.body).queue_datas
        server.carry(route.register_topic(server.state, request.ext_fields["topic"], queues))
    return request.response()


def get_all_topic_list(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """206."""
    if not server.config.enable_all_topic_list:
        return answered(request, route.DISABLED)
    return request.response(body=dumps({"topicList": list(server.state.topic_queue_table)}))


def get_topics_by_cluster(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """224. Of an unknown cluster: none."""
    if not server.config.enable_topic_list:
        return answered(request, route.DISABLED)
    cluster = request.ext_fields.get("cluster", "")
    topics = route.topics_of_cluster(server.state, cluster)
    return request.response(body=dumps({"topicList": topics}))


def get_system_topic_list(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """304."""
    topics, address = route.system_topics(server.state)
    return request.response(body=dumps({"brokerAddr": address, "topicList": topics}))


def _unit_topic_list(is_meant: Callable[[int], bool]) -> Processor[NameServer]:
    def unit_topic_list(
        server: NameServer, _: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        if not server.config.enable_topic_list:
            return answered(request, route.DISABLED)
        topics = route.topics_of_unit(server.state, is_meant)
        return request.response(body=dumps({"topicList": topics}))

    return unit_topic_list


# The KV config


def put_kv_config(server: NameServer, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """100."""
    fields = request.ext_fields
    namespace, key = fields.get("namespace"), fields.get("key")
    if namespace is None or key is None:
        return answered(request, kv_config.NOT_NAMED)
    server.carry_kv(kv_config.put_kv_config(server.kv, namespace, key, fields.get("value")))
    return request.response()


def get_kv_config(server: NameServer, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """101."""
    fields = request.ext_fields
    namespace, key = fields.get("namespace", "null"), fields.get("key", "null")
    value = kv_config.get_kv_config(server.kv, namespace, key)
    if value is None:
        return answered(request, kv_config.no_item(namespace, key))
    return request.response(ext_fields={"value": value})


def delete_kv_config(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """102. Whatever it is, the answer is 0."""
    fields = request.ext_fields
    namespace, key = fields.get("namespace", ""), fields.get("key", "")
    server.carry_kv(kv_config.delete_kv_config(server.kv, namespace, key))
    return request.response()


def get_kv_list_by_namespace(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """219."""
    namespace = request.ext_fields.get("namespace", "null")
    table = server.kv.config_table.get(namespace)
    if table is None:
        return answered(request, kv_config.no_item(namespace))
    return request.response(body=dumps({"table": table}))


# The nameserver's own options


def update_namesrv_config(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """318. What is not an option is ignored."""
    properties = options_to_set(request, NEVER_UPDATED)
    if isinstance(properties, Refusal):
        return refused(request, properties)
    server.config = updated(server.config, properties)
    return request.response()


def get_namesrv_config(
    server: NameServer, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """319."""
    return request.response(body=to_properties(server.config).encode())


PROCESSORS: Final[dict[int, Processor[NameServer]]] = {
    RequestCode.PUT_KV_CONFIG: put_kv_config,
    RequestCode.GET_KV_CONFIG: get_kv_config,
    RequestCode.DELETE_KV_CONFIG: delete_kv_config,
    RequestCode.REGISTER_BROKER: register_broker,
    RequestCode.UNREGISTER_BROKER: unregister_broker,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: get_route_info_by_topic,
    RequestCode.GET_BROKER_CLUSTER_INFO: get_broker_cluster_info,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: wipe_write_perm_of_broker,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: get_all_topic_list,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: delete_topic_in_namesrv,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: register_topic_in_namesrv,
    RequestCode.GET_KVLIST_BY_NAMESPACE: get_kv_list_by_namespace,
    RequestCode.GET_TOPICS_BY_CLUSTER: get_topics_by_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: get_system_topic_list,
    RequestCode.GET_UNIT_TOPIC_LIST: _unit_topic_list(lambda flag: bool(flag & TopicSysFlag.UNIT)),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _unit_topic_list(
        lambda flag: bool(flag & TopicSysFlag.UNIT_SUB)
    ),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _unit_topic_list(
        lambda flag: flag & (TopicSysFlag.UNIT | TopicSysFlag.UNIT_SUB) == TopicSysFlag.UNIT_SUB
    ),
    RequestCode.UPDATE_NAMESRV_CONFIG: update_namesrv_config,
    RequestCode.GET_NAMESRV_CONFIG: get_namesrv_config,
    RequestCode.QUERY_DATA_VERSION: query_data_version,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: add_write_perm_of_broker,
    RequestCode.GET_BROKER_MEMBER_GROUP: get_broker_member_group,
    RequestCode.BROKER_HEARTBEAT: broker_heartbeat,
}


def pool_of(code: int) -> Pool:
    """Where requests of a code wait, if they have to."""
    is_client = code == RequestCode.GET_ROUTEINFO_BY_TOPIC
    return flow_control.NAMESRV_CLIENT if is_client else flow_control.NAMESRV_DEFAULT
