"""Running the suite against the reference, patched from outside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from patched import run_patched

from mqconform import connection
from mqconform.cases import test_pop, test_transaction
from mqconform.plugin import Suite

DEADLINE_S = 6.0  # longer than the broker's own tick of 5 s, as cases of holds need it
LATER_S = 12.0  # for what this cluster does within 6 s: checks of halves, and revived messages


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Suite]:
    """Run the cases that a keyword chooses; what fails by silence does so soon."""
    monkeypatch.setattr(connection, "DEADLINE_S", DEADLINE_S)
    monkeypatch.setattr(connection, "REGISTERED_S", DEADLINE_S)
    monkeypatch.setattr(test_transaction, "NEXT_CHECK_S", LATER_S)
    monkeypatch.setattr(test_pop, "REVIVE_S", LATER_S)
    return partial(run_patched, tmp_path / "store")
