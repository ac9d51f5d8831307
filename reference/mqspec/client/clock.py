"""What time it is, in ms: since some moment, for spans; and since the epoch, for others."""

from __future__ import annotations

import time


def now_ms() -> int:
    """A clock that nobody sets back."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """The time of the day."""
    return time.time_ns() // 1_000_000
