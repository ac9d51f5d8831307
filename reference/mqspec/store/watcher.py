"""Who is told what a store does to its log, as a trace is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mqspec.core.log import Dispatch, LogState, Stored
from mqspec.core.step import Step
from mqspec.fast.run import StoredRun


class Watcher(Protocol):
    """Is told each step of a log before the state is changed by it."""

    def found(self, state: LogState) -> None:
        """Recovery found the log like this."""

    def appended(
        self, step: Step, stored: Sequence[Stored | StoredRun], written: Sequence[bytes]
    ) -> None:
        """Records got their places, and these bytes are in the log, each piece from the position
        of one of the records on."""

    def dispatched(
        self, state: LogState, step: Step, records: Sequence[Dispatch] | StoredRun
    ) -> None:
        """Records were dispatched, and the units that the step's result has are written."""

    def flushed(self, step: Step) -> None:
        """The log is on disk up to a position."""
