"""Running cases side by side, so that a run takes as long as its longest wait.

Each case has a thread, and a few work at a time: a broker that is flooded answers that it is
busy, which says nothing about any rule. A case that needs a restart of the broker says so and
waits; once every case that still runs waits for a restart, the broker is restarted once for
all of a kind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import Enum
from typing import Final, TypeAlias

from mqconform.target import Lifecycle

AT_A_TIME: Final = 24  # cases that work; those that wait for a restart do not count
End: TypeAlias = Future[Exception | None]  # of a case, and what it raised


class Restart(Enum):
    """The kinds of restart, in the order in which they are done."""

    CLEAN = "clean"  # stopped as an operator would
    KILL = "kill"  # SIGKILL
    DAMAGE = "damage"  # SIGKILL, and files are damaged before the start
    SETTLED = "settled"  # none: no other case restarts the broker any more, but for what follows
    STALL = "stall"  # as DAMAGE, so that some brokers deliver nothing any more
    TORN = "torn"  # as DAMAGE, with which some brokers do not start, nor do they later
    RUIN = "ruin"  # the same of others: nothing comes after it


class Stage:
    """Runs cases to their ends. `ready` returns when a restarted broker serves again."""

    def __init__(self, lifecycle: Lifecycle | None, ready: Callable[[], None]) -> None:
        self._lifecycle, self._ready = lifecycle, ready
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(AT_A_TIME)
        self._running = 0
        self._stopped: Exception | None = None
        self._waiting: dict[Restart, list[Callable[[], None]]] = {}
        self._restarts: dict[Restart, Future[None]] = {}

    def start(
        self,
        cases: Mapping[str, Callable[[], None]],
        after: Mapping[str, str],
    ) -> dict[str, End]:
        """Start all cases; each future is done when its case has ended.

        `after` maps a case to the one whose end it waits for; it finds out itself how that
        ended.
        """
        futures: dict[str, End] = {name: Future() for name in cases}
        self._running = len(cases)
        for name, body in cases.items():
            first = futures.get(after.get(name, ""))
            threading.Thread(
                target=self._run, args=(body, first, futures[name]), daemon=True
            ).start()
        return futures

    def stop(self, error: Exception) -> None:
        """Begin no case any more; those that wait for a restart are told `error` instead."""
        self._stopped = error

    def restart(self, kind: Restart, damage: Callable[[], None] = lambda: None) -> None:
        """Called by a case: wait until the broker was restarted in that way.

        `damage` runs while the broker is down.
        """
        with self._lock:
            self._waiting.setdefault(kind, []).append(damage)
            restarted = self._restarts.setdefault(kind, Future())
            self._leave()
        self._slots.release()
        try:
            restarted.result()
        finally:
            self._slots.acquire()

    def restart_now(self, kind: Restart) -> None:
        """Restart the broker, where no case runs."""
        self._do(kind, [])

    def _run(
        self,
        body: Callable[[], None],
        first: End | None,
        ended: End,
    ) -> None:
        if first:
            first.result()
        raised: Exception | None = None
        try:
            with self._slots:
                if not self._stopped:
                    body()
        except Exception as error:  # told to who waits for the end, not to the terminal
            raised = error
        finally:
            ended.set_result(raised)
            with self._lock:
                self._leave()

    def _leave(self) -> None:
        """One case fewer runs; the last one restarts the broker for those that wait."""
        self._running -= 1
        if self._running or not self._waiting:
            return
        kind = min(self._waiting, key=list(Restart).index)
        damages, restarted = self._waiting.pop(kind), self._restarts.pop(kind)
        self._running = len(damages)
        try:
            self._do(kind, damages)
            restarted.set_result(None)
        except Exception as error:
            restarted.set_exception(error)

    def _do(self, kind: Restart, damages: list[Callable[[], None]]) -> None:
        if self._stopped:
            raise self._stopped
        if kind is Restart.SETTLED:
            return
        assert self._lifecycle, "a case without the capability 'restart' was started"
        self._lifecycle.stop() if kind is Restart.CLEAN else self._lifecycle.kill()
        try:
            for damage in damages:
                damage()
        finally:  # a case that cannot do its damage leaves the others a broker
            self._lifecycle.start()
            self._ready()
