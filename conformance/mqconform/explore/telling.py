"""What is told of an answer, all of it, in words that two brokers share: a time is that it is now,
an address is whose it is. What is left out stands in tables, with the reason."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mqconform.fastjson import loads
from mqconform.frame import Frame
from mqconform.records import Record

NOW: Final = "now"
_NOW_MS: Final = 5 * 24 * 3600 * 1000  # what is so near is a clock's, or counted from one
_NUMBER: Final = re.compile(r"\b\d{13}\b")

NOT_TOLD: Final[Mapping[str, str]] = {
    "msgId": "where it lies in the log",
    "offsetMsgId": "where it lies in the log",
    "ORIGIN_MESSAGE_ID": "where it lies in the log",
    "TRAN_PREPARED_QUEUE_OFFSET": "the queue of halves is everybody's",
    "TRANSACTION_CHECK_TIMES": "halves are asked about as often as time allows",
    "tranStateTableOffset": "the queue of halves is everybody's",
    "commitLogOffset": "where it lies in the log",
    "physicOffset": "where it lies in the log",
    "indexLastUpdatePhyoffset": "where it lies in the log",
    "indexLastUpdateTimestamp": "the index is everybody's",
    "reviveQid": "the queues of the revive log are taken in turn by everybody",
    "recallHandle": "a time in another form",
    "clientAddr": "a port of one connection",
    "remoteIP": "a port of one connection",
    "bornHost": "a port of one connection",
    "storeHost": "an address",
    "consumeTps": "counted over time",
    "topicPutTps": "counted over time",
    "delayTime": "counted from now",
    "counter": "how often anybody changed any topic",
    "minTimeStampStr": "a time in another form",
    "maxTimeStampStr": "a time in another form",
    "consumeTimeStampStr": "a time in another form",
    "totalDiff": "of all groups",
    "totalInflightDiff": "of all groups",
    "heartbeatFingerprint": "what the client sent",
}
"""Fields of answers, keys of JSON and properties of messages that are not compared, and why."""

RECORD_NOT_TOLD: Final[Mapping[str, str]] = {
    "size": "follows from the others",
    "physical_offset": "where it lies in the log",
    "store_host": "an address",
    "store_timestamp": "a time of the broker's own",
}
"""The same of what a record has beside its properties."""


@dataclass(frozen=True)
class Words:
    """How one side names what both have: its own name of a broker or address, and the shared."""

    shared: Mapping[str, str]

    def plain(self, value: Any, name: str = "") -> Any:
        """A value of JSON, of a field or of a property."""
        match value:
            case dict():  # in an order of its own, by which lists of such are sorted
                told = {
                    self.text(str(key)): self.plain(inner, str(key))
                    for key, inner in value.items()
                    if key not in NOT_TOLD and inner is not None
                }
                return dict(sorted(told.items()))
            case list():
                return sorted((self.plain(inner) for inner in value), key=repr)
            case bool() | float() | None:
                return value
            case int():
                return NOW if _is_now(value) else value
        return self.text(str(value), name)

    def text(self, text: str, name: str = "") -> str:
        if name == "POP_CK":
            words = text.split(" ")
            text = " ".join((*words[:3], *words[4:]))  # without the queue of the revive log
        for own, shared in self.shared.items():
            text = text.replace(own, shared)
        return _NUMBER.sub(lambda found: NOW if _is_now(int(found[0])) else found[0], text)

    def fields(self, fields: Mapping[str, str]) -> dict[str, str]:
        kept = {name: self.text(value) for name, value in fields.items() if name not in NOT_TOLD}
        if "msgId" in fields:
            kept["messages"] = str(len(fields["msgId"].split(",")))
        return kept

    def record(self, record: Record, *, is_in_order: bool = True) -> dict[str, Any]:
        """`is_in_order`: whether its place in the queue is the same on both sides."""
        return {
            "topic": record.topic,
            "queue_id": record.queue_id,
            "queue_offset": record.queue_offset if is_in_order else None,
            "flag": record.flag,
            "sys_flag": record.sys_flag,
            "born_timestamp": self.plain(record.born_timestamp),
            "reconsume_times": record.reconsume_times,
            "prepared_transaction_offset": bool(record.prepared_transaction_offset),
            "body": record.body,
            "properties": {
                name: self.text(value, name)
                for name, value in record.properties.items()
                if name not in NOT_TOLD
            },
        }

    def records(self, records: Iterable[Record], *, is_in_order: bool = True) -> dict[str, Any]:
        """By their unique keys, and how often each is there."""
        told: dict[str, Any] = {}
        for record in records:
            key = record.properties.get("UNIQ_KEY", "")
            number = sum(known.partition("#")[0] == key for known in told)
            told[f"{key}#{number}"] = self.record(record, is_in_order=is_in_order)
        return told

    def json(self, answer: Frame, *, of: str = "") -> Any:
        """The code and the body; `of`: of its tables only what has this in its name."""
        if answer.code != 0 or not answer.body:
            return {"code": answer.code}
        body = answer.json()
        return {"code": 0, "body": self.plain(_mine(body, of) if of else body)}


def _is_now(value: int) -> bool:
    return abs(value - time.time_ns() // 1_000_000) < _NOW_MS


def _mine(data: Any, of: str) -> Any:
    """Of tables and lists in a body the entries that name it, and nothing beside these."""
    if not isinstance(data, dict):
        return data
    found: dict[str, Any] = {}
    for name, table in data.items():
        if isinstance(table, dict):
            found[name] = {key: it for key, it in table.items() if of in key or of in repr(it)}
        elif isinstance(table, list):
            found[name] = [it for it in table if of in repr(it)]
    return found


def leaves(data: Any, path: str = "") -> dict[str, Any]:
    """All that data says, by where it says it."""
    inner: Iterable[tuple[Any, Any]]
    if isinstance(data, str) and data[:1] in ("{", "["):  # JSON in JSON, whatever its order
        try:
            data = loads(data)
        except ValueError:
            return {path: data}
    if isinstance(data, Mapping):
        inner = data.items()
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        inner = enumerate(data)
    else:
        return {path: data}
    found = {path: "empty"} if not data else {}
    for name, value in inner:
        found |= leaves(value, f"{path}/{name}")
    return found


def differing(theirs: Any, ours: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each of two says that the other does not."""
    one, other = leaves(theirs), leaves(ours)
    paths = [path for path in one | other if one.get(path, path) != other.get(path, path)]
    return (
        {path: one[path] for path in paths if path in one},
        {path: other[path] for path in paths if path in other},
    )
