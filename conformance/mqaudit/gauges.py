"""What a follower knows, for Prometheus: over HTTP, or as a file for a collector of files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    start_http_server,
    write_to_textfile,
)

from mqaudit.report import AuditReport
from mqaudit.versions import Version
from mqrules import UserError

HOST: Final = "127.0.0.1"
_FOUND: Final = ("check", "judgement", "rule", "why")
_COVERAGE: Final = ("events", "sent", "received", "commits")


class Gauges:
    """Metrics at `where`: a port, HOST:PORT, or a file. Raises UserError where they cannot be."""

    def __init__(self, where: str) -> None:
        self._registry = CollectorRegistry()
        self._file: Path | None = None
        self.found = Gauge(
            "mqspec_audit_instances", "What was found, as it is judged by now", _FOUND,
            registry=self._registry,
        )  # fmt: skip
        self.examined = self._gauge("examined", "What a check looked at", "check")
        self.seen = self._gauge("seen", "What the history holds", "what")
        self.state = self._gauge("state_rows", "Events of which more may be said")
        self.unread = self._gauge("unread", "Rows left out: read before, or too late", "why")
        self.batches = Counter(
            "mqspec_audit_batches", "Batches that were judged", registry=self._registry
        )
        self._serve(where)

    def show(self, version: Version, report: AuditReport) -> None:
        """What is known after a batch."""
        self.found.clear()
        for check in report.checks:
            self.examined.labels(check.name).set(check.examined)
            for one in check.findings:
                self.found.labels(check.name, one.judgement, one.rule, one.why).set(one.count)
        for what in _COVERAGE:
            self.seen.labels(what).set(report.coverage[what])
        self.state.set(version.rows)
        self.unread.labels("again").set(version.again)
        self.unread.labels("late").set(version.late)
        self.batches.inc()
        if self._file is not None:
            write_to_textfile(str(self._file), self._registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"mqspec_audit_{name}", about, labels, registry=self._registry)

    def _serve(self, where: str) -> None:
        host, _, port = where.rpartition(":")
        if not port.isdecimal():
            self._file = Path(where)
            return
        try:
            start_http_server(int(port), host or HOST, self._registry)
        except (OSError, OverflowError) as error:
            raise UserError(f"--metrics {where}", f"cannot listen: {error}") from None
