"""Twins: a module of TLA+ and the core module of the same name have the same names.

Each variable and each action of NAME.tla is, in snake case, a field or a function of
`mqspec.core.name`, of the core modules that its header calls its twin where that is not the one
of its name alone, or of the twin of a module that NAME.tla builds on. What the core does not
have, because it is the environment, a file or a ghost, the module's header names after the
words `Not in the core` or `Ghosts`. A module whose header has the words `No twin in the core`
stands alone.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from mqcheck.manifest import TLA
from mqcheck.source import COMMENT, snake_case

_HEADER = re.compile(r"MODULE \w+ -+\n((?:\(\*[^\n]*\*\)\n)+)")
_TWIN_OF = re.compile(r"Twin of ((?:(?:and )?mqspec/core/\w+\.py,? ?)+)")
_CORE = re.compile(r"mqspec/core/(\w+)\.py")
_ALONE = "No twin in the core"
_EXEMPT = re.compile(r"\b(?:Not in the core|Ghosts)\b.*", re.DOTALL)
_BUILDS_ON = re.compile(r"(?:EXTENDS|INSTANCE) +([\w, ]+)")
VARIABLES = re.compile(r"^VARIABLES?\b(.*?)\n *\n(?=\S)", re.DOTALL | re.MULTILINE)
_DEFINITION = re.compile(r"^(\w+)(?:\([^)]*\))? *==", re.MULTILINE)
_CHANGES = re.compile(r"\w'|\bUNCHANGED\b|\w!\w")  # of its own, or an instance's


@dataclass(frozen=True, slots=True)
class Twin:
    """One module, as far as its twin has to follow it."""

    name: str
    cores: tuple[str, ...]  # modules of mqspec.core
    variables: tuple[str, ...]
    actions: tuple[str, ...]
    builds_on: tuple[str, ...]
    exempt: frozenset[str]  # words of the header where it says what the core does not have

    def unmatched(self) -> list[str]:
        """The variables and actions that neither the core has nor the header accounts for."""
        if not self.cores:
            return []
        names, exempt = set(self._core_names()), self._exempt()
        wanted = (*self.variables, *self.actions)
        return [n for n in wanted if snake_case(n) not in names and n not in exempt]

    def _core_names(self) -> Iterator[str]:
        for core in self.cores:
            yield from _names(import_module(f"mqspec.core.{core}"))
        for twin in self._bases():
            yield from twin._core_names()

    def _exempt(self) -> frozenset[str]:
        return self.exempt.union(*(twin._exempt() for twin in self._bases()))

    def _bases(self) -> list[Twin]:
        return [twin for twin in twins() if twin.name in self.builds_on]


def twins() -> list[Twin]:
    """All modules of the protocol."""
    paths = sorted(TLA.glob("*.tla"))
    return [read_twin(path.stem, path.read_text(encoding="utf-8")) for path in paths]


def read_twin(name: str, text: str) -> Twin:
    """A module's names. Raises ValueError where it has no header, variables or next-state."""
    header, code = _HEADER.search(text), COMMENT.sub("", text)
    variables = VARIABLES.search(code)
    if not header or not variables:
        raise ValueError(f"{name}: no header, or no variables")
    actions = _actions(_definitions(code))
    if not actions:
        raise ValueError(f"{name}: no action in a next-state relation")
    builds_on = _BUILDS_ON.findall(code)
    exempt = _EXEMPT.search(header[1])
    return Twin(
        name,
        cores(name, text),
        tuple(re.findall(r"\w+", variables[1])),
        actions,
        tuple(word for words in builds_on for word in re.findall(r"\w+", words)),
        frozenset(re.findall(r"\w+", exempt[0]) if exempt else ()),
    )


def cores(name: str, text: str) -> tuple[str, ...]:
    """The modules of mqspec.core whose twin a module of TLA+ is."""
    header = _HEADER.search(text)
    prose = " ".join(re.findall(r"[^\s()*]+", header[1])) if header else ""
    if _ALONE in prose:
        return ()
    named = _TWIN_OF.search(prose)
    return tuple(_CORE.findall(named[1])) if named else (snake_case(name),)


def _actions(bodies: Mapping[str, str]) -> tuple[str, ...]:
    """What the next-state relations take: what they name, and, where that only says of what there
    is one (`Pops == \\E q \\in Queues : PopMessage(q)`), what is named there."""
    words = {title: set(re.findall(r"\w+", body)) for title, body in bodies.items()}
    changing = {title for title, body in bodies.items() if _CHANGES.search(body)}
    calling = {title for title, called in words.items() if called & changing} - changing
    nexts = {title for title in bodies if title.endswith("Next")}
    named = set().union(*(words[title] for title in nexts))

    choosing = {t for t in named & calling if bodies[t].lstrip().startswith("\\E")}
    named |= set().union(*(words[title] for title in choosing))

    taken = (named & (changing | calling)) - choosing - nexts
    return tuple(title for title in bodies if title in taken)


def _definitions(code: str) -> dict[str, str]:
    found = list(_DEFINITION.finditer(code))
    ends = [match.start() for match in found[1:]] + [len(code)]
    return {m[1]: code[m.end() : end] for m, end in zip(found, ends, strict=True)}


def _names(core: ModuleType) -> Iterator[str]:
    """Functions of a core module, and the fields of its classes."""
    for name, item in vars(core).items():
        if inspect.isfunction(item):
            yield name
        elif dataclasses.is_dataclass(item):
            yield from (field.name for field in dataclasses.fields(item))
        elif inspect.isclass(item) and issubclass(item, tuple):
            yield from getattr(item, "_fields", ())
