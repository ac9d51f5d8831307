"""A history on disk while it grows: lines of JSON first, and Parquet once there are many.

What was seen is written within half a second, a line an event. From time to time these lines are
rolled into a file of Parquet, and begun anew. A kill leaves all files readable: at most the last
half second is lost. One that falls between the end of a Parquet file and that of its lines leaves
both: `mqspec audit` says then that events stand there twice, and the lines can be deleted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, get_type_hints

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from mqrules import Event

ROLL_ROWS: Final = 200_000
ROLL_S: Final = 60.0
_ARROW: Final = {str: pa.string(), int: pa.int64()}


def schema() -> pa.Schema:
    """Arrow's schema of a history: strings for names and kinds, whole numbers of 64 bits."""
    hints = get_type_hints(Event)
    return pa.schema(
        [
            (f.name, _ARROW[int if hints[f.name] in (int, int | None) else str])
            for f in fields(Event)
        ]
    )


class Journal:
    """One run's history in a directory. `keeps` says which rows are written."""

    def __init__(
        self,
        directory: Path,
        run: str,
        process: str,
        keeps: Callable[[dict[str, Any]], bool] = lambda row: True,
        written: Callable[[dict[str, Any]], dict[str, Any]] = lambda row: row,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self.run, self._process = directory, run, process
        self._keeps, self._written = keeps, written
        self.events = 0
        self._lines: list[str] = []
        self._part, self._rows = 0, 0
        self._open()

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Events that have just been seen, in their order."""
        for row in filter(self._keeps, rows):
            known = {
                "run": self.run,
                "seq": self.events,
                "process": self._process,
                "time_ns": time.time_ns(),
            }
            self._lines.append(json.dumps(known | self._written(row), separators=(",", ":")))
            self.events += 1
            self._rows += 1

    def flush(self) -> None:
        """Write what was added. Raises OSError."""
        if self._lines:
            self._file.write("\n".join(self._lines).encode() + b"\n")
            self._file.flush()
            self._lines.clear()

    @property
    def is_due(self) -> bool:
        """Whether there are so many lines, or so old ones, that they are to become Parquet."""
        is_old = time.monotonic() > self._since + ROLL_S
        return self._rows >= ROLL_ROWS or (self._rows > 0 and is_old)

    def turn_over(self) -> Path:
        """Begin new lines; the file of those before, to be given to `to_parquet`."""
        self.flush()
        self._file.close()
        done = self._path
        self._part += 1
        self._open()
        return done

    def close(self) -> None:
        """The end of the run."""
        self.flush()
        self._file.close()
        to_parquet(self._path)

    def _open(self) -> None:
        self._path = self._directory / f"{self.run}-{self._part:05}.jsonl"
        self._file = self._path.open("wb")
        self._rows, self._since = 0, time.monotonic()


def to_parquet(lines: Path) -> None:
    """Make Parquet of a file of lines, in its place. It takes a while, and no lock of Python's."""
    if lines.stat().st_size:
        table = pj.read_json(
            lines,
            pj.ReadOptions(block_size=64 << 20),
            pj.ParseOptions(explicit_schema=schema()),
        )
        whole = lines.with_suffix(".parquet")
        growing = whole.with_name(f".{whole.name}")  # Spark reads no file whose name begins so
        pq.write_table(table.select(schema().names), growing)
        growing.rename(whole)
    lines.unlink()
