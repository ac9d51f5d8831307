"""`{sequence} FILE.toml`: a scenario drawn as a sequence diagram.

The scenario, TLC's counterexample as `mqspec check MODEL --trace PROPERTY --scenario FILE`
wrote it, says what happened; the TOML file beside it says only how each action is drawn: who
has a lane, and from where to where an action goes, in words with the parameters in braces.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mqdocs.markup import paragraph, text
from mqdocs.sequence import Diagram, Row, draw
from mqrules import Scenario, UserError
from mqrules.schema import decode
from mqrules.scenario import Step


@dataclass(frozen=True, slots=True)
class Drawn:
    """How an action is drawn."""

    lane: str
    label: str
    to: str | None = None
    sends: str | None = None  # the message's name; it arrives where an action receives it
    receives: str | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """How a scenario is drawn."""

    scenario: str  # file name, beside this one
    title: str
    lanes: Mapping[str, str]
    actions: Mapping[str, Drawn]
    bad: tuple[int, ...] = ()  # the steps that the diagram is drawn for, from 1


class SequenceDirective(SphinxDirective):
    """The diagram, and its steps in words for those who would rather read."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        _, name = self.env.relfn2path(self.arguments[0])
        path = Path(name)
        self.env.note_dependency(path)
        try:
            picture, scenario = read(path)
            self.env.note_dependency(path.with_name(picture.scenario))
            diagram = diagram_of(picture, scenario)
        except (OSError, ValueError, UserError) as error:
            raise self.error(f"{path.name}: {error}") from None
        drawing = nodes.raw("", draw(diagram), format="html")
        caption = nodes.caption("", diagram.title)
        figure = nodes.container("", drawing, classes=["wide", "sequence"])
        return [figure, paragraph(*text(caption.astext()))]


def read(path: Path) -> tuple[Picture, Scenario]:
    """A picture and its scenario. Raises UserError where either is wrong."""
    picture = decode(Picture, tomllib.loads(path.read_text(encoding="utf-8")), path.name)
    data = json.loads(path.with_name(picture.scenario).read_text(encoding="utf-8"))
    return picture, decode(Scenario, data, picture.scenario)


def diagram_of(picture: Picture, scenario: Scenario) -> Diagram:
    """Raises ValueError for an action that the picture does not know."""
    EOF
    raise NotImplementedError
