"""Usual sends come to what they come to elsewhere: the same answers and the same files, byte by
byte, whatever else is asked between them."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import kinds
import pytest
from msgspec import structs
from peer import SMALL, Peer, broker_peer, send_fields

from mqconform.target import free_ports
from mqspec.broker import BrokerController
from mqspec.broker.controller import FAST_PORT_BELOW
from mqspec.broker.fast import usual_sends
from mqspec.broker.fast.usual_sends import UsualSends
from mqspec.broker.processor import sending
from mqspec.core import flow_control
from mqspec.core.log import Stored
from mqspec.core.metadata import BrokerConfig, MetadataState
from mqspec.core.publish import Send, is_usual
from mqspec.core.record import BatchMessage, SysFlag, decode_properties
from mqspec.fast.run import AppendedRun
from mqspec.nameserver import NamesrvController
from mqspec.store.message_store import MessageStore
from mqspec.transport import IDLE_MS, Connection
from mqspec.wire.bodies import encode_batch
from mqspec.wire.codec import Decoder, RemotingCommand, encode
from mqspec.wire.codes import RequestCode, ResponseCode

STORE = replace(SMALL, segment_size=1 << 16)
AT_MS = 1_700_000_000_000
READS = 200
SEEDS = range(6)
PLAIN = "KEYS\x01k%d\x02UNIQ_KEY\x01%030X\x02WAIT\x01true\x02TAGS\x01t%d\x02"
TOPICS = ("T", "U", *kinds.topics(), "%RETRY%G", "%DLQ%G", "A" * 200)
USED = 2  # of them, by most sends

Answers = dict[int, RemotingCommand]


class Wire(asyncio.Transport):
    """The other end of a connection, always at the same address."""

    def __init__(self, port: int) -> None:
        super().__init__({"peername": ("127.0.0.1", port), "sockname": ("127.0.0.1", 1)})
        self._decoder = Decoder()
        self.answers: list[RemotingCommand] = []

    def write(self, data: Any) -> None:
        self.answers += self._decoder.feed(bytes(data))

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...


class Oddity(NamedTuple):
    """What a send has that is not as usual: its topic, a field, or both."""

    topic: str
    fields: Mapping[str, object]


def an_oddity(rng: random.Random, properties: Iterator[str]) -> Oddity:
    topic = rng.choice(TOPICS if rng.random() < 0.5 else TOPICS[:USED])
    if rng.random() < 0.2:
        return Oddity(topic, {})
    if rng.random() < 0.4:
        name, value = rng.choice(FIELDS)
        return Oddity(topic, {name: value})
    asked = f"{next(properties)}\x01{rng.choice(('true', '1', 'x'))}\x02"
    return Oddity(topic, {"i": f"UNIQ_KEY\x01k\x02{asked}"})


def a_send(
    rng: random.Random,
    number: int,
    odd_ones: float,
    often: Oddity,
    properties: Iterator[str],
) -> RemotingCommand:
    """A producer's; of those that are odd most are so in the way that comes `often` now."""
    odd = None
    if rng.random() < odd_ones:
        odd = often if rng.random() < 0.5 else an_oddity(rng, properties)
    topic = odd.topic if odd else rng.choice(TOPICS[:USED])
    fields: dict[str, object] = send_fields(topic) | {"e": rng.randrange(4), "g": AT_MS + number}
    fields["i"] = PLAIN % (number % 7, number, number % 3)
    body = b"%d." % number + b"x" * rng.randrange(200)
    if rng.random() < 0.05:
        own = [rng.choice((b"", b"A\x011\x02", b"TAGS\x01b\x02")) for _ in range(rng.randint(1, 5))]
        messages = [BatchMessage(body + b"%d" % n, each, n) for n, each in enumerate(own)]
        fields["m"], body = rng.choice(("true", "TRUE")), encode_batch(messages)
    if odd:
        fields |= odd.fields
        body = rng.choice((body, body, body, b"", body[:-1], b"y" * 2_000, b"z" * 9_000))
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    code = rng.choice((RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE))
    return RemotingCommand(code, texts, body, flag=2 * (rng.random() < 0.05), opaque=number)


