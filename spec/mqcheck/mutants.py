"""Mutants of a module: each with one guard or one update of an action taken away.

A property that holds of every mutant may hold of anything: it may say nothing. So each
property that a model claims must fail in a mutant, the property itself being untouched.

A guard becomes TRUE; an update of variables leaves them as they were; of an IF one branch is
always taken, and of a CASE one arm never; a set has all of what it was chosen from. What the
properties are made of stays untouched, and so do ghosts: a ghost that tells less is no defect
of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from mqcheck.cache import Cache
from mqcheck.manifest import Killer, Model, library
from mqcheck.source import blank_comments
from mqcheck.tlc import is_refuted, violations

_DEFINITION = re.compile(r"^(?P<name>\w+)(?:\((?:[^()]|\([^()]*\))*\))? *==", re.MULTILINE)
_END = re.compile(r"^(?:-{4,}|={4,})", re.MULTILINE)
_BULLET = re.compile(r"/\\ *(?=\S)")
_OPENS_LIST = re.compile(r"(?:^|==|:|\bIN|\bTHEN|\bELSE|/\\|\\/|=>|->|\() *$")
_CONDITION = re.compile(r"\bIF\s+((?:(?!\bIF\b).)*?)\s+THEN\b", re.DOTALL)
_ARM = re.compile(r"(?:\bCASE|\[\])\s+(?!OTHER\b)((?:(?!(?<!\|)->).)*?)\s*(?<!\|)->", re.DOTALL)
_GHOSTS = re.compile(r"\bGhosts: ([^.]*)\.")
_FILTER = re.compile(r"\{\s*\w+ \\in ")
_INFIX = re.compile(r" /\\ ")
_STRUCTURED = re.compile(r"\\/|\\[AE]\b|\b(?:IF|LET|CASE|CHOOSE)\b")
_PRIMED = re.compile(r"\b(\w+)'")
_UPDATED = re.compile(r"\b(\w+)' *(?:=|\\in\b)")
_UNCHANGED = re.compile(r"\bUNCHANGED *(?:<<([^>]*)>>|(\w+))")
_BUILDS_ON = re.compile(r"(?:EXTENDS|INSTANCE) +([\w, \n]+)")
_MOST = (5_000, 50_000)  # states: at first, and of what is left then
_MOST_RECORDED = 200_000  # of what is known to fail: its counterexample may be a deep one


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one conjunct of an action taken away."""

    module: str
    action: str
    line: int
    removed: str  # as it stands in the module, on one line
    text: str  # of the whole module

    @property
    def name(self) -> str:
        """What a manifest calls it: as a line is added above it, it stays the same."""
        return f"{self.module}: {self.action} without {self.removed}"

    def __str__(self) -> str:
        return f"{self.module}.tla:{self.line}, {self.action} without {self.removed}"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a property: the models in which it holds, and where it fails, if it does."""

    property: str
    models: tuple[str, ...]
    killer: Killer | None


def mutants(module: str, text: str) -> Iterator[Mutant]:
    """All mutants of a module, in the order of its text."""
    code = blank_comments(text)
    variables = _variables(code)
    steps = list(_steps(code))
    actions = frozenset(name for name, begin, end in steps if changes(code[begin:end]))
    ghosts = ghosts_of(text)
    for name, begin, end in steps:
        conjuncts = [(f, code[f:last].rstrip()) for f, last in _conjuncts(code, begin, end)]
        of_ghosts = [
            range(first, first + len(conjunct))
            for first, conjunct in conjuncts
            if ghosts.issuperset(updated := _UPDATED.findall(conjunct))
            and updated
            and actions.isdisjoint(re.findall(r"\w+", conjunct))
        ]
        edits = [
            (first, conjunct, conjunct, _weaker(conjunct, variables, actions))
            for first, conjunct in conjuncts
            if _is_whole(conjunct)
        ]
        for first, old, told, new in [*edits, *_without_conditions(code, begin, end)]:
            if new is not None and not any(first in place for place in of_ghosts):
                changed = text[:first] + new + text[first + len(old) :]
                line = text.count("\n", 0, first) + 1
                yield Mutant(module, name, line, " ".join(told.split()), changed)


def ghosts_of(text: str) -> set[str]:
    """The variables that the header of a module calls ghosts."""
    return {word for found in _GHOSTS.finditer(text) for word in re.findall(r"\w+", found[1])}


def _without_conditions(code: str, begin: int, end: int) -> Iterator[tuple[int, str, str, str]]:
    """Of each condition in a value: where it stands, its text, how to tell it, what it becomes."""
    for first, last in _filters(code, begin, end):
        yield first, code[first:last], code[first:last], "TRUE"
    for found in _CONDITION.finditer(code, begin, end):
        for answer in ("FALSE", "TRUE"):
            yield found.start(1), found[1], f"IF {found[1]}, which is {answer}", answer
    for found in _ARM.finditer(code, begin, end):
        yield found.start(1), found[1], f"CASE {found[1]}, which is FALSE", "FALSE"


def _variables(code: str) -> frozenset[str]:
    """Whatever is primed somewhere, or said to be unchanged."""
    listed = (m[1] or m[2] for m in _UNCHANGED.finditer(code))
    words = {word for group in listed for word in re.findall(r"\w+", group)}
    return frozenset(words | set(_PRIMED.findall(code)))


def definitions(code: str) -> Iterator[tuple[str, int, int]]:
    """Name of each definition of a module without comments, and where its body begins and ends."""
    found = list(_DEFINITION.finditer(code))
    ends = [*(match.start() for match in found), len(code)][1:]
    for match, end in zip(found, ends, strict=True):
        rule = _END.search(code, match.end(), end)
        yield match["name"], match.end(), rule.start() if rule else end


def parenthesis_end(code: str, begin: int) -> int:
    """The place after the parenthesis that closes the one at `begin`."""
    depth = 0
    for place in range(begin, len(code)):
        depth += (code[place] == "(") - (code[place] == ")")
        if not depth:
            return place + 1
    return len(code)


def _steps(code: str) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of each definition that Next comes to, and that no property does."""
    places = {name: (begin, end) for name, begin, end in definitions(code)}
    words = {
        name: places.keys() & set(re.findall(r"\w+", code[begin:end]))
        for name, (begin, end) in places.items()
    }
    nexts = {name for name in places if name.endswith("Next")}
    steps = reached(words, nexts)
    begins = {name for name in places if name.endswith("Init")}
    behaviour = begins | reached(words, {n for n in places if reached(words, {n}) & nexts})
    # A property may name an action, which does not make it of what the action is made of.
    changing = {name for name, (begin, end) in places.items() if changes(code[begin:end])}
    told = {name: set() if name in changing else words[name] for name in places}
    properties = reached(told, places.keys() - steps - behaviour) - changing
    for name, (begin, end) in places.items():
        if name in steps - nexts - properties:
            yield name, begin, end


