"""TLC configuration files: reading what they check, and deriving runs of one property.

A configuration on disk is complete, so that a specialist can give it to TLC as it is. The
runner derives others from it by leaving properties out, never by touching anything else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mqcheck.source import COMMENT
from mqrules import UserError

_PROPERTY_SECTIONS = {
    "INVARIANT": "INVARIANT",
    "INVARIANTS": "INVARIANT",
    "PROPERTY": "PROPERTY",
    "PROPERTIES": "PROPERTY",
}
_OTHER_SECTIONS = re.compile(
    "CONSTANTS?|SPECIFICATION|INIT|NEXT|SYMMETRY|VIEW|CONSTRAINTS?|ACTION_CONSTRAINTS?"
    "|CHECK_DEADLOCK|ALIAS|POSTCONDITION"
)
_WORD = re.compile(r'"[^"]*"|[A-Za-z_]+\w*|[^\sA-Za-z_"]+')
_CONSTANT = re.compile(r"(\w+)\s*=\s*(\{[^}]*\}|\w+)")


@dataclass(frozen=True, slots=True)
class Config:
    """One configuration: the properties by name, the constants, and all the rest as text."""

    rest: str  # everything but the property sections
    invariants: tuple[str, ...]
    temporal: tuple[str, ...]
    sizes: dict[str, int]  # of a constant: the number, or the size of the set

    @property
    def properties(self) -> frozenset[str]:
        """Invariants and temporal properties."""
        return frozenset(self.invariants + self.temporal)

    def text(self, properties: frozenset[str]) -> str:
        """This configuration with only these of its properties.

        Without temporal properties SYMMETRY stays; where one is checked, TLC's symmetry
        reduction would be unsound, so a configuration that names one may not have it.
        """
        lines = [self.rest.strip()]
        lines += [f"INVARIANT {name}" for name in self.invariants if name in properties]
        lines += [f"PROPERTY {name}" for name in self.temporal if name in properties]
        if "CHECK_DEADLOCK" not in self.rest:
            lines.append("CHECK_DEADLOCK FALSE")
        return "\n".join(lines) + "\n"


def read_config(path: Path) -> Config:
    """Read a configuration. Raises UserError where it is missing or checks nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        raise UserError(str(path), "no such configuration", "see `mqspec check --list`") from None
    found: dict[str, list[str]] = {"INVARIANT": [], "PROPERTY": []}
    section, rest = "", []
    for line in COMMENT.sub("", text).splitlines():
        for word in _WORD.findall(line):
            if word in _PROPERTY_SECTIONS:
                section = _PROPERTY_SECTIONS[word]
            elif _OTHER_SECTIONS.fullmatch(word):
                section = ""
                rest.append("\n" + word)
            elif section:
                found[section].append(word)
            else:
                rest.append(word)
        rest.append("\n")
    if not any(found.values()):
        raise UserError(path.name, "it checks no property", "add INVARIANT or PROPERTY")
    if found["PROPERTY"] and "SYMMETRY" in text:
        raise UserError(path.name, "SYMMETRY is unsound with a temporal property", "remove one")
    body = re.sub(r"\n\s*\n+", "\n", " ".join(rest))
    sizes = {name: _size(value) for name, value in _CONSTANT.findall(body)}
    return Config(body, tuple(found["INVARIANT"]), tuple(found["PROPERTY"]), sizes)


def _size(value: str) -> int:
    if value.startswith("{"):
        return len([item for item in value.strip("{} \n").split(",") if item.strip()])
    return int(value) if value.isdigit() else 0
