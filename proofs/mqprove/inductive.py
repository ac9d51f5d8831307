"""Theorems about protocols: an invariant that each step keeps, for any number of everything.

The steps are those of the TLA+ module, as its own parser reads it. That the invariant holds at the
beginning, that each way of each action keeps it, and that the property follows from it are the
obligations. What falls is shown as a state and a step of a small group that was computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from time import perf_counter

import z3

from mqcheck.values import ModelValue, tla
from mqprove import tla_arithmetic
from mqprove.any_group import Obligation
from mqprove.prover import PROOF_WORK_MAX, Proof, alone, valid
from mqprove.symbolic import NotUnderstoodError
from mqprove.terms import Functions
from mqprove.tla_meaning import Meaning, Place, Way
from mqprove.tla_module import STATE, Expression, Module, read
from mqprove.tla_told import told
from mqprove.tla_values import Number, Shape, Token, Value, World

FOLDER = Path(__file__).parent / "invariants"
SOON_WORK_MAX, MORE_WORK_MAX = 1_000_000, 4_000_000  # for one goal at first, as Z3 counts
SMALL = ((1, 2), (2, 3), (3, 6))  # elements of each set, greatest number: to look for a step in


@dataclass(frozen=True)
class Protocol:
    """A module of invariants, which extends that of the protocol, and what its names stand for."""

    module: str
    of: str  # the protocol's module
    sets: tuple[str, ...]  # constants that are sets of any size
    tokens: tuple[str, ...]  # constants that stand for none
    constants: Mapping[str, Shape]
    variables: Mapping[str, Shape]
    prefix: str = ""  # of Init and Next

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.module}.tla"

    def meaning(self, module: Module, world: World) -> Meaning:
        """The module, over constants of which nothing is known."""
        constants: dict[str, Value] = {name: world.all_of(name) for name in self.sets}
        constants |= {name: Token(name) for name in self.tokens}
        constants |= {name: world.any(shape, name) for name, shape in self.constants.items()}
        if missing := set(module.constants) - constants.keys():
            raise NotUnderstoodError(f"{self.module}: nothing is said of {sorted(missing)}")
        return Meaning(module, world, constants, self.variables)

    def state(self, meaning: Meaning) -> dict[str, Value]:
        """Any state."""
        return {name: meaning.world.any(shape, name) for name, shape in self.variables.items()}

    def read(self, first: Path | None = None) -> Module:
        """The module; with those of a folder in place of the project's."""
        return read(self.path, first)


@dataclass(frozen=True)
class Invariance:
    """A property of a protocol, and the invariant that it follows from."""

    name: str
    rules: tuple[str, ...]
    statement: str
    protocol: Protocol
    claim: str  # a state predicate, or [][step]_vars
    invariant: str = ""  # nothing is needed where it is empty
    rests_on: tuple[str, ...] = ()  # what other theorems of the same bounds show to be inductive
    lemma: str = ""  # what follows from these, and is shown once
    bounds: str = ""  # what is assumed of the constants
    never: tuple[str, ...] = ()  # actions that the bounds exclude: each other one can be taken
    holds: bool = field(default=True, init=False)

    @property
    def unbounded(self) -> str:
        any_of = ", ".join(each.lower() for each in self.protocol.sets)
        given = f"; {self.bounds} of {self.protocol.module}" if self.bounds else ""
        given += f", without {', '.join(self.never)}" if self.never else ""
        return (
            f"none: {self.protocol.of}.tla with any number of {any_of}, from one on, "
            f"and any constants{given}"
        )


@cache
def _module(protocol_path: Path) -> Module:
    return read(protocol_path)


@dataclass(frozen=True, slots=True)
class Goal(Obligation):
    """An obligation, and the step that it is about."""

    way: Way | None = None


@dataclass(frozen=True, slots=True)
class ToShow:
    """What there is to show, of a state or a step, and its goal, which takes a while to build."""

    what: str
    way: Way | None
    goal: Callable[[], Goal]

    @property
    def about(self) -> tuple[str, str]:
        """The action and the part of the invariant, however many ways the action has."""
        return self.way.action if self.way else "", self.what.rpartition(": ")[2]


