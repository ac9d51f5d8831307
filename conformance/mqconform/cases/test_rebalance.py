"""Rebalance, as brokers make it possible: members by hand share a topic through changes."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from mqconform.case import case
from mqconform.connection import DEADLINE_S, eventually
from mqconform.member import Member
from mqconform.scene import Scene
from mqspec.core.types import MessageQueue

JOINED = "test_a_heartbeat_makes_a_member"
QUEUES = 4  # on each broker


class Workload:
    """A topic on all brokers, a group, and what was sent to the one and consumed by the other."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.topic = scene.topic(QUEUES, everywhere=True)
        self.group = scene.new_group()
        self.queues = [
            MessageQueue(self.topic, name, queue_id)
            for name in scene.broker_names
            for queue_id in range(QUEUES)
        ]
        self.brokers = {name: scene.connect(name) for name in scene.broker_names}
        self.members: list[Member] = []
        self.all_members: list[Member] = []
        self.sent: set[str] = set()

    def join(self, client_id: str) -> Member:
        member = Member(self.scene, self.scene.client(client_id), self.group, self.queues)
        self.members.append(member)
        self.all_members.append(member)
        return member

    def send(self) -> None:
        """One message to every queue."""
        for queue in self.queues:
            broker = self.brokers[queue.broker_name]
            self.scene.send(
                self.topic, queue_id=queue.queue_id, broker=broker, broker_name=queue.broker_name
            )
            self.sent.add(self.scene.last_key)

    def turns(self, count: int) -> None:
        """Every member works `count` times; messages keep coming."""
        for _ in range(count):
            self.send()
            for member in self.members:
                member.turn()

    def is_done(self) -> bool:
        """Let every member work; whether all is consumed and every queue has one owner."""
        for member in self.members:
            member.turn()
        return not self.what_is_left()

    def what_is_left(self) -> str:
        """What is not consumed, and which queues have not one owner; empty if all is well."""
        owned = Counter(chain.from_iterable(member.owned for member in self.members))
        consumed = set(chain.from_iterable(member.consumed for member in self.all_members))
        left = {
            "queues of nobody": len([queue for queue in self.queues if not owned[queue]]),
            "queues of several": len([queue for queue in owned if owned[queue] > 1]),
            "messages that nobody got": len(self.sent - consumed),
        }
        return ", ".join(f"{number} {what}" for what, number in left.items() if number)


@case("REBAL-050", party="broker", after=JOINED)
def test_a_group_consumes_everything_through_joins_leaves_and_crashes(scene: Scene) -> None:
    load = Workload(scene)
    first = load.join("first")
    load.turns(3)
    load.join("second")
    crasher = load.join("third")
    load.turns(2)
    first.commit()
    load.turns(2)
    load.members.remove(crasher)
    crasher.crash()
    load.turns(3)
    load.join("fourth")
    load.turns(2)
    load.members.remove(first)
    first.leave()
    load.turns(2)
    assert eventually(load.is_done, 2 * DEADLINE_S), load.what_is_left()
    for member in list(load.members):
        load.members.remove(member)
        member.leave()
