"""PopOrder on the reference where others move the group's offset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from mqcheck.replay import require
from mqcheck.worlds.conversing import Answers, converse
from mqcheck.worlds.pop_order import OFFSET_KEY, PopOrderWorld, Receipt
from mqcheck.worlds.terms import GROUP, TOPIC, store_offset
from mqspec.core.conversation import OffsetByTime, ReadSpan
from mqspec.core.log import Span
from mqspec.core.reset_offset import ResetOffset, reset_offset_by_broker

NO_RESET = -1


class PopOrderMovedWorld(PopOrderWorld):
    """Everything of a model of PopOrder in which commits and resets move the offset."""

    actions: ClassVar = {
        "CommitOffset": ("end",),
        "ResetOffset": ("end",),
        "PopAfterReset": ("attempt", "count"),
        "PopUnlessReset": ("attempt", "count"),
        "AckMoved": ("receipt",),
    }

    def domain(self, name: str) -> Iterable[object]:
        return range(self.messages + 1) if name == "end" else super().domain(name)

    def state(self) -> dict[str, object]:
        return {**super().state(), "reset": self._reset()}

    def commit_offset(self, end: int) -> None:
        self.spend("MaxOffsetMoves")
        require(self._reset() == NO_RESET)
        store_offset(self.offsets, OFFSET_KEY.queue_id, end)

    def reset_offset(self, end: int) -> None:
        self.spend("MaxOffsetMoves")
        event = ResetOffset(TOPIC, GROUP, time_ms=0, queue_id=0, offset=end)
        answers: Answers = {
            ReadSpan: lambda _: Span(0, self.messages),
            OffsetByTime: lambda _: 0,
        }
        reset = converse(reset_offset_by_broker(self.broker, event), answers)
        assert reset == {0: end}

    def pop_after_reset(self, attempt: str, count: int) -> None:
        require(self._reset() != NO_RESET)
        self.pop(attempt, count)

    def pop_unless_reset(self, attempt: str, count: int) -> None:
        require(self._reset() == NO_RESET)
        self.pop(attempt, count)

    def ack_moved(self, receipt: Receipt) -> None:
        self.ack(receipt)

    def _reset(self) -> int:
        return self.offsets.reset_offset_table.get(OFFSET_KEY, NO_RESET)
