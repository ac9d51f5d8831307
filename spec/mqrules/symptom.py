"""Where to begin: what people see, and the lines in their logs, each leading to incidents."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from mqrules.schema import decode


@dataclass(frozen=True, slots=True)
class Case:
    """One way to go on from a symptom."""

    when: str  # how to tell that it is this one
    incident: str  # an incident's id


@dataclass(frozen=True, slots=True)
class Symptom:
    """What people see. The first case that fits is the one to read."""

    id: str
    title: str
    look: str  # what to look at first, to tell the cases apart
    case: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that Apache RocketMQ 5.3.3 writes, and what it means to who is on call."""

    text: str  # as it stands in the source; {} is what differs from line to line
    by: str  # client, broker or nameserver
    source: str  # the Java class that writes it
    level: str  # info, warn, error; remark where it is what a client is answered
    means: str
    act: str  # whether to act, and how
    incidents: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    @property
    def pieces(self) -> tuple[str, ...]:
        """What is the same in every such line, in order."""
        return tuple(filter(None, (piece.strip() for piece in self.text.split("{}"))))

    def is_in(self, line: str) -> bool:
        """Whether a line from a log is this one: it has all pieces, in their order."""
        return bool(re.search(".*?".join(map(re.escape, self.pieces)), line, re.DOTALL))


@cache
def symptoms() -> tuple[Symptom, ...]:
    """All symptoms, in their order. Raises UserError where the table is wrong."""
    entries = _entries("symptoms.toml", "symptom")
    return tuple(decode(Symptom, e, f"symptoms.toml[{i}]") for i, e in enumerate(entries))


def ways_to(incident: str) -> list[tuple[Symptom, Case]]:
    """The cases of symptoms that lead to an incident, by its id, each with its symptom."""
    return [(s, case) for s in symptoms() for case in s.case if case.incident == incident]


@cache
def log_lines() -> tuple[LogLine, ...]:
    """All known lines, in their order. Raises UserError where the table is wrong."""
    entries = _entries("log_lines.toml", "line")
    return tuple(decode(LogLine, e, f"log_lines.toml[{i}]") for i, e in enumerate(entries))


def find_log_lines(words: str) -> list[LogLine]:
    """The known lines that a line of a log, or some words out of one, may be.

    A whole line names what stands in it; where it holds none, the lines that the words are a part
    of, without a look at capitals.
    """
    if whole := [line for line in log_lines() if line.is_in(words)]:
        return whole
    part = words.strip().lower()
    return [line for line in log_lines() if part and part in line.text.lower()]


def _entries(name: str, key: str) -> list[object]:
    text = files("mqrules").joinpath(name).read_text(encoding="utf-8")
    found: list[object] = tomllib.loads(text)[key]
    return found
