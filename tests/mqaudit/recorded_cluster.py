"""What a real cluster kept, as `tests/interop/record_cluster.py` recorded it, and changes to it."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from mqaudit.segments import log_batches, whole
from mqspec.core.record import SysFlag

ARCHIVE = Path(__file__).parent / "data" / "cluster-5.3.3.zip"
TRACES = "RMQ_SYS_TRACE_TOPIC"
CONTEXT_ENDS, FIELD_ENDS = "\x02", "\x01"

_POSITION_AT, _HALF_AT, _BODY_AT, _CRC_AT = 28, 76, 88, 8  # of a record whose hosts are of IPv4
_UNIT = ">qiq"


def unpacked(folder: Path) -> Path:
    """The archive below a folder: `store/`, `logs/` and `said/`."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


def said(folder: Path, program: str, word: str) -> list[list[str]]:
    """The words of the lines of a program that begin with a word."""
    lines = (folder / "said" / f"{program}.txt").read_text(encoding="utf-8").splitlines()
    return [line.split()[1:] for line in lines if line.split()[:1] == [word]]


def rewrite_traces(store: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Change the bodies of a store's traces, all of them at once, and write its log anew."""
    (segment,) = (store / "commitlog").iterdir()
    octets = segment.read_bytes()
    columns = ["kind", "topic", "queue_id", "queue_offset", "physical_offset", "size", "body"]
    records = [row for batch in log_batches(whole(segment), columns) for row in batch.to_pylist()]
    records = [row for row in records if row["kind"] == "record"]

    traces = [row for row in records if row["topic"] == TRACES]
    changed = change([row["body"].decode() for row in traces])
    for row, body in zip(traces, changed, strict=True):
        row["body"] = body.encode()

    log = bytearray()
    units: dict[tuple[str, int], dict[int, tuple[int, int]]] = defaultdict(dict)
    for row in records:
        old = octets[row["physical_offset"] : row["physical_offset"] + row["size"]]
        record = _with_body(old, row["body"], len(log))
        units[row["topic"], row["queue_id"]][row["queue_offset"]] = (len(log), len(record))
        log += record
    segment.write_bytes(log.ljust(len(octets), b"\0"))
    for (topic, queue_id), places in units.items():
        file = store / "consumequeue" / topic / str(queue_id) / f"{0:020}"
        queue = bytearray(file.read_bytes())
        for at, (position, size) in places.items():
            (tags,) = struct.unpack_from(">q", queue, at * 20 + 12)
            struct.pack_into(_UNIT, queue, at * 20, position, size, tags)
        file.write_bytes(queue)


def of_one_transaction(store: Path, is_one_half: bool) -> str:
    """Make two messages, each of a transaction that was committed, one message that is stored
    twice: of one half message, or of one for each. Its unique key."""
    (segment,) = (store / "commitlog").iterdir()
    columns = ["physical_offset", "sys_flag", "properties", "prepared_transaction_offset"]
    octets = bytearray(segment.read_bytes())
    rows = [row for batch in log_batches(whole(segment), columns) for row in batch.to_pylist()]
    first, second = [
        row for row in rows if (row["sys_flag"] or 0) & SysFlag.ROLLBACK == SysFlag.COMMIT
    ]
    keys = [re.search(rb"UNIQ_KEY\x01(\w+)", row["properties"]) for row in (first, second)]
    one, other = (found[1] for found in keys if found)
    if is_one_half:
        at = second["physical_offset"] + _HALF_AT
        struct.pack_into(">q", octets, at, first["prepared_transaction_offset"])
    segment.write_bytes(octets.replace(other, one))  # the CRCs of traces are written anew
    rewrite_traces(store, lambda bodies: bodies)
    return one.decode()


def _with_body(record: bytes, body: bytes, position: int) -> bytes:
    (old_size,) = struct.unpack_from(">i", record, _BODY_AT - 4)
    head = bytearray(record[:_BODY_AT])
    rest = record[_BODY_AT + old_size :]
    struct.pack_into(">i", head, 0, _BODY_AT + len(body) + len(rest))
    struct.pack_into(">i", head, _CRC_AT, zlib.crc32(body) & 0x7FFFFFFF)
    struct.pack_into(">q", head, _POSITION_AT, position)
    struct.pack_into(">i", head, _BODY_AT - 4, len(body))
    return bytes(head) + body + rest
