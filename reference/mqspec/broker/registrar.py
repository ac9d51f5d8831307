"""Registration: the broker tells a nameserver of itself, over the wire like any other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from ssl import SSLContext
from typing import Final

from mqrules import UserError
from mqspec.core.metadata import BrokerConfig, MetadataState, TopicConfig, registered_topics
from mqspec.core.response import is_success
from mqspec.core.route import MASTER_ID, TopicRouteData
from mqspec.core.types import Topic
from mqspec.service import Served
from mqspec.transport import Connection, ConnectionLostError, RequestTimeoutError, connect
from mqspec.wire.bodies import from_body
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode
from mqspec.wire.registration import encode_registration

REGISTER_INTERVAL_MS: Final = 30_000
TIMEOUT_MS: Final = 6_000

log = logging.getLogger(__name__)


class Registrar:
    """Keeps a broker registered. The connection stays open: its end would mean the broker's."""

    def __init__(
        self,
        nameserver: str,
        config: BrokerConfig,
        address: str,
        ssl: SSLContext | None = None,
    ) -> None:
        self._nameserver = nameserver
        self._ssl = ssl
        self._fields = {
            "brokerName": config.broker_name,
            "brokerAddr": address,
            "clusterName": config.cluster_name,
            "haServerAddr": address,  # a master without replicas; the field must be there
            "brokerId": str(MASTER_ID),
        }
        self.config = config
        self._connection: Connection | None = None
        self._soon: asyncio.Task[None] | None = None
        self._changed: set[Topic] = set()
        self._actions: list[Callable[[], None]] = []  # done when these are told

    async def register(self, metadata: MetadataState) -> None:
        """Register all topics. Raises UserError where the nameserver does not take them."""
        await self._register(metadata, metadata.topic_config_table.values())

    async def _register(self, metadata: MetadataState, topics: Iterable[TopicConfig]) -> None:
        registered = registered_topics(topics, self.config)
        body = encode_registration(registered, metadata.topic_data_version)
        fields = self._fields | {"bodyCrc32": "0", "compressed": "false"}
        await self._ask(RemotingCommand(RequestCode.REGISTER_BROKER, fields, body))

    async def register_again(self, metadata: MetadataState) -> None:
        """Register, or say in the log why not; the next time comes."""
        try:
            await self.register(metadata)
        except UserError as error:
            log.warning("%s", error)

    def register_soon(self, metadata: MetadataState, changed: Iterable[Topic]) -> None:
        """Register topics that changed, once what is being done now is done; what changes
        meanwhile goes along (BrokerController.registerIncrementBrokerData, 5.3.3)."""
        self._changed.update(changed)
        if self._soon is None or self._soon.done():
            self._soon = asyncio.create_task(self._register_soon(metadata))

    @property
    def is_behind(self) -> bool:
        """Whether there are topics that the nameserver is only being told of."""
        return self._soon is not None and not self._soon.done()

    def when_caught_up(self, action: Callable[[], None]) -> None:
        """Have something done once the nameserver was told of what changed before this call, or
        does not answer. Only where it is behind."""
        self._actions.append(action)

    def once_registered(
        self,
        is_changed: bool,
        connection: Connection,
        request: RemotingCommand,
        answer: Served,
    ) -> Served:
        """An answer, once the nameserver was told of the topics that changed for it: who gets it
        finds them in its routes (ADMIN-028)."""
        if not (is_changed and self.is_behind):
            return answer
        self.when_caught_up(lambda: connection.answer(request, answer))
        return None

    async def unregister(self) -> None:
        """Leave the routes, if the nameserver is there at all."""
        if self._soon:
            self._soon.cancel()
        with contextlib.suppress(UserError):
            await self._ask(RemotingCommand(RequestCode.UNREGISTER_BROKER, self._fields))
        self.close()

    async def topic_route(self, topic: Topic) -> TopicRouteData | None:
        """A topic's route; None where the nameserver has none, or is not there."""
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        request = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        with contextlib.suppress(UserError):
            return from_body(TopicRouteData, (await self._ask(request)).body)
        return None

    def close(self) -> None:
        """Close the connection, which says as much as to unregister."""
        if self._connection:
            self._connection.close()

    async def _register_soon(self, metadata: MetadataState) -> None:
        while self._changed or self._actions:
            names, self._changed = self._changed, set()
            actions, self._actions = self._actions, []
            table = metadata.topic_config_table
            # All of them where one was deleted: a nameserver may be told to miss it.
            told = names if names <= table.keys() else table.keys()
            try:
                if told:
                    await self._register(metadata, [table[name] for name in told])
            except UserError as error:
                log.warning("%s", error)  # the next registration of all topics tells it
            finally:
                for action in actions:
                    action()

    async def _ask(self, request: RemotingCommand) -> RemotingCommand:
        try:
            if self._connection is None or self._connection.is_closed:
                host, _, port = self._nameserver.rpartition(":")
                self._connection = await connect(host, int(port), ssl=self._ssl)
            response = await self._connection.request(request, TIMEOUT_MS)
        except (OSError, ConnectionLostError, RequestTimeoutError) as error:
            raise UserError(
                self._nameserver, f"the nameserver does not answer: {error}", "start it first"
            ) from None
        if not is_success(response.code):
            raise UserError(
                self._nameserver,
                f"the nameserver answers {response.code}: {response.remark}",
                "look into its log",
            )
        return response
