"""Sequence diagrams: what is drawn of a scenario, and that the stored ones are true."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mqcheck.manifest import Model, models
from mqcheck.runner import plan, run_check
from mqcheck.scenario import plain, scenario_of
from mqcheck.source import snake_case
from mqcheck.worlds import world_of
from mqdocs.diagram import Drawn, Picture, diagram_of, read
from mqrules import Scenario
from mqrules.scenario import Step
from mqrules.sequence import Diagram, Row, draw

INCIDENTS = Path(__file__).parents[2] / "docs" / "incidents"
STORED = sorted(INCIDENTS.glob("*.toml"))
PICTURE = Picture(
    scenario="",
    property="",
    title="Two messages",
    lanes={"a": "Sender", "b": "Receiver"},
    actions={
        "Send": Drawn("a", "sends {what}", to="b", sends=True),
        "Receive": Drawn("b", "has {all}", values={"all": "received[who]"}),
        "Lose": Drawn("b", "hears nothing", loses=True),
    },
    channel="network",
    bad=(2,),
)


def scenario(*steps: Step) -> Scenario:
    return Scenario("X", "", "M", (), steps)


def test_a_message_is_drawn_to_where_it_arrives() -> None:
    diagram = diagram_of(
        PICTURE,
        scenario(
            Step("Send", {"what": 1}, {"network": [1]}),
            Step("Send", {"what": 2}, {"network": [1, 2]}),
            Step("Receive", {"who": "b"}, {"network": [2], "received": {"b": [1, 3]}}),
            Step("Lose", {}, {"network": []}),
            Step("Send", {"what": 3}, {}),
        ),
    )
    assert diagram.rows == (
        Row("a", "sends 1", "b", arrives=2),
        Row("a", "sends 2", "b", arrives=None, bad=True),
        Row("b", "has 1, 3"),
        Row("b", "hears nothing"),
        Row("a", "sends 3"),
    )
    assert diagram.described()[1] == "2. Sender to Receiver, never arrives: sends 2"


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        (Step("Unknown"), "step 1: how is Unknown drawn"),
        (Step("Send", {}, {"network": [1]}), "step 1, Send: there is no 'what'"),
        (Step("Receive", {"who": "b"}, {}), "there is no 'received'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(step: Step, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        diagram_of(PICTURE, scenario(step))


def test_the_initial_state_is_known_and_not_drawn() -> None:
    steps = Step("Init", {}, {"received": {"b": [1]}}), Step("Receive", {"who": "b"})
    assert diagram_of(PICTURE, scenario(*steps)).rows == (Row("b", "has 1"),)


def test_who_changed_is_who_acts_where_steps_have_no_parameters() -> None:
    drawn = Drawn("{process}", "is at {at}", changes="place", values={"at": "place[process]"})
    picture = replace(PICTURE, actions={"Move": drawn})
    places = {"place": {"a": 0, "b": 0}}
    moves = (Step("Move", state={"place": {"a": 0, "b": at}}) for at in (1, 2))
    rows = diagram_of(picture, scenario(Step("Init", state=places), *moves)).rows
    assert rows == (Row("b", "is at 1"), Row("b", "is at 2", bad=True))
    for state in ({}, places):
        with pytest.raises(ValueError, match="step 1, Move: it changes nobody's place"):
            diagram_of(picture, scenario(Step("Init", state=places), Step("Move", state=state)))


def test_a_diagram_is_checked() -> None:
    with pytest.raises(ValueError, match="no lane 'c'"):
        Diagram("", {"a": ""}, (Row("a", "", "c", arrives=0),))
    with pytest.raises(ValueError, match="arrives at row 5"):
        Diagram("", {"a": ""}, (Row("a", "", "a", arrives=4),))


def test_a_drawing_is_well_formed_and_says_what_it_shows() -> None:
    rows = (Row("a", "<1> & more", "b", arrives=1), Row("b", "x"), Row("a", "gone", "b"))
    svg = ElementTree.fromstring(draw(Diagram("A & B", {"a": "A", "b": "B"}, rows)))
    space = "{http://www.w3.org/2000/svg}"
    assert svg.findtext(f"{space}title") == "A & B"
    assert "1. A to B: <1> & more" in (svg.findtext(f"{space}desc") or "")
    assert svg.get("role") == "img"
    words = ["".join(text.itertext()).strip() for text in svg.iter(f"{space}text")]
    assert {"A", "B", "<1> & more", "x", "gone"} <= set(words)
    height = float(svg.get("height") or 0)
    assert all(float(line.get("y2") or 0) <= height for line in svg.iter(f"{space}line"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_scenario_is_true(path: Path) -> None:
    """It is what TLC finds, and the reference takes its steps, if it has that protocol."""
    picture, stored = read(path)
    assert diagram_of(picture, stored).rows
    model = models()[stored.id]
    world = world_of(model)
    if world is None:
        assert stored == found_by_tlc(model, picture.property)
        return
    states = [world.state()]
    for step in stored.steps:
        names = world.actions[step.action]
        parameters = [
            next(value for value in world.domain(name) if plain(value) == step.parameters[name])
            for name in names
        ]
        getattr(world, snake_case(step.action))(*parameters)
        before = states[-1]
        states.append(world.state())
        changed = {k: plain(v) for k, v in states[-1].items() if v != before[k]}
        assert changed == step.state
    if picture.property in model.config.temporal:
        # TLC may find another one each time: this one goes round for ever, as it must.
        assert states[-1] in states[:-1]
    else:
        assert stored == found_by_tlc(model, picture.property)


def found_by_tlc(model: Model, name: str) -> Scenario:
    check = next(check for check in plan(model) if check.properties == {name})
    found = run_check(check).counterexample
    assert found is not None
    return scenario_of(model, name, found)


def test_a_picture_in_other_words_has_the_same_steps() -> None:
    steps = scenario(
        Step("Init", {}, {"network": []}),
        Step("Send", {"what": "m"}, {"network": [1]}),
        Step("Lose", {}, {"network": []}),
    )
    words = {"Two messages": "两条消息", "Sender": "发送者", "sends {what}": "发送 {what}"}
    assert set(words) < set(PICTURE.words())
    plainly, other = diagram_of(PICTURE, steps), diagram_of(PICTURE.translated(words), steps)
    assert other.title == "两条消息"
    assert other.lanes == {"a": "发送者", "b": "Receiver"}
    assert [row.label for row in other.rows] == ["发送 m", "hears nothing"]
    assert [replace(row, label="") for row in other.rows] == [
        replace(row, label="") for row in plainly.rows
    ]


def test_chinese_words_are_wrapped_to_the_width_of_a_lane() -> None:
    svg = draw(Diagram("T", {"a": "A"}, (Row("a", "消息" * 20, None, None),)))
    lines = [e.text or "" for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("tspan")]
    assert "".join(lines) == "消息" * 20
    assert max(map(len, lines)) == 16
