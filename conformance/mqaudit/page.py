"""An audit as one page that asks for nothing outside itself."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from mqaudit import plots
from mqaudit.pictures import Happened, Pictures, worst
from mqaudit.report import AuditReport, Judgement
from mqrules import Incident, incidents, rules
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
    "assign": ("at", "owns queue {queue_id}"),
    "revoke": ("at", "gives up queue {queue_id}"),
    "lock": ("to", "locks queue {queue_id}"),
    "unlock": ("to", "unlocks queue {queue_id}"),
    "subscribe": ("at", "subscribes"),
    "join": ("at", "joins"),
    "leave": ("at", "leaves"),
    "crash": ("at", "dies"),
    "restart": ("at", "starts again"),
}
_OUTCOMES: Final = {"invoked": " ...", "failed": ", refused", "unknown": ", without an answer"}


def page(report: AuditReport, pictures: Pictures | None) -> str:
    """The page; `pictures` are None where no history was judged. What was recorded is text."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = files("mqaudit").joinpath("data", TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(source).render(
        report=report,
        pictures=pictures,
        found=worst(report),
        unseen=[check.name for check in report.checks if not check.examined],
        undecided=[
            (check.name, finding)
            for check in report.checks
            for finding in check.findings
            if finding.judgement in (Judgement.UNDECIDABLE, Judgement.OPEN)
        ],
        incidents_of=incidents_of,
        rules=rules(),
        charts=dict(_charts(pictures)) if pictures else {},
        diagram_of=lambda check, why: _diagram(pictures, check, why),
    )


def incidents_of(rule: str) -> list[Incident]:
    """The incidents of the book in which a rule is at stake."""
    return [incident for incident in incidents().values() if rule in incident.rules]


def _charts(pictures: Pictures) -> Iterable[tuple[str, Markup]]:
    """Title to plot, of those for which there are data."""
    if pictures.bands:
        yield "Who owned each queue", Markup(plots.owners(pictures))
    if pictures.anomalies:
        drawn = plots.anomalies(pictures.anomalies, pictures.seconds)
        yield "What was found, and when", Markup(drawn)
    if any(span.backlog is not None for span in pictures.progress):
        yield "Backlog", Markup(plots.backlog(pictures))
    if pictures.progress:
        yield "Progress", Markup(plots.commits(pictures))


def _diagram(pictures: Pictures | None, check: str, why: str) -> Markup | None:
    steps = pictures.around.get((check, why)) if pictures else None
    return Markup(draw(diagram(f"{check}: {why}", steps))) if steps else None


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
    )
    if step.kind == "ack" and step.outcome == "failed":
        said = said.replace("is done with", "gives back")
    else:
        said += _OUTCOMES.get(step.outcome, "")
    if direction == "at" or not step.broker:
        return Row(step.who, said, bad=step.is_it)
    ends = (step.who, step.broker) if direction == "to" else (step.broker, step.who)
    return Row(ends[0], said, ends[1], arrives=number, bad=step.is_it)
