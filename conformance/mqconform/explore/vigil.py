"""What only time shows, watched beside the exploration: who keeps sending heartbeats stays a
member, who falls silent does not (GROUP-001, GROUP-006)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from mqconform import requests
from mqconform.scene import Scene, done
from mqspec.core.group import (
    CHANNEL_EXPIRED_TIMEOUT_MS,
    HEARTBEAT_INTERVAL_MS,
    SCAN_INTERVAL_MS,
)

_SLACK_S: Final = 10.0
SILENT_S: Final = (CHANNEL_EXPIRED_TIMEOUT_MS + 2 * SCAN_INTERVAL_MS) / 1000 + _SLACK_S


class Vigil:
    """Two members, one of which is silent after its first heartbeat. Explorations that end
    before it would be removed are not watched."""

    def __init__(self, scene: Callable[[], Scene], duration_s: float) -> None:
        self._over = threading.Event()
        self._wrong: list[str] = []
        self._is_due = duration_s > SILENT_S
        self._thread = threading.Thread(target=self._watch, args=(scene,), daemon=True)

    def __enter__(self) -> Vigil:
        if self._is_due:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._is_due:
            self._thread.join()

    def end(self) -> list[str]:
        """What was wrong, a line each."""
        self.__exit__()
        return self._wrong

    def _watch(self, new_scene: Callable[[], Scene]) -> None:
        scene = new_scene()
        try:
            self._watch_in(scene)
        except Exception as error:  # a thread tells what ended it
            self._wrong.append(f"GROUP-001: members were not watched to the end: {error}")
        finally:
            scene.close()

    def _watch_in(self, scene: Scene) -> None:
        group, alive, silent = scene.name("G"), "alive", "silent"
        speaker, mute = scene.connect(), scene.connect()
        done(mute.call(requests.heartbeat(scene.client(silent), group)))
        began = time.monotonic()
        while not self._wrong:
            done(speaker.call(requests.heartbeat(scene.client(alive), group)))
            if self._over.wait(HEARTBEAT_INTERVAL_MS / 1000):
                return
            members, seconds = scene.members(group), time.monotonic() - began
            if alive not in members:
                self._wrong.append(
                    f"GROUP-001: a member is gone after {seconds:.0f} s, though it sent a "
                    f"heartbeat each {HEARTBEAT_INTERVAL_MS // 1000} s"
                )
            if silent in members and seconds > SILENT_S:
                self._wrong.append(
                    f"GROUP-006: a member that is silent is still listed after {seconds:.0f} s"
                )
