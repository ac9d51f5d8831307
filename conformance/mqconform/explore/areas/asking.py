"""Every request that a broker serves, asked of two of them alike: what is drawn for each, how it is
asked, and what is told of its answer.

A kind draws all its parameters from what they may be, and asks one side; what a request needs to
know of an earlier answer, as a handle or a position, each side remembers for itself.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from mqconform import requests
from mqconform.connection import Connection, SilentError, eventually
from mqconform.explore.areas.pops import handles_of
from mqconform.explore.edges import NEGATIVE
from mqconform.explore.oracle import Side
from mqconform.explore.player import TooSlowError
from mqconform.frame import RESPONSE, Frame, frame, json_header
from mqconform.records import Record, parse_records
from mqconform.requests import COMMIT, ROLLBACK, Request, Subscription
from mqspec.core.attributes import TOPIC_ATTRIBUTES
from mqspec.core.extra_info import NORMAL_TOPIC, normal_topic, parse_handle, pop_retry_topic
from mqspec.core.record import SysFlag

Draw = Mapping[str, Any]
CLIENTS: Final = 4
# Of each broker: what is made at first, a topic that is not, and one to which messages come later.
FIRST, SECOND, UNMADE, LATE = range(4)
QUEUES: Final = {FIRST: 2, SECOND: 3, LATE: 1}
GROUPS: Final = 3  # the last is not made at first
BORN_MS: Final = 1_600_000_000_000
SHORT_MS: Final = 3_000  # an invisible time whose end is waited for
LONG_MS: Final = 3_600_000
LOCKED_S: Final = 8.0  # by when locks are given back: some live for ten seconds
IN_TIME_S: Final = 2.5  # by when what is done with a short pop is done
TIMER_MS: Final = 2_000
PULLED: Final = 32
PUSHED_S: Final = 30.0
SOON_S: Final = 0.02

COMPRESSIONS: Final = tuple(
    int(SysFlag.COMPRESSED | by) for by in (0, SysFlag.LZ4, SysFlag.ZSTD, SysFlag.ZLIB)
)
PROPERTIES: Final[Mapping[str, tuple[str, ...]]] = {
    "TAGS": ("A", "B", NEGATIVE),
    "KEYS": ("k1", "k2 k1", "Aa BB"),
    "WAIT": ("true", "false"),
    "BUYER_ID": ("buyer",),
    "__SHARDINGKEY": ("shard",),
    "INSTANCE_ID": ("instance",),
    "MSG_REGION": ("elsewhere",),
    "TRACE_ON": ("false",),
    "CORRELATION_ID": ("correlation",),
    "TTL": ("3000",),
    "who": ("someone",),
    "REPLY_TO_CLIENT": ("client-0",),
    "colour": ("red", "blau", "ä€𝄞"),
    "price": ("7", "-1.5"),
}
"""Properties of messages that any may have; what else the core reads of a message a kind adds."""


@dataclass(frozen=True)
class Kind:
    """`heats`: it starts what time ends, and so may stand beside others of its kind alone.
    `reads`: asked again until both say the same."""

    name: str
    draw: Callable[[Random], dict[str, Any]]
    ask: Callable[..., Any]
    rules: tuple[str, ...]
    heats: bool = False
    reads: bool = False
    often: int = 1


KINDS: Final[dict[str, Kind]] = {}


def kind(
    *rules: str,
    draw: Callable[[Random], dict[str, Any]],
    heats: bool = False,
    reads: bool = False,
    often: int = 1,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def listed(ask: Callable[..., Any]) -> Callable[..., Any]:
        name = ask.__name__.strip("_")
        KINDS[name] = Kind(name, draw, ask, rules, heats, reads, often)
        return ask

    return listed


# What is drawn


def at(r: Random) -> dict[str, Any]:
    """A topic and a queue of it, seldom one that it has not."""
    topic = r.choice((FIRST, FIRST, FIRST, SECOND, SECOND, UNMADE))
    return {"topic": topic, "queue": r.choice((0, 0, 1, 1, 2, 3))}


def group(r: Random) -> dict[str, Any]:
    return {"group": r.choice((0, 0, 0, 1, 1, 2))}


def both(r: Random) -> dict[str, Any]:
    return at(r) | group(r)


def late_or(r: Random) -> dict[str, Any]:
    """The same, or where messages come later."""
    return {"topic": LATE, "queue": 0} | group(r) if r.random() < 0.4 else both(r)


def message(r: Random) -> dict[str, Any]:
    """All that a producer says of a message."""
    several = r.sample(list(PROPERTIES), r.choice((0, 1, 2, 4, len(PROPERTIES))))
    return {
        "key": f"{r.getrandbits(64):016X}",
        "properties": {name: r.choice(PROPERTIES[name]) for name in several},
        "flag": r.choice((0, 1, 65_536, -1)),
        "sys_flag": r.choice((0, 0, *COMPRESSIONS)),
        "born": BORN_MS + r.randrange(10**6),
        "size": r.choice((1, 5, 255, 4_097)),
        "tries": r.choice((0, 0, 2)),
        "unit": r.random() < 0.1,
        "queues": r.choice((4, 1, 8)),  # of a topic that is made by it
        "producer": r.choice(("conformance", "another")),
    }


def choice(**choices: tuple[Any, ...]) -> Callable[[Random], dict[str, Any]]:
    return lambda r: {name: r.choice(values) for name, values in choices.items()}


def drawn(*parts: Callable[[Random], dict[str, Any]]) -> Callable[[Random], dict[str, Any]]:
    def draw(r: Random) -> dict[str, Any]:
        return {name: value for part in parts for name, value in part(r).items()}

    return draw


WHICH: Final = choice(which=(0, 0, 1, 2, 5))
EXPRESSIONS: Final = choice(
    expression=(
        ("TAG", "*"), ("TAG", "A"), ("TAG", f"A || {NEGATIVE}"), ("SQL92", "price > 0"),
        ("SQL92", "colour IN ('red', 'blau') OR TAGS = 'B'"),
    )
)  # fmt: skip


# Messages


def _body(m: Draw) -> bytes:
    key: bytes = m["key"].encode()
    return key.ljust(m["size"], b".")[: m["size"]]


def _message(side: Side, topic: int, queue: int, m: Draw, **more: str) -> Request:
    properties = {"UNIQ_KEY": m["key"], "WAIT": "true", **m["properties"], **more}
    asked = requests.send(side.topics[topic], _body(m), queue, properties)
    return asked.having(**_said(m))


def _said(m: Draw) -> dict[str, Any]:
    return {
        "a": m["producer"], "d": m["queues"], "f": m["sys_flag"], "g": m["born"], "h": m["flag"],
        "j": m["tries"], "k": m["unit"],
    }  # fmt: skip


def _sent(side: Side, broker: int, topic: int, answer: Frame, count: int = 1) -> Any:
    """What is told of a send's answer; what is stored can be read when this returns."""
    if answer.code != 0:
        return {"code": answer.code}
    place = broker, topic, answer.number("queueId")
    end = answer.number("queueOffset") + count
    ids = answer.fields["msgId"].split(",")
    known = side.lists["sent", broker]
    known += [(side.topics[topic], int(one[16:], 16)) for one in ids]
    side.notes["end", place] = end
    _await(side, broker, topic, place[2], end)
    return {"code": 0, "fields": side.words.fields(answer.fields)}


