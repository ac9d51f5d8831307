"""The report as one HTML page that asks for nothing outside itself."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from mqrules.report import Report

TEMPLATE = "report.html.jinja"


def page(report: Report) -> str:
    """The page of a report; whatever a broker sent is shown as text."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = files("mqconform").joinpath("data", TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(source).render(report=report)
