"""Running models: the plan of TLC runs for each, and the comparison with the manifest.

TLC is run once for each property that must break, alone and with one worker (exit 12 or
13; for an invariant the length of the shortest counterexample is compared); once for each
temporal property that must hold; and once with all holding invariants, to the end, with
the counts compared. Nothing here can weaken a model: a run checks what the configuration
names, and the manifest must name the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from mqcheck.manifest import MODELS, TLA, Counts, Model, Tier
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


def plan(model: Model) -> Iterator[Check]:
    """The runs of TLC that a model asks for."""
    config = model.config
    invariants = frozenset(config.invariants) & model.holds.keys()
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


def run_check(check: Check) -> Result:
    """Run TLC for one check and compare. Raises UserError where TLC itself fails."""
    model = check.model
    run = run_tlc(
        model.module,
        model.config.text(check.properties),
        model.name,
        library=(TLA, MODELS),
        thorough=model.tier is Tier.FULL,
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
    if check.counts and run.depth == 0:
        # TLC prints no depth when it checks a temporal property.
        found = replace(found, depth=check.counts.depth)
    if check.counts and found != check.counts:
        return f"{names}: found {_shown(found)}, the manifest says {_shown(check.counts)}"
    if check.depth is not None and run.counterexample is not None:
        depth = len(run.counterexample.steps)
        if depth != check.depth:
            return f"{names}: counterexample of {depth} states, the manifest says {check.depth}"
    return ""


def run_models(
    models: Iterable[Model], jobs: int, report: Callable[[Result], None]
) -> list[Result]:
    """Run all checks of some models, `jobs` at a time; `report` is told of each at its end.

    A model that TLC refuses stops the rest: nothing is worth reading until it is mended.
    """
    checks = [check for model in models for check in plan(model)]
    results = []
    with ThreadPoolExecutor(jobs) as pool:
        futures: list[Future[Result]] = [pool.submit(run_check, check) for check in checks]
        try:
            for future in futures:
                results.append(future.result())
                report(results[-1])
        except UserError:
            pool.shutdown(cancel_futures=True)
            raise
    return results


def _shown(counts: Counts) -> str:
    return f"{counts.distinct} distinct of {counts.states} states, depth {counts.depth}"
