"""Random requests, as they are read from connections: sends, most of them alike, and changes of
topics and options between them, after which sends that were accepted may not be any more.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Final, NamedTuple

from mqspec.core.record import BatchMessage, SysFlag
from mqspec.paths import kinds
from mqspec.wire.bodies import encode_batch
from mqspec.wire.codec import RemotingCommand, encode
from mqspec.wire.codes import RequestCode

AT_MS: Final = 1_700_000_000_000  # when all of it happens
READS: Final = 200  # of a round
ROUNDS: Final = 6  # in so many that follow each other each property and option is drawn
CONNECTIONS: Final = 2
USED: Final = 2  # of the topics, by most sends
TOPICS: Final = ("T", "U", *kinds.topics(), "%RETRY%G", "%DLQ%G", "A" * 200)
PLAIN: Final = "KEYS\x01k%d\x02UNIQ_KEY\x01%030X\x02WAIT\x01true\x02TAGS\x01t%d\x02"
PROPERTIES: Final = kinds.property_names()

FIELDS: Final[Sequence[tuple[str, object]]] = (
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
"""What a field of a send may be that is not as usual; None: it is left out."""

UNUSUAL: Final[Sequence[tuple[str, str]]] = (
    *kinds.unusual_options(),
    ("maxMessageSize", "1500"),
    ("brokerPermission", "4"),
    ("regionId", "a%b"),
    ("startAcceptSendRequestTimeStamp", str(AT_MS + 1)),
    ("startAcceptSendRequestTimeStamp", str(AT_MS - 1)),
)


class Read(NamedTuple):
    """Bytes that are read from a connection at once: whole frames."""

    connection: int
    data: bytes


class _Oddity(NamedTuple):
    """What a send has that is not as usual: its topic, a field, or both."""

    topic: str
    fields: Mapping[str, object]


def reads_of(seed: int) -> Iterator[Read]:
    """A round. A change is read alone: what is sent around it is checked before or after it."""
    rng, number, part = random.Random(seed), 0, seed % ROUNDS
    unusual, others = cycle(UNUSUAL[part::ROUNDS]), list[str]()
    first = part * len(PROPERTIES) // ROUNDS
    properties = cycle([*PROPERTIES[first:], *PROPERTIES[:first]])

    for _ in range(READS):
        count = 1 if (is_change := rng.random() < 0.4) else rng.choice((1, 2, 20, 70))
        numbers = range(number + 1, number + 1 + count)
        number += count
        odd_ones, often = rng.choice((0, 0.3)), _an_oddity(rng, properties)
        requests = (
            _a_change(rng, each, unusual, others)
            if is_change
            else _a_send(rng, each, odd_ones, often, properties)
            for each in numbers
        )
        yield Read(rng.randrange(CONNECTIONS), b"".join(map(encode, requests)))


def send_fields(topic: str) -> dict[str, object]:
    """The fields of a usual SEND_MESSAGE_V2, but for its queue, its time and its properties."""
    return {
        "a": "P",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "f": 0,
        "h": 0,
        "j": 0,
        "k": "false",
        "m": "false",
    }


def _an_oddity(rng: random.Random, properties: Iterator[str]) -> _Oddity:
    topic = rng.choice(TOPICS if rng.random() < 0.5 else TOPICS[:USED])
    if rng.random() < 0.2:
        return _Oddity(topic, {})
    if rng.random() < 0.4:
        name, value = rng.choice(FIELDS)
        return _Oddity(topic, {name: value})
    asked = f"{next(properties)}\x01{rng.choice(('true', '1', 'x'))}\x02"
    return _Oddity(topic, {"i": f"UNIQ_KEY\x01k\x02{asked}"})


def _a_send(
    rng: random.Random,
    number: int,
    odd_ones: float,
    often: _Oddity,
    properties: Iterator[str],
) -> RemotingCommand:
    """A producer's send. Of those that are odd most are so in the way that comes `often` now."""
    odd = None
    if rng.random() < odd_ones:
        odd = often if rng.random() < 0.5 else _an_oddity(rng, properties)
    topic = odd.topic if odd else rng.choice(TOPICS[:USED])
    fields = send_fields(topic) | {"e": rng.randrange(4), "g": AT_MS + number}
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


def _a_change(
    rng: random.Random, number: int, unusual: Iterator[tuple[str, str]], others: list[str]
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
        name = others.pop(rng.randrange(len(others)))
        value = kinds.options()[name]
    else:
        name, value = next(unusual)
        others.append(name)
    option = f"{name}={value}"
    return RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, body=option.encode(), opaque=number)
