"""The checks of a store, a table: what is looked for, under which rule, and what it means.

What is plain comes as runs of `n` records or units (`mqaudit.plain`); they simply hold.
"""

from __future__ import annotations

from typing import Final

from mqaudit.check import Check, Outcome
from mqaudit.report import Judgement

HELD, PERMITTED, VIOLATED, UNDECIDABLE, OPEN = Judgement

_QUEUE: Final = "store, topic, queue_id"
_RECORD: Final = ("store", "topic", "queue_id", "queue_offset", "physical_offset")

LOG: Final = Check(
    name="unreadable log",
    about="places of the log where no record begins at the position that it names",
    promise="LOG-001",
    places=("store", "segment", "physical_offset"),
    query="""
        SELECT store, segment, physical_offset, n, CASE
            WHEN kind = 'unreadable' AND after IS NULL AND segment = last_segment THEN 'torn'
            WHEN kind = 'unreadable' THEN 'unreadable'
            WHEN after > physical_offset + size AND after_kind != 'unreadable' THEN 'hole'
            ELSE 'readable' END AS outcome
        FROM (
            SELECT *, lead(physical_offset) OVER log_order AS after,
                lead(kind) OVER log_order AS after_kind
            FROM {log}
            WINDOW log_order AS (PARTITION BY store, segment ORDER BY physical_offset))
        JOIN {extent} USING (store)
    """,
    outcomes={
        "readable": Outcome(HELD, "a record, and the next one follows it"),
        "unreadable": Outcome(VIOLATED, "no record, and the log goes on after it"),
        "hole": Outcome(VIOLATED, "the next record does not follow this one"),
        "torn": Outcome(PERMITTED, "a torn tail, which recovery drops", rule="RECOV-001"),
    },
)

SEGMENTS: Final = Check(
    name="unclosed segments",
    about="segments that another follows, and that no blank closes",
    promise="LOG-004",
    places=("store", "segment"),
    query="""
        SELECT store, segment, 1 AS n, CASE
            WHEN max_by(kind, physical_offset) = 'blank' THEN 'closed'
            WHEN segment = any_value(last_segment) THEN 'last'
            ELSE 'unclosed' END AS outcome
        FROM {log} JOIN {extent} USING (store)
        GROUP BY store, segment
    """,
    outcomes={
        "closed": Outcome(HELD, "closed by a blank"),
        "unclosed": Outcome(VIOLATED, "not closed, though another segment follows"),
        "last": Outcome(OPEN, "the last segment, still being written"),
    },
)

DENSITY: Final = Check(
    name="gaps in queue offsets",
    about="records whose queue offset does not follow that of the one before in their queue",
    promise="LOG-002",
    places=_RECORD,
    query=f"""
        SELECT {", ".join(_RECORD)}, 1 AS n, CASE
            WHEN queue_offset = last + 1 THEN 'next'
            WHEN queue_offset = 0 THEN 'restart'
            WHEN queue_offset > last THEN 'gap'
            ELSE 'back' END AS outcome
        FROM (
            SELECT *, coalesce(before, lag(queue_offset) OVER (
                PARTITION BY {_QUEUE} ORDER BY physical_offset)) AS last
            FROM {{queued}})
        WHERE last IS NOT NULL
        UNION ALL
        SELECT {", ".join(f"NULL AS {column}" for column in _RECORD)}, queued AS n,
            'next' AS outcome
        FROM {{log}} WHERE kind = 'run'
    """,
    outcomes={
        "next": Outcome(HELD, "follows the one before"),
        "gap": Outcome(VIOLATED, "queue offsets were left out"),
        "back": Outcome(VIOLATED, "a queue offset was given twice"),
        "restart": Outcome(UNDECIDABLE, "starts again at 0: its topic may have been made anew"),
    },
)

BEYOND: Final = Check(
    name="units beyond the log",
    about="ConsumeQueue units that point to or beyond the end of the log",
    promise="RECOV-005",
    places=_RECORD,
    query=f"""
        SELECT {", ".join(_RECORD)}, n, CASE
            WHEN kind = 'run' OR physical_offset + size <= log_end THEN 'inside'
            WHEN unrecovered THEN 'unrecovered'
            ELSE 'beyond' END AS outcome
        FROM {{unit}} JOIN {{extent}} USING (store)
    """,
    outcomes={
        "inside": Outcome(HELD, "before the end of the log"),
        "beyond": Outcome(VIOLATED, "beyond the end of the log"),
        "unrecovered": Outcome(OPEN, "beyond the end of a log that was not recovered yet"),
    },
)

