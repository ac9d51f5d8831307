"""The targets that the suite starts itself, by their names: `reference`, `apache:5.3.3`, ..."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

from mqconform.apache import Apache
from mqconform.reference import Reference
from mqconform.rocketmq_rust import RocketmqRust
from mqconform.target import Target

BROKERS: Final = 2  # of each
EXAMPLES: Final = "reference, apache:5.3.3 or rocketmq-rust:1.0.0"


class _Started(AbstractContextManager[object], Protocol):
    @property
    def target(self) -> Target: ...


_STARTS: Final[dict[str, Callable[[Path, str], _Started]]] = {
    "reference": lambda home, version: Reference(home),
    "apache": lambda home, version: Apache(home, version=version),
    "rocketmq-rust": RocketmqRust,
}


def is_started(name: str) -> bool:
    """Whether a target of that name is started for a run, and ended with it."""
    implementation, colon, _ = name.partition(":")
    return implementation in _STARTS and (implementation == "reference") is not bool(colon)


@contextlib.contextmanager
def started(name: str) -> Iterator[Target]:
    """Start a target, and end it. Raises UserError where that cannot be done."""
    implementation, _, version = name.partition(":")
    # A case that was cut off may still write to the folder.
    with (
        tempfile.TemporaryDirectory(prefix="mqspec-", ignore_cleanup_errors=True) as home,
        _STARTS[implementation](Path(home), version) as running,
    ):
        yield running.target  # type: ignore[attr-defined]
