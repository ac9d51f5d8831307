"""A member under test: a process of the program, and what it did."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqconform import requests
from mqconform.clients.door import Call, Door
from mqconform.clients.program import Mode, Program
from mqspec.core.types import MessageQueue

_COMMITS: Final = 1  # a bit of a pull's sysFlag: it says how far its group has come
SENDS: Final = (
    requests.SEND_MESSAGE,
    requests.SEND_MESSAGE_V2,
    requests.SEND_BATCH_MESSAGE,
)


class Commit(NamedTuple):
    """How far a member says that its group has come, by a commit or with a pull."""

    call: Call
    queue: MessageQueue
    offset: int


@dataclass(slots=True)
class Member:
    """A process of the program, and its door."""

    door: Door
    program: Program
    mode: Mode = Mode.CONSUME
    ended_at: float | None = None  # when the scenario stopped or killed it

    def calls(self, *codes: int) -> list[Call]:
        """What it asked brokers and the nameserver, in order; of some codes alone."""
        found = [call for call in list(self.door.calls) if call.by_client]
        return [call for call in found if call.request.code in codes] if codes else found

    def told(self, code: int) -> list[Call]:
        """What brokers asked of it."""
        found = list(self.door.calls)
        return [call for call in found if not call.by_client and call.request.code == code]

    @property
    def client_id(self) -> str:
        """Its id, as its heartbeats say; empty before the first."""
        beats = self.calls(requests.HEART_BEAT)
        return str(beats[-1].request.json().get("clientID", "")) if beats else ""

    @property
    def keys(self) -> list[str]:
        """The keys that its listener printed, in order."""
        return [line for _, line in list(self.program.lines)]

    def printed_at(self, key: str) -> float:
        """When it printed a key first; never: infinite."""
        return next((at for at, line in list(self.program.lines) if line == key), math.inf)

    def pulls(self, queue: MessageQueue) -> list[Call]:
        """Its pulls of a queue."""
        return [call for call in self.calls(requests.PULL_MESSAGE) if queue_of(call) == queue]

    def commits(self, queue: MessageQueue | None = None) -> list[Commit]:
        """Its commits, of one queue or of all."""
        return [commit for commit in self._commits() if queue in (None, commit.queue)]

    def _commits(self) -> Iterator[Commit]:
        for call in self.calls(requests.UPDATE_CONSUMER_OFFSET, requests.PULL_MESSAGE):
            fields, queue = call.request.fields, queue_of(call)
            if queue is None or "commitOffset" not in fields:
                continue
            offset = int(fields["commitOffset"])
            by_pull = call.request.code == requests.PULL_MESSAGE
            if not by_pull or (int(fields["sysFlag"]) & _COMMITS and offset > 0):
                yield Commit(call, queue, offset)

    def stop(self) -> bool:
        """Ask it to end; whether it did."""
        self.ended_at = self.ended_at or time.monotonic()
        return self.program.stop()

    def kill(self) -> None:
        """End it without a word."""
        self.ended_at = self.ended_at or time.monotonic()
        self.program.kill()


def groups_of(beat: Call) -> set[str]:
    """The groups of consumers that a heartbeat names."""
    return {str(each.get("groupName")) for each in beat.request.json().get("consumerDataSet", [])}


def queue_of(call: Call) -> MessageQueue | None:
    """The queue that a call is about, if it names one."""
    fields: Mapping[str, str] = call.request.fields
    if "topic" not in fields or "queueId" not in fields:
        return None
    return MessageQueue(fields["topic"], call.broker, int(fields["queueId"]))


def locked_by(call: Call, broker: str) -> Collection[MessageQueue]:
    """The queues that a request of locks names."""
    return {
        MessageQueue(each["topic"], each.get("brokerName", broker), int(each["queueId"]))
        for each in call.request.json().get("mqSet", [])
    }
