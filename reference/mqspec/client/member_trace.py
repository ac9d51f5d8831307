"""What a member writes to the trace: its steps, and what others told it to decide by."""

from __future__ import annotations

from collections.abc import Hashable

from mqspec.core.step import Change, Step
from mqspec.trace import Trace


class MemberTrace:
    """The lines of one member, `process` in the trace; none where there is no trace."""

    def __init__(self, trace: Trace | None, process: str) -> None:
        self._trace, self._process = trace, process

    def step(self, step: Step, module: str = "OffsetCommit") -> None:
        """What is about to be done."""
        if self._trace:
            self._trace.step(self._process, module, step)

    def told(self, variable: str, key: Hashable | None, value: object) -> None:
        """What the member rebalances by, and what others told it of that."""
        if self._trace:
            self._trace.read(self._process, "Rebalance", variable, key, value)

    def ended(self) -> None:
        """The member has left, or is dead."""
        self.step(Step((Change("crashed", None, True),)))
