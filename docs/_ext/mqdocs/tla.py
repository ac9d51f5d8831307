"""TLA+ modules as a reader sees them: a header, then definitions with the prose before each."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MODULE = re.compile(r"^-{4,} *MODULE +(\w+) *-{4,}\n", re.MULTILINE)
_END = re.compile(r"^={4,}", re.MULTILINE)
_DEFINITION = re.compile(r"^(?:LOCAL )?(\w+)(?:\([^=]*\)|\[[^=]*\])? *==")
_DECLARATION = re.compile(r"^(?:CONSTANTS?|VARIABLES?|EXTENDS|ASSUME|INSTANCE|RECURSIVE|THEOREM)\b")
_RULER = re.compile(r"^-{4,}\s*$")


@dataclass(frozen=True, slots=True)
class Part:
    """A definition, a declaration, or prose alone, with the comment that stands before it."""

    name: str  # of the operator; empty of anything else
    source: str
    line: int  # where `source` begins, from 1


@dataclass(frozen=True, slots=True)
class Module:
    """One module, cut into its parts; together they are its whole text."""

    name: str
    parts: tuple[Part, ...]

    @property
    def operators(self) -> dict[str, Part]:
        """The definitions by name."""
        return {part.name: part for part in self.parts if part.name}


def parse(text: str) -> Module:
    """Cut a module into parts. Raises ValueError where there is none."""
    header = _MODULE.search(text)
    if header is None:
        raise ValueError("no line ---- MODULE Name ----")
    end = _END.search(text, header.end())
    body = text[header.end() : end.start() if end else len(text)]
    first_line = text.count("\n", 0, header.end()) + 1
    return Module(header[1], tuple(_parts(body.splitlines(), first_line)))


def _parts(lines: list[str], first_line: int) -> list[Part]:
    """Cut where a comment or a definition begins, so that a comment leads what follows it."""
    starts = [i for i, line in enumerate(lines) if _starts(lines, i, line)]
    parts = []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        block = lines[start:stop]
        names = [m[1] for line in block if (m := _DEFINITION.match(line))]
        source = "\n".join(line for line in block if not _RULER.match(line)).strip("\n")
        if source.strip():
            parts.append(Part(names[0] if names else "", source, first_line + start))
    return parts


def _starts(lines: list[str], index: int, line: str) -> bool:
    if line.startswith(("(*", "\\*")):
        return not (index and lines[index - 1].startswith(("(*", "\\*")))
    if not (_DEFINITION.match(line) or _DECLARATION.match(line)):
        return False
    # A definition right below its prose belongs to it.
    return not (index and lines[index - 1].startswith(("(*", "\\*")))
