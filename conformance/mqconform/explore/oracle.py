"""The reference beside the target: each in a process of its own, asked the same."""

from __future__ import annotations

import atexit
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from mqconform.cluster import Cluster
from mqconform.connection import Connection, Manner
from mqconform.explore.player import MANNERS, World
from mqconform.explore.telling import Words
from mqconform.frame import Frame
from mqconform.reference import Reference
from mqconform.requests import Request
from mqconform.transcript import Transcript

VERSIONS: Final = (479, 399, 115)  # of clients, in turn
BROKERS: Final = 2


class Oracle:
    """The reference, from the first use to the end of this process."""

    def __init__(self) -> None:
        home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        atexit.register(home.cleanup)
        self._reference = Reference(Path(home.name)).__enter__()
        atexit.register(self._reference.__exit__)
        self.cluster = Cluster(self._reference.nameserver)
        self.cluster.wait(BROKERS)


@cache
def oracle() -> Oracle:
    return Oracle()


class Side:
    """One of the two, as the clients of a program know it, with what they remember of it."""

    def __init__(
        self,
        world: World,
        connect: Callable[[str, Manner], Connection],
        nameserver: Connection,
        names: Sequence[str],
        addresses: Mapping[str, Any],
    ) -> None:
        self.topics, self.groups = world.topics, world.groups
        self.names, self.nameserver = names, nameserver
        self._connect = connect
        self._connections: dict[tuple[int, int], Connection] = {}
        self.notes: dict[Any, Any] = {}
        self.lists: defaultdict[Any, list[Any]] = defaultdict(list)
        self.asked = 0
        shared = {str(addresses[name]): f"address-{n}" for n, name in enumerate(names)}
        self.words = Words(shared | {name: f"broker-{n}" for n, name in enumerate(names)})

    def connection(self, client: int, broker: int) -> Connection:
        if (client, broker) not in self._connections:
            manner = MANNERS[client % len(MANNERS)]
            self._connections[client, broker] = self._connect(self.names[broker], manner)
        return self._connections[client, broker]

    def call(self, request: Request, broker: int, client: int = 0) -> Frame:
        self.asked += 1
        version = VERSIONS[client % len(VERSIONS)]
        return self.connection(client, broker).call(request, version=version)

    def hang_up(self, client: int, broker: int) -> None:
        if connection := self._connections.pop((client, broker), None):
            connection.close()

    def take_notices(self) -> None:
        """Put what brokers sent of their own accord behind what they sent before."""
        for (client, broker), connection in self._connections.items():
            while connection.notices:
                notice = connection.notices.popleft()
                self.lists["notices", broker].append((client, notice))


def ours_of(world: World) -> Side:
    """The reference's side of a world, of as many brokers as the target has, at most two."""
    cluster = oracle().cluster

    def connect(name: str, manner: Manner) -> Connection:
        address = cluster.brokers[name]
        made = Connection(address, Transcript(), broker_name=name, manner=manner)
        return world.scene.opened(made)

    nameserver = world.scene.opened(Connection(cluster.nameserver, Transcript()))
    names = list(cluster.brokers)[: len(theirs_names(world))]
    return Side(world, connect, nameserver, names, cluster.brokers)


def theirs_of(world: World) -> Side:
    """The target's side."""
    scene = world.scene
    names = theirs_names(world)
    return Side(
        world,
        lambda name, manner: scene.connect(name, manner=manner),
        scene.connect_nameserver(),
        names,
        {name: scene.address_of(name) for name in names},
    )


def theirs_names(world: World) -> list[str]:
    return world.scene.broker_names[:BROKERS]
