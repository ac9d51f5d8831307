"""Mutants of a module: each with one guard or one update of an action taken away.

An invariant that holds of every mutant may hold of anything: it may say nothing. So each
invariant that a model claims must fail in a mutant, the invariant itself being untouched.

A guard becomes TRUE; an update of variables leaves them as they were; of an IF one branch is
always taken. What the properties are made of stays untouched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mqcheck.cache import Cache
from mqcheck.manifest import MODELS, TLA, Model
from mqcheck.source import blank_comments
from mqcheck.tlc import violations

_DEFINITION = re.compile(r"^(?P<name>\w+)(?:\([^)]*\))? *==", re.MULTILINE)
_END = re.compile(r"^(?:-{4,}|={4,})", re.MULTILINE)
_BULLET = re.compile(r"/\\ *(?=\S)")
_OPENS_LIST = re.compile(r"(?:^|==|:|\bIN|\bTHEN|\bELSE|/\\|\\/|=>|->|\() *$")
_CONDITION = re.compile(r"\bIF\s+((?:(?!\bIF\b).)*?)\s+THEN\b", re.DOTALL)
_INFIX = re.compile(r" /\\ ")
_STRUCTURED = re.compile(r"\\/|\\[AE]\b|\b(?:IF|LET|CASE|CHOOSE)\b")
_PRIMED = re.compile(r"\b(\w+)'")
_UNCHANGED = re.compile(r"\bUNCHANGED *(?:<<([^>]*)>>|(\w+))")
_BUILDS_ON = re.compile(r"(?:EXTENDS|INSTANCE) +([\w, \n]+)")
_STATES_AT_MOST = 5_000


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one conjunct of an action taken away."""

    module: str
    action: str
    line: int
    removed: str  # as it stands in the module, on one line
    text: str  # of the whole module

    def __str__(self) -> str:
        return f"{self.module}.tla:{self.line}, {self.action} without {self.removed}"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of an invariant: the model and the mutant in which it fails, if any does."""

    invariant: str
    models: tuple[str, ...]  # in which it holds
    killer: Mutant | None = None
    killed_in: str = ""


def mutants(module: str, text: str) -> Iterator[Mutant]:
    """All mutants of a module, in the order of its text."""
    code = blank_comments(text)
    variables = _variables(code)
    steps = list(_steps(code))
    actions = frozenset(name for name, begin, end in steps if _changes(code[begin:end]))
    for name, begin, end in steps:
        edits = [
            (first, conjunct, conjunct, _weaker(conjunct, variables, actions))
            for first, last in _conjuncts(code, begin, end)
            if _is_whole(conjunct := code[first:last].rstrip())
        ]
        for found in _CONDITION.finditer(code, begin, end):
            for answer in ("FALSE", "TRUE"):
                told = f"IF {found[1]}, which is {answer}"
                edits.append((found.start(1), found[1], told, answer))
        for first, old, told, new in edits:
            if new is not None:
                changed = text[:first] + new + text[first + len(old) :]
                line = text.count("\n", 0, first) + 1
                yield Mutant(module, name, line, " ".join(told.split()), changed)


def _variables(code: str) -> frozenset[str]:
    """Whatever is primed somewhere, or said to be unchanged."""
    listed = (m[1] or m[2] for m in _UNCHANGED.finditer(code))
    words = {word for group in listed for word in re.findall(r"\w+", group)}
    return frozenset(words | set(_PRIMED.findall(code)))


def _steps(code: str) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of each definition that Next comes to, and that no property does."""
    found = list(_DEFINITION.finditer(code))
    ends = [*(match.start() for match in found), len(code)][1:]
    places: dict[str, tuple[int, int]] = {}
    for match, end in zip(found, ends, strict=True):
        rule = _END.search(code, match.end(), end)
        places[match["name"]] = match.end(), rule.start() if rule else end
    words = {
        name: places.keys() & set(re.findall(r"\w+", code[begin:end]))
        for name, (begin, end) in places.items()
    }
    nexts = {name for name in places if name.endswith("Next")}
    steps = _reached(words, nexts)
    behaviour = {
        name for name in places if name.endswith("Init") or _reached(words, {name}) & nexts
    }
    properties = _reached(words, places.keys() - steps - behaviour)
    for name, (begin, end) in places.items():
        is_touched = name in properties and not _changes(code[begin:end])
        if name in steps - nexts and not is_touched:
            yield name, begin, end


def _reached(words: Mapping[str, Set[str]], names: Set[str]) -> set[str]:
    """The definitions that these come to, and these."""
    waiting, reached = list(names), set()
    while waiting:
        if (name := waiting.pop()) not in reached:
            reached.add(name)
            waiting += words[name]
    return reached


