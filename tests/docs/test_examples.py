"""What the how-tos show of runs that take too long for a build is what the code would say."""

from __future__ import annotations

import re

from built import DOCS, Book

from mqaudit.history_checks import HISTORY_CHECKS
from mqdocs.givers import conformance_cases
from mqdocs.twin import actions_of
from mqrules import rules


def test_the_cases_that_are_shown_are_there_with_their_rule_level_and_party() -> None:
    page = (DOCS / "how-to" / "conform.md").read_text(encoding="utf-8")
    shown = re.findall(r"^  ([A-Z]+-\d{3}) +(\w+) +(\w+) +(\w+) +passed$", page, re.MULTILINE)
    cases = dict(conformance_cases())
    assert len(shown) >= 3
    for rule, level, party, name in shown:
        case = cases[f"test_{name}"]
        assert rule in case.rules
        assert (level, party) == (rules()[rule].level.value, case.party.value)


def test_the_findings_that_are_shown_are_those_of_checks() -> None:
    page = (DOCS / "how-to" / "audit.md").read_text(encoding="utf-8")
    block = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert block
    about = {f"{check.name}: {check.about}": check for check in HISTORY_CHECKS}
    shown = [line for line in block[1].splitlines() if re.match(r"[a-z ]+: ", line)]
    assert shown
    assert [line for line in shown if line not in about] == []
    for rule, why in re.findall(r"permitted ([A-Z]+-\d{3}): (.*)$", block[1], re.MULTILINE):
        outcomes = [
            (check.rule_of(name), outcome.why)
            for check in HISTORY_CHECKS
            for name, outcome in check.outcomes.items()
        ]
        assert (rule, why) in outcomes


def test_a_rule_leads_to_its_actions_incidents_and_defects(book: Book) -> None:
    assert "OffsetCommit!ProcessConsumeResult" in actions_of()["OFFSET-002"]
    page = book.pages()["rules/offset-commit.html"]
    section = page[page.index('id="rule-OFFSET-002"') : page.index('id="rule-OFFSET-003"')]
    for target in (
        "specs/offset-commit.html#tla-OffsetCommit-ProcessConsumeResult",
        "incidents/damaged-offsets.html",
        "defects.html#defect-CommitsLargest",
    ):
        assert f'href="../{target}"' in section
