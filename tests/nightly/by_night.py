"""What of a long list of like tests is run for every change, and what by night."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

BY_NIGHT = pytest.mark.by_night


def one_in(number: int, cases: Iterable[Any]) -> list[Any]:
    """The arguments of a parametrized test: the first of each `number` cases for every change, the
    others by night. Neighbours in a list are mostly about one thing, so each thing stays tried."""
    return [
        pytest.param(case, marks=BY_NIGHT) if place % number else case
        for place, case in enumerate(cases)
    ]
