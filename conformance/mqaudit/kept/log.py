"""Logs of the Java client and the broker: the lines that tell who owned, committed, joined or left.

A line has a head (time, level, and of a client its pid, thread and logger) and a message. Which
messages tell something is a table; every other line is left out, as are lines without a head,
which go on what stands above them. A line that begins as one of the table's and does not end so is
torn: a row of damage, with its beginning.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mqaudit.kept.tells import Source

DAMAGE: Final = "damage"
ZONE_HOURS: Final = 8  # of the times in logs, wherever they are written (%d{...,GMT+8})
_SHOWN: Final = 200  # characters of what is torn
_CHUNK_BYTES: Final = 8 << 20
_GZIP: Final = 31  # what tells zlib that there is a head of gzip
_ROTATED: Final = "other_days"  # the folder of what was rolled

COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "kind": pa.string(),  # one of LINES; or damage
    "source": pa.string(),
    "file": pa.string(),
    "line": pa.int64(),  # from 1
    "process": pa.string(),  # the folder of its log, and the pid where lines tell it
    "pid": pa.int64(),
    "time_ms": pa.int64(),
    "client_group": pa.string(),
    "client_id": pa.string(),
    "topic": pa.string(),
    "broker": pa.string(),
    "queue_id": pa.int64(),
    "value": pa.int64(),
    "tag": pa.string(),
    "address": pa.string(),
    "damage": pa.string(),
}
_NUMBERS: Final = {name for name, kind in COLUMNS.items() if kind == pa.int64()}


@dataclass(frozen=True, slots=True)
class Line:
    """A message that tells something: how it begins, and the whole of it as an expression whose
    groups are columns. The texts are those of 5.3.3."""

    kind: str
    source: Source
    begins: str
    whole: str


_MQ: Final = (
    r"MessageQueue \[topic=(?P<topic>[^,\]]+), brokerName=(?P<broker>[^,\]]+), "
    r"queueId=(?P<queue_id>-?\d+)\]"
)
_G: Final = r"(?P<client_group>[^\s,\]]+)"
_ID: Final = r"(?P<client_id>[^\s,\]]+)"
_CHANNEL: Final = (
    rf"ClientChannelInfo \[channel=(?:.*R:/(?P<address>[^\],]+)\]|.*), clientId={_ID}, "
    r"language=.*\]"
)
_FLOW: Final = rf".*consumerGroup={_G}, messageQueue={_MQ}.*flowControlTimes=\d+"

LINES: Final = (
    *(
        Line(kind, Source.CLIENT_LOG, begins, whole)
        for kind, begins, whole in (
            ("client", "Created a new client Instance,",
             rf"Created a new client Instance, InstanceIndex:\d+, ClientID:{_ID}, .*"),
            ("broker", "send heart beat to broker[",
             r"send heart beat to broker\[(?P<broker>\S+) \d+ (?P<address>[^\]]+)\] "
             r"(?:success|failed)"),
            ("join", "the consumer [", rf"the consumer \[{_G}\] start OK\."),
            ("leave", "the consumer [", rf"the consumer \[{_G}\] shutdown OK"),
            ("start", "the consumer [", rf"the consumer \[{_G}\] start beginning\. .*"),
            ("assign", "doRebalance,", rf"doRebalance, {_G}, add a new mq, {_MQ}"),
            ("revoke", "doRebalance,",
             rf"doRebalance, {_G}, (?:truncateMessageQueueNotMyTopic )?"
             rf"remove unnecessary mq, {_MQ}"),
            # Whoever pops owns nothing: -1 stands for all queues, and others pop them as well.
            ("pops", "doRebalance,", rf"doRebalance, {_G}, add a new pop mq, {_MQ}"),
            ("pops no more", "doRebalance,",
             rf"doRebalance, {_G}, (?:truncateMessageQueueNotMyTopic )?"
             rf"remove unnecessary pop mq, {_MQ}"),
            ("failed to own", "doRebalance,", rf"doRebalance, {_G}, (?:mq|add|compute) .*{_MQ}.*"),
            ("no members", "doRebalance,",
             rf"doRebalance, {_G} (?P<topic>\S+), get consumer id list failed"),
            ("no topic", "doRebalance,",
             rf"doRebalance, {_G}, but the topic\[(?P<topic>[^\]]*)\] not exist\."),
            ("revoke", "Fix Offset,",
             rf"Fix Offset, {_G}, remove unnecessary mq, {_MQ} Droped: .*"),
            ("commit", "[persist",
             rf"\[persist(?:All)?\] Group: {_G} ClientId: {_ID} updateConsumeOffsetToBroker "
             rf"{_MQ} (?P<value>-?\d+)"),
            ("rebalanced", "client rebalanced result changed.",
             rf"client rebalanced result changed\. .*group={_G}, topic=(?P<topic>[^,]+), "
             rf"clientId={_ID}, mqAllSize=\d+, cidAllSize=(?P<value>\d+), .*\]"),
            ("notified", "receive broker's notification[",
             rf"receive broker's notification\[(?P<address>[^\]]*)\], the consumer group: {_G} "
             r"changed, rebalance immediately"),
            ("reset", "invoke reset offset operation from broker.",
             rf"invoke reset offset operation from broker\. brokerAddr=(?P<address>[^,]*), "
             rf"topic=(?P<topic>[^,]+), group={_G}, timestamp=(?P<value>-?\d+)"),
            ("illegal offset", "the pull request offset illegal,",
             rf"the pull request offset illegal, .*consumerGroup={_G}, messageQueue={_MQ}.*\]"),
            ("flow control", "the cached message ", rf"the cached message {_FLOW}"),
            ("flow control", "the queue's messages, span too long",
             rf"the queue's messages, span too long{_FLOW}"),
            ("locked", "the message queue lock",
             rf"the message queue locked OK, Group: {_G} {_MQ}"),
            ("not locked", "the message queue lock",
             rf"the message queue locked Failed, Group: {_G} {_MQ}"),
            ("unlocked", "the message queue unlock",
             rf"the message queue unlock OK, Group: {_G} {_MQ}"),
            ("trace left out", "buffer full", r"buffer full\d+ ,context is .*"),
            ("trace left out", "send trace data failed", r"send trace data failed, .*"),
        )
    ),
    *(
        Line(kind, Source.BROKER_LOG, begins, whole)
        for kind, begins, whole in (
            ("broker", "The broker[",
             r"The broker\[(?P<broker>[^,\]]+), (?P<address>[^\]]+)\] boot success\..*"),
            ("member", "new consumer connected,",
             rf"new consumer connected, group: {_G} \S+ \S+ channel: {_CHANNEL}"),
            ("unregistered", "unregister a consumer[",
             rf"unregister a consumer\[{_G}\] from consumerGroupInfo {_CHANNEL}"),
            ("cut off", "NETTY EVENT: remove not active channel[ClientChannelInfo",
             rf"NETTY EVENT: remove not active channel\[{_CHANNEL}\] from ConsumerGroupInfo "
             rf"groupChannelTable, consumer group: {_G}"),
            ("cut off", "SCAN: remove expired channel from ConsumerManager consumerTable.",
             r"SCAN: remove expired channel from ConsumerManager consumerTable\. "
             rf"channel=(?P<address>\S+), consumerGroup={_G}"),
            ("subscribed", "subscription changed, add new topic,",
             rf"subscription changed, add new topic, group: {_G} SubscriptionData \[.*"
             r"topic=(?P<topic>[^,]+), subString=(?P<tag>.*), tagsSet=.*\]"),
            ("subscribed", "subscription changed, group: ",
             rf"subscription changed, group: {_G} OLD: .* NEW: SubscriptionData \[.*"
             r"topic=(?P<topic>[^,]+), subString=(?P<tag>.*), tagsSet=.*\]"),
            ("reset", "[reset-offset] reset offset started by ",
             r"\[reset-offset\] reset offset started by .*\. topic=(?P<topic>[^,]+), "
             rf"group={_G}, timestamp=(?P<value>-?\d+), .*"),
            ("reset", "Reset offset, topic=",
             rf"Reset offset, topic=(?P<topic>[^,]+), group={_G}, queues=\{{.*\}}"),
        )
    ),
)  # fmt: skip

_TIME: Final = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_HEAD: Final = re.compile(
    rf"(?P<time>{_TIME})(?:[.,](?P<ms>\d{{3}}))? +(?:TRACE|DEBUG|INFO|WARN|ERROR) +"
    r"(?:\[(?P<pid>\d+)\] )?.*? - "
)
_WHOLE: Final = [(line, re.compile(line.whole)) for line in LINES]
# What is looked at at all, in RE2's words: the beginnings; and a head that is cut or stands in the
# middle of a line, as where a process died while it wrote one.
_BEGINS: Final = "|".join(dict.fromkeys(re.escape(line.begins) for line in LINES))
_ANY: Final = rf" - (?:{_BEGINS})|^\d{{4}}-\d\d-\d\d[^-]{{0,200}}$|.{_TIME}[., ]"
_GLUED: Final = re.compile(rf"(?<=.){_TIME}(?:[.,]\d{{3}})? +(?:TRACE|DEBUG|INFO|WARN|ERROR) ")


def log_batches(path: str, zone_hours: int = ZONE_HOURS) -> Iterator[pa.RecordBatch]:
    """What the lines of a log tell, which may be packed with gzip; it raises nothing for these."""
    file = Path(path.removeprefix("file:"))
    folder = file.parent.parent if file.parent.name == _ROTATED else file.parent
    reader = _Reader(path, str(folder), timezone(timedelta(hours=zone_hours)))
    first = 1
    for lines, why in _chunks(file):
        rows = []
        if lines:
            wanted = pc.match_substring_regex(pa.array(lines, pa.binary()), _ANY)
            numbers = pc.indices_nonzero(wanted).to_pylist()
            rows = [
                row
                for n in numbers
                for row in reader.rows(lines[n].decode(errors="replace"), first + n)
            ]
        first += len(lines)
        if why:
            rows.append(reader.damage(first, why))
        if rows:
            yield pa.RecordBatch.from_pylist(rows, pa.schema(list(COLUMNS.items())))


def content(path: str) -> Iterator[bytes]:
    """The content of a log as far as it can be read, unpacked; no piece of it is empty."""
    with suppress(EOFError, OSError, zlib.error):
        yield from filter(None, _opened(Path(path.removeprefix("file:"))))


def _opened(file: Path) -> Iterator[bytes]:
    return _unpacked(file) if file.suffix == ".gz" else _plain(file)


def _chunks(file: Path) -> Iterator[tuple[list[bytes], str]]:
    """Whole lines, some at a time, and at the end why the rest cannot be read, or nothing."""
    rest, why = b"", ""
    try:
        for chunk in _opened(file):
            *lines, rest = (rest + chunk).split(b"\n")
            yield lines, ""
    except FileNotFoundError:
        raise  # no damage: this machine does not see it
    except (EOFError, OSError, zlib.error) as error:
        why = f"the file ends here: {error}"
    yield ([rest] if rest else []), why


def _plain(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK_BYTES):
            yield chunk


def _unpacked(file: Path) -> Iterator[bytes]:
    """What gzip packed, as far as it goes: `gzip` gives nothing of a piece that is torn.

    Raises EOFError or zlib.error at its end where it is torn.
    """
    unpacking = zlib.decompressobj(_GZIP)
    for chunk in _plain(file):
        left = chunk
        while left:
            yield unpacking.decompress(left)
            left = unpacking.unused_data
            if unpacking.eof and left:
                unpacking = zlib.decompressobj(_GZIP)
    if not unpacking.eof:
        raise EOFError("it is cut")


@dataclass(frozen=True, slots=True)
class _Reader:
    file: str
    folder: str
    zone: timezone

    def rows(self, line: str, number: int) -> Iterator[dict[str, Any]]:
        """What a line tells, or that it is torn. One that another was written into is two."""
        if glued := _GLUED.search(line):
            yield self.damage(number, line[: glued.start()])
            yield from self.rows(line[glued.start() :], number)
            return
        head = _HEAD.match(line)
        if head is None:
            if line[:4].isdigit():
                yield self.damage(number, line)
            return
        message = line[head.end() :].rstrip()
        for known, whole in _WHOLE:
            if message.startswith(known.begins) and (found := whole.fullmatch(message)):
                yield self._row(known, found.groupdict(), head, number)
                return
        if any(message.startswith(known.begins) for known in LINES):
            yield self.damage(number, message)

    def damage(self, number: int, what: str) -> dict[str, Any]:
        return {
            "kind": DAMAGE, "file": self.file, "line": number, "damage": what[:_SHOWN],
        }  # fmt: skip

    def _row(
        self, known: Line, found: dict[str, str], head: re.Match[str], number: int
    ) -> dict[str, Any]:
        values = {k: int(v) if k in _NUMBERS else v for k, v in found.items()}
        try:
            second = datetime.strptime(head["time"], "%Y-%m-%d %H:%M:%S")
        except ValueError:
            return self.damage(number, head[0])
        pid = int(head["pid"]) if head["pid"] else None
        return values | {
            "kind": known.kind,
            "source": known.source.value,
            "file": self.file,
            "line": number,
            "process": self.folder if pid is None else f"{self.folder}@{pid}",
            "pid": pid,
            "time_ms": int(second.replace(tzinfo=self.zone).timestamp()) * 1000
            + int(head["ms"] or 0),
        }
