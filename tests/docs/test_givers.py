"""The rules' pages name what gives evidence: all of it, of every kind, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from mqaudit.history_checks import HISTORY_CHECKS
from mqcheck.manifest import models
from mqdocs.givers import conformance_cases, givers
from mqdocs.rules import again
from mqprove.contracts import CONTRACTS
from mqprove.protocols import INVARIANCES
from mqprove.theorems import THEOREMS
from mqrules import EvidenceKind, rules
from mqspec.commands import paths

WIDE = os.environ | {"COLUMNS": "300"}  # names are not cut


PROVED = {theorem.name for theorem in THEOREMS} | {theorem.name for theorem in INVARIANCES}


def subjects(kind: EvidenceKind) -> set[str]:
    return {
        giver.subject for of_rule in givers().values() for giver in of_rule if giver.kind is kind
    }


def test_only_rules_are_named() -> None:
    assert givers().keys() <= rules().keys()


def test_every_giver_of_every_kind_is_there() -> None:
    named = {subject.partition(":")[0] for subject in subjects(EvidenceKind.CHECKED)}
    assert named == {
        m.name
        for m in models().values()
        if any(m.holds.values()) or any(broken.rules for broken in m.breaks.values())
    }
    of_parts = {theorem.name for theorem in INVARIANCES if not theorem.rules}
    assert subjects(EvidenceKind.PROVED) == PROVED - of_parts
    assert subjects(EvidenceKind.CONFORMS) == {name for name, _ in conformance_cases()}
    judging = {check.name for check in HISTORY_CHECKS if check.can_violate or check.ideal}
    assert subjects(EvidenceKind.AUDITED) >= judging
    assert subjects(EvidenceKind.CONFIRMED)
    assert subjects(EvidenceKind.SAMPLED) == {paths.SUBJECT}


def test_every_case_of_the_suite_is_found() -> None:
    mqspec = [sys.executable, "-m", "mqspec.cli", "conform", "--list"]
    done = subprocess.run(mqspec, capture_output=True, text=True, check=True, timeout=60, env=WIDE)
    assert {name for name, _ in conformance_cases()} == set(re.findall(r"\btest_\w+", done.stdout))


def test_each_rule_names_commands_that_there_are() -> None:
    theorems = PROVED | {each.name for each in CONTRACTS}
    for rule in rules().values():
        of_rule = givers().get(rule.id, ())
        commands = [command.split() for command in again(rule, of_rule)]
        repeated = {kind for kind in EvidenceKind if kind is not EvidenceKind.AUDITED}
        assert bool(commands) >= bool(repeated & {giver.kind for giver in of_rule}), rule.id
        for _, job, *words in commands:
            match job:
                case "check":
                    assert set(words) <= models().keys()
                    assert words
                case "prove":
                    assert words[0] == "--theorem"
                    assert words[1] in theorems
                case "paths":
                    assert not words
                case _:
                    assert [job, *words] == ["conform", "reference", "--rule", rule.id]


def test_a_rule_with_nothing_has_no_command() -> None:
    assert list(again(rules()["ALLOC-001"], ())) == []
