"""An audit as one page that asks for nothing outside itself."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from mqaudit.pictures import STEPS, Happened, Pictures, worst
from mqaudit.plots import plots
from mqaudit.report import AuditReport, Judgement
from mqrules import incidents, rules
from mqrules.sequence import Diagram, Row, draw

TEMPLATE: Final = "audit.html.jinja"

# How an event is drawn: whether it goes to its broker, comes from there, or stays where it was,
# and in what words.
_DRAWN: Final = {
    "send": ("to", "sends {message}"),
    "receive": ("from", "gives {message}, offset {offset}"),
    "ack": ("at", "is done with {message}"),
    "commit": ("to", "commits {offset}"),
    "query_offset": ("from", "tells it to go on at {offset}"),
    "publish": ("to", "commits the transaction of {message}"),
    "rollback": ("to", "rolls back the transaction of {message}"),
    "assign": ("at", "owns queue {queue_id}"),
    "revoke": ("at", "gives up queue {queue_id}"),
    "lock": ("to", "locks queue {queue_id}"),
    "unlock": ("to", "unlocks queue {queue_id}"),
    "subscribe": ("at", "subscribes"),
    "view": ("from", "names {value} members to it"),
    "join": ("at", "joins"),
    "leave": ("at", "leaves"),
    "crash": ("at", "dies"),
    "restart": ("at", "starts again"),
}
_OUTCOMES: Final = {"invoked": " ...", "failed": ", refused", "unknown": ", without an answer"}


def page(report: AuditReport, pictures: Pictures | None, book: str = "") -> str:
    """The page; `pictures` are None where no history was judged. What was recorded is text.

    `book` is where the design reference is served or lies, for links to its incidents.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = files("mqaudit").joinpath("data", TEMPLATE).read_text(encoding="utf-8")
    found = worst(report)
    diagrams = _diagrams(pictures) if pictures else {}
    return environment.from_string(source).render(
        report=report,
        pictures=pictures,
        found=found,
        unseen=[check.name for check in report.checks if not check.examined],
        undecided=[
            (check.name, finding)
            for check in report.checks
            for finding in check.findings
            if finding.judgement in (Judgement.UNDECIDABLE, Judgement.OPEN)
        ],
        incidents={one.page: one for one in incidents().values()},
        book=book.rstrip("/"),
        rules=rules(),
        charts=[*plots(pictures)] if pictures else [],
        diagrams=diagrams,
        steps=STEPS,
        raw=Markup,
    )


def _diagrams(pictures: Pictures) -> dict[tuple[str, str], str]:
    """By check and why the events around a finding, as an SVG element."""
    return {
        (check, why): draw(diagram(f"{check}: {why}", steps))
        for (check, why), steps in pictures.around.items()
    }


def diagram(title: str, steps: Iterable[Happened]) -> Diagram:
    """The events around a finding, drawn between the clients and their brokers."""
    steps = [*steps]
    lanes: dict[str, str] = {}
    for step in steps:
        lanes.setdefault(step.who, step.who)
    for step in steps:
        if step.broker:
            lanes.setdefault(step.broker, step.broker)
    return Diagram(title, lanes, tuple(_row(step, number) for number, step in enumerate(steps)))


def _row(step: Happened, number: int) -> Row:
    direction, words = _DRAWN[step.kind]
    said = words.format(
        message=step.message or f"queue {step.queue_id}, offset {step.offset}",
        offset="nothing" if step.offset is None else step.offset,
        queue_id=step.queue_id,
        value=step.offset,
    )
    if step.kind == "ack" and step.outcome == "failed":
        said = said.replace("is done with", "gives back")
    else:
        said += _OUTCOMES.get(step.outcome, "")
    if direction == "at" or not step.broker:
        return Row(step.who, said, bad=step.is_it)
    ends = (step.who, step.broker) if direction == "to" else (step.broker, step.who)
    return Row(ends[0], said, ends[1], arrives=number, bad=step.is_it)
