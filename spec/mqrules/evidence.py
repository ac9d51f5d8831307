"""Evidence: what a tool found out about a rule, in one schema for all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from mqrules.errors import UserError
from mqrules.schema import decode, encode


class EvidenceKind(StrEnum):
    """How strong it is: the kinds are never merged in a report."""

    CHECKED = "checked"  # TLC: bounded, with its bounds and state counts
    PROVED = "proved"  # Z3, of the code that runs or of a module: unbounded, or the bound stated
    CONFIRMED = "confirmed"  # CrossHair 'confirmed over all paths' only
    SAMPLED = "sampled"  # Hypothesis, simulation, trace validation: how many
    CONFORMS = "conforms"  # conformance cases on a named party and version
    AUDITED = "audited"  # an audit check over recorded data, with its coverage


class Verdict(StrEnum):
    """What was found. Only `held` ever counts as held."""

    HELD = "held"
    REFUTED = "refuted"  # of an ideal: the expected counterexample was found
    DEVIATES = "deviates"  # violated as a listed deviation of the target says
    UNDECIDABLE = "undecidable"  # the data do not tell: a client not recorded, an open end
    NOT_CLAIMED = "not claimed"  # a capability that the target does not claim
    BLOCKED = "blocked"  # a prerequisite failed
    NOT_RUN = "not run"
    VIOLATED = "violated"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One finding about one rule."""

    rule: str  # a rule's id
    kind: EvidenceKind
    subject: str  # the model, theorem, case or history
    verdict: Verdict
    target: str = "mqspec"  # what it is about: a broker and its version, or our own code
    defect: str | None = None  # seeded: `refuted` then says that the check can say no
    detail: Mapping[str, str | int | float | bool] = field(default_factory=dict)


def check_writable(path: Path) -> None:
    """Make a file that is to be written at the end of a run, if it is not there: not to learn
    then that it cannot be. Raises an OSError that names it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.open("a").close()


def write_evidence(path: Path, records: Iterable[Evidence]) -> None:
    """Write records as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(encode(record), ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8")


def read_evidence(path: Path) -> list[Evidence]:
    """Read JSON lines. Raises UserError that names the file and the line."""
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        where = f"{path}:{number}"
        try:
            data = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(where, f"not JSON: {error}") from None
        records.append(decode(Evidence, data, where))
    return records
