"""Running the suite against the reference, patched from outside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from patched import run_patched

from mqconform import connection
from mqconform.plugin import Suite

DEADLINE_S = 6.0  # longer than the broker's own tick of 5 s, as cases of holds need it


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Suite]:
    """Run the cases that a keyword chooses; what fails by silence does so soon."""
    monkeypatch.setattr(connection, "DEADLINE_S", DEADLINE_S)
    monkeypatch.setattr(connection, "REGISTERED_S", DEADLINE_S)
    return partial(run_patched, tmp_path / "store")
