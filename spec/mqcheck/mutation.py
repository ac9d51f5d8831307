"""A seeded sample of first-order mutants of the modules.

A mutant is one module with one place changed: a guard or an update of an action, an action of the
next-state relation, a fairness, an operator or a number, of the protocol or of a property. The
sample chooses a place first and then what becomes of it. What `TypeOK` says of variables is left
out, and so is what TLC is told: symmetry, and lists of variables; and witnesses, which show that a
model is not empty, and say nothing of the protocol.
"""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache

from mqcheck.mutants import changes, definitions, mutants, parenthesis_end
from mqcheck.source import blank_comments

_TOKEN = re.compile(
    r'"[^"]*"|[A-Za-z_]\w*\'?|\d+|<=>|==|=>|<=|>=|=<|<<|>>|<-|\|->|->|~>|<>|\[\]|/=|\.\.'
    r"|/\\|\\/|\\[A-Za-z]+|[\\<>=#+~-]"
)
_BECOMES: Mapping[str, str] = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "=": "#",
    "#": "=",
    "\\in": "\\notin",
    "\\notin": "\\in",
    "\\subseteq": "=",
    "\\cup": "\\cap",
    "\\cap": "\\cup",
    "\\": "\\cup",
    "+": "-",
    "-": "+",
    "/\\": "\\/",
    "\\/": "/\\",
    "=>": "<=>",
    "~": "",
    "\\A": "\\E",
    "\\E": "\\A",
    "TRUE": "FALSE",
    "FALSE": "TRUE",
}
_SYMBOLS = ("<=", ">=", "<=>")  # after which no space is needed
_FAIRNESS = re.compile(r"\b[WS]F_\w+(?=\()")
_CALL = re.compile(r"\b(\w+)\b(\((?:[^()]|\([^()]*\))*\))?")
_LEFT_OUT = re.compile(r"TypeOK$|Symmetry$|[vV]ars$")
_BINDS = re.compile(r"(?:\\[AE]|\bCHOOSE|[{\[,])\s*(?:\w+\s*,\s*)*(?:\w+|<<[^<>]*>>)\s*$")
_ASSIGNS = re.compile(r"(?:\w'|!(?:\.\w+|\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\])+)\s*$")
_OPENS = re.compile(r"(?:^|\n|==|:|\bIN|\bTHEN|\bELSE|/\\|\\/|=>|->|\() *$")

Place = tuple[int, int]  # where it begins in the text of the module, and where it ends
Edit = tuple[str, str, str]  # a module, the lines that are gone, and those in their place


@dataclass(frozen=True, slots=True)
class Mutation:
    """A module with one place changed."""

    module: str
    definition: str
    line: int  # from 1
    source: str
    text: str  # of the whole module

    @property
    def edit(self) -> Edit:
        """The module, the lines that are gone and those in their place, one space between words."""
        before, after = self.source.splitlines(), self.text.splitlines()
        blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        gone = [line for tag, a, b, _, _ in blocks if tag != "equal" for line in before[a:b]]
        come = [line for tag, _, _, a, b in blocks if tag != "equal" for line in after[a:b]]
        return self.module, "\n".join(map(plain, gone)), "\n".join(map(plain, come))

    def __str__(self) -> str:
        return f"{self.module}.tla:{self.line}, {self.definition}"


def plain(line: str) -> str:
    """A line with one space between words and none around them."""
    return " ".join(line.split())


def sample(
    modules: Mapping[str, str], seed: int, witnesses: Set[str] = frozenset()
) -> Iterator[Mutation]:
    """Mutants of these texts, each of another place, until there is none left; the same for the
    same seed and texts. Witnesses are left as they are."""
    places = [
        (name, place)
        for name in sorted(modules)
        for place, (definition, _) in sorted(_all(modules[name]).items())
        if definition not in witnesses
    ]
    chosen = random.Random(seed)
    chosen.shuffle(places)
    for name, place in places:
        text = modules[name]
        definition, options = _all(text)[place]
        changed = _with(text, place, chosen.choice(options))
        yield Mutation(name, definition, text.count("\n", 0, place[0]) + 1, text, changed)


def _with(text: str, place: Place, new: str) -> str:
    """The text with something else in a place, as wide where that can be: the columns of what
    stands behind it say where lists end."""
    begin, end = place
    more = len(new) - (end - begin)
    if more > 0 and new in _SYMBOLS and text[end : end + more] == " " * more:
        end += more
    return text[:begin] + new + " " * -more + text[end:]


@cache
def _all(text: str) -> dict[Place, tuple[str, list[str]]]:
    """Each place of a module that can be changed: in which definition, and what may stand there."""
    code = blank_comments(text)
    found: dict[Place, tuple[str, list[str]]] = {}
    for name, begin, end in definitions(code):
        if not _LEFT_OUT.search(name):
            for place, new in _changed(code, name, begin, end):
                found.setdefault(place, (name, []))[1].append(new)
    for mutant in mutants("", text):
        place, new = _difference(text, mutant.text)
        found.setdefault(place, (mutant.action, []))[1].append(new)
    return found


def _changed(code: str, name: str, begin: int, end: int) -> Iterator[tuple[Place, str]]:
    for found in _FAIRNESS.finditer(code, begin, end):
        yield (found.start(), parenthesis_end(code, found.end())), "TRUE"
    if name.endswith("Next"):
        acting = {other for other, first, last in definitions(code) if changes(code[first:last])}
        for call in _CALL.finditer(code, begin, end):
            if call[1] in acting:
                yield (call.start(), call.end()), "FALSE"
    for token in _TOKEN.finditer(code, begin, end):
        before = code[begin : token.start()]
        if (
            new := _replacement(token[0], before, name, is_action=changes(code[begin:end]))
        ) is not None:
            yield (token.start(), token.end()), new


def _replacement(token: str, before: str, name: str, *, is_action: bool) -> str | None:
    """What may stand for a token of a definition; None where nothing that says another thing."""
    if token.isdigit():
        return str(int(token) + 1)
    new = _BECOMES.get(token)
    if (
        (token in ("\\in", "\\notin") and (_BINDS.search(before) or before.endswith("' ")))
        or (token == "=" and (_ASSIGNS.search(before) or name.endswith("Init")))
        or (token in ("/\\", "\\/") and _OPENS.search(before))  # a bullet
        or (token in ("\\A", "\\E") and (is_action or name.endswith(("Next", "Spec"))))
    ):
        return None
    return new


def _difference(text: str, other: str) -> tuple[Place, str]:
    """Where two texts differ, and what the other has there."""
    most = min(len(text), len(other))
    first = next((i for i in range(most) if text[i] != other[i]), most)
    last = next((i for i in range(most - first) if text[-1 - i] != other[-1 - i]), most - first)
    return (first, len(text) - last), other[first : len(other) - last]