def _await(side: Side, broker: int, topic: int, queue: int, end: int) -> None:
    asked = requests.max_offset(side.topics[topic], queue)

    def is_there() -> bool:
        answer = side.call(asked, broker)
        return answer.code != 0 or answer.number("offset") >= end

    eventually(is_there, PUSHED_S)


@kind("SEND-001", "SEND-004", draw=drawn(at, message), often=5)
def _send(side: Side, broker: int, client: int, topic: int, queue: int, **m: Any) -> Any:
    asked = _message(side, topic, queue, m)
    return _sent(side, broker, topic, side.call(asked, broker, client))


@kind("SEND-001", "SEND-004", draw=drawn(at, message))
def _send_v1(side: Side, broker: int, client: int, topic: int, queue: int, **m: Any) -> Any:
    asked = requests.send_v1(_message(side, topic, queue, m))
    return _sent(side, broker, topic, side.call(asked, broker, client))


@kind(
    "SEND-002", "SEND-004",
    draw=lambda r: {**at(r), "messages": tuple(message(r) for _ in range(r.choice((1, 2, 3))))},
    often=2,
)  # fmt: skip
def _batch(
    side: Side, broker: int, client: int, topic: int, queue: int, messages: tuple[Draw, ...]
) -> Any:
    first = messages[0]
    own = {"UNIQ_KEY": "B" + first["key"], "WAIT": first["properties"].get("WAIT", "true")}
    asked = requests.send_batch(
        side.topics[topic],
        [_body(m) for m in messages],
        queue,
        [{"UNIQ_KEY": m["key"], **m["properties"]} for m in messages],
        flags=[m["flag"] for m in messages],
    ).having(**_said(first), i=requests.property_string(own))
    return _sent(side, broker, topic, side.call(asked, broker, client), len(messages))


WAITS: Final = choice(
    waits=(
        {"DELAY": "1"}, {"DELAY": "1"}, {"TIMER_DELAY_MS": str(TIMER_MS)}, {"TIMER_DELAY_SEC": "1"},
        {"DELAY": "9"}, {"DELAY": "99"}, {"TIMER_DELAY_SEC": "3600"},
        {"TIMER_DELAY_SEC": "259201"}, {"TIMER_DELIVER_MS": "1"},
    )
)  # fmt: skip


@kind("DELAY-001", "DELAY-003", "TIMER-001", draw=drawn(WAITS, message), heats=True, often=3)
def _wait(side: Side, broker: int, client: int, waits: dict[str, str], **m: Any) -> Any:
    """A message that comes later, into a topic of such alone."""
    asked = _message(side, LATE, 0, m, **waits)
    answer = side.call(asked, broker, client)
    if answer.code == 0 and "recallHandle" in answer.fields:
        side.lists["recalls", broker].append(answer.fields["recallHandle"])
    told = {"code": answer.code, "recalled": "recallHandle" in answer.fields}
    return told | ({"queue": answer.fields["queueId"]} if answer.code == 0 else {})


@kind("TIMER-006", "TIMER-010", draw=WHICH)
def _recall(side: Side, broker: int, client: int, which: int) -> Any:
    known = side.lists["recalls", broker]
    handle = known[-1 - which % len(known)] if known else "none"
    fields = {"producerGroup": "p", "topic": side.topics[LATE], "recallHandle": handle}
    return {"code": side.call(Request(requests.RECALL_MESSAGE, fields), broker, client).code}


