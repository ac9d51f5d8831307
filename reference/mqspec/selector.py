"""The selector of `mqspec serve`: for a moment after it was busy it looks again before it sleeps.

A client that sends one message at a time lets a processor fall asleep between two, and to wake
it, above all a virtual one, takes as long as to answer. Whoever else wants the processor gets it
meanwhile: before each look it is offered.

But Linux offers it within a session only, and shares processors between sessions (sched(7),
autogroup). A service has one of its own, where nobody takes the offer, and its looks would be at
the cost of its clients: there it sleeps at once.
"""

from __future__ import annotations

import os
import selectors
from time import monotonic
from typing import Final

LOOKS_S: Final = 0.0006  # after something came: so long a client prepares its next batch


def selector() -> selectors.BaseSelector:
    """The one for this process: where it leads a session, any."""
    leads_its_session = os.getsid(0) == os.getpid()
    return selectors.DefaultSelector() if leads_its_session else LookingSelector()


class LookingSelector(selectors.DefaultSelector):
    """What `select` gives is what any selector gives; it may be so much later than its timeout."""

    _looks_until = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready, looked for once more and again before it sleeps."""
        found = super().select(0)
        if not found and timeout != 0:
            while not found and monotonic() < self._looks_until:
                os.sched_yield()
                found = super().select(0)
            found = found or super().select(timeout)
        if found:
            self._looks_until = monotonic() + LOOKS_S
        return found
