"""Logs: one line an event, for people or for programs.

What is logged is an event with fields: `log.info("member joined", extra={"group": ...})`. As
text the fields follow the event; as JSON they stand beside it.
"""

from __future__ import annotations

import json
import logging
import sys
from enum import StrEnum
from typing import Any, Final

_KNOWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogFormat(StrEnum):
    """How a line looks."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def start_logging(level: LogLevel, form: LogFormat) -> None:
    """Log to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form is LogFormat.JSON else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def event_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of an event."""
    return {name: value for name, value in vars(record).items() if name not in _KNOWN}


class TextFormatter(logging.Formatter):
    """`2026-11-21 12:00:00,123 INFO member joined group=G client_id=c`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 # logging's name
        fields = (f" {name}={value}" for name, value in event_fields(record).items())
        return super().formatMessage(record) + "".join(fields)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (s), level, logger, event, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= event_fields(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)
