"""Check the models with TLC, and compare each with what the manifest says of it.

mqspec check                          the quick models
mqspec check MC_OffsetCommit          one model
mqspec check MC_OffsetCommit --trace NoRepeat   and its counterexample, step by step
mqspec check MC_LostProgress --trace NoRepeat --scenario FILE   and as data
mqspec check MC_Rebalance --simulate 100        random behaviours of it, taken by the core
mqspec check --mutants MC_Retry       whether its properties can fail at all
mqspec check --mutants --sample 20 --seed 7     and whether mistakes in modules are noticed
mqspec check mine/MyModel.cfg         a model of your own, beside MyModel.tla
mqspec check run.jsonl                whether what `mqspec serve --trace run.jsonl` wrote is allowed
mqspec check run.jsonl --edits        and whether it would be, were it anything else
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mqcheck.cache import Cache
from mqcheck.config import read_config
from mqcheck.lifelines import changes, draw
from mqcheck.manifest import (
    Killer,
    Model,
    Tier,
    library,
    manifests,
    models,
    protocols,
    read_killers,
)
from mqcheck.mutants import Fate, judge
from mqcheck.progress import progress
from mqcheck.replay import ReplayError, depart, replay
from mqcheck.runner import Batch, Check, Result, batches, plan, run_batches, run_check
from mqcheck.scenario import behaviours_of, scenario_of, write_scenario
from mqcheck.tlc import Counterexample, Exit, run_tlc
from mqcheck.values import tla
from mqcheck.worlds import departing_world, world_of
from mqrules import UserError, write_evidence
from mqrules.scenario import Step

HELP = "check the TLA+ models with TLC"
CACHE = Path(".mqspec/check")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help="a name, or a path to a .cfg or .jsonl"
    )
    parser.add_argument("--tier", choices=list(Tier), default=Tier.QUICK, help="default: quick")
    parser.add_argument("--list", action="store_true", help="list the models and what they check")
    parser.add_argument(
        "--mutants",
        action="store_true",
        help="whether each property fails in a mutant of its module",
    )
    parser.add_argument("--trace", metavar="PROPERTY", help="show the counterexample to it")
    parser.add_argument(
        "--simulate", type=int, metavar="N", help="have the core take N random behaviours"
    )
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="with --mutants: whether N random changes of the modules are noticed",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of --simulate and --sample; default: 1"
    )
    parser.add_argument(
        "--scenario",
        type=Path,
        metavar="PATH",
        help="write what --trace or --simulate shows as JSON: a file, or a folder of files",
    )
    parser.add_argument(
        "--edits",
        action="store_true",
        help="of a .jsonl: leave out, swap and alter each event; at least 95%% must be refused",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="TLC runs at once")
    parser.add_argument(
        "--fresh", action="store_true", help="run also what is known from an earlier run"
    )
    parser.add_argument("--evidence", type=Path, metavar="FILE", help="write evidence records")


def run(args: argparse.Namespace) -> int:
    console = Console(highlight=False)
    if len(args.models) == 1 and args.models[0].endswith(".cfg"):
        return _run_file(Path(args.models[0]), console)
    if len(args.models) == 1 and args.models[0].endswith(".jsonl"):
        from mqcheck.traces.report import check_trace_file  # for this alone: it reads much

        path, evidence = Path(args.models[0]), args.evidence
        return check_trace_file(path, console, is_edited=args.edits, evidence=evidence)
    chosen = _choose(args)
    if args.list:
        for model in chosen:
            console.print(_listing(model))
        return 0
    if args.sample is not None:
        if not args.mutants:
            raise UserError("--sample", "of what", "add --mutants")
        if args.sample < 1:
            raise UserError("--sample", f"{args.sample} mutants", "ask for one or more")
        from mqcheck.sampling import try_sample  # for this alone: it reads the whole core

        named = chosen if args.models else None
        return try_sample(
            named, args.sample, args.seed, None if args.fresh else Cache(CACHE), console
        )
    if args.mutants:
        return _try_mutants(chosen, None if args.fresh else Cache(CACHE), console)
    if args.trace:
        return _show_trace(chosen, args.trace, args.scenario, console)
    if args.simulate is not None:
        return _simulate(chosen, args.simulate, args.seed, args.scenario, console)
    if args.scenario:
        raise UserError("--scenario", "of what", "add --trace PROPERTY or --simulate N")
    if args.jobs < 1:
        raise UserError("--jobs", f"{args.jobs} runs at once", "take 1 or more")
    asked = [batch for model in chosen for batch in batches(model)]
    results = _run_batches(asked, args.jobs, None if args.fresh else Cache(CACHE), console)
    if args.evidence:
        write_evidence(args.evidence, (e for result in results for e in result.evidence()))
    failed = sum(1 for result in results if result.problem)
    cached = sum(1 for result in results if result.run.cached)
    known = f", {cached} known from before" if cached else ""
    told = f"{_many(chosen, 'model')}, {_many(results, 'check')} in {_many(asked, 'run')} of TLC"
    console.print(f"{told}{known}, {failed} failed")
    replays = [answer for result in results for answer in _replay(result)]
    differing = [answer for answer in replays if answer]
    for answer in differing:
        console.print(f"[red]FAILED[/] {answer}")
    if replays:
        told = f"{_many(replays, 'counterexample')} replayed on the core, or departed from"
        console.print(f"{told}, {len(differing)} failed")
    return 1 if failed or differing else 0


def _try_mutants(chosen: Sequence[Model], cache: Cache | None, console: Console) -> int:
    """Whether each property of these models' protocols fails where the manifest says it does."""
    count, failed = 0, 0
    for name, listed in protocols().items():
        if not any(model in chosen for model in listed):
            continue
        recorded = read_killers(manifests()[name])
        with console.status(f"mutants of {name}"):
            fates = judge(listed, recorded, cache, lambda told: _print_plain(console, f"  {told}"))
        problems = list(_not_as_recorded(fates, recorded))
        for problem in problems:
            _print_plain(console, f"FAILED {name}: {problem}")
        count, failed = count + len(fates), failed + len(problems)
    console.print(f"{count} properties, {failed} of them fail nowhere, or not where recorded")
    return 1 if failed else 0


