"""Prove theorems about the reference's own code and about the protocols, without bounds.

mqspec prove                                 all theorems and contracts
mqspec prove --theorem averagely-disjoint    one of them
mqspec prove --mutants                       and test the theorems on mutants of the code
mqspec prove --export DIR                    and ask cvc5 the same, in SMT-LIB files

Each theorem is proved by Z3 about the functions that the reference runs, or about the steps of a
TLA+ module for any number of members, queues and messages; or fails with a counterexample in
numbers. Some are expected to fail: they show what a precondition is for.
CrossHair then confirms contracts of the core's pure functions over all paths; of those whose paths
have no end it says that nothing was found, which is no evidence. All this is done in as many
processes as there are processors. With `--export` every obligation is written for other provers,
and asked of cvc5: a disagreement with Z3 fails.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from mqprove.any_group import Obligation
from mqprove.contracts import CONTRACTS, Confirmation, Outcome
from mqprove.inductive import Invariance, Steps, all_to_show
from mqprove.mutants import FUNCTIONS, Fate, about, judge, of_strategy
from mqprove.protocol_mutants import StepFate, judge_step, protocols, steps_mutants
from mqprove.protocols import INVARIANCES
from mqprove.prover import Claimed, Proof, Statement, Theorem
from mqprove.second import Comparison, compare, exported, write
from mqprove.side_by_side import come_of
from mqprove.theorems import THEOREMS
from mqrules import Evidence, EvidenceKind, UserError, Verdict, write_evidence
from mqspec.core import allocation

INDENT = 7  # columns, of what stands below a name
HELP = "prove theorems about the code that runs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--theorem", metavar="NAME", help="only this one")
    parser.add_argument("--mutants", action="store_true", help="try them on mutants of the code")
    parser.add_argument("--export", metavar="DIR", type=Path, help="write SMT-LIB, ask cvc5 too")
    parser.add_argument("--evidence", metavar="FILE", type=Path, help="write evidence records")


def run(args: argparse.Namespace) -> int:
    """Prove; 1 where one does not come out as expected, or a mutant survives."""
    console = Console(highlight=False)
    wanted = args.theorem
    theorems = [theorem for theorem in THEOREMS if wanted in (None, theorem.name)]
    of_protocols = [theorem for theorem in INVARIANCES if wanted in (None, theorem.name)]
    chosen = [contract for contract in CONTRACTS if wanted in (None, contract.name)]
    if not theorems and not of_protocols and not chosen:
        known = [*(t.name for t in THEOREMS), *(t.name for t in INVARIANCES)]
        names = ", ".join([*known, *(c.name for c in CONTRACTS)])
        raise UserError("--theorem", f"no theorem {wanted!r}", f"there are {names}")
    proofs: list[Proof] = []
    confirmations: list[Confirmation] = []
    for found in come_of([*theorems, *of_protocols, *chosen]):
        if isinstance(found, Proof):
            proofs.append(found)
            _print(console, *_told(found))
        else:
            confirmations.append(found)
            _print(console, *_confirmed(found))
    if args.evidence:
        write_evidence(args.evidence, [*evidence(proofs), *confirmed(confirmations)])
    failed = sum(not proof.as_expected for proof in proofs)
    failed += sum(not confirmation.as_expected for confirmation in confirmations)
    numbers = f"{_count(len(proofs), 'theorem')}, {_count(len(confirmations), 'contract')}"
    console.print(f"{numbers}, {failed} failed")
    survivors = _try_mutants(console) if args.mutants else 0
    every: list[Theorem | Invariance] = [*theorems, *of_protocols]
    disagreements = _ask_again(console, every, args.export) if args.export else 0
    return 1 if failed or survivors or disagreements else 0


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def evidence(proofs: Iterable[Proof]) -> Iterator[Evidence]:
    """What each proof says of each of its rules."""
    for proof in proofs:
        expected = Verdict.HELD if proof.theorem.holds else Verdict.REFUTED
        for rule in proof.theorem.rules:
            yield Evidence(
                rule=rule,
                kind=EvidenceKind.PROVED,
                subject=proof.theorem.name,
                verdict=expected if proof.as_expected else Verdict.VIOLATED,
                detail={
                    "statement": proof.theorem.statement,
                    "outcome": proof.outcome,
                    "bounds": proof.theorem.unbounded,
                    "goals": proof.goals,
                    "paths": proof.paths,
                },
            )


def confirmed(confirmations: Iterable[Confirmation]) -> Iterator[Evidence]:
    """What each contract says of each of its rules; one that was searched in vain says nothing."""
    for confirmation in confirmations:
        if confirmation.contract.is_searched and confirmation.as_expected:
            continue
        for rule in confirmation.contract.rules:
            yield Evidence(
                rule=rule,
                kind=EvidenceKind.CONFIRMED,
                subject=confirmation.contract.name,
                verdict=Verdict.HELD if confirmation.as_expected else Verdict.VIOLATED,
                detail={"outcome": confirmation.message},
            )


def _told(proof: Proof) -> tuple[bool, str, float, str]:
    expected = "" if proof.theorem.holds else ", as expected"
    outcome = f"{proof.theorem.statement} -- {proof.outcome}{expected}"
    return proof.as_expected, proof.theorem.name, proof.seconds, outcome


def _confirmed(confirmation: Confirmation) -> tuple[bool, str, float, str]:
    contract, outcome = confirmation.contract, confirmation.outcome
    found = confirmation.message if outcome is Outcome.FAILED else outcome
    said = f"{contract.statement} -- CrossHair: {found}"
    return confirmation.as_expected, contract.name, confirmation.seconds, said


def _print(console: Console, is_well: bool, name: str, seconds: float, outcome: str) -> None:
    """On a line of its own for programs; in a terminal the outcome stands below the name."""
    mark = "[green]ok[/]    " if is_well else "[red]FAILED[/]"
    if console.is_terminal:
        console.print(f"{mark} [bold]{name}[/]  {seconds:.1f} s")
        console.print(Padding(escape(outcome), (0, 0, 0, INDENT)))
    else:
        line = f"{mark} {name:36} {seconds:4.1f} s  {escape(outcome)}"
        console.print(line, soft_wrap=True)


def _try_mutants(console: Console) -> int:
    """Judge every mutant of every strategy; how many survive."""
    killers: Counter[str] = Counter()
    survivors = 0
    for strategy in FUNCTIONS:
        fates = []
        for mutant in of_strategy(allocation, strategy):
            fates.append(judge(mutant, allocation, about(strategy)))
            console.print(_fate_line(fates[-1]), soft_wrap=True)
        killers.update(fate.killed_by.partition(":")[0] for fate in fates if fate.killed_by)
        killed = sum(bool(fate.killed_by) for fate in fates)
        equivalent = sum(fate.equivalent for fate in fates)
        listed = sum(bool(fate.listed) for fate in fates)
        survivors += sum(fate.survived for fate in fates)
        counts = f"{killed} killed, {equivalent} proved equivalent, {listed} listed"
        console.print(f"{strategy}: {len(fates)} mutants, {counts}")
    survivors += _try_steps(console, killers)
    _print_killers(console, killers)
    return survivors


def _try_steps(console: Console, killers: Counter[str]) -> int:
    """Judge every mutant of the protocols' actions; how many survive."""
    survivors = 0
    for protocol in protocols():
        fates = []
        for mutation in steps_mutants(protocol):
            fates.append(judge_step(protocol, mutation))
            console.print(_step_line(fates[-1]), soft_wrap=True)
        killers.update(fate.killed_by.partition(":")[0] for fate in fates if fate.killed_by)
        killed = sum(bool(fate.killed_by) for fate in fates)
        harmless = sum(fate.harmless for fate in fates)
        refused = sum(bool(fate.refused) for fate in fates)
        survivors += sum(fate.survived for fate in fates)
        counts = f"{killed} killed, {harmless} harmless by proof, {refused} not read"
        console.print(f"{protocol.of}: {len(fates)} mutants, {counts}")
    return survivors


