"""A second prover on the same obligations: cvc5 reads in SMT-LIB what Z3 was asked.

Of each obligation a file says the hypotheses and the goal's negation: `unsat` is a proof. A file
stands alone, so that any other prover can be asked as well. Two provers that answer differently
are a mistake in one of them, or in the file, and nothing that rests on it is worth anything: that
fails. One that gives no answer in its time contradicts nobody, and confirms nothing either.

How the code is read is common to both: a path that Z3 finds impossible is not followed, and that
the others cover all cases is an obligation of its own, which both are asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import z3

from mqprove.any_group import Obligation
from mqprove.prover import PROOF_MS_MAX, Claimed, valid
from mqrules import UserError

ANSWERS = ("sat", "unsat")  # any other is none


@dataclass(frozen=True, slots=True)
class Exported:
    """An obligation of a theorem as text in SMT-LIB 2.6, and what Z3 answers."""

    theorem: str
    what: str
    number: int
    text: str
    z3: str

    @property
    def filename(self) -> str:
        """Of the theorem, the obligation's number, and its words."""
        words = re.sub(r"[^a-z0-9]+", "-", self.what.lower()).strip("-")[:60].strip("-")
        return f"{self.theorem}--{self.number:02}-{words}.smt2"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What both provers say of one obligation."""

    exported: Exported
    cvc5: str

    @property
    def agree(self) -> bool:
        return self.exported.z3 == self.cvc5 and self.cvc5 in ANSWERS

    @property
    def disagree(self) -> bool:
        """Whether both answer, and differently."""
        answers = {self.exported.z3, self.cvc5}
        return len(answers) == 2 and answers <= set(ANSWERS)


def exported(theorem: Claimed, goals: Sequence[Obligation]) -> Iterator[Exported]:
    """Every obligation of a theorem."""
    for number, goal in enumerate(goals, start=1):
        solver = z3.Solver()
        solver.set("timeout", PROOF_MS_MAX)
        solver.add([_standard(each) for each in (*goal.hypotheses, z3.Not(goal.goal))])
        heading = (
            f"; {theorem.name}: {theorem.statement}",
            f"; obligation {number} of {len(goals)}: {goal.what}",
            "; unsat is a proof",
            "(set-logic ALL)",
        )
        text = "\n".join([*heading, solver.to_smt2()])
        answer = "unsat" if valid(goal) else str(solver.check())
        yield Exported(theorem.name, goal.what, number, text, answer)


def _standard(term: z3.BoolRef) -> z3.BoolRef:
    """Z3 has `or` and `and` of nothing, SMT-LIB has not."""
    none = ((z3.Or([]), z3.BoolVal(False)), (z3.And([]), z3.BoolVal(True)))
    return z3.substitute(term, *none)


def write(obligations: list[Exported], folder: Path) -> None:
    """A file for each, in a folder that is created where it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for obligation in obligations:
            (folder / obligation.filename).write_text(obligation.text, encoding="utf-8")
    except OSError as error:
        raise UserError(str(folder), f"cannot be written to: {error.strerror}") from None


def compare(obligation: Exported) -> Comparison:
    """Ask cvc5, with Z3's time."""
    return Comparison(obligation, ask_cvc5(obligation.text))


def ask_cvc5(text: str) -> str:
    """What cvc5 answers to a text in SMT-LIB: sat, unsat, or unknown."""
    try:
        import cvc5
    except ModuleNotFoundError as error:
        raise UserError("--export", f"the package {error.name} is not installed") from None
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(PROOF_MS_MAX))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    said = []
    while not (command := parser.nextCommand()).isNull():
        said.append(command.invoke(solver, parser.getSymbolManager()).strip())
    return next((line for line in said if line in ANSWERS), "unknown")
