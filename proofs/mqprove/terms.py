"""What Z3's formulas are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def functions_in(formulas: Iterable[z3.ExprRef]) -> set[str]:
    """The names of what is applied."""
    return {term.decl().name() for term in applications(formulas)}
