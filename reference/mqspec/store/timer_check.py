"""The file config/timercheck: how far timer messages have been delivered (TimerCheckpoint.java).

Seven i64, big-endian, at the start of one page. Of a store that was Apache's, the position in
its timer log is kept as it is: it goes on from there. Apache writes both offsets alike, and
takes in from the lesser one on, or from behind the last message in its timer log if that is
less (TimerMessageStore.recover).
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import NamedTuple

from mqspec.store.files import DISK

_FIELDS = Struct(">7q")
_FILE_BYTES = 4096


class TimerCheck(NamedTuple):
    """Times are in ms, the offsets those of the timer queue."""

    last_read_time: int = 0  # messages that are due before it have been delivered
    last_timer_log_flush_pos: int = 0
    last_timer_queue_offset: int = 0  # messages before it are in Apache's timer log, or delivered
    master_timer_queue_offset: int = 0  # messages before it were taken in, or delivered
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


def read_timer_check(path: Path) -> TimerCheck:
    """What the file says; zeros where it is missing or torn."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return TimerCheck()
    return TimerCheck(*_FIELDS.unpack_from(data)) if len(data) >= _FIELDS.size else TimerCheck()


def write_timer_check(path: Path, check: TimerCheck) -> None:
    """Write it, on disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    DISK.write(path, _FIELDS.pack(*check).ljust(_FILE_BYTES, b"\0"))
