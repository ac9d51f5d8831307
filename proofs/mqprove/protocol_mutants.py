"""Mutants of the modules' actions: killed by a theorem about the protocol, or harmless to all.

One place of what a step or the beginning says is changed, as `mqspec check --mutants --sample`
does it. A mutant is killed where a theorem falls, with a small state and a step; it is harmless
where all that is claimed is proved of it as well, as of a guard that allows less. Any other
survives.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mqcheck.manifest import TLA
from mqcheck.mutation import Mutation, sample
from mqprove.inductive import Invariance, Protocol, prove_invariance
from mqprove.protocols import INVARIANCES
from mqprove.symbolic import NotUnderstoodError
from mqprove.tla_module import Expression, Module

SEED = 1


@dataclass(frozen=True, slots=True)
class StepFate:
    """What became of a mutant; neither is true of a survivor."""

    name: str  # where it is, and the line that it made
    killed_by: str = ""  # the theorem, and its counterexample
    harmless: bool = False
    refused: str = ""  # SANY or the reading has no meaning for it: it would not run

    @property
    def survived(self) -> bool:
        return not (self.killed_by or self.harmless or self.refused)


def protocols() -> list[Protocol]:
    """Those that there are theorems about."""
    return list({each.protocol.of: each.protocol for each in INVARIANCES}.values())


def steps_mutants(protocol: Protocol, seed: int = SEED) -> Iterator[Mutation]:
    """A mutant of each place of what steps and the beginning say."""
    text = (TLA / f"{protocol.of}.tla").read_text(encoding="utf-8")
    names = _reached(protocol.read(), protocol.prefix)
    for mutation in sample({protocol.of: text}, seed):
        if mutation.definition in names:
            yield mutation


def _reached(module: Module, prefix: str) -> set[str]:
    """The definitions that Next and Init rest on."""
    found: set[str] = set()
    pending = [module.named(f"{prefix}{name}") for name in ("Next", "Init")]
    while pending:
        defined = pending.pop()
        if defined.name in found:
            continue
        found.add(defined.name)
        pending += [module.definitions[key] for key in _operators(defined.body)]
    return found


def _operators(expression: Expression) -> Iterator[str]:
    if expression.kind == "operator":
        yield expression.name
    for each in (*expression.operands, *(bound.over for bound in expression.bounds)):
        yield from _operators(each)


def judge_step(protocol: Protocol, mutation: Mutation) -> StepFate:
    """Try the theorems about the protocol on a mutant of its module."""
    name = f"{mutation}: {mutation.edit[2]}"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"{protocol.of}.tla").write_text(mutation.text, encoding="utf-8")
        try:
            module = protocol.read(Path(folder))
        except NotUnderstoodError:
            return StepFate(name, refused="SANY does not read it")
    proofs = []
    for theorem in about_protocol(protocol):
        proofs.append(prove_invariance(theorem, module))
        if found := proofs[-1].counterexample:
            return StepFate(name, killed_by=f"{theorem.name}: {found}")
        if empty := proofs[-1].says_nothing:
            return StepFate(name, killed_by=f"{theorem.name}: {empty}")
        if problem := proofs[-1].not_understood:
            return StepFate(name, refused=problem)
    return StepFate(name, harmless=all(proof.proved for proof in proofs))


def about_protocol(protocol: Protocol) -> list[Invariance]:
    """The theorems about a protocol."""
    return [theorem for theorem in INVARIANCES if theorem.protocol.of == protocol.of]