@kind("TX-001", "TX-002", draw=drawn(at, message, choice(immunity=("", "1", "1"))), heats=True,
      often=2)  # fmt: skip
def _half(
    side: Side, broker: int, client: int, topic: int, queue: int, immunity: str, **m: Any
) -> Any:
    """A half, and a producer that can be asked about it."""
    name = side.groups[0] + "p"
    side.call(requests.producer_heartbeat(f"client-{client}", name), broker, client)
    marks = {"TRAN_MSG": "true", "PGROUP": name}
    more = {**marks, **({"CHECK_IMMUNITY_TIME_IN_SECONDS": immunity} if immunity else {})}
    asked = _message(side, topic, queue, m, **more).having(a=name, f=m["sys_flag"] | 4)
    answer = side.call(asked, broker, client)
    if answer.code == 0:
        place = answer.number("queueOffset"), int(answer.fields["msgId"][16:], 16)
        side.lists["halves", broker].append((m["key"], place, topic, queue))
        side.notes["checked", broker] = side.notes.get(("checked", broker)) or bool(immunity)
    return {"code": answer.code, "queue": answer.fields.get("queueId")}


@kind("TX-003", "TX-005", "TX-006",
      draw=drawn(WHICH, choice(how=(COMMIT, COMMIT, ROLLBACK), check=(True, False),
                             stranger=(False, False, False, True))),
      often=3)  # fmt: skip
def _end(
    side: Side, broker: int, client: int, which: int, how: int, check: bool, stranger: bool
) -> Any:
    """The end of a half; `check`: as the answer to having been asked about it, if it was."""
    known = side.lists["halves", broker]
    if not known:
        return "no half"
    key, (offset, position), topic, queue = known[-1 - which % len(known)]
    side.take_notices()
    asked = [
        notice.fields
        for _, notice in side.lists["notices", broker]
        if notice.code == requests.CHECK_TRANSACTION_STATE and key.encode() in notice.body
    ]
    if asked and check:
        fields = asked[-1]
        offset, position = int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"])
    producer = side.groups[stranger] + "p"
    request = requests.end_transaction(producer, offset, position, how, from_check=check)
    answer = side.call(request, broker, client)
    if how == COMMIT and answer.code == 0:
        end = side.notes.get(("end", (broker, topic, queue)), 0) + 1
        side.notes["end", (broker, topic, queue)] = end
        _await(side, broker, topic, queue, end)
    return {"code": answer.code, "asked": bool(asked)}


@kind("REPLY-001", "REPLY-003", draw=drawn(at, message, choice(to=(0, 1, 9), v1=(False, True))))
def _reply(
    side: Side, broker: int, client: int, topic: int, queue: int, to: int, v1: bool, **m: Any
) -> Any:
    """A reply to a client that is there, or was never."""
    if to < CLIENTS:
        name = side.groups[0] + "p"
        side.call(requests.producer_heartbeat(f"client-{to}", name), broker, to)
    asked = _message(side, topic, queue, m, REPLY_TO_CLIENT=f"client-{to}", MSG_TYPE="reply")
    code = requests.SEND_REPLY_MESSAGE if v1 else requests.SEND_REPLY_MESSAGE_V2
    asked = replace(requests.send_v1(asked) if v1 else asked, code=code)
    replier = side.connection(CLIENTS + 1, broker)
    opaque, pushed = replier.ask(asked), None
    deadline = time.monotonic() + PUSHED_S
    while (answer := _soon(replier.answer, opaque)) is None and time.monotonic() < deadline:
        if pushed is None and to < CLIENTS:
            pushed = _taken(side, side.connection(to, broker))
    if answer is None:
        return {"code": None, "pushed": pushed}
    return {"code": answer.code, "fields": side.words.fields(answer.fields), "pushed": pushed}


def _soon(read: Callable[..., Frame], *args: Any) -> Frame | None:
    try:
        return read(*args, SOON_S)
    except SilentError:
        return None


def _taken(side: Side, requester: Connection) -> Any:
    """A reply that was pushed, which its requester takes; None: there is none yet."""
    others: list[Frame] = []
    while (notice := _soon(requester.notice)) and (
        notice.code != requests.PUSH_REPLY_MESSAGE_TO_CLIENT
    ):
        others.append(notice)
    requester.notices.extendleft(reversed(others))
    if notice is None:
        return None
    requester.write(frame(json_header(0, {}, notice.opaque, RESPONSE)))
    fields = side.words.fields(notice.fields)
    properties = sorted(fields.pop("properties", "").split("\x02"))
    return {"fields": fields, "properties": properties, "body": notice.body}


# Consumers


def _is_late(topic: int, records: list[Record]) -> bool:
    return topic == LATE or any(record.topic.startswith("%") for record in records)


@kind("PULL-001", "PULL-002", "SUBS-001", reads=True, often=3,
      draw=drawn(late_or, EXPRESSIONS,
                 choice(offset=(0, 0, 1, 2, 9, -1), count=(PULLED, 1, 2), version=(0, 1, BORN_MS),
                        says=(True, True, False), commit=(None, None, 1, 3),
                        lite=(False, False, True),
                        most_bytes=(requests.MAX_BYTES, 600))))  # fmt: skip
