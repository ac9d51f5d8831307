"""What is wrong with a module, and where: what TLC and its parser say, in one line.

TLC names a place by line and column of a module. What a reader looks for is the file, the line
and the operator whose definition it is in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mqcheck.source import blank_comments

_DEFINITION = re.compile(
    r"^(?:(?P<name>\w+)(?:\([^)]*\))? *==|(?P<unnamed>ASSUME|ASSUMPTION|AXIOM|THEOREM)\b)",
    re.MULTILINE,
)
_ERROR = re.compile(r"@!@!@STARTMSG (\d+):1 @!@!@\n(.*?)@!@!@ENDMSG \1 @!@!@", re.DOTALL)
_FRAME = re.compile(r"@!@!@\w+ [\d:]+ @!@!@")
_CHATTER = re.compile(
    r"TLC threw an unexpected exception\."
    r"|This was probably caused by an error in the spec or model\."
    r"|See the User Output[^\n]*|The exception was a [\w.]+\n: |Note that a bug can cause.*"
    r"|line \d+, col \d+ to line \d+, col \d+ of module \w+",
    re.DOTALL,
)

# The parser frames nothing, and names no file but the one that it reads.
_PARSED = re.compile(r"Parsing file \S*?(\w+)\.tla")
_EXPECTED = re.compile(
    r"(?:Was expecting (?P<what>[^\n]*)\n\s*)?Encountered (?P<found>\".*?\") "
    r"at line (?P<line>\d+), column (?P<column>\d+)"
)
_NO_MODULE = re.compile(
    r"Cannot find source file for module \w+ imported in module (?P<module>\w+)"
)
_AT = r"[Ll]ine (?P<line>\d+), col(?:umn)? (?P<column>\d+) to line \d+, col(?:umn)? \d+"
_SEMANTIC = re.compile(_AT + r" of module (?P<module>\w+)\s*\n\s*(?P<what>[^\n]+)")
# TLC prints the expressions that it was in, the innermost last, or in a stack trace first.
_NESTED = re.compile(r"\d+\. " + _AT + r" in (?P<module>\w+)")
_STACK = re.compile(r"0\) " + _AT + r" of module (?P<module>\w+)")
_NAMED = re.compile(r"(?:invariant|property|action|predicate) (?P<name>\w+)", re.IGNORECASE)
_UNREADABLE = 150  # exit code


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is wrong; `where` is file, line, column and operator, empty where TLC names none."""

    what: str
    where: str = ""


def complaint(output: str, code: int, module: Path, library: Sequence[Path]) -> Complaint:
    """What TLC, which ended with `code`, says of a module that lies beside or in the library."""
    folders = (module.parent, *library)
    if code == _UNREADABLE and (found := _EXPECTED.search(output)):
        expected = (
            f"Was expecting {found['what'].strip()}, found" if found["what"] else "Unexpected"
        )
        read = _PARSED.findall(output)
        said = f"{expected} {found['found']}"
        return Complaint(_line(said), _place(found, read[-1] if read else module.stem, folders))
    if found := _NO_MODULE.search(output):
        return Complaint(_line(found[0]), f"{found['module']}.tla")
    if code == _UNREADABLE and (found := _SEMANTIC.search(output)):
        return Complaint(_line(found["what"]), _place(found, found["module"], folders))
    errors = [text for _, text in _ERROR.findall(output)]
    what = _line(_CHATTER.sub("", _FRAME.sub("", errors[0])) if errors else output[-300:])
    places = [*_NESTED.finditer(output)][-1:] or [*_STACK.finditer(output)]
    if places:
        return Complaint(what, _place(places[0], places[0]["module"], folders))
    return Complaint(what, _defined(_NAMED.search(what), module.stem, folders))


def _line(text: str) -> str:
    return " ".join(text.split()).removesuffix(".")[:300]


def _place(found: re.Match[str], module: str, folders: Sequence[Path]) -> str:
    line = int(found["line"])
    where = f"{module}.tla:{line}:{found['column']}"
    before = [name for at, name in _definitions(module, folders) if at <= line]
    return f"{where}, in {before[-1]}" if before else where


def _defined(named: re.Match[str] | None, module: str, folders: Sequence[Path]) -> str:
    for line, name in _definitions(module, folders) if named else ():
        if named and name == named["name"]:
            return f"{module}.tla:{line}, in {name}"
    return ""


def _definitions(module: str, folders: Sequence[Path]) -> list[tuple[int, str]]:
    """The line and the name of each operator that a module defines, and of what it assumes."""
    paths = [folder / f"{module}.tla" for folder in folders]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    code = blank_comments(text)
    return [
        (code.count("\n", 0, match.start()) + 1, match["name"] or match["unnamed"])
        for match in _DEFINITION.finditer(code)
    ]
