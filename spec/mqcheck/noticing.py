"""Whether anything notices a mistake in a module: a property, or a replay on the core.

A mutant is tried on every quick model that builds on its module: what must hold is checked, and
what must be violated is, by any behaviour. How many states there are, how deep they lie and how
often an action is taken does not count. Then the core takes the steps of the mutant, as our tests
have it take those of the module: every step of the models with `every_step`, which have no other,
and random behaviours of the rest. Where a property, or what it is made of, was changed, it must
also fail still in the mutant that its manifest names for it, as `mqspec check --mutants` asks.
"""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from mqcheck.behaviours import simulate, state_graph, take_every_edge
from mqcheck.cache import Cache
from mqcheck.manifest import (
    HOME,
    Killer,
    Model,
    Tier,
    library,
    manifests,
    models,
    protocols,
    read_killers,
)
from mqcheck.mutants import definitions, killed_in, modules_of, mutants, reached
from mqcheck.mutation import Edit, Mutation
from mqcheck.replay import ReplayError, replay
from mqcheck.scenario import begin
from mqcheck.source import blank_comments
from mqcheck.tlc import Exit, first_failure, is_refuted, violations
from mqcheck.variant import variant_of
from mqcheck.watch import LIMIT
from mqcheck.worlds import world_of
from mqrules import UserError

EXPLAINED = HOME / "equivalent.toml"
_BEHAVIOURS, _STEPS, _SEED = 20, 25, 1  # random ones of a model that is too large for every step
_TIMES, _MORE = 5, 20_000  # how many states of a mutant are looked at: of its model's, and besides
_MOST_OF_KILLER = 200_000


class NoModuleError(Exception):
    """TLC cannot read a mutant, or evaluate it: nobody needs a property to notice that."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant: what noticed it, empty where nothing did, and in what time."""

    mutant: Mutation
    noticed_by: str
    tried: int  # checks and replays
    seconds: float
    other: tuple[str, ...] = ()  # models with another number of states, which counts for nothing


def judge(mutant: Mutation, cache: Cache | None) -> Fate:
    """What notices a mutant. Raises NoModuleError where it is no module."""
    began, tried = time.monotonic(), 0
    other: list[str] = []
    with TemporaryDirectory(prefix="mqcheck-") as name:
        for answer in _answers(mutant, Path(name), cache, other):
            tried += 1
            if answer:
                return Fate(mutant, answer, tried, time.monotonic() - began)
    return Fate(mutant, "", tried, time.monotonic() - began, tuple(other))


def _answers(
    mutant: Mutation, folder: Path, cache: Cache | None, other: list[str]
) -> Iterator[str]:
    """Of each that may notice a mutant: what it says, empty where it says nothing. The models in
    which the number of states is another are added to `other`."""
    users = _users(mutant.module)
    for model in users:
        # TLC takes a module from beside the first one, before it looks elsewhere.
        (folder / model.module.name).write_bytes(model.module.read_bytes())
    (folder / f"{mutant.module}.tla").write_text(mutant.text, encoding="utf-8")

    for model in users:
        if model.tier is Tier.QUICK:
            yield from _of_properties(model, folder, cache, other)
    for model in users:
        if model.every_step is not None:
            yield _of_every_step(model, folder)
    for model in users:
        if model.tier is Tier.QUICK and world_of(model) and model.every_step is None:
            yield _of_random_behaviours(model, folder)
    yield from _of_killers(mutant, cache)


def _of_properties(
    model: Model, folder: Path, cache: Cache | None, other: list[str]
) -> Iterator[str]:
    module, config, places = folder / model.module.name, model.config, library()
    most = _TIMES * model.counts.distinct + _MORE

    holding = config.text(frozenset(model.holds))
    try:
        code, run = first_failure(module, holding, model.name, places, most=most, cache=cache)
    except UserError as error:
        raise NoModuleError(str(error)) from None
    if code not in list(Exit):
        raise NoModuleError(run.told)
    yield f"{model.name}: {run.told}" if code and LIMIT not in run.told else ""
    if (run.distinct, run.generated) != (model.counts.distinct, model.counts.states):
        other.append(model.name)

    broken = [name for name in config.invariants if name in model.breaks]
    if broken:
        found = violations(
            module,
            config.text(frozenset()),
            model.name,
            places,
            watch=broken,
            most=most,
            cache=cache,
        )
        kept = ", ".join(name for name in broken if name not in found)
        yield f"{model.name}: {kept} must be violated, and holds" if kept else ""
    for name in config.temporal:
        if name in model.breaks:
            asked = config.text(frozenset({name}))
            refuted = is_refuted(module, asked, model.name, places, most=most, cache=cache)
            yield "" if refuted else f"{model.name}: {name} must be violated, and holds"


