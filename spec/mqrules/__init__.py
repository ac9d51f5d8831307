"""The rules of RocketMQ as data, and the records that every mqspec tool exchanges.

Nothing here imports anything outside the standard library, so that any tool, in any
environment, can read a rule or write a piece of evidence.
"""

from mqrules.defect import Defect, defects
from mqrules.deviation import Deviation
from mqrules.errors import UserError
from mqrules.evidence import (
    Evidence,
    EvidenceKind,
    Verdict,
    check_writable,
    read_evidence,
    write_evidence,
)
from mqrules.history import Event, EventKind, Outcome
from mqrules.rule import Kind, Level, Party, Rule, rules
from mqrules.scenario import Scenario, Step

__all__ = [
    "Defect",
    "Deviation",
    "Event",
    "EventKind",
    "Evidence",
    "EvidenceKind",
    "Kind",
    "Level",
    "Outcome",
    "Party",
    "Rule",
    "Scenario",
    "Step",
    "UserError",
    "Verdict",
    "check_writable",
    "defects",
    "read_evidence",
    "rules",
    "write_evidence",
]
