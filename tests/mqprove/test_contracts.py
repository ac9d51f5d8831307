"""CrossHair's contracts: all come out as they should, and each refuses code that is wrong."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from edited import edited

from mqprove import contracts
from mqprove.contracts import Contract, Outcome, confirming

BY_NAME = {contract.name: contract for contract in contracts.CONTRACTS}
CANNOT_HAVE_ALL_PATHS = {
    "a-reset-lies-in-the-queue",
    "an-ack-names-a-message-of-the-queue",
    "a-request-that-waited-too-long-is-refused",
}

WRONG = tomllib.loads(Path(__file__).with_name("contract_edits.toml").read_text())


@pytest.mark.parametrize("contract", contracts.CONTRACTS, ids=lambda contract: contract.name)
def test_every_contract_comes_out_as_it_should(contract: Contract) -> None:
    confirmation = contracts.confirm(contract)
    assert confirmation.as_expected, confirmation.message


def test_what_is_only_searched_is_named() -> None:
    assert {each.name for each in contracts.CONTRACTS if each.is_searched} == CANNOT_HAVE_ALL_PATHS
    assert len(BY_NAME) == len(contracts.CONTRACTS)


def test_each_contract_has_wrong_code_that_it_refuses() -> None:
    assert WRONG.keys() == BY_NAME.keys()


def area_of(contract: Contract) -> ModuleType:
    (area,) = (each for each in contracts.AREAS if each.__name__ == contract.said.__module__)
    return area


@pytest.mark.parametrize("name", WRONG)
def test_wrong_code_is_refused_with_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edit = WRONG[name]
    module = import_module(f"mqspec.core.{edit['module']}")
    wrong = edited(module, edit["right"], edit["wrong"])
    monkeypatch.setattr(area_of(BY_NAME[name]), edit["module"], wrong)
    confirmation = contracts.confirm(BY_NAME[name])
    assert confirmation.outcome is Outcome.FAILED
    assert f"{BY_NAME[name].said.__name__}(" in confirmation.message


def test_a_function_without_a_contract_fails() -> None:
    def unsaid(queues: int) -> bool:
        return queues > 0

    confirmation = contracts.confirm(Contract(unsaid, ()))
    assert not confirmation.as_expected
    assert confirmation.message == "nothing to check"


def test_what_has_no_end_of_paths_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirming, "CONFIRMED_S", 1.0)

    def is_written_as_it_is_read(number: int) -> bool:
        """post: _"""
        return int(str(number)) == number

    searched = contracts.confirm(Contract(is_written_as_it_is_read, (), is_searched=True))
    assert searched.outcome is Outcome.NOTHING_FOUND
    assert searched.as_expected
    asked = contracts.confirm(Contract(is_written_as_it_is_read, ()))
    assert not asked.as_expected
