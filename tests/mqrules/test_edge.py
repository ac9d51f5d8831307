"""Edges: each limit in a rule's sentence is tried on both of its sides, or it is said why not."""

from __future__ import annotations

from collections import defaultdict

import pytest

from mqconform.case import at_edges
from mqconform.command import run_pytest
from mqconform.plugin import case_of
from mqrules import Edge, UserError, edges, rules, untried, without_edges
from mqrules.edge import _check, limits


class Tried:
    """A plugin that sees which edges cases try, of the rules for which they say that they are."""

    def __init__(self) -> None:
        self.values: defaultdict[tuple[str, str], set[tuple[object, object]]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        for item in items:
            case = case_of(item)
            for mark in item.iter_markers("edge"):
                edge = mark.args[0]
                if case and edge.rule in case.rules:
                    value = item.callspec.params["value"], item.callspec.params["fits"]
                    self.values[edge.rule, edge.of].add(value)


def test_every_edge_is_tried_by_a_case_for_its_rule() -> None:
    tried = Tried()
    run_pytest(["--collect-only"], tried)
    assert tried.values == {
        (edge.rule, edge.of): {(v, True) for v in edge.inside} | {(v, False) for v in edge.outside}
        for several in edges().values()
        for edge in several
    }


def test_a_rule_with_a_limit_has_an_edge_or_a_reason() -> None:
    assert list(without_edges()) == []


def test_a_reason_is_given_for_rules_with_a_limit_only() -> None:
    assert [rule for rule in untried() if not limits(rules()[rule].text)] == []
    assert all(why.endswith(".") for why in untried().values())


@pytest.mark.parametrize(
    "text",
    [
        "A key of more than 64 bytes is refused.",
        "A key has at most 1,024 characters.",
        "A key is kept for 30 s.",
        "A key (5 minutes) is kept.",
        "A key that was asked for transactionCheckMax (15) times goes.",
        "A version of 401 or more is answered.",
        "It has no more than it asks for, nor than 32.",
    ],
)
def test_these_sentences_have_a_limit(text: str) -> None:
    assert limits(text)


@pytest.mark.parametrize(
    "text",
    [
        "Request 17 is answered with code 29 and SYSTEM_BUSY (2).",
        "An id below 0 means all, and offsets start at 0.",
        "A group@1 of v5.3.3 is in queue 0 of the topic.",
    ],
)
def test_codes_and_nothings_are_no_limits(text: str) -> None:
    assert not limits(text)


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        ("NONE-001", (1,), (2,)),
        ("SEND-008", (), (128,)),
        ("SEND-008", (127,), ()),
        ("SEND-008", (126,), (128,)),  # the edge itself is in neither
        ("SEND-008", (126, 128), (127, 129)),
    ],
)
def test_what_is_no_edge_is_refused(
    rule: str, inside: tuple[int, ...], outside: tuple[int, ...]
) -> None:
    with pytest.raises(UserError):
        _check(Edge(rule, "characters", inside, outside))


def test_a_case_cannot_name_an_edge_that_is_none() -> None:
    with pytest.raises(UserError, match="bytes of the moon"):
        at_edges("SEND-008", "bytes of the moon")
