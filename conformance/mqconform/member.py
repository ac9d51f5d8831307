"""A consumer by hand: joins, takes its share, pulls, consumes, commits, leaves or crashes.

It does what a correct client does and no more, over raw frames, and records everything it
does. It has no thread: `turn` is one round of its work.
"""

from __future__ import annotations

import time

from mqconform import requests
from mqconform.connection import Connection
from mqconform.history import Recorder
from mqconform.records import parse_records
from mqconform.requests import Subscription
from mqconform.scene import Scene, done
from mqrules import EventKind, Outcome
from mqspec.core.allocation import STRATEGIES, allocate
from mqspec.core.types import MessageQueue

_GLANCE_S = 0.001  # how long a turn looks for notices that have arrived
_WAIT_S = 20.0  # clients rebalance this often, told or not (RebalanceService.java, 5.3.3)


class Member:
    """One member of a group on one topic, whose queues it shares averagely.

    `owned` maps each of its queues to the offset from which it pulls next; `consumed` has the
    keys of all messages that it consumed, in order.
    """

    def __init__(
        self, scene: Scene, client_id: str, group: str, queues: list[MessageQueue]
    ) -> None:
        self.client_id, self.group = client_id, group
        self.owned: dict[MessageQueue, int] = {}
        self.consumed: list[str] = []
        self._rebalanced_at = time.monotonic()
        self._queues = sorted(queues)
        self._topic = queues[0].topic
        self._recorder: Recorder = scene.recorder
        self._brokers = {name: scene.connect(name) for name in scene.broker_names}
        for broker in self._brokers.values():
            heartbeat = requests.heartbeat(client_id, group, [Subscription(self._topic)])
            done(broker.call(heartbeat))
        self._record(EventKind.JOIN)
        self._record(EventKind.SUBSCRIBE, topic=self._topic, tag="*")

    def turn(self) -> None:
        """Rebalance if a notice has come or it is time, then pull and consume once from every
        queue."""
        if self._is_told() or time.monotonic() - self._rebalanced_at > _WAIT_S:
            self._rebalance()
        for queue in list(self.owned):
            self._consume(queue)

    def commit(self) -> None:
        """Commit the progress on every queue."""
        for queue in self.owned:
            self._commit(queue)

    def leave(self) -> None:
        """Shut down as a client should: commit, give the queues up, unregister."""
        for queue in list(self.owned):
            self._revoke(queue)
        for broker in self._brokers.values():
            done(broker.call(requests.unregister(self.client_id, self.group)))
            broker.close()
        self._record(EventKind.LEAVE)

    def crash(self) -> None:
        """Be gone without a word: what was not committed is consumed again by others."""
        self.owned.clear()
        for broker in self._brokers.values():
            broker.close()
        self._record(EventKind.CRASH)

    def _is_told(self) -> bool:
        """Whether any broker has sent a notice; all that have arrived are taken in."""
        told = [not broker.is_quiet(within=_GLANCE_S) for broker in self._brokers.values()]
        return any(told)

    def _rebalance(self) -> None:
        """Compute the own share from one broker's list; any one serves."""
        self._rebalanced_at = time.monotonic()
        answer = next(iter(self._brokers.values())).call(requests.consumer_list(self.group))
        members = answer.json()["consumerIdList"] if answer.code == 0 else []
        share = set()
        if members:
            members.sort()
            averagely = STRATEGIES["AVG"]
            share = set(allocate(averagely, self.group, self.client_id, self._queues, members))
        for queue in self.owned.keys() - share:
            self._revoke(queue)
        for queue in sorted(share - self.owned.keys()):
            self._assign(queue)

    def _assign(self, queue: MessageQueue) -> None:
        query = requests.query_offset(self.group, queue.topic, queue.queue_id)
        answer = self._broker(queue).call(query)
        kept = answer.number("offset") if answer.code == 0 else None
        self._record(EventKind.QUERY_OFFSET, queue, value=kept)
        self._record(EventKind.ASSIGN, queue)
        self.owned[queue] = kept or 0

    def _revoke(self, queue: MessageQueue) -> None:
        self._commit(queue)
        self._record(EventKind.REVOKE, queue)
        del self.owned[queue]

    def _consume(self, queue: MessageQueue) -> None:
        """Pull once; what comes is consumed at once."""
        request = requests.pull(queue.topic, self.group, self.owned[queue], queue.queue_id)
        answer = self._broker(queue).call(request)
        done(answer, 0, 19)
        for record in parse_records(answer.body):
            place = {"queue_offset": record.queue_offset, "message_key": record.key, "attempt": 0}
            received = self._record(EventKind.RECEIVE, queue, **place)
            self._record(EventKind.ACK, queue, cause=received, **place)
            self.consumed.append(record.key or "")
        self.owned[queue] = answer.number("nextBeginOffset")

    def _commit(self, queue: MessageQueue) -> None:
        offset = self.owned[queue]
        request = requests.commit_offset(self.group, queue.topic, offset, queue.queue_id)
        done(self._broker(queue).call(request))
        self._record(EventKind.COMMIT, queue, value=offset)

    def _broker(self, queue: MessageQueue) -> Connection:
        return self._brokers[queue.broker_name]

    def _record(self, kind: EventKind, queue: MessageQueue | None = None, **known: object) -> str:
        where = (
            {"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id}
            if queue
            else {}
        )
        who = {"group": self.group, "client_id": self.client_id}
        return self._recorder.record(kind, Outcome.OK, **who, **where, **known)
