"""Connections, on the loop of `mqspec serve` and on the one that its clients' programs have."""

from __future__ import annotations

import asyncio

import pytest

from mqspec.looking_loop import LookingLoop


@pytest.fixture(params=[asyncio.SelectorEventLoop, LookingLoop])
def each_loop(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> type[asyncio.AbstractEventLoop]:
    """What `asyncio.run` runs on."""
    loop: type[asyncio.AbstractEventLoop] = request.param
    monkeypatch.setattr(asyncio.events, "new_event_loop", loop)
    return loop
