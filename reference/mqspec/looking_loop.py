"""The event loop of `mqspec serve`: for a moment after something came it looks again before it
sleeps.

A client that sends one message at a time lets a processor fall asleep between two, and to wake
it, above all a virtual one, takes as long as to answer. Whoever else wants the processor gets it
meanwhile: before each look it is offered.
"""

from __future__ import annotations

import os
from time import monotonic
from typing import Final

import uvloop

LOOKS_S: Final = 0.0003  # how long after something came


class LookingLoop(uvloop.Loop):
    """A loop of uvloop's, which does in C what asyncio does in Python between two requests."""

    _looks_until = 0.0
    _is_looking = False

    def came(self) -> None:
        """Something came, and more may soon."""
        self._looks_until = monotonic() + LOOKS_S
        if not self._is_looking:
            self._is_looking = True
            self.call_soon(self._look)

    def _look(self) -> None:
        # A loop with something to call looks what came and does not sleep.
        self._is_looking = monotonic() < self._looks_until
        if self._is_looking:
            os.sched_yield()
            self.call_soon(self._look)