class Steps:
    """What an invariant has to be shown of, in a module as it is or changed."""

    def __init__(
        self, protocol: Protocol, module: Module | None = None, world: World | None = None
    ) -> None:
        self.protocol = protocol
        self.module = module or _module(protocol.path)
        self.world = world or World()
        self.meaning = protocol.meaning(self.module, self.world)
        self.state = protocol.state(self.meaning)
        self._functions = Functions()

    @cached_property
    def ways(self) -> list[Way]:
        """All ways of all actions, from any state."""
        return self.ways_from(self.state)

    def ways_from(self, state: Mapping[str, Value]) -> list[Way]:
        """All ways of all actions, from a state."""
        return self.meaning.ways(self._body(f"{self.protocol.prefix}Next"), state)

    @cached_property
    def initial(self) -> list[Way]:
        """The ways to begin."""
        return self.beginnings()

    def beginnings(self) -> list[Way]:
        """The ways to begin: the initial predicate gives each variable a value, as a step does."""
        return self.meaning.beginnings(self._body(f"{self.protocol.prefix}Init"))

    def _body(self, name: str) -> Expression:
        return self.module.named(name).body

    def says(self, name: str, state: Mapping[str, Value]) -> z3.BoolRef:
        """A formula of the module about a state; true where there is none of the name."""
        return self.meaning.says(self._body(name), Place(state)) if name else z3.BoolVal(True)

    def parts(self, name: str) -> list[tuple[str, Expression]]:
        """The conjuncts of a definition, with what they are called."""
        return list(self._parts(name, self._body(name))) if name else []

    def _parts(self, name: str, expression: Expression) -> Iterator[tuple[str, Expression]]:
        if expression.kind == "builtin" and expression.name in ("$ConjList", "\\land"):
            for each in expression.operands:
                yield from self._parts(name, each)
        elif expression.kind == "operator" and not expression.operands:
            defined = self.module.definitions[expression.name]
            yield from self._parts(defined.name, defined.body)
        else:
            yield f"{name}, line {expression.line}", expression

    def assumed(self, theorem: Invariance) -> tuple[z3.BoolRef, z3.BoolRef]:
        """The bounds of the constants, and the invariant of any state."""
        known = [self.says(each, self.state) for each in (*theorem.rests_on, theorem.invariant)]
        return self.says(theorem.bounds, {}), z3.And(known)

    def inductive(self, theorem: Invariance) -> Iterator[ToShow]:
        """That the invariant holds at the beginning, and each way of each action keeps it."""
        bounds, invariant = self.assumed(theorem)
        for what, part in self.parts(theorem.lemma):
            yield self._to_show(what, (bounds, invariant), part, Place(self.state))
        before = (bounds, invariant, self.says(theorem.lemma, self.state))
        for number, way in enumerate(self.ways, 1):
            if way.action in theorem.never:
                yield self._never(f"{way.action} {number}: it is never taken", before, way)
        for what, part in self.parts(theorem.invariant):
            for way in self.initial:
                given = (bounds, *way.conditions)
                yield self._to_show(f"Init: {what}", given, part, Place(way.after), way)
            yield from self._kept(what, part, before)

    def _never(self, what: str, before: Sequence[z3.BoolRef], way: Way) -> ToShow:
        given = (*before, *way.conditions)
        return ToShow(what, way, lambda: self._obligation(what, given, z3.BoolVal(False), way))

    def _kept(self, what: str, part: Expression, before: Sequence[z3.BoolRef]) -> Iterator[ToShow]:
        """That each way keeps a part of the invariant. Of one that changes none of the variables
        that it mentions, the part itself has to be enough."""
        mentioned = self.module.variables_of(part)

        @cache
        def itself() -> z3.BoolRef:
            return self.meaning.says(part, Place(self.state))

        for number, way in enumerate(self.ways, 1):
            name = f"{way.action} {number}: {what}"
            if any(way.after[each] is not self.state[each] for each in mentioned):
                given = (*before, *way.conditions)
                yield self._to_show(name, given, part, Place(way.after), way)
            else:
                yield self._still(name, itself, part, way)

    def _still(
        self, what: str, before: Callable[[], z3.BoolRef], part: Expression, way: Way
    ) -> ToShow:
        def goal() -> Goal:
            after = self.meaning.says(part, Place(way.after))
            return self._obligation(what, (before(),), after, way)

        return ToShow(what, way, goal)

    def follows(self, theorem: Invariance) -> Iterator[ToShow]:
        """That the property follows from the invariant: of each state, or of each step."""
        body = self._body(theorem.claim)
        before = (*self.assumed(theorem), self.says(theorem.lemma, self.state))
        if body.level <= STATE:
            for what, part in self.parts(theorem.claim):
                yield self._to_show(what, before, part, Place(self.state))
            return
        step = _step(body)
        for number, way in enumerate(self.ways, 1):
            what = f"{way.action} {number}: {theorem.claim}"
            place = Place(self.state, after=way.after)
            yield self._to_show(what, (*before, *way.conditions), step, place, way)

    def _to_show(
        self,
        what: str,
        given: Sequence[z3.BoolRef],
        part: Expression,
        place: Place,
        way: Way | None = None,
    ) -> ToShow:
        """That a part holds at a place."""

        def goal() -> Goal:
            return self._obligation(what, given, self.meaning.says(part, place), way)

        return ToShow(what, way, goal)

    def told(self, goal: Goal, model: z3.ModelRef) -> str:
        """What a model says: the constants, the state, the step, and what it changes."""

        def look(term: z3.ExprRef) -> z3.ExprRef:
            return z3.simplify(model.eval(term, model_completion=True))

        def state_of(values: Mapping[str, Value]) -> dict[str, str]:
            return {
                name: tla(told(values[name], shape, self.world, look))
                for name, shape in self.protocol.variables.items()
            }

        constants = ", ".join(
            f"{name} = {tla(told(self.meaning.constants[name], shape, self.world, look))}"
            for name, shape in self.protocol.constants.items()
        )
        way = goal.way
        before = state_of(self.state) if way is None or way.action != "Init" else {}
        after = state_of(way.after) if way else {}
        words = [goal.what.partition(": ")[2] or goal.what, "falls:", constants]
        words += ["in", _listed(before)] if before else []
        if way:
            changed = {name: text for name, text in after.items() if before.get(name) != text}
            words += ["by", way.action, "to", _listed(changed)]
        return " ".join(words)

    def _obligation(
        self,
        what: str,
        given: Sequence[z3.BoolRef],
        goal: z3.BoolRef,
        way: Way | None = None,
    ) -> Goal:
        known = (*given, *self.meaning.facts, *self.world.facts)
        if self.world.is_small:  # sizes and products are computed there
            return Goal(what, known, goal, way=way)
        spoken = self._functions.of((*known, goal))
        sizes = tuple(self.meaning.sizes.facts(spoken))
        told = (*sizes, *tla_arithmetic.facts(spoken | self._functions.of(sizes)))
        return Goal(what, (*known, *told), goal, known if told else (), way)