def _changes(body: str) -> bool:
    return bool(_PRIMED.search(body) or _UNCHANGED.search(body))


def _conjuncts(code: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Where each conjunct begins and ends: items of lists, or of a plain line."""
    body = code[begin:end]
    if "\n" not in body.strip() and not _STRUCTURED.search(body):
        if not _INFIX.search(body) and not _changes(body):
            return  # a value, not a guard
        parts = [begin, *(begin + m.end() for m in _INFIX.finditer(body))]
        ends = [*(begin + m.start() for m in _INFIX.finditer(body)), end]
        for first, last in zip(parts, ends, strict=True):
            yield first + len(code[first:last]) - len(code[first:last].lstrip()), last
        return
    for bullet in _BULLET.finditer(code, begin, end):
        start_of_line = code.rfind("\n", 0, bullet.start()) + 1
        before = code[start_of_line : bullet.start()]
        if not _OPENS_LIST.search(before):
            continue  # between two formulas of a line
        column = bullet.start() - start_of_line
        yield bullet.end(), _end_of_item(code, bullet.end(), end, column)


def _end_of_item(code: str, begin: int, end: int, column: int) -> int:
    """An item ends before the first line that begins at its bullet's column, or left of it."""
    for line in re.finditer(r"\n( *)(?=\S)", code[begin:end]):
        if len(line[1]) <= column:
            return begin + line.start()
    return end


def _is_whole(conjunct: str) -> bool:
    """Whether it ends where a formula does; a part of an expression in brackets does not."""
    return all(conjunct.count(a) == conjunct.count(b) for a, b in ("()", "[]", "{}", ("<<", ">>")))


def _weaker(conjunct: str, variables: frozenset[str], actions: frozenset[str]) -> str | None:
    """What a conjunct becomes; None where it cannot be taken away as a whole."""
    primed = list(dict.fromkeys(_PRIMED.findall(conjunct)))
    listed = (m[1] or m[2] for m in _UNCHANGED.finditer(conjunct))
    unchanged = [word for group in listed for word in re.findall(r"\w+", group)]
    if not primed:
        # Without the action that it calls, or what it says is unchanged, nothing would be left.
        calls = actions.intersection(re.findall(r"\w+", conjunct))
        return None if calls or unchanged or conjunct == "TRUE" else "TRUE"
    if actions.intersection(re.findall(r"\w+", conjunct)) or not variables.issuperset(primed):
        return None
    return f"UNCHANGED <<{', '.join(dict.fromkeys([*primed, *unchanged]))}>>"


def judge(
    models: Sequence[Model], cache: Cache | None, report: Callable[[str], None]
) -> list[Fate]:
    """What becomes of each invariant that holds in one of these models.

    Mutants are tried on one model after another, the smallest first, until each invariant has
    failed; `report` is told of each that does. Raises UserError where TLC cannot read a mutant.
    """
    ordered = sorted(models, key=lambda model: model.counts.distinct)
    fates = {
        name: Fate(name, tuple(m.name for m in ordered if name in m.holds))
        for model in ordered
        for name in model.config.invariants
        if name in model.holds
    }
    for model in ordered:
        for mutant in _mutants_of(model):
            left = [n for n, f in fates.items() if not f.killer and model.name in f.models]
            if not left:
                break
            killed = _killed(model, mutant, left, cache)
            for name in killed:
                fates[name] = replace(fates[name], killer=mutant, killed_in=model.name)
            if killed:
                report(f"{model.name}: {', '.join(killed)} violated by {mutant}")
    return list(fates.values())


def _mutants_of(model: Model) -> Iterator[Mutant]:
    """Of the model's module and of those in the library that it builds on, the nearest first."""
    waiting, seen = [model.module], set()
    while waiting:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        text = path.read_text(encoding="utf-8")
        yield from mutants(path.stem, text)
        named = (word for words in _BUILDS_ON.findall(text) for word in re.findall(r"\w+", words))
        places = (folder / f"{name}.tla" for name in named for folder in (MODELS, TLA))
        waiting += [place for place in places if place.exists()]


def _killed(model: Model, mutant: Mutant, names: Sequence[str], cache: Cache | None) -> list[str]:
    """Those of the invariants that fail in a mutant of the model."""
    with TemporaryDirectory(prefix="mqcheck-") as folder:
        changed = Path(folder) / f"{mutant.module}.tla"
        changed.write_text(mutant.text, encoding="utf-8")
        module = changed if model.module.stem == mutant.module else model.module
        library = (Path(folder), TLA, MODELS)
        return violations(
            module,
            model.config.text(frozenset()),
            f"{model.name}, {mutant}",
            library,
            watch=names,
            most=_STATES_AT_MOST,
            cache=cache,
        )
