"""Explain a rule, an incident, a defect, a symptom, or a line of a log.

  mqspec explain OFFSET-006        a rule, with its evidence from the last `mqspec verify`
  mqspec explain A                 an incident, by its letter or its page: same-client-id
  mqspec explain SameClientId      a defect of the catalogue
  mqspec explain twice             what people see: twice, never, still, release, crash, ...
  mqspec explain 'WARN ... the pull request offset illegal, ...'
                                   a line that the Java client, broker or nameserver wrote

Without anything it lists what there is. Exit code 2 where nothing is known by that name.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mqrules import (
    Defect,
    Evidence,
    Incident,
    Kind,
    LogLine,
    Rule,
    Symptom,
    UserError,
    defects,
    find_log_lines,
    incidents,
    log_lines,
    rules,
    symptoms,
    ways_to,
)
from mqrules.schema import decode

HELP = "explain a rule, an incident, a defect, a symptom or a line of a log"

SHOWN = 6  # of the records of one kind of evidence


def configure(parser: argparse.ArgumentParser) -> None:
    """What to explain, and where the evidence is."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", nargs="*", metavar="WHAT", help="an id, a name, or a line of a log")
    parser.add_argument(
        "--report",
        type=Path,
        default=Path(".mqspec/verify/report.json"),
        metavar="FILE",
        help="of `mqspec verify`, for the evidence (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Explain, or list what can be explained."""
    console = Console(highlight=False)
    words = " ".join(args.what).strip()
    found = list(explained(words, args.report)) if words else [_contents()]
    if not found:
        raise UserError(words, "nothing is known by that name", _advice(words))
    for number, entry in enumerate(found):
        if number:
            console.print()
        entry.show(console)
    return 0


@dataclass(frozen=True, slots=True)
class Entry:
    """What is printed of one thing: a head, what it says, and named facts below."""

    head: str
    says: str
    facts: tuple[tuple[str, tuple[str, ...]], ...]

    def show(self, console: Console) -> None:
        """Print it, wrapped to the console; a fact that says nothing is left out."""
        console.print(Text(self.head, style="bold"))
        console.print(Padding(Text(self.says), (0, 0, 0, 2)))
        facts = Table.grid(padding=(0, 2, 0, 0))
        for name, lines in self.facts:
            for number, line in enumerate(filter(None, lines)):
                facts.add_row(f"[dim]{name}[/]" if number == 0 else "", escape(line))
        console.print(Padding(facts, (0, 0, 0, 2)))


def explained(words: str, report: Path) -> Iterator[Entry]:
    """All that the words may mean: by id first, then a symptom, then lines of logs."""
    by_id: dict[str, Entry] = {}
    if rule := rules().get(words.upper()):
        by_id["rule"] = _rule(rule, report)
    if incident := _incident_named(words):
        by_id["incident"] = _incident(incident)
    if defect := defects().get(words):
        by_id["defect"] = _defect(defect)
    if by_id:
        yield from by_id.values()
        return

    wanted = words.lower()
    seen = [s for s in symptoms() if wanted == s.id or wanted in s.title.lower()]
    yield from map(_symptom, seen)
    if not seen:
        yield from map(_log_line, find_log_lines(words))


def _incident_named(words: str) -> Incident | None:
    named = words.removeprefix("incident ").removeprefix("Incident ")
    by_page = {incident.page: incident for incident in incidents().values()}
    return incidents().get(named.upper()) or by_page.get(named)


def _rule(rule: Rule, report: Path) -> Entry:
    level = "ideal" if rule.kind is Kind.IDEAL else f"{rule.kind.value}, {rule.level.value}"
    until = f", until {rule.until}" if rule.until else ""
    return Entry(
        f"{rule.id}  ({level}; binds the {rule.party.value}; since {rule.since}{until})",
        rule.text,
        (
            ("true when", (rule.assumption or "",)),
            ("source", (rule.source,)),
            ("needs", (", ".join(kind.value for kind in rule.needs),)),
            ("evidence", tuple(_evidence(rule, report))),
            ("broken by", tuple(_titles(d for d in defects().values() if rule.id in d.breaks))),
            ("incidents", tuple(_titles(i for i in incidents().values() if rule.id in i.rules))),
            ("logged as", tuple(line.text for line in log_lines() if rule.id in line.rules)),
        ),
    )


def _evidence(rule: Rule, report: Path) -> Iterator[str]:
    """A line for each kind of evidence that the last report has, with its records."""
    if not report.is_file():
        yield f"no report at {report}: run `mqspec verify`, or name one by --report"
        return
    try:
        data = json.loads(report.read_text(encoding="utf-8"))
        entries = next((r for r in data["rules"] if r["rule"]["id"] == rule.id), None)
        records = [decode(Evidence, e, str(report)) for e in entries["evidence"]] if entries else []
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(str(report), f"not a report: {error}", "run `mqspec verify`") from None
    if not records:
        yield f"none in {report}"
    for kind in dict.fromkeys(record.kind for record in records):
        of_kind = [record for record in records if record.kind is kind]
        shown = ", ".join(f"{r.subject} ({r.verdict.value})" for r in of_kind[:SHOWN])
        more = f", and {len(of_kind) - SHOWN} more" if len(of_kind) > SHOWN else ""
        yield f"{kind.value} by {shown}{more}"


def _incident(incident: Incident) -> Entry:
    return Entry(
        f"Incident {incident.id}: {incident.title}  ({incident.kind})",
        incident.seen,
        (
            ("look at", (incident.mqadmin,)),
            (
                "it may be",
                tuple(f"{symptom.title}: {case.when}" for symptom, case in ways_to(incident.id)),
            ),
            ("rules", tuple(f"{name}: {rules()[name].text}" for name in incident.rules)),
            ("models", (", ".join(incident.models),)),
            ("defects", (", ".join(incident.defects),)),
            (
                "logged as",
                tuple(line.text for line in log_lines() if incident.id in line.incidents),
            ),
            ("see again", tuple(f"mqspec check {name}" for name in _shown_by(incident))),
            ("read", (f"docs/incidents/{incident.page}.md: what happens, and what to do",)),
        ),
    )


def _shown_by(incident: Incident) -> list[str]:
    """The models that show an incident: its own, else those of its defects."""
    of_defects = (defects()[name].model for name in incident.defects)
    return [*incident.models] or [model for model in of_defects if model]


def _defect(defect: Defect) -> Entry:
    return Entry(
        f"Defect {defect.id}",
        defect.title,
        (
            ("how", (defect.mechanism,)),
            ("breaks", tuple(f"{name}: {rules()[name].text}" for name in defect.breaks)),
            ("seen in", (defect.incident, ", ".join(defect.issues))),
            ("fixed", (defect.fixed,)),
            ("model", (f"mqspec check {defect.model}" if defect.model else "",)),
            ("detected by", (defect.case or "",)),
        ),
    )


def _symptom(symptom: Symptom) -> Entry:
    ways = tuple(
        f"{case.when}: incident {case.incident}, {incidents()[case.incident].title}"
        for case in symptom.case
    )
    return Entry(symptom.title, symptom.look, (("if", ways),))


def _log_line(line: LogLine) -> Entry:
    named = _titles(incidents()[name] for name in line.incidents)
    return Entry(
        line.text,
        line.means,
        (
            ("act", (line.act,)),
            ("written by", (f"the {line.by}, {line.source} ({line.level}, 5.3.3)",)),
            ("incidents", tuple(named)),
            ("rules", tuple(f"{name}: {rules()[name].text}" for name in line.rules)),
        ),
    )


def _titles(several: Iterable[Defect | Incident]) -> Iterator[str]:
    return (f"{each.id}: {each.title}" for each in several)


def _contents() -> Entry:
    return Entry(
        "mqspec explain WHAT",
        "A rule, an incident, a defect, a symptom, or a line of a log.",
        (
            ("symptoms", tuple(f"{s.id}: {s.title}" for s in symptoms())),
            ("incidents", tuple(_titles(incidents().values()))),
            ("rules", (f"{len(rules())}, such as OFFSET-006",)),
            ("defects", (f"{len(defects())}, such as SameClientId",)),
            ("log lines", (f"{len(log_lines())}: paste one, in quotes",)),
        ),
    )


def _advice(words: str) -> str:
    names = [*rules(), *defects(), *(i.page for i in incidents().values())]
    close = get_close_matches(words.upper(), names, 3) or get_close_matches(words, names, 3)
    near = f"did you mean {', '.join(close)}? " if close else ""
    return f"{near}`mqspec explain` lists what there is"
