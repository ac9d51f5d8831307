"""`mqspec check --mutants --sample N`: whether mistakes in the modules are noticed, and which are
not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from textwrap import indent

from rich.console import Console

from mqcheck.cache import Cache
from mqcheck.manifest import TLA, Model
from mqcheck.mutants import modules_of
from mqcheck.mutation import Edit, Mutation, sample
from mqcheck.noticing import Fate, NoModuleError, explained, judge, survivors, witnesses


def try_sample(
    named: Sequence[Model] | None, number: int, seed: int, cache: Cache | None, console: Console
) -> int:
    """Try so many mutants of the modules that these models build on, of all where there is None.

    1 where one survives that equivalent.toml does not explain.
    """
    known, began = explained(), time.monotonic()
    fates: list[Fate] = []
    for fate in islice(_fates(sample(_texts(named), seed, witnesses()), cache), number):
        fates.append(fate)
        left = (time.monotonic() - began) / len(fates) * (number - len(fates))
        line = f"{len(fates)}/{number} {told(fate, known)}; some {left / 60:.0f} min left"
        console.print(line, soft_wrap=True, markup=False)
        console.file.flush()  # also where it is a file: it may take an hour
    for fate in survivors(fates, known):
        console.print(f"survived: {told(fate, known)}", soft_wrap=True, markup=False)
    console.print(summary(fates, known))
    return 1 if survivors(fates, known) else 0


def _texts(named: Sequence[Model] | None) -> Mapping[str, str]:
    """The modules of protocols that these models build on; all of them where there is None."""
    paths = TLA.glob("*.tla") if named is None else [p for m in named for p in modules_of(m)]
    return {path.stem: path.read_text(encoding="utf-8") for path in paths if path.parent == TLA}


def _fates(mutants: Iterator[Mutation], cache: Cache | None) -> Iterator[Fate]:
    """What becomes of each that is a module."""
    for mutant in mutants:
        try:
            yield judge(mutant, cache)
        except NoModuleError:
            continue


def told(fate: Fate, known: Mapping[Edit, str]) -> str:
    """A mutant's fate on one line; of a survivor its change besides."""
    where, took = fate.mutant, f"{fate.seconds:.0f} s"
    if fate.noticed_by:
        return f"noticed {where}, by {fate.noticed_by}, {took}"
    module, gone, come = fate.mutant.edit
    if why := known.get((module, gone, come)):
        return f"equivalent {where}: {why}"
    change = "\n".join([indent(gone, "- "), indent(come, "+ ")])
    counts = f"other states in {', '.join(fate.other)}" if fate.other else "the same states"
    return f"SURVIVED {where}, {fate.tried} checks and replays, {counts}, {took}\n{change}\n"


def summary(fates: Sequence[Fate], known: Mapping[Edit, str]) -> str:
    """How many were noticed, of those that anything could notice."""
    noticed = sum(bool(fate.noticed_by) for fate in fates)
    left = len(survivors(fates, known))
    equivalent = len(fates) - noticed - left
    share = noticed / max(1, noticed + left)
    return (
        f"{noticed} of {len(fates)} noticed, {equivalent} equivalent, {left} survived: {share:.0%}"
    )
