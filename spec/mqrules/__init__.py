"""The rules of RocketMQ as data, and the records that every mqspec tool exchanges.

Nothing here imports anything outside the standard library, so that any tool, in any
environment, can read a rule or write a piece of evidence.
"""

from mqrules.defect import Defect, defects
from mqrules.deviation import Deviation
from mqrules.edge import Edge, edges, untried, without_edges
from mqrules.errors import UserError
from mqrules.evidence import (
    Evidence,
    EvidenceKind,
    Verdict,
    check_writable,
    read_evidence,
    write_evidence,
)
from mqrules.history import SECOND, Event, EventKind, Outcome
from mqrules.incident import Incident, incidents
from mqrules.rule import (
    Kind,
    Level,
    Party,
    Reliance,
    Rule,
    Strength,
    reliances,
    rules,
    strength,
)
from mqrules.scenario import Scenario, Step
from mqrules.symptom import LogLine, Symptom, find_log_lines, log_lines, symptoms, ways_to

__all__ = [
    "SECOND",
    "Defect",
    "Deviation",
    "Edge",
    "Event",
    "EventKind",
    "Evidence",
    "EvidenceKind",
    "Incident",
    "Kind",
    "Level",
    "LogLine",
    "Outcome",
    "Party",
    "Reliance",
    "Rule",
    "Scenario",
    "Step",
    "Strength",
    "Symptom",
    "UserError",
    "Verdict",
    "check_writable",
    "defects",
    "edges",
    "find_log_lines",
    "incidents",
    "log_lines",
    "read_evidence",
    "reliances",
    "rules",
    "strength",
    "symptoms",
    "untried",
    "ways_to",
    "without_edges",
    "write_evidence",
]
