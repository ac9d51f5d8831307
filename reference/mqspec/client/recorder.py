"""What a client did, as the rows of a history (mqrules.history)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

from mqrules import Event, EventKind, Outcome


class Recorder:
    """Numbers the events of one process and hands them to `sink`.

    Clients that share a recorder share its order: an audit may then compare their events.
    """

    def __init__(self, run: str, process: str, sink: Callable[[Event], None]) -> None:
        self._run, self._process, self._sink = run, process, sink
        self._seq = itertools.count()

    def __call__(self, kind: EventKind, outcome: Outcome = Outcome.OK, **fields: Any) -> str:
        """Record one event, with the fields of mqrules.Event; its name, to be another's cause."""
        seq = next(self._seq)
        self._sink(
            Event(
                run=self._run,
                seq=seq,
                process=self._process,
                kind=kind,
                outcome=outcome,
                time_ns=time.time_ns(),
                **fields,
            )
        )
        return f"{self._process}/{seq}"


def nowhere() -> Recorder:
    """A recorder that keeps nothing."""
    return Recorder("", "", lambda event: None)
