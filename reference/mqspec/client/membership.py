"""What a member asks brokers about its group: who else is in it, and whether they can read what it
subscribes to.

Facts: client/impl/factory/MQClientInstance.java (findConsumerIdList, checkClientInBroker), 5.3.3.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping

from mqrules import UserError
from mqspec.client.instance import NOT_ANSWERED, BrokerError, ClientInstance, succeeded
from mqspec.client.subscription import subscription_body
from mqspec.core.group import SubscriptionData
from mqspec.core.subscription import TAG
from mqspec.core.types import ClientId, Group, Topic
from mqspec.wire import bodies
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

log = logging.getLogger(__name__)


async def check_in_broker(
    instance: ClientInstance,
    group: Group,
    subscriptions: Mapping[Topic, SubscriptionData],
    version_ms: int,
) -> None:
    """Have a broker look at what is not subscribed to by tags. Raises UserError."""
    for topic, data in subscriptions.items():
        brokers = instance.brokers([topic])
        if data.expression_type == TAG or not brokers:
            continue
        body = {
            "clientId": instance.client_id,
            "group": group,
            "subscriptionData": bodies.to_plain(subscription_body(data, version_ms)),
        }
        request = RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, body=bodies.dumps(body))
        try:
            succeeded(await instance.invoke(random.choice(brokers), request))
        except BrokerError as error:
            raise UserError(
                f"{group}: {data.sub_string!r}",
                str(error),
                "write an expression that the broker reads (enablePropertyFilter)",
            ) from None
        except NOT_ANSWERED as error:
            log.warning("%s: %s is not checked: %s", group, data.sub_string, error)


async def member_ids(
    instance: ClientInstance, group: Group, topic: Topic
) -> tuple[ClientId, ...] | None:
    """The members of a group, by one of a topic's brokers; None where none of them tells."""
    if not instance.brokers([topic]):
        # A retry topic is created after the first heartbeat.
        await instance.update_routes([topic])
    brokers = instance.brokers([topic])
    if not brokers:
        return None

    request = RemotingCommand(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    broker = random.choice(brokers)
    try:
        broker_id = instance.find_in_subscribe(broker)
        response = succeeded(await instance.invoke(broker, request, broker_id=broker_id))
        return bodies.from_body(bodies.ConsumerList, response.body).ids
    except NOT_ANSWERED as error:
        log.warning("%s: the list of members is not known: %s", group, error)
        return None
