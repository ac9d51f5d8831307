"""The loop that looks again before it sleeps."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest

from mqspec import looking_loop
from mqspec.looking_loop import LOOKS_S, LookingLoop
from mqspec.transport import Connection, connect, refuse, serve
from mqspec.wire.codec import RemotingCommand

STEP_S = LOOKS_S / 3.5  # by which the clock goes on with each look
LOOKS = 4  # until it sleeps


class Watched:
    """How often the processor was offered to others, once a look, by a clock of its own."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.looks, self._now = 0, 1000.0
        patch.setattr(looking_loop, "monotonic", lambda: self._now)
        patch.setattr(os, "sched_yield", self._look)

    def _look(self) -> None:
        self.looks += 1
        self._now += STEP_S


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def run(scene: Callable[[LookingLoop], Awaitable[None]]) -> None:
    async def played() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, LookingLoop)
        async with asyncio.timeout(10):
            await scene(loop)

    with asyncio.Runner(loop_factory=LookingLoop) as runner:
        runner.run(played())


async def rest(loop: LookingLoop) -> None:
    """Until it looks no more."""
    while loop._is_looking:
        await asyncio.sleep(0)


def test_it_looks_again_after_something_came_and_then_sleeps(watched: Watched) -> None:
    async def scene(loop: LookingLoop) -> None:
        assert watched.looks == 0
        loop.came()
        await rest(loop)
        assert watched.looks == LOOKS
        loop.came()
        await rest(loop)
        assert watched.looks == 2 * LOOKS
        await asyncio.sleep(0)
        assert watched.looks == 2 * LOOKS

    run(scene)


def test_what_comes_meanwhile_makes_it_look_longer_not_more_often(watched: Watched) -> None:
    async def scene(loop: LookingLoop) -> None:
        loop.came()
        loop.came()
        for looks in (1, 2):
            await asyncio.sleep(0)
            assert watched.looks == looks
        loop.came()
        await rest(loop)
        assert watched.looks == 2 + LOOKS

    run(scene)


def test_a_request_makes_it_look(watched: Watched) -> None:
    async def scene(loop: LookingLoop) -> None:
        server = await serve("127.0.0.1", 0, refuse)
        connection = await connect("127.0.0.1", server.port)
        assert watched.looks == 0  # a connection is none
        await connection.request(RemotingCommand(1), 1000)
        await rest(loop)
        assert watched.looks >= LOOKS
        connection.close()
        await server.close()

    run(scene)


def test_on_another_loop_a_request_is_served_all_the_same(watched: Watched) -> None:
    async def scene() -> None:
        server = await serve("127.0.0.1", 0, refuse)
        connection = await connect("127.0.0.1", server.port)
        assert isinstance(connection, Connection)
        await connection.request(RemotingCommand(1), 1000)
        connection.close()
        await server.close()

    asyncio.run(scene())
    assert watched.looks == 0
