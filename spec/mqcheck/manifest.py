"""The manifest: every model, what it is for, and what TLC must say of it.

`models/NAME/NAME.toml` lists the models of module NAME, whose files are beside it, and at its end,
for each property, where it fails; and, where it names no rule, why it names none. A model's
configuration, its manifest entry and the rules must agree; `models()` refuses them where they do
not.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from mqcheck.config import Config, read_config
from mqrules import Kind, UserError, defects, rules
from mqrules.schema import decode

HOME = Path(str(files("mqcheck")))
TLA, MODELS = HOME / "tla", HOME / "models"


class Tier(StrEnum):
    """How often a model is run."""

    QUICK = "quick"  # by `mqspec verify` and the tests
    FULL = "full"  # by `mqspec check --tier full`, each night
    DEEP = "deep"  # by `mqspec check --tier deep`, by hand: some minutes each


@dataclass(frozen=True, slots=True)
class Counts:
    """The size of the state graph, with all the properties that hold."""

    distinct: int
    states: int
    depth: int


@dataclass(frozen=True, slots=True)
class Break:
    """A property that this model must violate."""

    rules: tuple[str, ...]
    depth: int | None = None  # states in the shortest counterexample; of an invariant only


@dataclass(frozen=True, slots=True)
class Model:
    """One configuration and what TLC must say of it."""

    name: str  # MC_NAME, or MC_NAME__DEFECT
    about: str
    tier: Tier
    least: Mapping[str, int]  # the least constants that make it worth running
    counts: Counts
    holds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    breaks: Mapping[str, Break] = field(default_factory=dict)
    measured: str = ""  # of tier deep: when, on what machine and in what time it was run
    untaken: tuple[str, ...] = ()  # actions that its constants leave out; another model has them
    world: str = ""  # the module of mqcheck.worlds that replays it on the core
    departs: str = ""  # of a defect that the core has not: the action in which its world takes
    # another way than each counterexample
    not_replayed: str = ""  # or why no world replays it
    every_step: Mapping[str, int] | None = None  # constants with which the core takes each step of
    # it; None: it is too large, or not replayed

    @property
    def defect(self) -> str | None:
        """The defect that is seeded, None of a model of the protocol as it is."""
        _, _, defect = self.name.partition("__")
        return defect or None

    @property
    def broken(self) -> frozenset[str]:
        """The rules that it must violate."""
        return frozenset(rule for entry in self.breaks.values() for rule in entry.rules)

    @property
    def kept(self) -> frozenset[str]:
        """The rules whose properties hold in it."""
        return frozenset(rule for group in self.holds.values() for rule in group)

    @property
    def module(self) -> Path:
        """The module that TLC is given: the model's own, else the protocol's."""
        base = self.name.partition("__")[0]
        return file_of(f"{base}.tla") or TLA / f"{base.removeprefix('MC_')}.tla"

    @property
    def config(self) -> Config:
        """The configuration on disk."""
        name = f"{self.name}.cfg"
        return read_config(file_of(name) or MODELS / name)


@dataclass(frozen=True, slots=True)
class Killer:
    """Where a property that models claim fails, which shows that it says something."""

    model: str
    mutant: str = ""  # of one of its modules, by its name
    edit: tuple[str, ...] = ()  # where no mutant will do: what stands in one of its modules once,
    # and what to put there; with neither, the model breaks it as it stands


@dataclass(frozen=True, slots=True)
class OneStep:
    """What makes an action one step in RocketMQ 5.3.3."""

    code: str  # class and method; or whose act it is, where it is no code of 5.3.3
    held: str  # the lock, the thread or the map that makes it one
    several: str = ""  # where it takes several steps after all: which, and what becomes of it


def manifests() -> dict[str, Path]:
    """The manifest of each protocol, by the name of its module."""
    return {path.stem: path for path in sorted(MODELS.glob("*/*.toml"))}


def file_of(name: str) -> Path | None:
    """The file of this name in a protocol's folder; None: there is none."""
    folders = (MODELS, *MODELS.glob("*/"))
    return next((folder / name for folder in folders if (folder / name).exists()), None)


def library() -> tuple[Path, ...]:
    """Where modules are that others build on."""
    return TLA, MODELS, *sorted(MODELS.glob("*/"))


@cache
def protocols() -> dict[str, list[Model]]:
    """The models of each protocol. Raises UserError where manifest, configuration and rules
    disagree."""
    found = {name: read_manifest(path) for name, path in manifests().items()}
    for name, listed in found.items():
        for model in listed:
            check_model(model, model.config, f"{name}.toml")
        check_actions(listed, f"{name}.toml")
        check_larger(listed, read_larger(manifests()[name]), f"{name}.toml")
        check_ruled(listed, read_unruled(manifests()[name]), f"{name}.toml")
    return found


@cache
def models() -> dict[str, Model]:
    """All models by name. Raises UserError where manifest, configuration and rules disagree."""
    return {model.name: model for listed in protocols().values() for model in listed}


def check_actions(listed: Sequence[Model], where: str) -> None:
    """Raise UserError where an action is taken in no model: what is checked of it is empty.

    That a model takes all actions but those that it names, its run shows.
    """
    never = frozenset.intersection(*(frozenset(model.untaken) for model in listed))
    if never:
        raise UserError(where, f"no model takes {', '.join(sorted(never))}", "add one that does")