def reached(words: Mapping[str, Set[str]], names: Set[str]) -> set[str]:
    """The definitions that these come to, and these."""
    waiting, found = list(names), set()
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += words[name]
    return found


def changes(body: str) -> bool:
    """Whether a definition says what variables become."""
    return bool(_PRIMED.search(body) or _UNCHANGED.search(body))


def _conjuncts(code: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Where each conjunct begins and ends: items of lists, or of a plain line."""
    body = code[begin:end]
    if "\n" not in body.strip() and not _STRUCTURED.search(body):
        if not _INFIX.search(body) and not changes(body):
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


def _filters(code: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the condition of each {x \\in S : condition} begins and ends."""
    for found in _FILTER.finditer(code, begin, end):
        depth, colon = 0, 0
        for place in range(found.end(), end):
            depth += (code[place] in "([{") - (code[place] in ")]}")
            if depth < 0:
                break
            if not depth and not colon and code[place] == ":" and code[place + 1] in " \n":
                colon = place + 1
        if colon:
            yield colon + len(code[colon:place]) - len(code[colon:place].lstrip()), place


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
    models: Sequence[Model],
    recorded: Mapping[str, Killer],
    cache: Cache | None,
    report: Callable[[str], None],
) -> list[Fate]:
    """What becomes of each property that one of these models of a protocol claims.

    What is recorded is tried first. What that leaves is tried in mutants of one model after
    another, the smallest first, then in more states of each; and then it is enough that some
    model breaks it, best one of a defect. `report` is told of each mutant in which a property
    fails. Raises UserError where TLC cannot read a mutant.
    """
    holding: dict[str, list[Model]] = {}
    for model in sorted(models, key=lambda model: model.counts.distinct):
        for name in (*model.config.invariants, *model.config.temporal):
            if name in model.holds and not model.defect:
                holding.setdefault(name, []).append(model)
    by_rank = sorted(models, key=lambda model: (bool(model.defect), -model.counts.distinct))
    breaking = {name: Killer(model.name) for model in by_rank for name in model.breaks}
    killers = {name: known for name, known in recorded.items() if breaking.get(name) == known}
    for model, mutant, killer, names, most in _attempts(holding, recorded):
        if holding.keys() <= killers.keys():
            break
        left = [name for name in names if name not in killers]
        killed = _killed(model, mutant, left, most, cache) if left else []
        killers |= dict.fromkeys(killed, killer)
        if killed:
            report(f"{model.name}: {', '.join(killed)} violated by {mutant}")
    return [
        Fate(name, tuple(model.name for model in held_in), killers.get(name) or breaking.get(name))
        for name, held_in in holding.items()
    ]


