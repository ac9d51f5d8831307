"""Running models: what each asks of TLC, and the comparison with the manifest.

A model asks whether each property that must break does, alone and with one worker (exit 12
or 13; for an invariant the length of the shortest counterexample is compared); whether each
temporal property that must hold does; and whether all holding invariants do, to the end, with
the counts compared. Nothing here can weaken a model: a check asks what the configuration
names, and the manifest must name the same.

One run of TLC answers most of what a model asks. Where its answer is not the one that the
manifest expects, each check has a run of its own, and what that says is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace

from mqcheck.cache import Cache
from mqcheck.manifest import Counts, Model, Tier, library
from mqcheck.tlc import Counterexample, Exit, TlcRun, run_tlc
from mqrules import Evidence, EvidenceKind, UserError, Verdict


@dataclass(frozen=True, slots=True)
class Check:
    """One run of TLC that a model asks for, and what it must say."""

    model: Model
    properties: frozenset[str]
    exit: Exit
    counts: Counts | None = None  # to compare, of the run with all holding invariants
    depth: int | None = None  # to compare, of an invariant that must break

    @property
    def states(self) -> int:
        """How many states TLC is expected to generate; 0 where it stops when it likes."""
        return self.model.counts.states if self.exit is Exit.HOLDS else 0


@dataclass(frozen=True, slots=True)
class Result:
    """A check that was run, and what is wrong with it: `problem` is empty where nothing is."""

    check: Check
    run: TlcRun
    problem: str

    @property
    def counterexample(self) -> Counterexample | None:
        return self.run.counterexample

    def evidence(self) -> Iterator[Evidence]:
        """One record for each rule of each property."""
        model = self.check.model
        expected = Verdict.HELD if self.check.exit is Exit.HOLDS else Verdict.REFUTED
        for name in sorted(self.check.properties):
            broken = model.breaks.get(name)
            detail: dict[str, str | int] = {
                "distinct": self.run.distinct,
                "states": self.run.generated,
                "depth": self.run.depth,
                "bounds": ", ".join(f"{k}={v}" for k, v in model.config.sizes.items() if v),
            }
            if self.problem:
                detail["problem"] = self.problem
            for rule in broken.rules if broken else model.holds[name]:
                yield Evidence(
                    rule=rule,
                    kind=EvidenceKind.CHECKED,
                    subject=f"{model.name}: {name}",
                    verdict=Verdict.VIOLATED if self.problem else expected,
                    defect=model.defect,
                    detail=detail,
                )


@dataclass(frozen=True, slots=True)
class Batch:
    """Checks of one model that one run of TLC answers."""

    checks: tuple[Check, ...]

    @property
    def states(self) -> int:
        """How many states TLC is expected to generate; 0 where it stops when it likes."""
        return max(check.states for check in self.checks)


def plan(model: Model) -> Iterator[Check]:
    """The runs of TLC that a model asks for."""
    config = model.config
    invariants = frozenset(config.invariants).intersection(model.holds)
    if invariants:
        yield Check(model, invariants, Exit.HOLDS, counts=model.counts)
    for name in config.temporal:
        holds = name in model.holds
        # The graph is the same, so where no invariant holds it is counted here.
        counts = model.counts if holds and not invariants else None
        yield Check(model, frozenset({name}), Exit.HOLDS if holds else Exit.LIVENESS, counts)
    for name, broken in model.breaks.items():
        if name in config.invariants:
            yield Check(model, frozenset({name}), Exit.SAFETY, depth=broken.depth)


def batches(model: Model) -> Iterator[Batch]:
    """What a model asks for, in as few runs as tell the same.

    A liveness property that must break ends a run, and TLC does not say which it was, so that
    each has its own.
    """
    checks = list(plan(model))
    if together := tuple(check for check in checks if check.exit is not Exit.LIVENESS):
        yield Batch(together)
    yield from (Batch((check,)) for check in checks if check.exit is Exit.LIVENESS)


def run_batch(batch: Batch, cache: Cache | None = None) -> list[Result]:
    """Run TLC for the checks of a batch and compare. Raises UserError where TLC itself fails."""
    if len(batch.checks) > 1:
        try:
            results = _run_together(batch, cache)
        except UserError:
            results = []  # it may be one of the questions that TLC fails at
        if results and not any(result.problem for result in results):
            return results
    return [run_check(check, cache) for check in batch.checks]


def _run_together(batch: Batch, cache: Cache | None) -> list[Result]:
    model = batch.checks[0].model
    asked = frozenset().union(*(check.properties for check in batch.checks))
    broken = [name for name in model.config.invariants if name in model.breaks]
    run = run_tlc(
        model.module,
        model.config.text(asked.difference(broken)),
        model.name,
        library=library(),
        watch=[name for name in broken if name in asked],
        thorough=model.tier is not Tier.QUICK,
        coverage=any(check.counts for check in batch.checks),
        cache=cache,
    )
    parts = [(check, _part(check, run)) for check in batch.checks]
    return [Result(check, part, compare(check, part)) for check, part in parts]


def _part(check: Check, run: TlcRun) -> TlcRun:
    """What a run of this check alone would have said."""
    if check.exit is not Exit.SAFETY:
        return run
    (name,) = check.properties
    found = run.violated.get(name)
    return replace(run, exit=Exit.SAFETY if found else run.exit, counterexample=found)


def run_check(check: Check, cache: Cache | None = None) -> Result:
    """Run TLC for one check and compare. Raises UserError where TLC itself fails."""
    model = check.model
    run = run_tlc(
        model.module,
        model.config.text(check.properties),
        model.name,
        library=library(),
        thorough=model.tier is not Tier.QUICK,
        coverage=check.counts is not None,
        cache=cache,
    )
    return Result(check, run, compare(check, run))


def compare(check: Check, run: TlcRun) -> str:
    """What differs between a run and what the manifest says; empty where nothing does."""
    names = ", ".join(sorted(check.properties))
    if run.exit is not check.exit:
        said = "it holds" if run.exit is Exit.HOLDS else f"TLC says {run.exit.name.lower()}"
        wanted = "should hold" if check.exit is Exit.HOLDS else "should be violated"
        return f"{names} {wanted}, {said}"
    found = Counts(run.distinct, run.generated, run.depth)
    if check.counts and found != check.counts:
        return f"{names}: found {_shown(found)}, the manifest says {_shown(check.counts)}"
    if check.counts:
        return _compare_actions(run.taken, frozenset(check.model.untaken))
    if check.depth is not None:
        depth = len(run.counterexample.steps) if run.counterexample else 0
        if depth != check.depth:
            return f"{names}: counterexample of {depth} states, the manifest says {check.depth}"
    return ""


def _compare_actions(taken: Mapping[str, int], listed: frozenset[str]) -> str:
    untaken = {action for action, times in taken.items() if not times}
    if not taken:
        return "TLC tells of no action"
    if never := untaken - listed:
        return f"never taken: {', '.join(sorted(never))}"
    if after_all := listed - untaken:
        return f"taken after all: {', '.join(sorted(after_all))}"
    return ""


def run_batches(
    asked: Sequence[Batch],
    jobs: int,
    cache: Cache | None,
    done: Callable[[Batch], None],
    report: Callable[[Sequence[Result]], None],
) -> list[Result]:
    """Run batches, `jobs` at a time, the largest first. `done` is told of each as it ends,
    `report` of its results once all before it have ended too. The results are in the order of
    the batches.

    A model that TLC refuses stops the rest: nothing is worth reading until it is mended.
    """
    results: dict[int, list[Result]] = {}
    reported = 0
    with ThreadPoolExecutor(jobs) as pool:
        places = sorted(range(len(asked)), key=lambda place: -asked[place].states)
        futures: dict[Future[list[Result]], int] = {
            pool.submit(run_batch, asked[place], cache): place for place in places
        }
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                done(asked[futures[future]])
                while reported in results:
                    report(results[reported])
                    reported += 1
        except UserError:
            pool.shutdown(cancel_futures=True)
            raise
    return [result for place in sorted(results) for result in results[place]]


def _shown(counts: Counts) -> str:
    return f"{counts.distinct} distinct of {counts.states} states, depth {counts.depth}"
