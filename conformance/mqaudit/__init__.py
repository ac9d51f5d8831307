"""The audit: what a real cluster did, from its histories and stores, at any size, on Spark."""

from mqaudit.audit import Audit, OwnCheck, audit
from mqaudit.check import Check, Outcome
from mqaudit.report import AuditReport, CheckReport, Finding, Judgement
from mqaudit.tables import Tables

__all__ = [
    "Audit",
    "AuditReport",
    "Check",
    "CheckReport",
    "Finding",
    "Judgement",
    "Outcome",
    "OwnCheck",
    "Tables",
    "audit",
]
