"""What went over the links of a cluster, told as events.

It has no connection and no clock: it is told which commands went over which link, and when. What a
request or its answer shows is said by a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mqrecord import membership, progress, sends, transactions
from mqrecord.holds import SILENT_MS
from mqrecord.seen import Asked, Client, Link, Rows, Seen, Server, row
from mqrules import EventKind, Outcome
from mqspec.core.log import DELAY_LEVELS_MS
from mqspec.core.route import MASTER_ID
from mqspec.wire.bodies import BodyError
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

_REQUESTS: Final[Mapping[int, Callable[[Seen, Link, Asked, float], Rows]]] = {
    RequestCode.HEART_BEAT: membership.heartbeat,
    RequestCode.UNREGISTER_CLIENT: membership.unregister,
    RequestCode.UNLOCK_BATCH_MQ: membership.unlock,
    RequestCode.UPDATE_CONSUMER_OFFSET: progress.commit,
    RequestCode.PULL_MESSAGE: progress.pull,
    RequestCode.END_TRANSACTION: transactions.end,
    **dict.fromkeys(sends.CODES, sends.send),
}
_OF_OWNERS: Final = (RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.PULL_MESSAGE)
_ANSWERS: Final[Mapping[int, Callable[[Seen, Link, Asked, RemotingCommand, float], Rows]]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: membership.told_route,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: membership.told_members,
    RequestCode.LOCK_BATCH_MQ: membership.locked,
    RequestCode.QUERY_CONSUMER_OFFSET: progress.told_progress,
    RequestCode.UPDATE_CONSUMER_OFFSET: progress.committed,
    RequestCode.PULL_MESSAGE: progress.pulled,
    RequestCode.END_TRANSACTION: transactions.ended,
    RequestCode.CONSUMER_SEND_MSG_BACK: progress.given_back,
    RequestCode.POP_MESSAGE: progress.popped,
    RequestCode.ACK_MESSAGE: progress.pop_finished,
    **dict.fromkeys(sends.CODES, sends.sent),
}
_NOTICES: Final[Mapping[int, Callable[[Seen, Link, RemotingCommand, float], Rows]]] = {
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: progress.told_reset,
}


class Observer:
    """All that was seen of a cluster. Each method gives the rows of what it is told."""

    def __init__(self, delays_ms: Sequence[int] = DELAY_LEVELS_MS) -> None:
        """`delays_ms`: how long the cluster's brokers delay each level."""
        self._seen = Seen(delays_ms)
        self.unread = 0  # commands whose body or fields are not what their code says

    def linked(self, number: int, server: Server, address: str, now_ms: float) -> Rows:
        """A client at an address has a connection to a server."""
        self._seen.links[number] = Link(number, server, Client(address, links={number}))
        if server in self._seen.down:
            self._seen.down.discard(server)
            self._seen.restarted_ms[server] = now_ms
            yield row(EventKind.RESTART, peer=server.broker)

    def request(self, number: int, request: RemotingCommand, now_ms: float) -> Rows:
        """What a client asks."""
        link = self._seen.links[number]
        link.asked_ms = now_ms
        return self._read(self._requested(link, request, now_ms))

    def answer(self, number: int, answer: RemotingCommand, now_ms: float) -> Rows:
        """What it is answered."""
        link = self._seen.links[number]
        asked = link.asked.pop(answer.opaque, None)
        if asked and (shown := _ANSWERS.get(asked.request.code)):
            yield from self._read(shown(self._seen, link, asked, answer, now_ms))

    def notice(self, number: int, notice: RemotingCommand, now_ms: float) -> Rows:
        """What a broker asks a client."""
        if shown := _NOTICES.get(notice.code):
            yield from self._read(shown(self._seen, self._seen.links[number], notice, now_ms))

    def unlinked(self, number: int, by_client: bool, now_ms: float) -> Rows:
        """A connection has ended. A client that ended its last one is gone; one that had been
        silent when a broker did is cut off."""
        link = self._seen.links.pop(number)
        for asked in link.asked.values():
            yield from sends.sends(self._seen, link, asked, Outcome.UNKNOWN)
        client = link.client
        client.links.discard(number)
        if by_client and not client.links:
            self._seen.clients.pop(client.name, None)
            for name in list(client.groups):
                yield from membership.gone(client, name, now_ms)
        elif not client.links and now_ms > link.asked_ms + SILENT_MS:
            yield from membership.cut_off(client)

    def broker_lost(self, server: Server) -> Rows:
        """A broker takes no connection any more. That a replica does not is told of nobody."""
        if server.broker_id == MASTER_ID and server not in self._seen.down:
            self._seen.down.add(server)
            yield row(EventKind.CRASH, peer=server.broker)

    def tick(self, now_ms: float) -> Rows:
        """Time has passed."""
        return membership.left_in_time(self._seen, now_ms)

    @property
    def clients(self) -> int:
        """How many clients are connected that have said who they are."""
        return len(self._seen.clients)

    def _requested(self, link: Link, request: RemotingCommand, now_ms: float) -> Rows:
        asked = Asked(request, tuple(sends.messages(request)))
        if not request.is_oneway:
            link.asked[request.opaque] = asked
        if request.code in _OF_OWNERS:
            self._seen.recognize(link, asked)
        if shown := _REQUESTS.get(request.code):
            yield from shown(self._seen, link, asked, now_ms)

    def _read(self, rows: Rows) -> Rows:
        """The rows, as far as what was seen can be read."""
        try:
            yield from rows
        except (BodyError, KeyError, ValueError, IndexError):
            self.unread += 1
