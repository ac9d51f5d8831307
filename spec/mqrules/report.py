"""The report of a conformance run, as data: what other programs read of it.

`mqconform/data/report.schema.json` is the same as JSON Schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field

REPORT_SCHEMA = "mqspec.report/1"


@dataclass(frozen=True, slots=True)
class FrameShown:
    """One frame, as it went."""

    address: str  # of the server
    sent: bool  # by the suite; else received
    what: str  # the request by its name, or the answer by its code
    text: str  # decoded, shortened
    hex: str  # its first bytes
    size: int  # bytes, the length prefix included


@dataclass(frozen=True, slots=True)
class CauseShown:
    """What stands behind some failures: the first exchange that departs."""

    title: str
    request: int | None  # the code of the request
    preparation: str  # the step of preparation that failed; empty where it was none
    strength: str  # of the strongest expectation that failed: relied on, apache, identical
    relied_on_by: tuple[str, ...]
    rules: tuple[str, ...]  # of the cases that failed
    cases: tuple[str, ...]  # that failed
    blocks: tuple[str, ...]  # that could not be judged
    frames: tuple[FrameShown, ...]


@dataclass(frozen=True, slots=True)
class CaseShown:
    """What became of one case."""

    name: str
    rules: tuple[str, ...]
    level: str  # MUST where one of its rules is
    strength: str
    party: str
    status: str  # passed, failed, deviates, not claimed, blocked, not run
    seconds: float
    why: str = ""
    cause: int | None = None  # the number of its cause, from 1 on
    letters: tuple[str, ...] = ()  # in what it is not identical, which was not judged
    departs: tuple[str, ...] = ()  # in what its requests are not those of real clients
    frames: tuple[FrameShown, ...] = ()  # the last ones, where it did not pass


@dataclass(frozen=True, slots=True)
class Report:
    """One run against one target."""

    schema: str
    target: str
    keeps: str  # the version of RocketMQ whose rules were judged
    run: str  # what the names of the run begin with
    began: str  # ISO 8601, UTC
    seconds: float
    exit_code: int
    counts: dict[str, int]  # cases by status
    causes: tuple[CauseShown, ...] = ()
    cases: tuple[CaseShown, ...] = ()
    stale: tuple[str, ...] = ()  # cases whose listed deviation no longer shows
    left: tuple[str, ...] = ()  # what may be left at the target
    texts: dict[str, str] = field(default_factory=dict)  # of the rules, by id
