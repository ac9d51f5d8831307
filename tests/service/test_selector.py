"""The selector that looks again before it sleeps."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
from typing import Any

import pytest

from mqspec import selector
from mqspec.selector import LOOKS_S, LookingSelector

# By which the clock goes on with each look: past the limit with the fourth, never onto it.
STEP_S = LOOKS_S / 3.5


class Script:
    """What the selector below finds, look by look, and with which timeouts it was asked."""

    def __init__(self, patch: pytest.MonkeyPatch, *found: list[Any]) -> None:
        self.now, self.yields = 1000.0, 0
        self.timeouts: list[float | None] = []
        self._found = list(found)
        patch.setattr(selectors.DefaultSelector, "select", self._select)
        patch.setattr(selector, "monotonic", lambda: self.now)
        patch.setattr(os, "sched_yield", self._yield)

    def _select(self, timeout: float | None = None) -> list[Any]:
        self.timeouts.append(timeout)
        self.now += STEP_S
        return self._found.pop(0)

    def _yield(self) -> None:
        self.yields += 1


def look(looking: LookingSelector, timeout: float | None) -> list[Any]:
    return list(looking.select(timeout))


def test_it_looks_again_after_something_came(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, ["a"], [], [], ["b"])
    with LookingSelector() as looking:
        assert look(looking, None) == ["a"]
        assert look(looking, None) == ["b"]
    assert script.timeouts == [0, 0, 0, 0]
    assert script.yields == 2  # before each look that follows one in vain


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_it_sleeps_when_nothing_came_for_a_while(
    monkeypatch: pytest.MonkeyPatch, timeout: float | None
) -> None:
    script = Script(monkeypatch, ["a"], [], [], [], [], ["b"], [], ["c"])
    with LookingSelector() as looking:
        assert look(looking, timeout) == ["a"]
        assert look(looking, timeout) == ["b"]
        assert script.timeouts == [0, 0, 0, 0, 0, timeout]
        script.now += LOOKS_S
        assert look(looking, timeout) == ["c"]
    assert script.timeouts[-2:] == [0, timeout]


def test_who_does_not_want_to_wait_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, ["a"], [])
    with LookingSelector() as looking:
        assert look(looking, 0) == ["a"]
        assert look(looking, 0) == []
    assert (script.timeouts, script.yields) == ([0, 0], 0)


@pytest.mark.parametrize(("leads_a_session", "looks"), [(False, True), (True, False)])
def test_who_leads_a_session_does_not_look_again(leads_a_session: bool, looks: bool) -> None:
    code = "from mqspec import selector as s; print(isinstance(s.selector(), s.LookingSelector))"
    command = [sys.executable, "-c", code]
    said = subprocess.check_output(command, text=True, start_new_session=leads_a_session)
    assert said == f"{looks}\n"


def test_it_finds_what_any_selector_finds() -> None:
    here, there = socket.socketpair()
    with here, there, LookingSelector() as looking:
        looking.register(here, selectors.EVENT_READ)
        assert look(looking, 0.001) == []
        there.send(b"x")
        ((key, events),) = looking.select(None)
        assert (key.fileobj, events) == (here, selectors.EVENT_READ)