def _not_as_recorded(fates: Sequence[Fate], recorded: Mapping[str, Killer]) -> Iterator[str]:
    """What is wrong with the killers of a manifest: each line says what it should be."""
    for fate in fates:
        if not fate.killer:
            yield f"{fate.property} fails in no mutant of {', '.join(fate.models)}"
        elif fate.killer != recorded.get(fate.property):
            yield f"write among its killers: {fate.property} = {_toml(fate.killer)}"
    for name in recorded.keys() - {fate.property for fate in fates}:
        yield f"no model claims {name}; remove its killer"


def _toml(killer: Killer) -> str:
    """An inline table; the mutant is literal text, as TLA+ has backslashes, primes and quotes."""
    mutant = f", mutant = '''{killer.mutant}'''" if killer.mutant else ""
    edit = ", edit = [" + ", ".join(f"'''{text}'''" for text in killer.edit) + "]"
    return f'{{ model = "{killer.model}"{mutant}{edit if killer.edit else ""} }}'


def _print_plain(console: Console, line: str) -> None:
    """A line in which brackets are TLA+, not markup."""
    console.print(line, soft_wrap=True, markup=False)


def _run_batches(
    asked: Sequence[Batch], jobs: int, cache: Cache | None, console: Console
) -> list[Result]:
    def report(results: Sequence[Result]) -> None:
        for result in results:
            console.print(_line(result), soft_wrap=True)

    with progress(asked, console) as done:
        return run_batches(asked, jobs, cache, done, report)


def _replay(result: Result) -> Iterator[str]:
    """What is wrong with the core's way through a counterexample; empty where nothing is."""
    if not result.counterexample:
        return
    model, steps = result.check.model, result.counterexample.steps
    try:
        if world := departing_world(model):
            depart(world, steps, model.departs)
        elif world := world_of(model):
            replay(world, steps)
        else:
            return
        yield ""
    except ReplayError as error:
        yield f"{model.name}: {error}"


def _choose(args: argparse.Namespace) -> list[Model]:
    known = models()
    for name in args.models:
        if name not in known:
            raise UserError(name, "no such model", "see `mqspec check --list`")
    if args.models:
        return [known[name] for name in args.models]
    tiers = {Tier.QUICK, Tier(args.tier)}
    return [model for model in known.values() if args.list or model.tier in tiers]


def _many(items: Sequence[object], name: str) -> str:
    return f"{len(items)} {name}{'' if len(items) == 1 else 's'}"


def _line(result: Result) -> str:
    check, seen = result.check, result.run
    names = ", ".join(sorted(check.properties))
    if result.problem:
        return f"[red]FAILED[/] {check.model.name}: {result.problem}"
    if result.counterexample:
        verdict = f"violated, as expected, in {len(result.counterexample.steps)} states"
    else:
        verdict = f"holds in {seen.distinct} states"
    known = " (known from before)" if seen.cached else ""
    return f"[green]ok[/] {check.model.name}: {names} {verdict}{known}"


