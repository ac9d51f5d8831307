"""The evidence matrix: rule by kind of evidence, with its gaps and failures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mqrules.evidence import Evidence, EvidenceKind, Verdict
from mqrules.rule import Kind, Level, Rule

# A cell is as good as the worst of its records: a result only ever gets worse.
_WORST_FIRST = (
    Verdict.VIOLATED,
    Verdict.BLOCKED,
    Verdict.NOT_RUN,
    Verdict.NOT_CLAIMED,
    Verdict.UNDECIDABLE,
    Verdict.DEVIATES,
    Verdict.REFUTED,
    Verdict.HELD,
)
# What closes a need: that the rule held, or of an ideal that its counterexample was found. One
# that held only was not looked at where it fails, as by the quick tier of the models.
_CLOSES = {Kind.IDEAL: {Verdict.REFUTED}}
_CLOSES_PROMISE = {Verdict.HELD, Verdict.DEVIATES}


@dataclass(frozen=True, slots=True)
class Cell:
    """All evidence of one kind for one rule: the worst verdict, and the records."""

    verdict: Verdict
    records: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One rule and its cells. A kind without evidence has no cell."""

    rule: Rule
    cells: Mapping[EvidenceKind, Cell]

    @property
    def gaps(self) -> tuple[EvidenceKind, ...]:
        """The kinds that the rule needs and that nothing closes."""
        closes = _CLOSES.get(self.rule.kind, _CLOSES_PROMISE)
        cells = self.cells
        return tuple(k for k in self.rule.needs if k not in cells or cells[k].verdict not in closes)

    @property
    def failed(self) -> bool:
        """Whether any evidence says that the rule is violated."""
        return any(cell.verdict is Verdict.VIOLATED for cell in self.cells.values())

    @property
    def fails_build(self) -> bool:
        """A MUST with a gap or a failure; any rule whose evidence is not what it should be."""
        return self.failed or (self.rule.level is Level.MUST and bool(self.gaps))


@dataclass(frozen=True, slots=True)
class Matrix:
    """The rows in the order of the rules, and the kills of seeded defects."""

    rows: tuple[Row, ...]
    kills: tuple[Evidence, ...]  # `refuted`: the check noticed the defect

    def violations(self) -> Iterator[str]:
        """A line for each rule that is violated, and each defect that nothing noticed."""
        for row in self.rows:
            if row.failed:
                cells = row.cells.values()
                bad = next(r for c in cells for r in c.records if r.verdict is Verdict.VIOLATED)
                problem = bad.detail.get("problem", "violated")
                yield f"{row.rule.id}: {bad.kind.value}, {bad.subject}: {problem}"
        for kill in self.kills:
            if kill.verdict is Verdict.VIOLATED:
                problem = kill.detail.get("problem", "it was not noticed")
                yield f"{kill.rule}: the defect {kill.defect}, {kill.subject}: {problem}"

    def gaps(self) -> Iterator[str]:
        """A line for each rule that fails the build though nobody found it violated."""
        for row in self.rows:
            if row.fails_build and not row.failed:
                missing = ", ".join(kind.value for kind in row.gaps)
                yield f"{row.rule.id}: not {missing}, and a MUST"


def matrix(rules: Mapping[str, Rule], records: Iterable[Evidence]) -> Matrix:
    """Merge evidence. Raises KeyError where a record names no known rule."""
    by_cell: dict[tuple[str, EvidenceKind], list[Evidence]] = defaultdict(list)
    kills = []
    for record in records:
        if record.rule not in rules:
            raise KeyError(record.rule)
        if record.defect is None:
            by_cell[record.rule, record.kind].append(record)
        else:
            kills.append(record)
    rows = []
    for rule in rules.values():
        cells = {
            kind: Cell(_worst(by_cell[rule.id, kind]), tuple(by_cell[rule.id, kind]))
            for kind in EvidenceKind
            if (rule.id, kind) in by_cell
        }
        rows.append(Row(rule, cells))
    return Matrix(tuple(rows), tuple(kills))


def _worst(records: list[Evidence]) -> Verdict:
    return min((record.verdict for record in records), key=_WORST_FIRST.index)
