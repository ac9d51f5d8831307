"""The client as a program does what its words and the bodies of messages say."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from mqconform.clients.program import NO_SUCH_MODE
from mqspec.client import ConsumerConfig, ConsumeStatus, Message, program
from mqspec.client.message import MessageExt
from mqspec.client.producer import MessageQueueSelector, ProducerConfig
from mqspec.core.group import ConsumeFromWhere, MessageModel
from mqspec.core.record import Record, encode_properties
from mqspec.core.types import MessageQueue

PLACES = ["127.0.0.1:9876", "T", "G"]


def message(body: bytes, key: str) -> MessageExt:
    record = Record("T", body, encode_properties({"KEYS": key}).encode())
    return MessageExt(record, MessageQueue("T", "broker-a", 0))


class Started:
    """What stands for a consumer or producer that is started: how it was, and what it sends."""

    def __init__(self, *about: object, **known: object) -> None:
        self.about, self.known = about, known
        self.sent: list[str] = []

    async def __aenter__(self) -> Started:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def poll(self) -> list[MessageExt]:
        await asyncio.sleep(0)
        return []

    async def _send(self, how: str) -> None:
        self.sent.append(how)
        await asyncio.sleep(0)

    async def send(self, message: Message) -> None:
        await self._send("send")

    async def send_oneway(self, message: Message) -> None:
        await self._send("one-way")

    async def send_orderly(self, message: Message, selector: MessageQueueSelector) -> None:
        queues = [MessageQueue("T", name, number) for name in "ba" for number in (1, 0)]
        await self._send(str(selector(queues, message)))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Started]:
    """What programs start, by its class; they are stopped after some turns of the loop."""
    found: dict[str, Started] = {}

    def stands_for(name: str) -> Callable[..., Started]:
        def start(*about: object, **known: object) -> Started:
            return found.setdefault(name, Started(*about, **known))

        return start

    async def stopped() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    for name in ("PushConsumer", "LitePullConsumer", "Producer"):
        monkeypatch.setattr(program, name, stands_for(name))
    monkeypatch.setattr(program, "_stopped", stopped)
    return found


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["program", *PLACES, *words])
    program.main()


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("consume", {}),
        ("orderly", {"orderly": True}),
        ("expire", {"consume_timeout_ms": 60_000}),
        ("broadcast", {"message_model": MessageModel.BROADCASTING}),
    ],
)
def test_a_mode_says_how_it_consumes(
    mode: str,
    told: Mapping[str, object],
    started: Mapping[str, Started],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(monkeypatch, mode, "c@1")
    ((name, consumer),) = started.items()
    *_, config = consumer.about
    usual = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    assert name == "PushConsumer"
    assert consumer.known == {"client_id": "c@1"}
    assert isinstance(config, ConsumerConfig)
    kept = replace(config, local_offset_store_dir=None)
    assert kept == replace(usual, **told)  # type: ignore[arg-type]
    assert (config.local_offset_store_dir is not None) is (mode == "broadcast")


def test_a_lite_pull_consumer_polls(
    started: Mapping[str, Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, "poll")
    assert started.keys() == {"LitePullConsumer"}


@pytest.mark.parametrize(
    ("mode", "how", "avoids"),
    [
        ("produce", "send", False),
        ("avoid", "send", True),
        ("oneway", "one-way", False),
        ("select", str(MessageQueue("T", "a", 0)), False),
    ],
)
def test_a_mode_says_how_it_sends(
    mode: str,
    how: str,
    avoids: bool,
    started: Mapping[str, Started],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(monkeypatch, mode)
    ((name, producer),) = started.items()
    config = producer.known["config"]
    assert name == "Producer"
    assert isinstance(config, ProducerConfig)
    assert config.publish.send_latency_fault_enable is avoids
    assert set(producer.sent) == {how}


def test_a_mode_that_it_lacks_ends_it_as_the_suite_expects(
    started: Mapping[str, Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "fly")
    assert ended.value.code == NO_SUCH_MODE
    assert not started


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