def _print_killers(console: Console, killers: Mapping[str, int]) -> None:
    """How many mutants fell to each theorem before any other; those of which none did show."""
    about_code: list[Claimed] = [each for strategy in FUNCTIONS for each in about(strategy)]
    for theorem in [*about_code, *INVARIANCES]:
        first = killers.get(theorem.name, 0)
        console.print(f"{theorem.name}: {first or 'no'} mutants fall to it first")


def _ask_again(console: Console, theorems: Iterable[Theorem | Invariance], folder: Path) -> int:
    """Write every obligation, and ask the second prover; how often the two disagree."""
    obligations = [each for theorem in theorems for each in exported(theorem, _goals(theorem))]
    write(obligations, folder)
    comparisons = []
    for obligation in obligations:
        comparisons.append(compare(obligation))
        if not comparisons[-1].agree:
            console.print(_comparison_line(comparisons[-1]), soft_wrap=True)
    agreed = sum(comparison.agree for comparison in comparisons)
    disagreed = sum(comparison.disagree for comparison in comparisons)
    silent = len(comparisons) - agreed - disagreed
    console.print(
        f"{len(comparisons)} obligations in {folder}: Z3 and cvc5 agree on {agreed}, "
        f"{silent} without an answer of one of them, {disagreed} disagreements"
    )
    return disagreed


def _goals(theorem: Theorem | Invariance) -> Sequence[Obligation]:
    if isinstance(theorem, Invariance):
        return [each.goal() for each in all_to_show(theorem, Steps(theorem.protocol))]
    return Statement.of(theorem, allocation).goals


def _comparison_line(comparison: Comparison) -> str:
    mark = "[red]DISAGREE[/]" if comparison.disagree else "[yellow]no answer[/]"
    answers = f"Z3 {comparison.exported.z3}, cvc5 {comparison.cvc5}"
    return f"{mark} {comparison.exported.filename}: {answers}"


def _step_line(fate: StepFate) -> str:
    if fate.survived:
        return f"[red]SURVIVED[/] {escape(fate.name)}"
    what = f"by {fate.killed_by}" if fate.killed_by else fate.refused or "all stays proved"
    return f"[green]ok[/] {escape(fate.name)}: {escape(what)}"


def _fate_line(fate: Fate) -> str:
    if fate.survived:
        return f"[red]SURVIVED[/] {escape(fate.mutant.name)}"
    if fate.listed:
        return f"[yellow]listed[/] {escape(fate.mutant.name)}: {fate.listed}"
    what = f"by {fate.killed_by}" if fate.killed_by else "equivalent, by proof"
    return f"[green]ok[/] {escape(fate.mutant.name)}: {escape(what)}"