def _pull(
    side: Side, broker: int, client: int, topic: int, queue: int, group: int, offset: int,
    count: int, expression: tuple[str, str], version: int, says: bool, commit: int | None,
    lite: bool, most_bytes: int,
) -> Any:  # fmt: skip
    is_late = topic == LATE
    asked = requests.pull(
        side.topics[topic], side.groups[group], 0 if is_late else offset, queue,
        subscription=expression[1] if says else None, count=PULLED if is_late else count,
        commit=commit, sub_version=version,
    ).having(
        expressionType=expression[0], maxMsgBytes=requests.MAX_BYTES if is_late else most_bytes
    )  # fmt: skip
    asked = replace(asked, code=requests.LITE_PULL_MESSAGE) if lite else asked
    answer = side.call(asked, broker, client)
    records = parse_records(answer.body) if answer.code == 0 else []
    return {
        "code": answer.code,
        "fields": side.words.fields(answer.fields),
        "records": side.words.records(records, is_in_order=not is_late),
    }


POPS: Final = drawn(
    late_or, EXPRESSIONS,
    choice(invisible_ms=(LONG_MS,), order=(False, False, False, True),
           attempt=(None, "a", "b"), first=(0, 0, 1)),
)  # fmt: skip


@kind("POP-001", "POP-005", "POP-010", draw=POPS, often=4)
def _pop(
    side: Side, broker: int, client: int, topic: int, queue: int, group: int,
    expression: tuple[str, str], invisible_ms: int, order: bool, attempt: str | None, first: int,
) -> Any:  # fmt: skip
    is_short = invisible_ms == SHORT_MS and not order
    asked = requests.pop(
        side.topics[topic], side.groups[group], queue,
        invisible_ms=invisible_ms if is_short else LONG_MS, order=order, attempt_id=attempt,
    ).having(expType=expression[0], exp=expression[1], initMode=first)  # fmt: skip
    began = time.monotonic()
    answer = side.call(asked, broker, client)
    if answer.code != 0:
        told = {name: answer.fields.get(name) for name in ("invisibleTime", "restNum")}
        return {"code": answer.code, "fields": told}
    records = parse_records(answer.body)
    if len(records) >= PULLED:
        raise TooSlowError  # which of the messages it is is not said
    if is_short:
        side.notes.setdefault("short", began)
    handles = handles_of(answer, side.names[broker])
    found = sorted(
        ((record, *handle) for record, handle in zip(records, handles, strict=True)),
        key=lambda one: (one[0].properties.get("UNIQ_KEY", ""), repr(one[0].properties)),
    )
    side.lists["popped", broker] += [
        (topic, group, queue_id, offset, [handle]) for _, queue_id, offset, handle in found
    ]
    side.notes["pop", broker] = answer.number("popTime")
    infos = ("startOffsetInfo", "msgOffsetInfo", "orderCountInfo")
    fields = {name: answer.fields[name] for name in answer.fields if name not in infos}
    own = {
        name: sorted(one for one in answer.fields.get(name, "").split(";") if one[:1] == "0")
        for name in infos
        if topic != LATE
    }
    comes_again = any(parse_handle(handle).topic_flag != NORMAL_TOPIC for *_, handle in found)
    is_in_order = topic != LATE and not comes_again
    told = side.words.records((record for record, *_ in found), is_in_order=is_in_order)
    return {"code": 0, "fields": side.words.fields(fields), "own": own, "records": told}


def _handled(side: Side, broker: int, which: int) -> Any:
    """A message that was popped: its topic as it is named to the broker, group, queue, offset and
    handles; None where there is none."""
    known = side.lists["popped", broker]
    if not known:
        return None

    topic, group, queue_id, offset, handles = known[-1 - which % len(known)]
    name, group_name = side.topics[topic], side.groups[group]
    if parse_handle(handles[-1]).topic_flag != NORMAL_TOPIC:
        name = pop_retry_topic(name, group_name)
    return name, group_name, queue_id, offset, handles


@kind("POP-003", "POP-021", draw=drawn(WHICH, choice(old=(False, False, True))), often=3)
def _ack(side: Side, broker: int, client: int, which: int, old: bool) -> Any:
    found = _handled(side, broker, which)
    if not found:
        return "nothing popped"
    name, group_name, queue_id, offset, handles = found
    asked = requests.ack(name, group_name, handles[0 if old else -1], offset, queue_id)
    return {"code": side.call(asked, broker, client).code}


