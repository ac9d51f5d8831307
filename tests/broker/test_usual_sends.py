"""Usual sends come to what they come to elsewhere: the same answers and the same files, byte by
byte, whatever else is asked between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from peer import Peer, broker_peer

from mqspec.broker.fast import usual_sends
from mqspec.broker.fast.usual_sends import UsualSends
from mqspec.broker.processor import sending
from mqspec.core.log import Stored
from mqspec.core.metadata import BrokerConfig, MetadataState
from mqspec.core.publish import Send, is_usual
from mqspec.core.record import decode_properties
from mqspec.fast.run import AppendedRun
from mqspec.paths import kinds
from mqspec.paths.compare import compare
from mqspec.paths.requests import AT_MS, PLAIN, READS, ROUNDS, TOPICS, reads_of
from mqspec.store.message_store import MessageStore
from mqspec.wire.codec import Decoder, RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

SEEDS = range(ROUNDS)


def test_every_kind_of_property_option_and_topic_is_drawn() -> None:
    drawn, topics, options = set(), set(), set()
    for request in asked(SEEDS):
        fields = request.ext_fields
        drawn |= set(decode_properties(fields.get("i", "")))
        topics |= {fields["b"]} if "b" in fields else set()
        if request.code == RequestCode.UPDATE_BROKER_CONFIG:
            options.add(request.body.decode().partition("=")[0])
    assert set(kinds.property_names()) <= drawn
    assert set(TOPICS) <= topics
    assert set(kinds.options()) == options
    assert {"DELAY", "TRAN_MSG", "POP_CK", "INNER_NUM", "TIMER_DELIVER_MS"} <= drawn


def asked(seeds: Iterable[int]) -> Iterator[RemotingCommand]:
    """All that is asked, over both connections."""
    for seed in seeds:
        for _, data in reads_of(seed):
            yield from Decoder().feed(data)


def test_answers_and_files_are_the_same() -> None:
    runs: list[AppendedRun | None] = []
    for seed in SEEDS:
        compared = compare(seed)
        assert not [*compared.differences()]
        plain = compared.plain
        assert not plain.runs, "all of it is turned off"
        assert len(plain.answers) == plain.asked > 5 * READS
        assert {answer.code for answer in plain.answers.values()} > {ResponseCode.SUCCESS}
        runs += compared.fast.runs
    lengths = [len(run.stored.sizes) for run in runs if run]
    assert max(lengths) > 10
    assert sum(lengths) > 2_000
    assert None in runs  # as at the end of a segment
    assert any(run and isinstance(run.stored, Stored) for run in runs)


@pytest.mark.parametrize(
    ("holder", "name", "blunder"),
    [
        (UsualSends, "forget", lambda _: None),
        (sending, "is_usual", lambda *_: True),
        (usual_sends, "is_plain", lambda _: True),
    ],
)
def test_a_blunder_is_found(
    monkeypatch: pytest.MonkeyPatch, holder: Any, name: str, blunder: object
) -> None:
    monkeypatch.setattr(holder, name, blunder)
    assert any(any(compare(seed).differences()) for seed in SEEDS)


def with_compacted(state: MetadataState, config: BrokerConfig, event: Send) -> bool:
    """Forgets that a compacted topic looks at each message."""
    return is_usual(state, config, structs.replace(event, is_batch=True))


@pytest.mark.parametrize(("judge", "is_stored"), [(is_usual, False), (with_compacted, True)])
def test_a_message_without_a_key_is_refused_by_a_compacted_topic_after_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: Any, is_stored: bool
) -> None:
    """Whatever was sent before it; the blunder shows that this could fail (SEND-037)."""
    monkeypatch.setattr(sending, "is_usual", judge)
    topic = {
        "topic": "Compacted",
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": "+cleanup.policy=COMPACTION",
    }

    async def played() -> None:
        async with broker_peer(tmp_path) as peer, asyncio.timeout(20):
            made = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **topic)
            assert made.code == ResponseCode.SUCCESS
            for _ in range(3):
                answer = await peer.send("Compacted", b"a", **usual_fields(0))
                assert answer.code == ResponseCode.SUCCESS
            keyless = usual_fields(0) | {"i": "UNIQ_KEY\x013\x02WAIT\x01true\x02"}
            answer = await peer.send("Compacted", b"a", **keyless)
            assert (answer.code == ResponseCode.SUCCESS) == is_stored

    asyncio.run(played())


def usual_fields(number: int) -> dict[str, object]:
    return {"e": number % 4, "g": AT_MS, "i": PLAIN % (number, number, number)}


def test_a_failure_is_told_to_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    async def scene(peer: Peer) -> None:
        for _ in range(2):  # the first one makes the topic
            answer = await peer.send("T", b"a", **usual_fields(0))
            assert answer.code == ResponseCode.SUCCESS
        with monkeypatch.context() as broken:
            broken.setattr(MessageStore, "put_run", fail)
            sends = (peer.send("T", b"b", **usual_fields(0)) for _ in range(3))
            answers = await asyncio.gather(*sends)
        assert [answer.code for answer in answers] == [ResponseCode.SYSTEM_ERROR] * 3
        assert all("on purpose" in (answer.remark or "") for answer in answers)
        last = await peer.send("T", b"c", **usual_fields(0))
        assert (last.code, last.ext_fields["queueOffset"]) == (ResponseCode.SUCCESS, "2")

    async def played() -> None:
        async with broker_peer(tmp_path) as peer, asyncio.timeout(20):
            await scene(peer)

    asyncio.run(played())


def test_only_so_much_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usual_sends, "KINDS_MAX", 3)
    seen: list[UsualSends] = []
    learn = UsualSends.learn

    def watched(kinds: UsualSends, *args: Any) -> None:
        learn(kinds, *args)
        seen.append(kinds)
        assert len(kinds._usual) <= 3

    monkeypatch.setattr(UsualSends, "learn", watched)

    async def played() -> None:
        async with broker_peer(tmp_path) as peer, asyncio.timeout(20):
            for number in range(8):
                fields = usual_fields(number) | {"h": number}
                answer = await peer.send("T", b"a", **fields)
                assert answer.code == ResponseCode.SUCCESS
            known = dict(seen[-1]._usual)
            assert known
            long = usual_fields(8) | {"a": "g" * usual_sends.KIND_CHARS_MAX}
            assert (await peer.send("T", b"a", **long)).code == ResponseCode.SUCCESS
            assert seen[-1]._usual == known

    asyncio.run(played())
