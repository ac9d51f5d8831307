"""The history that a run writes: the schema of events, in Parquet, in one order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pyarrow.parquet as pq

from mqconform.case import Status
from mqconform.history import Recorder
from mqconform.plugin import Suite
from mqrules import Event, EventKind, Outcome
from mqrules.schema import decode


def test_rows_are_events_in_the_order_of_their_recording(tmp_path: Path) -> None:
    recorder = Recorder("r")
    cause = recorder.record(EventKind.SEND, Outcome.INVOKED, topic="T", queue_id=0)
    recorder.store_damaged()
    recorder.record(EventKind.SEND, Outcome.OK, cause=cause, topic="T", queue_id=0, queue_offset=3)
    table = pq.read_table(recorder.write(tmp_path))
    assert table.column_names == [field.name for field in fields(Event)]
    first, second = (decode(Event, row, "row") for row in table.to_pylist())
    assert (first.seq, second.seq, second.cause) == (0, 1, f"{first.process}/0")
    assert (first.store_epoch, second.store_epoch, second.queue_offset) == (0, 1, 3)


def test_a_group_leaves_a_history_to_audit(run: Callable[..., Suite], tmp_path: Path) -> None:
    suite = run("consumes_everything or heartbeat_makes")
    assert {r.status for r in suite.results.values()} == {Status.PASSED, Status.NOT_RUN}
    rows = pq.read_table(suite.recorder.write(tmp_path)).to_pylist()
    events = [decode(Event, row, "row") for row in rows]
    kinds = {event.kind for event in events}
    assert kinds >= {
        *(EventKind.SEND, EventKind.RECEIVE, EventKind.ACK, EventKind.COMMIT),
        *(EventKind.QUERY_OFFSET, EventKind.ASSIGN, EventKind.REVOKE),
        *(EventKind.JOIN, EventKind.LEAVE, EventKind.CRASH),
    }
    sent = {e.message_key for e in events if (e.kind, e.outcome) == (EventKind.SEND, Outcome.OK)}
    consumed = {e.message_key for e in events if e.kind is EventKind.ACK}
    assert sent == consumed