@kind("POP-003", "POP-010", draw=choice(which=((0,), (0, 1), (1, 2, 3), (0, 5, 6))), often=2)
def _ack_all(side: Side, broker: int, client: int, which: tuple[int, ...]) -> Any:
    """Several in one request, each in an entry of its own."""
    acks = []
    for found in (_handled(side, broker, each) for each in which):
        if found:
            name, group_name, queue_id, offset, handles = found
            handle = parse_handle(handles[-1])
            bit = 1 << offset - handle.ck_queue_offset
            bits = b64encode(bit.to_bytes(bit.bit_length() // 8 + 1, "little")).decode()
            acks.append(
                {
                    "c": group_name,
                    "t": normal_topic(name, group_name),
                    "r": handle.topic_flag,
                    "so": handle.ck_queue_offset,
                    "q": queue_id,
                    "rq": handle.revive_qid,
                    "pt": handle.pop_time,
                    "it": handle.invisible_time,
                    "b": bits,
                }
            )
    asked = requests.batch_ack(side.names[broker], *acks)
    return {"code": side.call(asked, broker, client).code}


@kind("POP-009", "POP-025", draw=drawn(WHICH, choice(invisible_ms=(LONG_MS,))))
def _change(side: Side, broker: int, client: int, which: int, invisible_ms: int) -> Any:
    found = _handled(side, broker, which)
    if not found:
        return "nothing popped"
    name, group_name, queue_id, offset, handles = found
    while time.time_ns() // 1_000_000 <= side.notes["pop", broker] + 1:
        side.call(requests.max_offset(name, queue_id), broker)  # POP-044
    began, shown = time.monotonic(), handles[-1]
    asked = requests.change_invisible_time(
        name, group_name, shown, offset, invisible_ms, queue_id
    )  # fmt: skip
    answer = side.call(asked, broker, client)
    if answer.code == 0 and answer.number("popTime"):
        if invisible_ms == SHORT_MS:
            side.notes.setdefault("short", began)
        side.notes["pop", broker] = answer.number("popTime")
        new = " ".join(answer.fields[name] for name in ("popTime", "invisibleTime", "reviveQid"))
        handles.append(f"{offset} {new} {' '.join(shown.split(' ')[4:])}")
    fields = side.words.fields(answer.fields)
    if fields.get("invisibleTime") != str(invisible_ms):  # in order: counted from the pop
        fields.pop("invisibleTime", None)
    return {"code": answer.code, "fields": fields}


@kind("POP-046", draw=late_or, reads=True)
def _peek(side: Side, broker: int, client: int, topic: int, queue: int, group: int) -> Any:
    asked = requests.peek(side.topics[topic], side.groups[group], queue)
    answer = side.call(asked, broker, client)
    records = parse_records(answer.body) if answer.code == 0 else []
    return {"code": answer.code, "records": side.words.records(records, is_in_order=False)}


@kind("POP-018", draw=both, reads=True)
def _notify(side: Side, broker: int, client: int, topic: int, queue: int, group: int) -> Any:
    asked = requests.notification(side.topics[topic], side.groups[group], queue)
    answer = side.call(asked, broker, client)
    return {"code": answer.code, "fields": side.words.fields(answer.fields)}


@kind("POP-019", draw=both, reads=True)
def _polling(side: Side, broker: int, client: int, topic: int, queue: int, group: int) -> Any:
    asked = requests.polling_info(side.topics[topic], side.groups[group], queue)
    answer = side.call(asked, broker, client)
    return {"code": answer.code, "fields": side.words.fields(answer.fields)}


@kind("RETRY-001", "RETRY-004", "RETRY-005", heats=True, often=3,
      draw=drawn(group, WHICH, choice(level=(1, 1, 5, -1), maximum=(None, 0, 16),
                                      again=(False, True), unit=(False, False, True))))  # fmt: skip
def _back(
    side: Side, broker: int, client: int, group: int, which: int, level: int, maximum: int | None,
    again: bool, unit: bool,
) -> Any:  # fmt: skip
    """A message is sent back; `again`: one that came again, if any did."""
    known = (again and side.lists["again", broker]) or side.lists["sent", broker]
    topic, position = known[-1 - which % len(known)] if known else (side.topics[FIRST], 1 << 40)
    asked = requests.send_back(side.groups[group], topic, position, level, maximum)
    return {"code": side.call(asked.having(unitMode=unit), broker, client).code}


def _told(side: Side, broker: int, client: int, asked: Request) -> Any:
    """The code, the fields and what JSON there is of an answer."""
    answer = side.call(asked, broker, client)
    told = {"code": answer.code, "fields": side.words.fields(answer.fields)}
    return told | ({"body": side.words.plain(answer.json())} if answer.body[:1] == b"{" else {})


OFFSETS: Final = choice(offset=(0, 1, 2, 7, 1 << 40))


@kind("OFFSET-010", draw=drawn(both, OFFSETS), often=3)
def _commit(
    side: Side, broker: int, client: int, topic: int, queue: int, group: int, offset: int
) -> Any:
    asked = requests.commit_offset(side.groups[group], side.topics[topic], offset, queue)
    return _told(side, broker, client, asked)


@kind("OFFSET-012", draw=drawn(both, choice(zero=(True, False))), reads=True)
def _query(
    side: Side, broker: int, client: int, topic: int, queue: int, group: int, zero: bool
) -> Any:
    asked = requests.query_offset(side.groups[group], side.topics[topic], queue)
    return _told(side, broker, client, asked.having(setZeroIfNotFound=zero))


@kind(
    "OFFSET-017",
    draw=drawn(both, choice(offset=(-1, 0, 1, 3), time_ms=(-1, 0), force=(True, False))),
)
def _reset(
    side: Side, broker: int, client: int, topic: int, queue: int, group: int, offset: int,
    time_ms: int, force: bool,
) -> Any:  # fmt: skip
    asked = requests.reset_offset(
        side.groups[group], side.topics[topic], queueId=queue if offset >= 0 else -1,
        offset=offset, timestamp=time_ms, isForce=force,
    )  # fmt: skip
    return _told(side, broker, client, asked)


@kind("OFFSET-058", draw=drawn(both, choice(to=(0, 1, 2), offline=(True, False))))
def _clone(
    side: Side, broker: int, client: int, topic: int, queue: int, group: int, to: int, offline: bool
) -> Any:
    asked = requests.clone_offset(
        side.groups[group], side.groups[to], side.topics[topic], offline=offline
    )
    return _told(side, broker, client, asked)


# What looks


@kind("LOG-020", "LOG-021", reads=True,
      draw=drawn(at, choice(key=("k1", "k2", "Aa", "none"), count=(32, 1),
                            unique=(False, True), span=((0, (1 << 63) - 1), (1, 1 << 42),
                                                        (0, 1)))))  # fmt: skip
def _find(
    side: Side, broker: int, client: int, topic: int, queue: int, key: str, count: int,
    unique: bool, span: tuple[int, int],
) -> Any:  # fmt: skip
    asked = requests.query_message(side.topics[topic], key, count).having(
        _UNIQUE_KEY_QUERY=unique, beginTimestamp=span[0], endTimestamp=span[1]
    )
    answer = side.call(asked, broker, client)
    records = parse_records(answer.body) if answer.code == 0 else []
    return {"code": answer.code, "records": side.words.records(records)}


@kind("SEND-004", draw=WHICH, reads=True)
def _view(side: Side, broker: int, client: int, which: int) -> Any:
    known = side.lists["sent", broker]
    topic, position = known[-1 - which % len(known)] if known else (side.topics[FIRST], 1 << 40)
    asked = requests.view_message(position).having(topic=topic)
    answer = side.call(asked, broker, client)
    records = parse_records(answer.body) if answer.code == 0 else []
    return {"code": answer.code, "records": side.words.records(records)}


@kind("LOG-032", draw=drawn(both, choice(index=(0, 1, 5), count=(1, 16))), reads=True)
def _entries(
    side: Side, broker: int, client: int, topic: int, queue: int, group: int, index: int,
    count: int,
) -> Any:  # fmt: skip
    asked = requests.query_consume_queue(side.topics[topic], index, count, queue)
    asked = asked.having(consumerGroup=side.groups[group])
    return _told(side, broker, client, asked)


@kind("OFFSET-052", "OFFSET-057", reads=True,
      draw=drawn(at, choice(time_ms=(0, BORN_MS, 1 << 42), edge=("LOWER", "UPPER"))))  # fmt: skip
def _by_time(
    side: Side, broker: int, client: int, topic: int, queue: int, time_ms: int, edge: str
) -> Any:
    asked = requests.search_offset(side.topics[topic], time_ms, queue).having(boundaryType=edge)
    return _told(side, broker, client, asked)


# Members


def _subscriptions(r: Random) -> dict[str, Any]:
    topics = r.sample((FIRST, SECOND, UNMADE, LATE), r.choice((0, 1, 2)))
    wanted = tuple(
        (
            topic,
            *r.choice((("*", "TAG"), ("A || B", "TAG"), ("price > 0", "SQL92"))),
            r.choice((0, 1, 2, BORN_MS)),
        )
        for topic in topics
    )
    return {"wanted": wanted}


@kind("GROUP-001", "GROUP-002", "GROUP-003", often=3,
      draw=drawn(group, _subscriptions,
                 choice(model=("CLUSTERING", "CLUSTERING", "BROADCASTING"),
                        type_=("CONSUME_PASSIVELY", "CONSUME_ACTIVELY"),
                        where=("CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_LAST_OFFSET"),
                        unit=(False, False, True), fingerprint=(0, 0, 7),
                        without=(False, False, True))))  # fmt: skip
def _beat(
    side: Side, broker: int, client: int, group: int, wanted: tuple[tuple[int, str, str, int], ...],
    model: str, type_: str, where: str, unit: bool, fingerprint: int, without: bool,
) -> Any:  # fmt: skip
    each = [
        Subscription(side.topics[topic], how, version, by) for topic, how, by, version in wanted
    ]
    asked = requests.heartbeat(f"client-{client}", side.groups[group], each, model=model)
    said = json.loads(asked.body) | {"heartbeatFingerprint": fingerprint, "withoutSub": without}
    said["consumerDataSet"][0] |= {
        "consumeType": type_, "consumeFromWhere": where, "unitMode": unit,
    }  # fmt: skip
    return _told(side, broker, client, replace(asked, body=json.dumps(said).encode()))


@kind("ADMIN-008", draw=choice(group=(0, 1)))
def _produce(side: Side, broker: int, client: int, group: int) -> Any:
    asked = requests.producer_heartbeat(f"client-{client}", side.groups[group] + "p")
    return _told(side, broker, client, asked)


@kind("GROUP-005", "GROUP-007", draw=drawn(group, choice(producer=(False, False, True))))
def _leave(side: Side, broker: int, client: int, group: int, producer: bool) -> Any:
    leave = requests.unregister_producer if producer else requests.unregister
    name = side.groups[group] + ("p" if producer else "")
    return _told(side, broker, client, leave(f"client-{client}", name))


@kind("GROUP-005", draw=choice())
def _hang_up(side: Side, broker: int, client: int) -> Any:
    side.take_notices()
    side.hang_up(client, broker)


@kind("SUBS-009", draw=drawn(both, EXPRESSIONS), reads=True)
def _check(
    side: Side, broker: int, client: int, topic: int, queue: int, group: int,
    expression: tuple[str, str],
) -> Any:  # fmt: skip
    asked = requests.check_client_config(
        side.groups[group], side.topics[topic], expression[1], expression[0]
    )
    return _told(side, broker, client, asked)


QUEUES_OF: Final = choice(queues=((0,), (0, 1), (1, 2)))


@kind("LOCK-001", "LOCK-002", draw=drawn(both, QUEUES_OF), often=2)
def _lock(side: Side, broker: int, client: int, group: int, topic: int, **of: Any) -> Any:
    queues = [(side.topics[topic], side.names[broker], each) for each in of["queues"]]
    name, client_id = side.groups[group], f"client-{client}"
    side.notes.setdefault("locked", time.monotonic())
    side.lists["locks"].append((broker, name, client_id, queues))
    return _told(side, broker, client, requests.lock(name, client_id, *queues))


@kind("LOCK-003", draw=drawn(both, QUEUES_OF))
def _unlock(side: Side, broker: int, client: int, group: int, topic: int, **of: Any) -> Any:
    queues = [(side.topics[topic], side.names[broker], each) for each in of["queues"]]
    asked = requests.unlock(side.groups[group], f"client-{client}", *queues)
    return _told(side, broker, client, asked)


@kind("ASSIGN-004", draw=drawn(both, choice(mode=("POP", "PULL"), share=(0, 1, -1))))
def _mode(
    side: Side, broker: int, client: int, topic: int, queue: int, group: int, mode: str, share: int
) -> Any:
    asked = requests.set_request_mode(side.topics[topic], side.groups[group], mode, share)
    return _told(side, broker, client, asked)


@kind("ASSIGN-001", "ASSIGN-004", reads=True,
      draw=drawn(both, choice(model=("CLUSTERING", "BROADCASTING"),
                              strategy=("AVG", "AVG_BY_CIRCLE", "none"))))  # fmt: skip
def _assign(
    side: Side, broker: int, client: int, topic: int, queue: int, group: int, model: str,
    strategy: str,
) -> Any:  # fmt: skip
    data = {
        "topic": side.topics[topic], "consumerGroup": side.groups[group],
        "clientId": f"client-{client}", "strategyName": strategy, "messageModel": model,
    }  # fmt: skip
    asked = Request(requests.QUERY_ASSIGNMENT, body=json.dumps(data).encode())
    return _told(side, broker, client, asked)


# Tools


def _topic_settings(r: Random) -> dict[str, Any]:
    name = r.choice(("", "", *TOPIC_ATTRIBUTES))
    values = {"": ("",), "message.type": ("FIFO", "DELAY", "NORMAL"), "reserve.time": ("-1", "9")}
    value = r.choice(values.get(name, TOPIC_ATTRIBUTES[name].values if name else ("",)))
    return {
        "topic": r.choice((FIRST, SECOND, SECOND, UNMADE, UNMADE)),
        "read": r.choice((2, 3, 4)), "write": r.choice((2, 3, 4)),
        "perm": r.choice((6, 6, 6, 4, 2)),
        "kind_": r.choice(("SINGLE_TAG", "MULTI_TAG")), "sys_flag": r.choice((0, 1, 2, 3)),
        "order": r.random() < 0.3,
        "attributes": r.choice((f"+{name}={value}", f"-{name}") if name else ("",)),
    }  # fmt: skip


@kind("ADMIN-001", "ADMIN-002", draw=_topic_settings, often=2)
def _topic(
    side: Side, broker: int, client: int, topic: int, read: int, write: int, perm: int, kind_: str,
    sys_flag: int, order: bool, attributes: str,
) -> Any:  # fmt: skip
    asked = requests.create_topic(side.topics[topic], read, write, perm)
    return _told(side, broker, client, asked.having(
        topicFilterType=kind_, topicSysFlag=sys_flag, order=order, attributes=attributes,
    ))  # fmt: skip


def _several_topics(r: Random) -> dict[str, Any]:
    return {"topics": tuple(_topic_settings(r) for _ in range(r.choice((1, 1, 2))))}


@kind("ADMIN-036", draw=_several_topics)
def _topics(side: Side, broker: int, client: int, topics: tuple[Draw, ...]) -> Any:
    listed = [
        {
            "topicName": side.topics[one["topic"]],
            "readQueueNums": one["read"],
            "writeQueueNums": one["write"],
            "perm": one["perm"],
            "topicFilterType": one["kind_"],
            "topicSysFlag": one["sys_flag"],
            "order": one["order"],
            "attributes": dict(
                [one["attributes"].partition("=")[::2]] if one["attributes"] else ()
            ),
        }
        for one in topics
    ]
    asked = replace(requests.create_topics(), body=json.dumps({"topicConfigList": listed}).encode())
    return _told(side, broker, client, asked)


@kind("ADMIN-003", "ADMIN-004", draw=choice(topic=(UNMADE, UNMADE, SECOND)))
def _delete_topic(side: Side, broker: int, client: int, topic: int) -> Any:
    for queue in range(5):
        side.notes.pop(("end", (broker, topic, queue)), None)
    return _told(side, broker, client, requests.delete_topic(side.topics[topic]))


def _group_settings(r: Random) -> dict[str, Any]:
    policy = r.choice((
        {"type": "CUSTOMIZED"},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1, "max": 9,
                                                               "multiplier": 2}},
    ))  # fmt: skip
    settings = {
        "consumeEnable": r.random() < 0.8, "consumeFromMinEnable": r.random() < 0.8,
        "consumeBroadcastEnable": r.random() < 0.8, "consumeMessageOrderly": r.random() < 0.3,
        "retryQueueNums": r.choice((1, 1, 0)), "retryMaxTimes": r.choice((0, 1, 16)),
        "groupRetryPolicy": policy, "brokerId": r.choice((0, 1)),
        "whichBrokerWhenConsumeSlowly": r.choice((1, 2)),
        "notifyConsumerIdsChangedEnable": r.random() < 0.8, "groupSysFlag": r.choice((0, 3)),
        "consumeTimeoutMinute": r.choice((15, 1)),
    }  # fmt: skip
    kept = r.sample(sorted(settings), r.choice((0, 1, 3, len(settings))))
    return {"settings": {name: settings[name] for name in kept}}


