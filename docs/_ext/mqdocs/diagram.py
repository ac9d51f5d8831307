"""`{sequence} FILE.toml`: a scenario drawn as a sequence diagram.

The scenario, a counterexample of TLC's that was replayed on the reference, says what happened:
actions, their parameters and what changed. The TOML file beside it says only how each action is
drawn: at whose lane, to which other lane, in what words. Words take parameters in braces.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import translatable
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

from mqdocs.languages import translations_of
from mqrules import Scenario, UserError
from mqrules.scenario import Step
from mqrules.schema import decode
from mqrules.sequence import Diagram, Row, draw

_KEY = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Drawn:
    """How an action is drawn.

    `values` names values of the state after it, by path: `offsetTable[queue]`, where a key
    that is a parameter's name stands for the parameter. Where steps have no parameters, `changes`
    is a variable by process, and whose part of it changed has the name `process` in words. What
    `sends` is drawn to the row at which it leaves the channel, and what an action `loses` never
    arrives.
    """

    lane: str
    says: str
    to: str | None = None
    sends: bool = False
    loses: bool = False
    changes: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Picture:
    """How a scenario is drawn."""

    scenario: str  # file name, beside this one
    property: str  # the property that it is a counterexample to
    title: str
    lanes: Mapping[str, str]  # in order, id to title
    actions: Mapping[str, Drawn]
    channel: str = ""  # the variable that holds what is on its way
    bad: tuple[int, ...] = ()  # the steps that the diagram is drawn for, from 1

    def words(self) -> list[str]:
        """What a reader reads in it; braces are where parameters go."""
        says = (action.says for action in self.actions.values())
        return list(dict.fromkeys([self.title, *self.lanes.values(), *says]))

    def translated(self, words: Mapping[str, str]) -> Picture:
        """The picture in other words, where there are any."""
        return replace(
            self,
            title=words.get(self.title, self.title),
            lanes={lane: words.get(title, title) for lane, title in self.lanes.items()},
            actions={
                name: replace(drawn, says=words.get(drawn.says, drawn.says))
                for name, drawn in self.actions.items()
            },
        )


class SequenceDirective(SphinxDirective):
    """The diagram, and its steps in words."""

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
        title = nodes.paragraph("", "", nodes.emphasis("", diagram.title), classes=["caption"])
        drawing = Drawing("", path=name, words=picture.words())
        return [nodes.container("", drawing, classes=["wide"]), title]


class Drawing(nodes.General, nodes.Element, translatable):  # type: ignore[misc]  # no types
    """A diagram to draw once a page is written, and what a catalogue may translate of it."""

    def preserve_original_messages(self) -> None:
        """The attribute has them."""

    def apply_translated_message(self, original_message: str, translated_message: str) -> None:
        """What is drawn is looked up when it is."""

    def extract_original_messages(self) -> list[str]:
        words: list[str] = self["words"]
        return words


class Draw(SphinxPostTransform):
    """Draws the diagrams of a page, in the language of the book."""

    default_priority = 5
    formats = ("html",)  # a build of message catalogues wants the words

    def run(self, **_: object) -> None:
        for drawing in [*self.document.findall(Drawing)]:
            picture, scenario = read(Path(drawing["path"]))
            picture = picture.translated(translations_of(self.env, self.env.docname))
            svg = draw(diagram_of(picture, scenario))
            drawing.replace_self(nodes.raw("", svg, format="html"))


def read(path: Path) -> tuple[Picture, Scenario]:
    """A picture and its scenario. Raises OSError or UserError where either is wrong."""
    picture = decode(Picture, tomllib.loads(path.read_text(encoding="utf-8")), path.name)
    data = json.loads(path.with_name(picture.scenario).read_text(encoding="utf-8"))
    return picture, decode(Scenario, data, picture.scenario)


def diagram_of(picture: Picture, scenario: Scenario) -> Diagram:
    """Draw each step. Raises ValueError for one that the picture cannot draw."""
    rows: list[Row] = []
    on_their_way: dict[str, int] = {}  # what was sent, to the row that sent it
    state: dict[str, Any] = {}
    steps = scenario.steps
    if steps and steps[0].action == "Init":
        state, steps = dict(steps[0].state), steps[1:]
    for number, step in enumerate(steps):
        drawn = picture.actions.get(step.action)
        if drawn is None:
            raise ValueError(f"step {number + 1}: how is {step.action} drawn?")
        if drawn.changes:
            process = _process(drawn.changes, state, step, number)
            step = replace(step, parameters={**step.parameters, "process": process})
        state |= step.state
        channel = {json.dumps(item, sort_keys=True) for item in state.get(picture.channel, ())}
        sent = channel - on_their_way.keys()
        row = _row(drawn, step, state, number, bad=number + 1 in picture.bad)
        rows.append(row if sent or not drawn.sends else replace(row, to=None))
        for item in on_their_way.keys() - channel:
            sender = on_their_way.pop(item)
            if not drawn.loses:
                rows[sender] = replace(rows[sender], arrives=number)
        on_their_way |= dict.fromkeys(sent, number)
    return Diagram(picture.title, dict(picture.lanes), tuple(rows))


def _process(variable: str, state: Mapping[str, Any], step: Step, number: int) -> str:
    was, now = state.get(variable, {}), step.state.get(variable)
    if isinstance(now, Mapping):
        for process, part in now.items():
            if part != was.get(process):
                return str(process)
    raise ValueError(f"step {number + 1}, {step.action}: it changes nobody's {variable}")


def _row(drawn: Drawn, step: Step, state: Mapping[str, Any], number: int, *, bad: bool) -> Row:
    words = dict(step.parameters)
    try:
        for name, path in drawn.values.items():
            words[name] = _value(path, state, words)
        lane, says, to = (
            text.format_map(words) for text in (drawn.lane, drawn.says, drawn.to or "")
        )
    except (LookupError, TypeError) as error:
        raise ValueError(f"step {number + 1}, {step.action}: there is no {error}") from None
    arrives = number if to and not drawn.sends else None
    return Row(lane, says, to or None, arrives, bad)


def _value(path: str, state: Mapping[str, Any], parameters: Mapping[str, object]) -> object:
    """The value at `variable[key][key]`; of a list, its items in words."""
    variable, *keys = _KEY.findall(path)
    found: Any = state
    for key in (variable, *(str(parameters.get(key, key)) for key in keys)):
        found = found[key]
    return ", ".join(map(str, found)) if isinstance(found, list) else found