FIELDS: Sequence[tuple[str, object]] = (
    ("e", -1),
    ("e", "00"),
    ("e", 9),
    ("e", "x"),
    ("f", int(SysFlag.COMPRESSED)),
    ("f", int(SysFlag.PREPARED)),
    ("f", int(SysFlag.COMMIT)),
    ("f", int(SysFlag.INNER_BATCH)),
    ("g", -5),
    ("g", "\u0663"),
    ("g", "9" * 19),
    ("h", 7),
    ("i", ""),
    ("i", "A\x011"),
    ("i", "A\x011\x02"),
    ("i", 'UNIQ_KEY\x01"%s\x02'),
    ("i", "UNIQ_KEY\x01k\x02A\x01\ud800\x02"),
    ("i", "UNIQ_KEY\x01k\x02UNIQ_KEY\x01j\x02"),
    ("i", "UNIQ_KEY\x01k\x02p\x01" + "p" * 32_700 + "\x02"),
    ("j", 3),
    ("k", "true"),
    ("l", 16),
    ("l", "x"),
    ("m", None),
    ("n", "anything"),
)


PROPERTIES: Sequence[str] = kinds.property_names()
UNUSUAL: Sequence[tuple[str, str]] = (
    *kinds.unusual_options(),
    ("maxMessageSize", "1500"),
    ("brokerPermission", "4"),
    ("regionId", "a%b"),
    ("startAcceptSendRequestTimeStamp", str(AT_MS + 1)),
    ("startAcceptSendRequestTimeStamp", str(AT_MS - 1)),
)


def a_change(
    rng: random.Random, number: int, unusual: Iterator[tuple[str, str]], others: set[str]
) -> RemotingCommand:
    """What usual sends have to be forgotten for; `others`: the options that are unusual now."""
    if rng.random() < 0.4:
        topic = rng.choice(TOPICS[:USED])
        fields: dict[str, object] = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": 4,
            "writeQueueNums": 4,
            "perm": 6,
            "topicFilterType": rng.choice(("SINGLE_TAG", "MULTI_TAG")),
            "topicSysFlag": 0,
            "order": rng.choice(("true", "false")),
        }
        queues = rng.choice((1, 4, 4, 4))
        fields |= {"readQueueNums": queues, "writeQueueNums": queues}
        if rng.random() < 0.4:
            fields["topic"], fields["attributes"] = rng.choice([*kinds.topics().items()])
        texts = {name: str(value) for name, value in fields.items()}
        return RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, texts, opaque=number)
    if others and rng.random() < 0.6:  # what is changed is most often changed back soon
        name = others.pop()
        value = kinds.options()[name]
    else:
        name, value = next(unusual)
        others.add(name)
    option = f"{name}={value}"
    return RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, body=option.encode(), opaque=number)


def reads_of(seed: int) -> Iterator[tuple[int, bytes]]:
    """What comes over which connection. A change comes alone: what is sent around it is checked
    before or after it."""
    rng, number = random.Random(seed), 0
    unusual, others = cycle(UNUSUAL[seed :: len(SEEDS)]), set[str]()
    first = seed * len(PROPERTIES) // len(SEEDS)
    properties = cycle([*PROPERTIES[first:], *PROPERTIES[:first]])
    for _ in range(READS):
        count = 1 if (is_change := rng.random() < 0.4) else rng.choice((1, 2, 20, 70))
        numbers = range(number + 1, number + 1 + count)
        number += count
        odd_ones, often = rng.choice((0, 0.3)), an_oddity(rng, properties)
        requests = (
            a_change(rng, each, unusual, others)
            if is_change
            else a_send(rng, each, odd_ones, often, properties)
            for each in numbers
        )
        yield rng.randrange(2), b"".join(map(encode, requests))