def _attempts(
    holding: Mapping[str, Sequence[Model]], recorded: Mapping[str, Killer]
) -> Iterator[tuple[Model, Mutant, Killer, list[str], int]]:
    """Mutants of models, what the manifest calls them, the properties to try them on, and how
    many states to look at."""
    own = {model.name: model for models in holding.values() for model in models}
    ordered = sorted(own.values(), key=lambda model: model.counts.distinct)
    claims = {m.name: [name for name, models in holding.items() if m in models] for m in ordered}
    for model in ordered:
        known = {n: recorded[n] for n in claims[model.name] if n in recorded}
        for killer in dict.fromkeys(known.values()):
            names = [name for name, other in known.items() if other == killer]
            if killer.model == model.name:
                for mutant in mutants_by(killer, model):
                    yield model, mutant, killer, names, _MOST_RECORDED
    for most in _MOST:
        for model in ordered:
            for mutant in _mutants_of(model):
                yield model, mutant, Killer(model.name, mutant.name), claims[model.name], most


def mutants_by(killer: Killer, model: Model) -> Iterator[Mutant]:
    """The mutant of a model that a manifest names; some have the same name as another."""
    if not killer.edit:
        yield from (mutant for mutant in _mutants_of(model) if mutant.name == killer.mutant)
        return
    old, new = killer.edit
    for path in modules_of(model):
        text = path.read_text(encoding="utf-8")
        if text.count(old) == 1:
            line = text.count("\n", 0, text.index(old)) + 1
            told = f"{old}, with {new}"
            yield Mutant(path.stem, "an edit", line, told, text.replace(old, new))


def _mutants_of(model: Model) -> Iterator[Mutant]:
    for path in modules_of(model):
        yield from mutants(path.stem, path.read_text(encoding="utf-8"))


def modules_of(model: Model) -> Iterator[Path]:
    """The model's module and those in the library that it builds on, the nearest first."""
    waiting, seen = [model.module], set()
    while waiting:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        yield path
        text = path.read_text(encoding="utf-8")
        named = (word for words in _BUILDS_ON.findall(text) for word in re.findall(r"\w+", words))
        places = (folder / f"{name}.tla" for name in named for folder in library())
        waiting += [place for place in places if place.exists()]


def _killed(
    model: Model, mutant: Mutant, names: Sequence[str], most: int, cache: Cache | None
) -> list[str]:
    """Those of the properties that fail in a mutant of the model, within so many states."""
    texts = {mutant.module: mutant.text}
    return killed_in(model, texts, f"{model.name}, {mutant}", names, most, cache)


def killed_in(
    model: Model,
    texts: Mapping[str, str],
    title: str,
    names: Sequence[str],
    most: int,
    cache: Cache | None,
) -> list[str]:
    """Those of the properties that fail in a model, within so many states, where these modules
    have these texts."""
    temporal = [name for name in names if name in model.config.temporal]
    invariants = [name for name in names if name not in temporal]
    with TemporaryDirectory(prefix="mqcheck-") as folder:
        # TLC takes a module from beside the first one, before it looks elsewhere.
        module = Path(folder) / model.module.name
        module.write_bytes(model.module.read_bytes())
        for name, text in texts.items():
            (Path(folder) / f"{name}.tla").write_text(text, encoding="utf-8")
        places = library()

        def is_killed(name: str) -> bool:
            config = model.config.text(frozenset({name}))
            return is_refuted(module, config, title, places, most=most, cache=cache)

        killed = [name for name in temporal if is_killed(name)]
        if invariants:
            config = model.config.text(frozenset())
            killed += violations(
                module, config, title, places, watch=invariants, most=most, cache=cache
            )
        return killed