def check_larger(listed: Sequence[Model], larger: Mapping[str, str], where: str) -> None:
    """Raise UserError unless of every bound it is said what a larger one could show."""
    bounds = {name for model in listed if not model.defect for name in model.least}
    if untold := sorted(bounds - larger.keys()):
        what = f"nothing says what a larger {', '.join(untold)} could show"
        raise UserError(where, what, "say it under [larger]")
    if unknown := sorted(larger.keys() - bounds):
        raise UserError(where, f"[larger]: no model has {', '.join(unknown)} in least")


def check_ruled(listed: Sequence[Model], unruled: Mapping[str, str], where: str) -> None:
    """Raise UserError unless each property that is claimed names a rule in one of the models, or it
    is said why it names none. What says what variables may be, and witnesses, which every model
    breaks, name none."""
    claimed = {name for model in listed for name in model.holds if not name.endswith("TypeOK")}
    booked = {name for model in listed for name, group in model.holds.items() if group}
    booked |= {name for model in listed for name, broken in model.breaks.items() if broken.rules}
    if untold := sorted(claimed - booked - unruled.keys()):
        advice = "book it on a rule, or say under [unruled] why it names none"
        raise UserError(where, f"{', '.join(untold)} names no rule", advice)
    if unneeded := sorted(unruled.keys() - (claimed - booked)):
        raise UserError(where, f"[unruled]: {', '.join(unneeded)} names a rule, or holds nowhere")


def read_manifest(path: Path) -> list[Model]:
    """The models of one manifest file."""
    return [
        decode(Model, entry, f"{path.name}: {entry.get('name', 'a model without name')}")
        for entry in _read(path).get("model", [])
    ]


def read_killers(path: Path) -> dict[str, Killer]:
    """By property, where it fails, as one manifest file says it."""
    killers = _read(path).get("killers", {})
    return {name: decode(Killer, entry, f"{path.name}: {name}") for name, entry in killers.items()}


def read_larger(path: Path) -> dict[str, str]:
    """By constant, what a larger bound could show that those of the models cannot."""
    return decode(dict[str, str], _read(path).get("larger", {}), f"{path.name}: larger")


def read_unruled(path: Path) -> dict[str, str]:
    """By property, why it names no rule."""
    return decode(dict[str, str], _read(path).get("unruled", {}), f"{path.name}: unruled")


def read_steps(path: Path) -> dict[str, OneStep]:
    """By action, what makes it one step in 5.3.3; empty where no module of protocols has it."""
    steps = _read(path).get("steps", {})
    return {name: decode(OneStep, entry, f"{path.name}: {name}") for name, entry in steps.items()}


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(path.name, f"not TOML: {error}") from None


def check_model(model: Model, config: Config, where: str) -> None:
    """Raise UserError unless the entry, its configuration and the rules agree."""
    if bool(model.world) == bool(model.not_replayed):
        what = "names a world and why it has none" if model.world else "names no world"
        advice = "give `world`, or say in `not_replayed` why there is none"
        raise UserError(where, f"{model.name}: it {what}", advice)
    if model.departs and not (model.world and model.breaks):
        advice = "give its world and what it must break, or remove it"
        raise UserError(where, f"{model.name}: `departs`, and nothing to depart from", advice)
    if model.every_step is not None and (not model.world or model.departs):
        raise UserError(where, f"{model.name}: `every_step`, and no world takes it", "remove it")
    for constant in (model.every_step or {}).keys() - config.sizes.keys():
        raise UserError(where, f"{model.name}: `every_step` names {constant}, which it has not")
    if (model.tier is Tier.DEEP) != bool(model.measured):
        advice = "say when it was run, on what machine and in what time"
        raise UserError(where, f"{model.name}: `measured` goes with tier deep, only", advice)
    listed = model.holds.keys() | model.breaks.keys()
    if model.holds.keys() & model.breaks.keys() or listed != config.properties:
        odd = ", ".join(sorted(listed ^ config.properties)) or "a property in both"
        raise UserError(where, f"{model.name}: manifest and configuration differ on {odd}")
    for constant, least in model.least.items():
        if config.sizes.get(constant, 0) < least:
            raise UserError(
                where,
                f"{model.name}: {constant} is {config.sizes.get(constant, 0)}, at least {least}"
                " is needed to make the model worth running",
            )
    for name, broken in model.breaks.items():
        if (broken.depth is None) == (name in config.invariants):
            raise UserError(where, f"{model.name}: {name}: a depth goes with an invariant, only")
    _check_rules(model, where)


def _check_rules(model: Model, where: str) -> None:
    broken = {name: entry.rules for name, entry in model.breaks.items()}
    for name, group in (*model.holds.items(), *broken.items()):
        if group and name.endswith("TypeOK"):
            what = f"{model.name}: {name} says what variables may be, not {', '.join(group)}"
            raise UserError(where, what, "book it on a property that says it")
    known = rules()
    for rule in sorted(model.kept | model.broken):
        if rule not in known:
            raise UserError(where, f"{model.name}: no rule {rule}", "see `mqspec check --list`")
    if model.defect is None:
        for rule in sorted(model.broken):
            if known[rule].kind is not Kind.IDEAL:
                raise UserError(where, f"{model.name}: {rule} is no ideal, and may not be broken")
    elif model.defect not in defects():
        raise UserError(where, f"{model.name}: the catalogue has no defect {model.defect}")
    elif model.broken != set(defects()[model.defect].breaks):
        raise UserError(where, f"{model.name}: the catalogue lists other broken rules")
