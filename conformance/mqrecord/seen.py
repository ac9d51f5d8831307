"""What was seen so far: links, the clients at their ends, and the queues of topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from mqrecord.holds import Membership
from mqrecord.messages import Known
from mqrules import SECOND, EventKind, Outcome
from mqspec.core.route import MASTER_ID
from mqspec.core.types import MessageQueue
from mqspec.wire.codec import RemotingCommand

Row: TypeAlias = dict[str, Any]
"""An event without its run, position and time, which `journal` gives it."""

Rows: TypeAlias = Iterator[Row]


# After its broker's restart 5.3.3's client may say its id on two links: at once on the one, and
# every 30 s on the one that it keeps.
TWO_LINKS_MS: Final = 60_000


# A client of 5.3.3 asks for a route each 30 s, and takes its share of it within another 20 s.
BELIEVED_MS: Final = 50_000

Queues: TypeAlias = tuple[MessageQueue, ...]


class Asked(NamedTuple):
    """A request that waits for its answer."""

    request: RemotingCommand
    messages: tuple[Known, ...] = ()  # that it sends


@dataclass(slots=True)
class Client:
    """One process, with a connection to each broker. `name` is its id, once it is known."""

    name: str
    is_named: bool = False
    links: set[int] = field(default_factory=set)
    groups: dict[str, Membership] = field(default_factory=dict)


class Server(NamedTuple):
    """Where a link leads: to a broker, or one of its replicas, or to a nameserver (no name)."""

    broker: str | None = None
    broker_id: int = MASTER_ID
    address: str = ""


@dataclass(slots=True)
class Link:
    """A connection of a client."""

    number: int
    server: Server
    client: Client
    is_guessed: bool = False  # whose it is, until it says so
    asked_ms: float = 0  # when the client last said something
    asked: dict[int, Asked] = field(default_factory=dict)  # by opaque

    @property
    def broker(self) -> str | None:
        return self.server.broker

    def queue(self, asked: Asked) -> MessageQueue:
        """The queue that a request names. Raises KeyError or ValueError where it names none."""
        fields = asked.request.ext_fields
        return MessageQueue(fields["topic"], self.broker or "", int(fields["queueId"]))

    def member(self, asked: Asked) -> Membership | None:
        """The client's place in the group that a request names."""
        return self.client.groups.get(asked.request.ext_fields["consumerGroup"])

    def at(self, asked: Asked) -> Row:
        """The columns of who asked for which queue."""
        member = self.member(asked)
        group = member.group if member else asked.request.ext_fields["consumerGroup"]
        return at_queue(self.client, group, self.queue(asked))


class Seen:
    """The links, clients and queues of a cluster."""

    def __init__(self, delays_ms: Sequence[int]) -> None:
        self.delays_ms = delays_ms  # of the levels, from 1 on
        self.links: dict[int, Link] = {}
        self.clients: dict[str, Client] = {}  # those that said who they are
        self._routes: dict[str, dict[Queues, float]] = {}  # by topic, each with when it was told
        self.down: set[Server] = set()
        self.restarted_ms: dict[Server, float] = {}

    def named(self, link: Link, client_id: str, now_ms: float) -> Client:
        """The client at a link, which says its id. Another one of the id has a name of its own:
        it is another where the first has a link to the same server already, unless that has just
        started again: who lost its link there may have made two, and say its id on either."""
        if link.client.is_named:
            if not link.is_guessed or link.client.name.partition(SECOND)[0] == client_id:
                link.is_guessed = False
                return link.client
            link.client.links.discard(link.number)
            link.is_guessed = False
        name, rank = client_id, 1
        while (client := self.clients.get(name)) and self._leads_to(client, link.server):
            rank += 1
            name = f"{client_id}{SECOND}{rank}"
        restarted_ms = self.restarted_ms.get(link.server)
        if restarted_ms is not None and now_ms < restarted_ms + TWO_LINKS_MS:
            client = client or self.clients.get(client_id)
        client = client or self.clients.setdefault(name, Client(name, is_named=True))
        client.links.add(link.number)
        link.client = client
        return client

    def recognize(self, link: Link, asked: Asked) -> None:
        """Whose a connection is that has not said so: it works at a queue of the only member of
        the group that owns it, which has no connection to the server any more. A client whose
        broker started again works first, and says who it is later."""
        group = asked.request.ext_fields.get("consumerGroup")
        if link.client.is_named or group is None:
            return
        queue = link.queue(asked)
        lost = [
            client
            for client in self.clients.values()
            if (member := client.groups.get(group)) and member.may_own(queue)
            if not self._leads_to(client, link.server)
        ]
        if len(lost) == 1:
            (link.client,) = lost
            link.client.links.add(link.number)
            link.is_guessed = True

    def told_route(self, topic: str, queues: Queues, now_ms: float) -> None:
        """A client was told where the topic is: which one, a nameserver's link does not say."""
        told = self._routes.setdefault(topic, {})
        told.pop(queues, None)
        told[queues] = now_ms

    def believed(self, topic: str, now_ms: float) -> list[Queues]:
        """What a client may take for the queues of a topic: what any was told last, and what it
        may itself have been told before that, for as long as it goes by it."""
        told = self._routes.get(topic, {})
        last = next(reversed(told), ())
        return [last] + [
            queues
            for queues, told_ms in told.items()
            if queues != last and now_ms <= told_ms + BELIEVED_MS
        ]

    def delay_ms(self, level: int) -> int | None:
        """For how long a message of a level is delayed; None: it is not."""
        return self.delays_ms[min(level, len(self.delays_ms)) - 1] if level else None

    def _leads_to(self, client: Client, server: Server) -> bool:
        return any(self.links[number].server == server for number in client.links)


def row(kind: EventKind, outcome: Outcome = Outcome.OK, **known: Any) -> Row:
    return {"kind": kind.value, "outcome": outcome.value, **known}


def at_queue(client: Client, group: str, queue: MessageQueue) -> Row:
    return {
        "group": group,
        "client_id": client.name,
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue_id": queue.queue_id,
    }
