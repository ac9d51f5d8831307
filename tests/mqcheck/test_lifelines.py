"""What changed, and who did it."""

from __future__ import annotations

import pytest

from mqcheck.lifelines import changes, draw
from mqcheck.values import parse_state
from mqrules.scenario import Step

STEPS = (
    ("Init", "offset = (m1 :> 0 @@ m2 :> 0)", "net = {}", "row = <<[at |-> 1], [at |-> 2]>>"),
    ("Send", "offset = (m1 :> 0 @@ m2 :> 3)", "net = {7, 8}", "row = <<[at |-> 1], [at |-> 2]>>"),
    ("Lose", "offset = (m1 :> 0 @@ m2 :> 3)", "net = {8, 9}", "row = <<[at |-> 1], [at |-> 5]>>"),
    ("Both", "offset = (m1 :> 1 @@ m2 :> 4)", "net = {8, 9}", "row = <<[at |-> 1]>>"),
)


def steps() -> list[Step]:
    return [
        Step(action, state=parse_state("\n".join(f"/\\ {line}" for line in lines)))
        for action, *lines in STEPS
    ]


@pytest.mark.parametrize(
    ("number", "lines"),
    [
        (1, ["offset[m2]: 0 -> 3", "net: added {7, 8}"]),
        (2, ["net: added {9}, gone {7}", "row[2].at: 2 -> 5"]),
        (
            3,
            [
                "offset[m1]: 0 -> 1",
                "offset[m2]: 3 -> 4",
                "row: <<[at |-> 1], [at |-> 5]>> -> <<[at |-> 1]>>",
            ],
        ),
    ],
)
def test_a_change_names_the_least_part_that_changed(number: int, lines: list[str]) -> None:
    before, after = steps()[number - 1 : number + 1]
    assert list(map(str, changes(before.state, after.state))) == lines


def test_each_process_has_a_line_and_who_acts_a_mark() -> None:
    first, send, lose, both = steps()
    named = Step(both.action, {"member": "m2", "offset": 4}, both.state)
    assert draw([first, send, lose, named], loop=1) == [
        "      m1      m2    shared",
        "1     │       │       │      Init",
        "2     │       ●───────○      Send",
        "3     │       │       ●      Lose",
        '4     ○───────●───────○      Both("m2", 4)',
        "   and again from 2",
    ]


def test_a_model_without_processes_has_one_line() -> None:
    drawn = draw([Step("Init", state={"n": 0}), Step("Next", state={"n": 1})])
    assert drawn == ["    shared", "1     │      Init", "2     ●      Next"]
