"""What gives evidence for a rule: models, theorems, contracts, cases, audit checks, and that
both paths of a send are compared."""

from __future__ import annotations

import pkgutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from mqaudit.history_checks import HISTORY_CHECKS
from mqaudit.store_checks import STORE_CHECKS
from mqcheck.manifest import models
from mqconform import cases
from mqconform.case import Case
from mqprove.contracts import CONTRACTS
from mqprove.protocols import INVARIANCES
from mqprove.prover import Claimed
from mqprove.theorems import THEOREMS
from mqrules import EvidenceKind
from mqspec.commands import paths


@dataclass(frozen=True, slots=True)
class Giver:
    """One thing that gives evidence; `note` says how, where it is not by holding."""

    kind: EvidenceKind
    subject: str
    note: str = ""


@cache
def givers() -> dict[str, tuple[Giver, ...]]:
    """By rule. A rule that nothing gives evidence for is missing."""
    found: dict[str, list[Giver]] = defaultdict(list)
    for source in (_models(), _theorems(), _contracts(), _cases(), _checks(), _paths()):
        for rule, giver in source:
            found[rule].append(giver)
    return {rule: tuple(dict.fromkeys(several)) for rule, several in found.items()}


def given(of_rules: Iterable[str], kind: EvidenceKind) -> list[str]:
    """What gives evidence of a kind for any of some rules, each once."""
    found = (giver for rule in of_rules for giver in givers().get(rule, ()))
    return list(dict.fromkeys(giver.subject for giver in found if giver.kind is kind))


def _models() -> Iterator[tuple[str, Giver]]:
    for model in models().values():
        for name, held in model.holds.items():
            for rule in held:
                yield rule, Giver(EvidenceKind.CHECKED, f"{model.name}: {name}")
        note = "kills the defect" if model.defect else "counterexample expected"
        for name, broken in model.breaks.items():
            for rule in broken.rules:
                yield rule, Giver(EvidenceKind.CHECKED, f"{model.name}: {name}", note)


def _theorems() -> Iterator[tuple[str, Giver]]:
    every: list[Claimed] = [*THEOREMS, *INVARIANCES]
    for theorem in every:
        note = "" if theorem.holds else "counterexample expected"
        for rule in theorem.rules:
            yield rule, Giver(EvidenceKind.PROVED, theorem.name, note)


def _contracts() -> Iterator[tuple[str, Giver]]:
    for contract in CONTRACTS:
        if not contract.is_searched:
            for rule in contract.rules:
                yield rule, Giver(EvidenceKind.CONFIRMED, contract.name)


def _cases() -> Iterator[tuple[str, Giver]]:
    for name, case in conformance_cases():
        for rule in case.rules:
            yield rule, Giver(EvidenceKind.CONFORMS, name)


def conformance_cases() -> Iterator[tuple[str, Case]]:
    """All conformance cases by name."""
    for module in pkgutil.iter_modules(cases.__path__):
        for name, function in vars(import_module(f"{cases.__name__}.{module.name}")).items():
            for mark in getattr(function, "pytestmark", ()):
                if mark.name == "case":
                    yield name, mark.args[0]


def _checks() -> Iterator[tuple[str, Giver]]:
    for check in (*HISTORY_CHECKS, *STORE_CHECKS):
        if check.can_violate:
            yield check.promise, Giver(EvidenceKind.AUDITED, check.name)
        if check.ideal:
            yield check.ideal, Giver(EvidenceKind.AUDITED, check.name, "may be seen broken")


def _paths() -> Iterator[tuple[str, Giver]]:
    yield paths.RULE, Giver(EvidenceKind.SAMPLED, paths.SUBJECT)
