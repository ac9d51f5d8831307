"""A client's presence on its brokers: how they learn of it, and that it leaves.

Facts: client/impl/factory/MQClientInstance.java (sendHeartbeatToAllBroker, onChannelActive,
unregisterClient), 5.3.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from mqspec.client.instance import NOT_ANSWERED, ClientInstance, succeeded
from mqspec.client.tasks import Tasks
from mqspec.core.types import Topic
from mqspec.transport import Connection
from mqspec.wire.bodies import HeartbeatData, to_body
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

log = logging.getLogger(__name__)


class Presence:
    """What brokers are told of a client.

    `heartbeat` is what it says of itself now, `topics` those whose brokers hear it, and with
    `replicas` their replicas too. `greeted` is called when a broker that was reached again knows
    of it.
    """

    def __init__(
        self,
        instance: ClientInstance,
        tasks: Tasks,
        heartbeat: Callable[[], HeartbeatData],
        topics: Callable[[], Iterable[Topic]],
        *,
        replicas: bool = True,
        greeted: Callable[[], None] = lambda: None,
    ) -> None:
        self._instance, self._tasks = instance, tasks
        self._heartbeat, self._topics = heartbeat, topics
        self._replicas, self._greeted = replicas, greeted
        self._may_greet = False  # not before it has joined, and not once it leaves

    async def announce(self, heartbeat: HeartbeatData | None = None) -> None:
        """Tell all brokers, of what is said now or of `heartbeat`."""
        self._may_greet = False
        request = _request(heartbeat or self._heartbeat())
        await self._instance.to_all_brokers(request, self._topics(), replicas=self._replicas)
        self._may_greet = True

    def connected(self, connection: Connection) -> None:
        """A broker is reached for the first time, or again, and may have forgotten the client. It
        is told at once, where not all are being told."""
        if self._may_greet:
            self._tasks.spawn(self._greet(connection))

    async def _greet(self, connection: Connection) -> None:
        try:
            answer = connection.request(_request(self._heartbeat()), self._instance.timeout_ms)
            succeeded(await answer)
        except NOT_ANSWERED as error:
            client_id = self._instance.client_id
            log.warning("%s: %s is not told: %s", client_id, connection.peer, error)
            return
        self._greeted()

    def hush(self) -> None:
        """Tell nobody who is reached from now on: the client is about to leave."""
        self._may_greet = False

    async def leave(self, **group: str) -> None:
        """Tell all brokers that the client leaves its `consumerGroup` or `producerGroup`."""
        self.hush()
        fields = {"clientID": self._instance.client_id, **group}
        request = RemotingCommand(RequestCode.UNREGISTER_CLIENT, fields)
        await self._instance.to_all_brokers(request, self._topics())


def _request(heartbeat: HeartbeatData) -> RemotingCommand:
    return RemotingCommand(RequestCode.HEART_BEAT, body=to_body(heartbeat))
