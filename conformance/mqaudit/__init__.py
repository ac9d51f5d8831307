"""The audit: what a real cluster did, from its histories and stores, at any size, on Spark."""

from mqaudit.audit import audit
from mqaudit.report import AuditReport, CheckReport, Finding, Judgement

__all__ = ["AuditReport", "CheckReport", "Finding", "Judgement", "audit"]