@kind("ADMIN-016", draw=drawn(group, _group_settings), often=2)
def _group(side: Side, broker: int, client: int, group: int, settings: dict[str, Any]) -> Any:
    return _told(side, broker, client, requests.create_group(side.groups[group], **settings))


@kind("ADMIN-037", draw=drawn(_group_settings, choice(groups=((1, 2), (0,), (0, 1)))))
def _groups(
    side: Side, broker: int, client: int, groups: tuple[int, ...], settings: dict[str, Any]
) -> Any:
    names = [side.groups[each] for each in groups]
    return _told(side, broker, client, requests.create_groups(*names, **settings))


@kind("ADMIN-009", draw=drawn(group, choice(clean=(True, False))))
def _delete_group(side: Side, broker: int, client: int, group: int, clean: bool) -> Any:
    asked = requests.delete_group(side.groups[group], clean_offset=clean)
    return _told(side, broker, client, asked)


@kind("ADMIN-038", "ADMIN-039", draw=drawn(both, choice(readable=(False, False, None))))
def _forbid(
    side: Side, broker: int, client: int, topic: int, queue: int, group: int, readable: bool | None
) -> Any:
    """None is allowed again: 5.3.3 then allows all."""
    asked = requests.group_forbidden(side.groups[group], side.topics[topic], readable)
    return _told(side, broker, client, asked)


