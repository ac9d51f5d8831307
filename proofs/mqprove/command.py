"""Prove theorems about the reference's own code, for every number of queues and members.

Each theorem is proved by Z3 about the functions that the reference runs, or fails with a
counterexample in numbers. Some are expected to fail: they show what a precondition is for.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mqprove.prover import Proof, prove
from mqprove.theorems import THEOREMS
from mqrules import Evidence, EvidenceKind, UserError, Verdict, write_evidence
from mqspec.core import allocation

HELP = "prove theorems about the code that runs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--theorem", metavar="NAME", help="only this one")
    parser.add_argument(
        "--evidence", metavar="FILE", type=Path, help="write evidence as JSON lines"
    )


def run(args: argparse.Namespace) -> int:
    """Prove; 1 where a theorem does not come out as expected."""
    chosen = [t for t in THEOREMS if args.theorem in (None, t.name)]
    if not chosen:
        names = ", ".join(theorem.name for theorem in THEOREMS)
        raise UserError("--theorem", f"no theorem {args.theorem!r}", f"there are: {names}")
    proofs = []
    for theorem in chosen:
        proof = prove(theorem, allocation)
        proofs.append(proof)
        mark = "ok  " if proof.as_expected else "FAIL"
        print(f"{mark}  {theorem.name:32}  {proof.seconds:5.2f} s  {proof.outcome}", flush=True)
    if args.evidence:
        write_evidence(args.evidence, [e for proof in proofs for e in evidence(proof)])
    return 0 if all(proof.as_expected for proof in proofs) else 1


def evidence(proof: Proof) -> list[Evidence]:
    """What a proof says of each of its rules."""
    expected = Verdict.HELD if proof.theorem.holds else Verdict.REFUTED
    return [
        Evidence(
            rule=rule,
            kind=EvidenceKind.PROVED,
            subject=proof.theorem.name,
            verdict=expected if proof.as_expected else Verdict.VIOLATED,
            detail={
                "statement": proof.theorem.statement,
                "outcome": proof.outcome,
                "goals": proof.goals,
                "paths": proof.paths,
            },
        )
        for rule in proof.theorem.rules
    ]
