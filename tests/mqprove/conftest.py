"""How long the random tests of this folder go on."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--walks", type=int, default=2, help="of each model: how many walks")
    parser.addoption("--programs", type=int, default=120, help="that the lifting is tried on")
