"""One client's connections and routes (MQClientInstance.java, 5.3.3)."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final

from msgspec.structs import replace

from mqrules import UserError
from mqspec.client.credentials import SessionCredentials
from mqspec.core.metadata import is_group_name
from mqspec.core.push_consumer import find_broker_in_subscribe
from mqspec.core.route import MASTER_ID, TopicRouteData
from mqspec.core.types import BrokerName, ClientId, Group, MessageQueue, Topic
from mqspec.transport import (
    Connection,
    ConnectionLostError,
    Handler,
    RequestTimeoutError,
    Watcher,
    connect,
    refuse,
)
from mqspec.wire.bodies import BodyError, from_body
from mqspec.wire.codec import RemotingCommand, next_opaque
from mqspec.wire.codes import RequestCode, ResponseCode

POLL_NAME_SERVER_INTERVAL_MS: Final = 30_000

_DEFAULT_GROUPS: Final = ("DEFAULT_PRODUCER", "DEFAULT_CONSUMER")

log = logging.getLogger(__name__)


class ClientError(Exception):
    """What a client cannot do."""


class BrokerError(ClientError):
    """A broker or nameserver answered with a code that is not success."""

    def __init__(self, response: RemotingCommand) -> None:
        self.code, self.remark = response.code, response.remark
        super().__init__(f"code {response.code}: {response.remark or 'no remark'}")


class UnreachableError(ClientError):
    """There is no connection to the broker: nothing was sent."""


class AnswerError(Exception):
    """The answer lacks what an answer to this request has."""


NOT_ANSWERED = (ClientError, AnswerError, BodyError, ConnectionLostError, RequestTimeoutError)
"""How a request may fail; but for ClientError, it may have been carried out."""


@dataclass(frozen=True, slots=True)
class Address:
    """A nameserver's or broker's address."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """From HOST:PORT. Raises UserError."""
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
            raise UserError(repr(text), "not an address", "write it as HOST:PORT")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class ClientInstance:
    """The connections of one client, its id, and what it knows of routes.

    `nameserver` is an address, or several with `;` between them, of which one is asked.
    `handler` answers what brokers ask of the client, `on_connect` hears of each connection to a
    broker. With `ssl` it speaks TLS (mqspec.tls.client_context), with `credentials` it says
    whose its requests are.
    """

    def __init__(
        self,
        nameserver: str,
        handler: Handler = refuse,
        client_id: ClientId | None = None,
        timeout_ms: int = 3_000,
        instance_name: str | None = None,
        ssl: SSLContext | None = None,
        credentials: SessionCredentials | None = None,
        on_connect: Watcher = lambda connection: None,
    ) -> None:
        self.nameserver = nameserver
        addresses = [Address.parse(text) for text in nameserver.split(";")]
        # Not all clients are to ask the same one; the first is asked until it fails.
        self._nameservers = deque(random.sample(addresses, len(addresses)))
        self.timeout_ms = timeout_ms
        self.routes: dict[Topic, TopicRouteData] = {}
        # Which of a broker and its replicas said that who is to be pulled next.
        self.pull_from_which_node: dict[MessageQueue, int] = {}
        self._client_id = client_id
        self._instance_name = instance_name or f"{os.getpid()}#{time.monotonic_ns()}"
        self._handler, self._on_connect = handler, on_connect
        self._ssl, self._credentials = ssl, credentials
        self._connections: dict[Address, Connection] = {}
        self._connecting: defaultdict[Address, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def client_id(self) -> ClientId:
        """`ip@instance_name`, by default `ip@pid#nanotime`, unless it was given as a whole
        (ClientConfig.buildMQClientId)."""
        assert self._client_id is not None, "not started"
        return self._client_id

    async def start(self) -> None:
        """Reach a nameserver. Raises UserError where none answers."""
        try:
            await self._ask_nameserver(RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO))
        except NOT_ANSWERED as error:
            await self.close()
            raise UserError(
                self.nameserver,
                f"the nameserver does not answer: {error}",
                "check the address, or start one: mqspec serve",
            ) from None
        if self._client_id is None:
            local_host = self._connections[self._nameservers[0]].local_host
            self._client_id = f"{local_host}@{self._instance_name}"

    async def update_route(self, topic: Topic) -> TopicRouteData | None:
        """Ask the nameserver where a topic is; None where it knows no such topic.

        Raises what a request raises; then what was known stays known.
        """
        request = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        response = await self._ask_nameserver(request)
        if response.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        route = from_body(TopicRouteData, succeeded(response).body)
        self.routes[topic] = route
        return route

    async def update_routes(self, topics: Iterable[Topic]) -> None:
        """Ask again where some topics are; what does not answer leaves its route as it was."""
        for topic in topics:
            try:
                await self.update_route(topic)
            except NOT_ANSWERED as error:
                log.warning("the route of %s stays as it was: %s", topic, error)

    async def to_all_brokers(
        self, request: RemotingCommand, topics: Iterable[Topic], *, replicas: bool = True
    ) -> None:
        """Ask each broker of some topics, and each of its `replicas`, the same; what fails is
        logged."""

        async def to(broker: BrokerName, broker_id: int) -> None:
            again = replace(request, opaque=next_opaque())
            try:
                succeeded(await self.invoke(broker, again, broker_id=broker_id))
            except NOT_ANSWERED as error:
                log.warning("request %d to %s failed: %s", request.code, broker, error)

        places = (
            (broker, broker_id)
            for broker in self.brokers(topics)
            for broker_id in sorted(self._addresses(broker))
            if replicas or broker_id == MASTER_ID
        )
        await asyncio.gather(*itertools.starmap(to, places))

    def brokers(self, topics: Iterable[Topic]) -> list[BrokerName]:
        """The brokers of some topics, by name, each once."""
        routes = (self.routes[topic] for topic in topics if topic in self.routes)
        return sorted({data.broker_name for route in routes for data in route.broker_datas})

    def find_in_subscribe(self, broker: BrokerName, broker_id: int = MASTER_ID) -> int:
        """Whom to ask as a consumer, where the master is not there or says who is better asked.
        Raises UnreachableError where no route names the broker."""
        found = find_broker_in_subscribe(self._addresses(broker), broker_id)
        if found is None:
            raise UnreachableError(f"{broker}: no route names it")
        return found

    async def invoke(
        self,
        broker: BrokerName,
        request: RemotingCommand,
        timeout_ms: int | None = None,
        broker_id: int = MASTER_ID,
        *,
        is_async: bool = False,
    ) -> RemotingCommand:
        """A broker's answer, whatever its code. A connection on which none comes in time may lead
        nowhere any more: the next request has another one, unless the real client does not wait
        for this one (NettyRemotingClient.invokeSync, invokeAsync).

        Raises UnreachableError (nothing was sent), ConnectionLostError or
        RequestTimeoutError (it may have been carried out).
        """
        connection = await self._broker(broker, broker_id)
        timeout_ms = timeout_ms or self.timeout_ms
        if is_async:
            return await connection.request(request, timeout_ms)
        return await _request(connection, request, timeout_ms)

    async def oneway(
        self, broker: BrokerName, request: RemotingCommand, broker_id: int = MASTER_ID
    ) -> None:
        """Send a request that nobody answers. Raises UnreachableError."""
        (await self._broker(broker, broker_id)).oneway(request)

    async def close(self) -> None:
        """Close all connections, once what was sent is out."""
        connections = tuple(self._connections.values())
        for connection in connections:
            connection.close()
        await asyncio.gather(*(connection.wait_closed() for connection in connections))

    def abort(self) -> None:
        """Drop all connections at once, as the end of the process would."""
        for connection in self._connections.values():
            connection.abort()

    async def _ask_nameserver(self, request: RemotingCommand) -> RemotingCommand:
        """What the first that answers says; one that did not is asked last from then on."""
        for _ in range(len(self._nameservers) - 1):
            try:
                return await self._ask_first_nameserver(request)
            except (UnreachableError, ConnectionLostError, RequestTimeoutError) as error:
                log.warning("another nameserver is asked: %s", error)
                self._nameservers.rotate(-1)
        return await self._ask_first_nameserver(request)

    async def _ask_first_nameserver(self, request: RemotingCommand) -> RemotingCommand:
        connection = await self._connection(self._nameservers[0])
        return await _request(connection, request, self.timeout_ms)

    async def _broker(self, name: BrokerName, broker_id: int) -> Connection:
        address = self._addresses(name).get(broker_id)
        if address is None:
            who = "master" if broker_id == MASTER_ID else f"replica {broker_id}"
            raise UnreachableError(f"{name}: no route names its {who}")
        return await self._connection(_broker_address(address))

    def _addresses(self, name: BrokerName) -> Mapping[int, str]:
        found: dict[int, str] = {}
        for route in self.routes.values():
            for data in route.broker_datas:
                if data.broker_name == name:
                    found = {**data.broker_addrs, **found}
        return found

    async def _connection(self, address: Address) -> Connection:
        async with self._connecting[address]:
            connection = self._connections.get(address)
            if connection is None or connection.is_closed:
                try:
                    connection = await connect(
                        address.host,
                        address.port,
                        self._handler,
                        timeout_ms=self.timeout_ms,
                        ssl=self._ssl,
                        signed=self._credentials.signed if self._credentials else None,
                    )
                except OSError as error:
                    why = os.strerror(error.errno) if error.errno else "no connection in time"
                    raise UnreachableError(f"{address}: {why}") from None
                self._connections[address] = connection
                if self._is_broker(address):
                    self._on_connect(connection)
            return connection

    def _is_broker(self, address: Address) -> bool:
        return any(
            str(address) in data.broker_addrs.values()
            for route in self.routes.values()
            for data in route.broker_datas
        )


async def _request(
    connection: Connection, request: RemotingCommand, timeout_ms: int
) -> RemotingCommand:
    try:
        return await connection.request(request, timeout_ms)
    except RequestTimeoutError:
        connection.abort()
        raise


def check_group(group: Group) -> None:
    """Raises UserError where a group cannot have this name: no broker says so, it would merely
    know of no member (Validators.checkGroup)."""
    if not group.strip() or not is_group_name(group) or group in _DEFAULT_GROUPS:
        raise UserError(
            repr(group), "not a name of a group", "take letters, digits, %, |, _ and -, 255 at most"
        )


def succeeded(response: RemotingCommand) -> RemotingCommand:
    """The response. Raises BrokerError where its code is not success."""
    if response.code != ResponseCode.SUCCESS:
        raise BrokerError(response)
    return response


def int_field(response: RemotingCommand, name: str) -> int:
    """A field that is a number. Raises AnswerError where there is none."""
    try:
        return int(response.ext_fields[name])
    except (KeyError, ValueError):
        raise AnswerError(f"no number {name} in {dict(response.ext_fields)!r:.80}") from None


def _broker_address(address: str) -> Address:
    try:
        return Address.parse(address)
    except UserError as error:  # not the user's this time
        raise UnreachableError(str(error)) from None