@kind("ADMIN-016", draw=group)
def _show_group(side: Side, broker: int, client: int, group: int) -> Any:
    """To ask for a group makes it, where use does."""
    return _told(side, broker, client, requests.group_config(side.groups[group]))


@kind("TX-021", draw=choice())
def _resume(side: Side, broker: int, client: int) -> Any:
    """Of a half that is checked no more; here there is none."""
    fields = {"topic": side.topics[FIRST], "msgId": "7F00000100002A9F0000040000000000"}
    return {"code": side.call(Request(requests.RESUME_CHECK_HALF_MESSAGE, fields), broker).code}


ELSEWHERE: Final[Mapping[int, str]] = {
    25: "options are everybody's: cases set them",
    26: "options are the target's own",
    28: "what a broker is doing is everybody's: cases look at what they change of it",
    45: "how far delays are delivered is everybody's",
    223: "a member has to answer: cases have one",
    305: "the topics of the system have the cluster's names: a case lists them",
    306: "cleans what is everybody's",
    307: "a member has to answer: cases have one",
    309: "a member has to answer: cases have one",
    315: "counted over time: cases wait for it",
    316: "cleans what is everybody's",
    329: "cleans what is everybody's",
    200056: "does nothing",
}
"""Requests that are not asked here, and why."""

