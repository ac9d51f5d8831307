"""The client as a program does what its words and the bodies of messages say."""

from __future__ import annotations

import asyncio
import sys

import pytest

from mqspec.client import ConsumeStatus, program
from mqspec.client.message import MessageExt
from mqspec.core.record import Record, encode_properties
from mqspec.core.types import MessageQueue

PLACES = ["127.0.0.1:9876", "T", "G"]


def message(body: bytes, key: str) -> MessageExt:
    record = Record("T", body, encode_properties({"KEYS": key}).encode())
    return MessageExt(record, MessageQueue("T", "broker-a", 0))


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["poll"], ("consume", *PLACES, False)),
        (["orderly"], ("consume", *PLACES, True)),
        (["orderly", "c@1"], ("consume", *PLACES, True, "c@1")),
        (["produce"], ("produce", *PLACES)),
    ],
)
def test_its_words_say_what_it_is(
    words: list[str], meant: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[object, ...]] = []

    async def consume(*known: object) -> None:
        called.append(("consume", *known))

    async def produce(*known: object) -> None:
        called.append(("produce", *known))

    monkeypatch.setattr(program, "consume", consume)
    monkeypatch.setattr(program, "produce", produce)
    monkeypatch.setattr(sys, "argv", ["program", *PLACES, *words])
    program.main()
    assert called == [meant]


def test_a_body_says_what_the_listener_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    def heard(body: bytes, key: str) -> ConsumeStatus:
        return asyncio.run(program.listen([message(body, key)]))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    taken, again = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER
    assert heard(b"takes", "k1") is taken
    assert slept == []
    assert heard(b"slow", "k2") is taken
    assert slept == [program.SLOW_S]
    assert [heard(b"fails", key) for key in ("k3", "k3", "k4")] == [again, taken, again]
    assert capsys.readouterr().out.split() == ["k1", "k2", "k3", "k3", "k4"]


def test_a_message_that_stays_is_never_finished() -> None:
    async def scene() -> None:
        listening = asyncio.create_task(program.listen([message(b"stays", "k")]))
        for _ in range(5):  # turns of the loop
            await asyncio.sleep(0)
        assert not listening.done()
        listening.cancel()

    asyncio.run(scene())