POINTS: Final = Check(
    name="units that point elsewhere",
    about="ConsumeQueue units that do not point to the record with their queue offset",
    promise="RECOV-003",
    places=_RECORD,
    query=f"""
        SELECT {", ".join(_RECORD)}, n, CASE
            WHEN kind = 'run' THEN 'right'
            WHEN physical_offset < log_start THEN 'expired'
            WHEN meets = 'nothing' AND unrecovered THEN 'unrecovered'
            WHEN meets = 'nothing' THEN 'nowhere'
            WHEN meets = 'another record' OR NOT fits THEN 'elsewhere'
            WHEN queue_offset > last + 1 THEN 'gap'
            ELSE 'right' END AS outcome
        FROM (
            SELECT *, coalesce(before, lag(queue_offset + n - 1) OVER (
                PARTITION BY {_QUEUE} ORDER BY queue_offset)) AS last
            FROM {{unit}})
        JOIN {{extent}} USING (store)
        WHERE kind = 'run' OR physical_offset + size <= log_end
    """,
    outcomes={
        "right": Outcome(HELD, "points to its record"),
        "expired": Outcome(HELD, "its record was in a segment that was deleted"),
        "nowhere": Outcome(VIOLATED, "no record begins there"),
        "elsewhere": Outcome(VIOLATED, "the record there is another"),
        "gap": Outcome(VIOLATED, "the unit before it is missing"),
        "unrecovered": Outcome(OPEN, "no record there in a log that was not recovered yet"),
    },
)

INVISIBLE: Final = Check(
    name="records without a unit",
    about="records that no ConsumeQueue unit points to, so that nobody can pull them",
    promise="LOG-006",
    places=_RECORD,
    query=f"""
        WITH topics AS (SELECT DISTINCT store, topic FROM {{unit}}),
            begun AS (
                SELECT {_QUEUE}, max(physical_offset) AS begin
                FROM {{queued}} WHERE queue_offset = 0 GROUP BY {_QUEUE})
        SELECT {", ".join(f"r.{column}" for column in _RECORD)}, 1 AS n, CASE
            WHEN has_unit OR u.store IS NOT NULL THEN 'visible'
            WHEN t.store IS NULL THEN 'no queue'
            WHEN r.physical_offset < b.begin THEN 'former'
            WHEN unrecovered THEN 'unrecovered'
            ELSE 'invisible' END AS outcome
        FROM {{queued}} r
        JOIN {{extent}} e ON e.store = r.store
        LEFT JOIN (SELECT DISTINCT store, physical_offset FROM {{unit}} WHERE kind = 'unit') u
            ON u.store = r.store AND u.physical_offset = r.physical_offset
        LEFT JOIN topics t ON t.store = r.store AND t.topic = r.topic
        LEFT JOIN begun b
            ON b.store = r.store AND b.topic = r.topic AND b.queue_id = r.queue_id
        UNION ALL
        SELECT {", ".join(f"NULL AS {column}" for column in _RECORD)}, queued AS n,
            'visible' AS outcome
        FROM {{log}} WHERE kind = 'run'
    """,
    outcomes={
        "visible": Outcome(HELD, "has its unit"),
        "invisible": Outcome(VIOLATED, "has no unit"),
        "no queue": Outcome(UNDECIDABLE, "its topic has no ConsumeQueue: deleted, or lost"),
        "former": Outcome(
            UNDECIDABLE, "its queue starts again behind it: its topic may have been made anew"
        ),
        "unrecovered": Outcome(OPEN, "not dispatched yet when the broker ended"),
    },
)

TWICE: Final = Check(
    name="records with two units",
    about="records that more than one ConsumeQueue unit points to",
    promise="LOG-003",
    places=_RECORD,
    query=f"""
        SELECT {", ".join(_RECORD)}, n, CASE
            WHEN owned OR (kind = 'unit' AND meets != 'its record' AND nth > 1) THEN 'again'
            ELSE 'once' END AS outcome
        FROM (
            SELECT *, row_number() OVER (
                PARTITION BY store, kind, physical_offset
                ORDER BY topic, queue_id, queue_offset) AS nth
            FROM {{unit}})
    """,
    outcomes={
        "once": Outcome(HELD, "the only unit that points to its record"),
        "again": Outcome(VIOLATED, "another unit points to the same record"),
    },
)

CRC: Final = Check(
    name="damaged bodies",
    about="records whose body is not the one that their CRC was made of",
    promise="LOG-011",
    places=_RECORD,
    query=f"""
        SELECT {", ".join(_RECORD)}, n,
            CASE WHEN kind = 'run' OR crc_held THEN 'whole' ELSE 'damaged' END AS outcome
        FROM {{log}} WHERE kind IN ('run', 'record')
    """,
    outcomes={
        "whole": Outcome(HELD, "its CRC is right"),
        "damaged": Outcome(VIOLATED, "its CRC is wrong"),
    },
)

STORE_CHECKS: Final = (LOG, CRC, SEGMENTS, DENSITY, BEYOND, POINTS, INVISIBLE, TWICE)
