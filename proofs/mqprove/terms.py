"""What Z3's formulas are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import z3


def applications(formulas: Iterable[z3.ExprRef]) -> Iterator[z3.ExprRef]:
    """All constants and applied functions, each once."""
    seen: set[int] = set()
    pending = list(formulas)
    while pending:
        term = pending.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        if z3.is_quantifier(term):
            pending.append(term.body())
        elif z3.is_app(term):
            yield term
            pending += term.children()


@dataclass
class Functions:
    """The functions that formulas apply, by name: each formula is looked through once."""

    _known: dict[int, tuple[z3.ExprRef, frozenset[str]]] = field(default_factory=dict)

    def of(self, formulas: Iterable[z3.ExprRef]) -> frozenset[str]:
        """The names of what is applied in some of them."""
        return frozenset().union(*map(self._of_one, formulas))

    def _of_one(self, formula: z3.ExprRef) -> frozenset[str]:
        number = formula.get_id()
        if number not in self._known:
            names = frozenset(term.decl().name() for term in applications([formula]))
            self._known[number] = (formula, names)  # kept, so that its number is no other's
        return self._known[number][1]
