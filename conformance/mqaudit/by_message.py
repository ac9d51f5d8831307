"""What is judged by message: one that came to a group from several places, or from none.

Spark brings together what left the queues and the sends of each message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqaudit.columns import (
    NIL,
    Flags,
    Groups,
    Whole,
    anywhere,
    combined,
    least,
    most,
    nullable,
    numbers,
    ordered,
    texts,
    unordered,
)
from mqaudit.history_checks import BEFORE_SENT, DELAYED, LOST, REFUSED, REPEATED, ROLLED_BACK
from mqaudit.judged import Cases, Known, Row, told
from mqaudit.losses import SEPARATOR

_TEXTS: Final = ("run", "process", "consumer_group", "topic", "broker")
_NUMBERS: Final = (
    "row", "seq", "queue_id", "queue_offset", "store_epoch", "attempt", "known", "value",
)  # fmt: skip

# A clock is so exact; and how late what was delayed may come before it is told.
EXACT_NS: Final = 100 * 10**6
LATE_NS: Final = 60 * 10**9


class Mail:
    """Rows of `judged.SCHEMA`, with codes for their messages, by group and without."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.text = {name: texts(table[name]).codes for name in _TEXTS}
        self.text["message"] = unordered(table["message"])
        self.number = {name: numbers(table[name]) for name in _NUMBERS}
        self.row = self.number["row"]
        self.message, first = combined(self.text["run"], self.text["message"])
        self.messages = len(first)
        self.group, first = combined(self.message, self.text["consumer_group"])
        self.groups = len(first)

    def place(self, rows: Whole) -> dict[str, pa.ChunkedArray]:
        """The columns that name where something was done."""
        names = {*LOST.places, *REPEATED.places}
        return {name: self.table[name].take(pa.array(rows)) for name in names}


