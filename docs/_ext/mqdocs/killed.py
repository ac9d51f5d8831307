"""`{killed} brokers` and `{killed} mutants`: which mistakes the suite notices, and by what, from
the runs that docs/killed keeps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mqdocs.markup import Cell, listed, paragraph, references, table, text
from mqrules import rules

FOLDER: Final = "killed"
NAMED: Final = 3  # of the cases that notice a mistake, those that a page names

Found = Mapping[str, Any]


def kept(docs: Path, what: str) -> Found:
    """What `judge.py --keep` recorded of wrong brokers, or `mutants.py --keep` of mutants."""
    found: Found = json.loads((docs / FOLDER / f"{what}.json").read_text(encoding="utf-8"))
    return found


class KilledDirective(SphinxDirective):
    """The wrong brokers, by kind, or the mutants, by module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        found = kept(Path(self.env.srcdir), self.arguments[0])
        if self.arguments[0] == "mutants":
            return [told_of_mutants(found), *_of_mutants(found["mutants"])]
        return [told_of_brokers(found), *self._of_brokers(found["brokers"])]

    def _of_brokers(self, brokers: Iterable[Found]) -> Iterator[nodes.Node]:
        heads = ["wrong broker", "cases that fail", "rules", "exploration"]
        for kind, of_kind in _grouped(brokers, "kind"):
            yield nodes.rubric("", kind.capitalize())
            yield table(heads, map(self._broker, of_kind), "killed")

    def _broker(self, one: Found) -> list[Cell]:
        known = sorted({rule for of in one["cases"].values() for rule in of} & rules().keys())
        explored = one["explored"]
        return [
            [nodes.literal("", one["name"]), *text(f" {one['about']}")],
            _cases(list(one["cases"])),
            references("rule", known, self.env.docname),
            text(f"after {explored['requests']:,} requests" if explored else "nothing"),
        ]


def told_of_brokers(found: Found) -> nodes.paragraph:
    """How many are noticed by what: each is counted once."""
    brokers = found["brokers"]
    seconds = max(one["seconds"] for one in brokers)
    by_cases = sum(bool(one["cases"]) for one in brokers)
    explored = sum(bool(one["explored"]) and not one["cases"] for one in brokers)
    left = [one["name"] for one in brokers if not one["cases"] and not one["explored"]]
    counts = f"{by_cases} are noticed by cases, {explored} more by exploration only"
    said = f"Of {len(brokers)} wrong brokers {counts}"
    end = f", and {len(left)} by nothing: {', '.join(left)}." if left else "."
    return paragraph(*text(f"{said}, in at most {seconds:.0f} s each{end}"))


def told_of_mutants(found: Found) -> nodes.paragraph:
    """How many are killed by what, and what that is of those that can be."""
    mutants = found["mutants"]
    by = [one["killed_by"].partition(":")[0] for one in mutants]
    equivalent = sum(not one["killed_by"] and bool(one["why"]) for one in mutants)
    killed, can_be = sum(map(bool, by)), len(mutants) - equivalent
    counts = f"{by.count('cases')} by cases, {by.count('exploration')} by exploration"
    said = f"Of {len(mutants)} mutants of seed {found['seed']} {killed} are killed: {counts}"
    rate = f"{killed / can_be:.0%}" if can_be else "none"
    rest = f"{equivalent} are equivalent, which leaves {rate} of {can_be}"
    return paragraph(*text(f"{said}, in {found['seconds']:.0f} s at most. {rest}."))


def _of_mutants(mutants: Iterable[Found]) -> Iterator[nodes.Node]:
    heads = ["line", "change", "killed by"]
    for module, of_module in _grouped(mutants, "path"):
        yield nodes.rubric("", module.removeprefix("reference/mqspec/"))
        yield table(heads, map(_mutant, of_module), "killed")


def _mutant(one: Found) -> list[Cell]:
    kind, _, what = one["killed_by"].partition(": ")
    if kind == "cases":
        killer: list[nodes.Node] = [nodes.literal("", what.rpartition("::")[2])]
    else:
        killer = text(one["killed_by"] or one["why"] or "nothing")
    change = [nodes.literal("", one["was"]), nodes.Text(" → "), nodes.literal("", one["becomes"])]
    return [text(one["line"]), change, killer]


def _cases(names: Sequence[str]) -> list[nodes.Node]:
    """The first few, and how many there are besides."""
    if not names:
        return text("none")
    said = listed(nodes.literal("", name) for name in names[:NAMED])
    more = len(names) - NAMED
    return [*said, *text(f", and {more} more")] if more > 0 else said


def _grouped(found: Iterable[Found], by: str) -> Iterator[tuple[str, list[Found]]]:
    ordered = sorted(found, key=lambda one: str(one[by]))
    for name, of_name in groupby(ordered, key=lambda one: str(one[by])):
        yield name, list(of_name)
