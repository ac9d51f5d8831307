"""MC_Doubling on the reference: members of one client id that fail on each copy of a message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.retry import RetryWorld
from mqcheck.worlds.terms import GROUP, function
from mqspec.core import retry
from mqspec.core.record import Record


class DoublingWorld(World):
    """Everything of a model of MC_Doubling: Retry's broker, whose copies all members get."""

    module = "MC_Doubling"
    actions: ClassVar = {"ConsumerSendMsgBack": ("member", "times")}

    def __init__(self, members: Iterable[str], max_reconsume_times: int) -> None:
        self.broker = RetryWorld(["message"], (), max_reconsume_times, drops_send_back=False)
        self.failed = {m: dict.fromkeys(self.broker.times, 0) for m in members}

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> DoublingWorld:
        """The world at the beginning of a model with these constants."""
        return cls(sorted(constants["Members"]), constants["MaxReconsumeTimes"])

    def domain(self, name: str) -> Iterable[object]:
        return {"member": self.failed, "times": self.broker.times}[name]

    def state(self) -> dict[str, object]:
        copies = {times: len(self._copies(times)) for times in self.broker.times}
        copies[len(copies)] = sum(map(_is_dead, self.broker.stored))
        return {
            "copies": FrozenDict(copies),
            "failed": function(self.failed, lambda member: FrozenDict(self.failed[member])),
        }

    def consumer_send_msg_back(self, member: str, times: int) -> None:
        copies, failed = self._copies(times), self.failed[member][times]
        require(failed < len(copies))
        self.failed[member][times] += 1
        self.broker.send_back(copies[failed])

    def _copies(self, times: int) -> list[Record]:
        """The copies that were tried so often, in the order in which they were stored."""
        stored = self.broker.stored
        return [each for each in stored if each.reconsume_times == times and not _is_dead(each)]


def _is_dead(copy: Record) -> bool:
    return copy.topic == retry.dlq_topic(GROUP)
