"""CrossHair's contracts: all confirmed, and one about wrong code refuted with numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mqprove import contracts


@pytest.mark.parametrize("contract", contracts.CONTRACTS, ids=lambda contract: contract.__name__)
def test_every_contract_is_confirmed_over_all_paths(contract: Callable[..., bool]) -> None:
    confirmation = contracts.confirm(contract)
    assert confirmation.confirmed, confirmation.message


def test_a_contract_that_wrong_code_breaks_is_not_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def overlapping(queues: int, members: int, index: int) -> tuple[int, int]:
        return index * (queues // members), (index + 1) * (queues // members) + 1

    monkeypatch.setattr(contracts, "average_slice", overlapping)
    confirmation = contracts.confirm(contracts.slices_are_adjacent)
    assert not confirmation.confirmed
    assert "slices_are_adjacent(" in confirmation.message


def test_a_function_without_a_contract_is_not_confirmed() -> None:
    def unsaid(queues: int) -> bool:
        return queues > 0

    assert not contracts.confirm(unsaid).confirmed