def judge(arrived: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What is said of the messages in some batches; what was decided before goes through."""
    kept = []
    for batch in arrived:
        is_told = pc.less_equal(batch["row"], int(Row.FOUND))
        yield batch.filter(is_told)
        kept.append(batch.filter(pc.invert(is_told)))
    if any(map(len, kept)):
        mail = Mail(pa.Table.from_batches(kept))
        yield from _repeated(mail)
        yield from _lost(mail)
        yield from _before_sent(mail)
        yield from _refused(mail)
        yield from _rolled_back(mail)
        yield from _delayed(mail)


def _repeated(mail: Mail) -> Iterator[pa.RecordBatch]:
    """Of the places from which a message came to a group, the first counts as its own."""
    rows = np.flatnonzero(mail.row == Row.DELIVERY)
    attempt = mail.number["attempt"][rows]
    several, _ = combined(mail.group[rows], attempt)
    is_first = np.ones(len(rows), bool)
    some = np.flatnonzero(np.bincount(several)[several] > 1) if len(rows) else rows
    order = some[
        ordered(
            several[some],
            *(mail.text[name][rows[some]] for name in ("topic", "broker")),
            *(
                mail.number[name][rows[some]]
                for name in ("queue_id", "queue_offset", "store_epoch")
            ),
        )
    ]
    is_first[order] = Groups.of(several[order]).begins

    refused, sent = (_counted(mail, row) for row in (Row.REFUSED, Row.SENT))
    invoked = _counted(mail, Row.INVOKED) + _counted(mail, Row.DELAYED)
    sends = np.maximum(invoked, refused + sent)[mail.message[rows]]
    published = _counted(mail, Row.PUBLISHED)[mail.message[rows]]
    cases = Cases.of(
        (is_first, "once"),
        (attempt > 0, "given back again"),
        (published > 1, "committed again"),
        (sends > 1, "sent again"),
        ((sends == 1) & (mail.number["known"][rows] & Known.RUN_CRASHED > 0), "crash"),
        (sends == 1, "stored again"),
        otherwise="sender",
    )
    yield from told(REPEATED, cases, lambda found: mail.place(rows[found]))


def _before_sent(mail: Mail) -> Iterator[pa.RecordBatch]:
    """What came before it was tried to be sent, in the order of the recorder that saw both, or
    before an event of its recorder after which another one saw it sent."""
    rows = np.flatnonzero(mail.row == Row.DELIVERY)
    is_try = (mail.row == Row.INVOKED) | (mail.row == Row.DELAYED)
    tries = _number(mail, is_try)
    rows = rows[tries[mail.message[rows]] > 0]

    code, first = combined(mail.message, mail.text["process"])
    seq, came = mail.number["seq"], mail.number["value"][rows]
    sent = least(code, len(first), seq, is_try)[code[rows]]
    caused = mail.row == Row.CAUSED
    each = np.bincount(code[caused], minlength=len(first)) == tries[mail.message[first]]
    # Each try was caused by what that recorder saw: then all of them came later.
    not_sent = np.where(each, least(code, len(first), seq, caused), NIL)[code[rows]]
    cases = Cases.of(
        (came < sent, "before"),
        (sent != NIL, "after"),
        (came <= not_sent, "before"),
        otherwise="elsewhere",
    )

    def place(found: Whole) -> dict[str, pa.ChunkedArray]:
        return mail.place(rows[found]) | {"seq": nullable(came[found])}

    yield from told(BEFORE_SENT, cases, place)


def _refused(mail: Mail) -> Iterator[pa.RecordBatch]:
    """What was delivered though each send of it was answered with a refusal."""
    rows = np.flatnonzero(mail.row == Row.DELIVERY)
    refused, sent = (_counted(mail, row)[mail.message[rows]] for row in (Row.REFUSED, Row.SENT))
    tried = (mail.row == Row.INVOKED) | (mail.row == Row.DELAYED)
    last_tried = most(mail.message, mail.messages, mail.number["seq"], tried)
    last_refused = most(mail.message, mail.messages, mail.number["seq"], mail.row == Row.REFUSED)
    is_open = (last_tried > last_refused)[mail.message[rows]]
    cases = Cases.of((sent > 0, "sent"), (is_open, "open"), otherwise="refused")
    known = np.flatnonzero(refused + sent > 0)
    yield from told(REFUSED, cases[known], lambda found: mail.place(rows[known[found]]))


def _rolled_back(mail: Mail) -> Iterator[pa.RecordBatch]:
    """What was delivered though its transaction was rolled back, of those that were ended."""
    rows = np.flatnonzero(mail.row == Row.DELIVERY)
    ends = (_counted(mail, row)[mail.message[rows]] for row in (Row.ROLLED_BACK, Row.PUBLISHED))
    rolled_back, published = ends
    cases = Cases.of(
        (rolled_back == 0, "committed"), (published > 0, "both"), otherwise="rolled back"
    )
    ended = np.flatnonzero(rolled_back + published > 0)
    yield from told(ROLLED_BACK, cases[ended], lambda found: mail.place(rows[ended[found]]))


def _delayed(mail: Mail) -> Iterator[pa.RecordBatch]:
    """When what was sent with a delay came, by the clock of the recorder that saw both."""
    rows = np.flatnonzero((mail.row == Row.DELAYED) | (mail.row == Row.CAME))
    if not len(rows):
        return
    is_send = mail.row[rows] == Row.DELAYED
    message, time_ns = mail.message[rows], mail.number["value"][rows]
    process = texts(mail.table["process"].take(pa.array(rows))).codes
    seen, first = combined(message, process)
    due_ns = least(seen, len(first), time_ns, is_send)[seen]
    cases = Cases.of(
        (due_ns == NIL, "elsewhere"),
        (time_ns < due_ns - EXACT_NS, "early"),
        (time_ns > due_ns + LATE_NS, "late"),
        otherwise="due",
    )
    came = np.flatnonzero(~is_send)
    yield from told(DELAYED, cases[came], lambda found: mail.place(rows[came[found]]))

    # Of the tries of a message that never came, the first stands for all.
    seq = mail.number["seq"][rows]
    is_first = seq == least(message, mail.messages, seq, is_send)[message]
    came_once = anywhere(message, mail.messages, ~is_send)
    missed = np.flatnonzero(is_first & ~(came_once | (_counted(mail, Row.SENT) == 0))[message])
    yield from told(
        DELAYED,
        Cases(("never",), np.zeros(len(missed), np.int64)),
        lambda found: mail.place(rows[missed[found]]),
    )


def _counted(mail: Mail, row: Row) -> Whole:
    """How many rows of a kind there are of each message."""
    return _number(mail, mail.row == row)


def _number(mail: Mail, when: Flags) -> Whole:
    return np.bincount(mail.message[when], minlength=mail.messages)


def _lost(mail: Mail) -> Iterator[pa.RecordBatch]:
    """Messages that were not handled where they were stored."""
    rows = np.flatnonzero(mail.row == Row.STORED)
    if not len(rows):
        return
    is_known = (mail.row == Row.DELIVERY) | (mail.row == Row.EVIDENCE)
    code = mail.group[is_known]
    known = mail.number["known"][is_known]

    def is_known_to_be(what: Known) -> Flags:
        return anywhere(code, mail.groups, known & what > 0)[mail.group[rows]]

    column = mail.table["outcome"].take(pa.array(rows)).combine_chunks().dictionary_encode()
    parts = [text.split(SEPARATOR) for text in column.dictionary.to_pylist()]
    surely, perhaps, at_last = (
        [(np.array([some[n] == name for some in parts])[column.indices.to_numpy()], name)
         for name in dict.fromkeys(some[n] for some in parts) if name]
        for n in range(3)
    )  # fmt: skip
    cases = Cases.of(
        (is_known_to_be(Known.HANDLED), "handled"),
        *surely,
        (is_known_to_be(Known.UNSAID), "unsaid"),
        (is_known_to_be(Known.GIVEN_BACK), "given back"),
        *perhaps,
        (is_known_to_be(Known.ELSEWHERE), "elsewhere"),
        *at_last,
        otherwise="handled",  # of none
    )
    yield from told(LOST, cases, lambda found: mail.place(rows[found]))