def _listing(model: Model) -> str:
    lines = [f"[bold]{model.name}[/] ({model.tier.value})", f"  {model.about}"]
    lines += [f"  holds: {', '.join(model.holds)}"] if model.holds else []
    lines += [f"  must break: {', '.join(model.breaks)}"] if model.breaks else []
    return "\n".join(lines)


def _show_trace(chosen: list[Model], name: str, file: Path | None, console: Console) -> int:
    checks = [check for model in chosen for check in plan(model) if _breaks(check, name)]
    if len(checks) != 1:
        raise UserError(name, f"broken by {len(checks)} of the models named", "name one model")
    result = run_check(checks[0])
    if not result.counterexample:
        raise UserError(name, result.problem)
    model = checks[0].model
    _show(result.counterexample, _with_parameters(model, result.counterexample), console)
    for problem in _replay(result):
        departs = f"the core has not the defect: it departs at {model.departs}"
        follows = "the core comes to the same states, step by step"
        console.print(problem or (departs if model.departs else follows))
    if file:
        write_scenario(file, scenario_of(model, name, result.counterexample))
    return 0


def _simulate(
    chosen: Sequence[Model], count: int, seed: int, folder: Path | None, console: Console
) -> int:
    """The reference's core takes random behaviours of each model that it can be replayed on."""
    if count < 1:
        raise UserError("--simulate", f"{count} behaviours", "ask for one or more")
    replayed = [model for model in chosen if world_of(model)]
    if not replayed:
        remedy = "take a model of what the reference does, such as MC_Rebalance"
        raise UserError("--simulate", "none of these models can be replayed", remedy)
    failed = 0
    for model in replayed:
        try:
            scenarios = behaviours_of(model, count, seed)
        except ReplayError as error:
            console.print(f"[red]FAILED[/] {model.name}: {error}", soft_wrap=True)
            failed += 1
            continue
        steps = sum(len(scenario.steps) - 1 for scenario in scenarios)
        console.print(f"[green]ok[/] {model.name}: {count} behaviours, {steps} steps")
        if folder:
            for scenario in scenarios:
                write_scenario(folder / f"{scenario.id}.json", scenario)
    return 1 if failed else 0


def _breaks(check: Check, name: str) -> bool:
    return check.exit is not Exit.HOLDS and name in check.properties


def _show(found: Counterexample, steps: Sequence[Step], console: Console) -> None:
    """A table of what changed at each step, and who took it as a sequence diagram."""
    table = Table("", "action", "what changed", show_lines=True)
    first = steps[0]
    begin = "\n".join(f"{name} = {tla(value)}" for name, value in first.state.items())
    table.add_row("1", first.action, Text(begin))
    for number, (before, step) in enumerate(pairwise(steps), start=2):
        lines = map(str, changes(before.state, step.state))
        table.add_row(str(number), step.action, Text("\n".join(lines)))
    if found.loop is not None:
        table.add_row("", f"back to {found.loop + 1}", "")
    elif found.stutters:
        table.add_row("", "for ever", "nothing changes any more")
    console.print(table)
    for line in draw(steps, found.loop):
        console.print(Text(line), soft_wrap=True)


def _with_parameters(model: Model, found: Counterexample) -> Sequence[Step]:
    """The steps with the parameters that the replay finds for them, where there is one."""
    world = world_of(model)
    if not world:
        return found.steps
    try:
        replayed = replay(world, found.steps)
    except ReplayError:
        return found.steps
    named = (
        replace(
            step,
            action=taken.action,
            parameters=dict(zip(world.actions[taken.action], taken.parameters, strict=True)),
        )
        for step, taken in zip(found.steps[1:], replayed, strict=True)
    )
    return (found.steps[0], *named)


def _run_file(path: Path, console: Console) -> int:
    config = read_config(path)
    module = path.with_suffix(".tla")
    if not module.is_file():
        raise UserError(str(module), "no such module", "put it beside the configuration")
    places = library()
    seen = run_tlc(module, config.text(config.properties), path.name, places, thorough=True)
    if seen.exit is Exit.LIVENESS:
        # TLC does not say which of them: each is asked alone.
        for name in config.temporal:
            seen = run_tlc(module, config.text(frozenset({name})), path.name, places)
            if seen.exit is Exit.LIVENESS:
                seen = replace(seen, told=f"{name} is violated")
                break
    if seen.counterexample:
        _show(seen.counterexample, seen.counterexample.steps, console)
    told = seen.told if seen.exit is not Exit.HOLDS else "holds"
    console.print(f"{path.name}: {told}, {seen.distinct} distinct states")
    return 0 if seen.exit is Exit.HOLDS else 1
