"""Known deviations: where a named target departs from a rule, and how that was seen."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from mqrules.errors import UserError
from mqrules.schema import decode


@dataclass(frozen=True, slots=True)
class Deviation:
    """One known deviation. An entry that no longer shows is stale, and fails the run."""

    target: str  # the implementation: apache, reference
    version: str
    case: str  # the conformance case that shows it
    rule: str
    seen: str  # what the target did instead
    fails: str  # how its case fails then: a pattern in "TYPE: MESSAGE" of the error
    frames: str  # the bytes that show it, hex, request then response
    issue: str | None = None  # the public issue, if any

    def explains(self, error: BaseException) -> bool:
        """Whether its case failed as this entry says, and not in another way."""
        return bool(re.search(self.fails, f"{type(error).__name__}: {error}"))


def read_deviations(path: Path) -> list[Deviation]:
    """Read a TOML file of `[[deviation]]` tables. Raises UserError where it is wrong."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(str(path), f"not a deviations file: {error}") from None
    entries = table.get("deviation", [])
    found = [decode(Deviation, entry, f"{path}[{i}]") for i, entry in enumerate(entries)]
    for i, deviation in enumerate(found):
        try:
            is_any = re.search(deviation.fails, "")
        except re.error as error:
            raise UserError(f"{path}[{i}]", f"'fails' is not a pattern: {error}") from None
        if is_any:
            raise UserError(f"{path}[{i}]", "'fails' is a pattern of any failure")
    return found
