"""The page of mathematics has the definition of each claim about a protocol."""

from __future__ import annotations

import pytest

from mqdocs.theorems import definition, sources
from mqprove.inductive import Invariance
from mqprove.protocols import INVARIANCES


@pytest.mark.parametrize("theorem", INVARIANCES, ids=lambda theorem: theorem.name)
def test_a_claim_is_shown_as_it_stands(theorem: Invariance) -> None:
    shown = definition(theorem)
    source = [path.read_text(encoding="utf-8") for path in sources(theorem)]
    body = shown.partition("==\n")[2].strip()
    assert shown.startswith(f"{theorem.claim} ==")
    assert body
    assert any(body in text for text in source)
    assert "(*" not in shown