def asked(seeds: Sequence[int]) -> Iterator[RemotingCommand]:
    """All that is asked, over both connections."""
    for seed in seeds:
        for _, data in reads_of(seed):
            yield from Decoder().feed(data)


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


def is_busy(broker: BrokerController) -> bool:
    return bool(broker.dispatcher._waiting or broker.sends._usual or broker.sends._checked)


async def play(
    root: Path, port: int, seed: int, *, fast_path: bool = True
) -> tuple[Answers, dict[str, bytes]]:
    """The answers, and the files of log, queues and index."""
    random.seed(seed)
    nameserver = NamesrvController()
    await nameserver.start()
    broker = BrokerController(
        root, nameserver.address, port=port, store_config=STORE, fast_path=fast_path
    )
    await broker.start()
    wires = [Wire(40_000 + n) for n in range(2)]
    connections = []
    for wire in wires:
        connections.append(Connection(broker.dispatcher.serve, idle_ms=IDLE_MS))
        connections[-1].connection_made(wire)
    broker._key_prefix = "0" * 20
    asked = 0
    for number, data in reads_of(seed):
        asked += sum(not request.is_oneway for request in Decoder().feed(data))
        connections[number].data_received(data)
        async with asyncio.timeout(20):
            while sum(len(wire.answers) for wire in wires) < asked or is_busy(broker):
                await asyncio.sleep(0)
    answers = {answer.opaque: answer for wire in wires for answer in wire.answers}
    assert len(answers) == asked
    traffic = {
        topic: (each.messages, each.size, each.times) for topic, each in broker.stats.put.items()
    }
    for connection in connections:
        connection.connection_lost(None)
    await broker.stop()
    await nameserver.stop()
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for folder in ("commitlog", "consumequeue", "index")
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }
    return answers, files | {"traffic": repr(sorted(traffic.items())).encode()}


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """One that both brokers have; and for both it is always the same time, and nothing waits too
    long on a machine that is busy."""
    monkeypatch.setattr(flow_control, "clean_expired_request", lambda *_: None)
    for name, module in sys.modules.items():
        if name.startswith("mqspec.") and hasattr(module, "clock_ms"):
            monkeypatch.setattr(module, "clock_ms", lambda: AT_MS)
    return free_ports(1, below=FAST_PORT_BELOW)[0]


def differ(
    root: Path, port: int, monkeypatch: pytest.MonkeyPatch, seed: int
) -> tuple[list[AppendedRun | None], list[int | str]]:
    """What runs were put, and of which requests the answers differ, and which files."""
    put, runs = MessageStore.put_run, []

    def watched(*args: Any) -> AppendedRun | None:
        runs.append(put(*args))
        return runs[-1]

    with monkeypatch.context() as watch:
        watch.setattr(MessageStore, "put_run", watched)
        usual, files = asyncio.run(play(root / "usual", port, seed))
        count = len(runs)
        others, others_files = asyncio.run(play(root / "others", port, seed, fast_path=False))
        assert len(runs) == count, "all of it is turned off"
    assert len(others) > 5 * READS
    assert {answer.code for answer in others.values()} > {ResponseCode.SUCCESS}
    wrong: list[int | str] = [
        number for number in usual | others if usual.get(number) != others.get(number)
    ]
    wrong += [name for name in files | others_files if files.get(name) != others_files.get(name)]
    return runs, wrong


def test_answers_and_files_are_the_same(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[AppendedRun | None] = []
    for seed in SEEDS:
        put, wrong = differ(tmp_path / str(seed), port, monkeypatch, seed)
        assert not wrong, f"seed {seed}"
        runs += put
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
    tmp_path: Path,
    port: int,
    monkeypatch: pytest.MonkeyPatch,
    holder: Any,
    name: str,
    blunder: object,
) -> None:
    monkeypatch.setattr(holder, name, blunder)
    assert any(differ(tmp_path / str(seed), port, monkeypatch, seed)[1] for seed in SEEDS)


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
