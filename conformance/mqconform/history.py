"""What a run sent, received, consumed and committed, written as Parquet for the audit.

Only what a correct client does is recorded: every send, and all that members (`mqconform.
member`) do. A case that commits nonsense on purpose, to see what the broker does with it, is
no history of a client.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqconform.target import Lifecycle
from mqrecord.journal import schema
from mqrules import Event, EventKind, Outcome

PROCESS: Final = "conformance"


class Recorder:
    """One sequence of events for a whole run: its order is the order of the rows."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._events: list[Event] = []
        self._lock = threading.Lock()
        self._store_epoch = 0

    def record(self, kind: EventKind, outcome: Outcome, **known: Any) -> str:
        """Add an event; the id by which another may name it as its `cause`."""
        with self._lock:
            event = Event(
                run=self.run,
                seq=len(self._events),
                process=PROCESS,
                kind=kind,
                outcome=outcome,
                time_ns=time.time_ns(),
                store_epoch=self._store_epoch,
                **known,
            )
            self._events.append(event)
        return f"{PROCESS}/{event.seq}"

    def store_damaged(self) -> None:
        """What is stored from now on may reuse offsets of what was stored before."""
        with self._lock:
            self._store_epoch += 1

    def write(self, directory: Path) -> Path:
        """Write the history as one Parquet file; its path."""
        path = directory / f"{self.run}.parquet"
        directory.mkdir(parents=True, exist_ok=True)
        with self._lock:
            pq.write_table(_table(self._events), path)
        return path


def _table(events: list[Event]) -> pa.Table:
    return pa.Table.from_pylist([asdict(event) for event in events], schema())


class RecordedLifecycle:
    """A lifecycle that records what happens to the broker."""

    def __init__(self, lifecycle: Lifecycle, recorder: Recorder, broker_name: str) -> None:
        self._lifecycle, self._recorder, self._broker_name = lifecycle, recorder, broker_name

    def stop(self) -> None:
        self._lifecycle.stop()

    def kill(self) -> None:
        self._lifecycle.kill()
        self._recorder.record(EventKind.CRASH, Outcome.OK, peer=self._broker_name)

    def start(self) -> None:
        self._lifecycle.start()
        self._recorder.record(EventKind.RESTART, Outcome.OK, peer=self._broker_name)
