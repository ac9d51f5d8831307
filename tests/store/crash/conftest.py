"""How many kills."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """--kills N."""
    parser.addoption("--kills", type=int, default=10, help="kill -9 runs of a broker under load")


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How many of them. The option is unknown where the tests of more than this directory run."""
    count = request.config.getoption("--kills", 10)
    assert isinstance(count, int)
    return count