def _listed(state: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {text}" for name, text in state.items())


def _step(body: Expression) -> Expression:
    """A of [][A]_vars: a step that changes nothing is one of them anyway."""
    if body.name == "[]" and body.operands[0].name == "$SquareAct":
        return body.operands[0].operands[0]
    raise NotUnderstoodError(f"line {body.line}: neither of a state nor of each step")


def all_to_show(theorem: Invariance, steps: Steps) -> list[ToShow]:
    """All that there is to show."""
    return [*steps.inductive(theorem), *steps.follows(theorem)]


def prove_invariance(theorem: Invariance, module: Module | None = None) -> Proof:
    """Prove the theorem, of the module as it is or changed, or show a step that breaks it."""
    started = perf_counter()
    try:
        steps = Steps(theorem.protocol, module)
        all_of_it = all_to_show(theorem, steps)
        shown, counterexample = _judged(theorem, module, all_of_it)
        empty = "" if counterexample else emptiness(theorem, module)
    except NotUnderstoodError as error:
        return Proof(theorem, False, None, str(error), 0, 0, perf_counter() - started)
    return Proof(
        theorem,
        proved=shown and not empty,
        counterexample=counterexample,
        not_understood="",
        says_nothing=empty,
        goals=len(all_of_it),
        paths=len(steps.ways),
        seconds=perf_counter() - started,
    )


def _judged(
    theorem: Invariance, module: Module | None, all_of_it: Iterable[ToShow]
) -> tuple[bool, str | None]:
    """Whether all is proved, else a step that breaks the invariant, if one is found.

    What is not proved soon mostly falls in the smallest world; where it does not, Z3 gets more
    work, and where larger ones do not show it either, all that it needs.
    """
    for each in all_of_it:
        goal = each.goal()
        if valid(goal, SOON_WORK_MAX):
            continue
        for worlds, work_max in ((SMALL[:1], MORE_WORK_MAX), (SMALL[1:], PROOF_WORK_MAX)):
            if counterexample := refute_invariance(theorem, module, each, worlds):
                return False, counterexample
            if valid(goal, work_max):
                break
        else:
            return False, None
    return True, None


def refute_invariance(
    theorem: Invariance,
    module: Module | None = None,
    fallen: ToShow | None = None,
    worlds: Sequence[tuple[int, int]] = SMALL,
) -> str | None:
    """A small world, in numbers, and a step of it that breaks the invariant, or a state of the
    invariant that breaks the property; None: none found. What fell in general is tried first."""

    def is_other(each: ToShow) -> bool:
        return fallen is None or each.about != fallen.about

    for steps in _small(theorem.protocol, module, worlds):
        for each in sorted(all_to_show(theorem, steps), key=is_other):
            goal = each.goal()
            if model := _found(steps, (*goal.hypotheses, z3.Not(goal.goal))):
                return steps.told(goal, model)
    return None


def emptiness(theorem: Invariance, module: Module | None = None) -> str:
    """Why a proof would say nothing: no state fulfils what is assumed, nothing begins under the
    bounds, or an action is never taken, or one is that the theorem excludes. Empty: it says much.

    Of each a small world is looked for, in numbers.
    """
    wanted = {"": "no state fulfils what is assumed", "Init": "nothing begins"}
    actions = {way.action for way in Steps(theorem.protocol, module).ways}
    if unknown := set(theorem.never) - actions:
        return f"there is no action {', '.join(sorted(unknown))}"
    wanted |= {action: f"{action} is never taken" for action in sorted(actions)}
    for steps in _small(theorem.protocol, module):
        if not wanted:
            break
        assumed = steps.assumed(theorem)
        for action in [each for each in wanted if _is_taken(steps, assumed, each)]:
            if action in theorem.never:
                return f"{action} is taken"
            del wanted[action]
    return next((why for action, why in wanted.items() if action not in theorem.never), "")


def _is_taken(steps: Steps, assumed: tuple[z3.BoolRef, z3.BoolRef], action: str) -> bool:
    """Whether a state that fulfils what is assumed has a step of an action; without one: is."""
    bounds, before = assumed
    ways = {"": [Way()], "Init": steps.initial}.get(action, steps.ways)
    given = (bounds,) if action == "Init" else (bounds, before)
    return any(
        _found(steps, (*given, *way.conditions, *steps.meaning.facts, *steps.world.facts))
        for way in ways
        if action in ("", way.action)
    )


def _small(
    protocol: Protocol, module: Module | None, worlds: Sequence[tuple[int, int]] = SMALL
) -> Iterator[Steps]:
    """The module over small worlds, from the smallest."""
    for size, most in worlds:
        elements = {
            of: [ModelValue(f"{of.lower().rstrip('s')}{number}") for number in range(1, size + 1)]
            for of in protocol.sets
        }
        yield Steps(protocol, module, World(elements, range(most + 1)))


def _found(steps: Steps, formulas: Sequence[z3.BoolRef]) -> z3.ModelRef | None:
    """What fulfils the formulas in a small world, whose constants are among its numbers."""
    most = steps.world.numbers[-1]
    bounds = [
        z3.And(z3.Int(name) >= 0, z3.Int(name) <= most)
        for name, shape in steps.protocol.constants.items()
        if shape == Number()
    ]
    solver = alone((*bounds, *formulas))
    solver.set("rlimit", PROOF_WORK_MAX)
    return solver.model().translate(z3.main_ctx()) if solver.check() == z3.sat else None