NOT_DRAWN: Final[Mapping[str, str]] = {
    "bname": "the connection says it",
    "n": "the connection says it",
    "ReqT": "of clients with a name and a password, which no broker here asks for",
    "c": "TBW102 is the only template",
    "defaultTopic": "TBW102 is the only template",
    "m": "said by another code",
    "force": "read by no broker",
    "lo": "read by no broker",
    "committed": "read by no broker of a store in files",
    "classFilterMode": "of filters in Java, which 5.3.3 has no more",
    "tagsSet": "follows from the expression",
    "codeSet": "follows from the expression",
    "onlyThisBroker": "read by no broker outside of a group of brokers",
    "brokerName": "that of the broker that is asked",
    "msgId": "read for logs alone",
    "transactionId": "read for logs alone",
    "originMsgId": "read for logs alone",
    "compareGroup": "what 308 compares is told by its table",
    "200050 maxMsgNums": "of fewer than there are it is not said which come",
    "200050 pollTime": "who is held waits for others: pops and holds have that",
    "11 suspendTimeoutMillis": "who is held waits for others: pops and holds have that",
    "361 suspendTimeoutMillis": "who is held waits for others: pops and holds have that",
    "200050 invisibleTime": "drawn with the program, by what stands beside it",
    "200053 invisibleTime": "drawn with the program, by what stands beside it",
    "353 readable": "5.3.3 allows all topics again where it allows one",
    "200 attributes": "5.3.3 knows none of groups",
    "225 attributes": "5.3.3 knows none of groups",
    "370 topic": "one has messages that wait",
    "370 producerGroup": "read for the message that is stored alone",
    "37 topic": "the half says it",
    "46 clientId": "read by no broker",
    "46 subVersion": "read by no broker here",
}
"""What clients say that is always the same here, in any request or in one, and why."""