def _of_every_step(model: Model, folder: Path) -> str:
    changed = variant_of(model, model.every_step, folder)
    try:
        drawn = state_graph(changed, _TIMES * model.counts.distinct + _MORE)
    except UserError as error:
        raise NoModuleError(str(error)) from None
    world = begin(changed)
    try:
        take_every_edge(world, drawn, and_no_other=world.bounded and drawn.is_whole)
    except ReplayError as error:
        return f"the core, in {model.name}: {str(error)[:150]}"
    return ""


def _of_random_behaviours(model: Model, folder: Path) -> str:
    changed = variant_of(model, folder=folder)
    try:
        behaviours = simulate(changed, _BEHAVIOURS, _STEPS, _SEED)
        for steps in behaviours:
            replay(begin(changed), steps)
    except UserError as error:
        raise NoModuleError(str(error)) from None
    except ReplayError as error:
        return f"the core, in {model.name}: {str(error)[:150]}"
    return ""


def _of_killers(mutant: Mutation, cache: Cache | None) -> Iterator[str]:
    """Properties that were changed must fail still where their manifests say that they do."""
    for protocol, listed in protocols().items():
        named = {model.name: model for model in listed}
        for name, killer in read_killers(manifests()[protocol]).items():
            model = named[killer.model]
            if model in _users(mutant.module) and _is_made_of(name, mutant, model):
                killed = _is_killed(name, killer, model, mutant, cache)
                # One that never did shows nothing.
                original = replace(mutant, text=mutant.source)
                if killed or not _is_killed(name, killer, model, original, cache):
                    yield ""
                else:
                    yield f"{killer.model}: {name} fails no more where it must"


def _is_made_of(name: str, mutant: Mutation, model: Model) -> bool:
    """Whether the text of a property, with all that it calls, was changed."""
    words: dict[str, set[str]] = {}
    for path in modules_of(model):
        code = blank_comments(path.read_text(encoding="utf-8"))
        for title, first, last in definitions(code):
            words[title] = set(re.findall(r"\w+", code[first:last]))
    known = {title: called & words.keys() for title, called in words.items()}
    return name in known and mutant.definition in reached(known, {name})


def _is_killed(
    name: str, killer: Killer, model: Model, mutant: Mutation, cache: Cache | None
) -> bool:
    """Whether a property that was changed fails where its manifest says; True where the mutant
    took the place away."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in modules_of(model)}
    texts[mutant.module] = mutant.text
    if killer.edit:
        old, new = killer.edit
        killers = [{m: t.replace(old, new)} for m, t in texts.items() if t.count(old) == 1]
    elif killer.mutant:
        made = (each for m, text in texts.items() for each in mutants(m, text))
        killers = [{each.module: each.text} for each in made if each.name == killer.mutant]
    else:
        killers = [{}]
    both = ({mutant.module: mutant.text, **changed} for changed in killers)
    found = [killed_in(model, each, mutant.module, [name], _MOST_OF_KILLER, cache) for each in both]
    return not found or any(found)


@cache
def _users(module: str) -> list[Model]:
    """The models that build on a module, the smallest first."""
    using = [m for m in models().values() if module in {path.stem for path in modules_of(m)}]
    return sorted(using, key=lambda model: model.counts.states)


def witnesses() -> frozenset[str]:
    """Properties that must be violated for no rule: they show that a model is not empty."""
    broken = {name for m in models().values() for name in m.breaks}
    held = {name for m in models().values() for name in m.holds}
    ruled = {name for m in models().values() for name, entry in m.breaks.items() if entry.rules}
    return frozenset(broken - held - ruled)


def explained(path: Path = EXPLAINED) -> Mapping[Edit, str]:
    """Changes that nothing can notice, and why, as equivalent.toml has them."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])
    return {(each["module"], each["line"], each["becomes"]): each["why"] for each in entries}


def survivors(fates: Sequence[Fate], known: Mapping[Edit, str]) -> list[Fate]:
    """Those that nothing noticed, and nobody explained."""
    return [fate for fate in fates if not fate.noticed_by and fate.mutant.edit not in known]
