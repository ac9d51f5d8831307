"""Nothing changes a state of the broker past `carry`, and each state has its way."""

from __future__ import annotations

import ast
from dataclasses import is_dataclass
from pathlib import Path

import mqspec.broker
from mqspec.broker import Broker
from mqspec.broker.carrying import STATES

FOLDER = Path(mqspec.broker.__file__).parent
# Whose states are their own: what is counted, and who is held by a timer. What is missing in the
# files is put in at a start, before anybody is told of anything.
OWNERS = {"carrying.py", "stats.py", "pop_polling.py", "controller.py"}


def changes_past_carry(source: str) -> list[str]:
    """What applies changes, or writes into a state of the broker."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="apply")):
                found.append(ast.unparse(node))
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                found += [ast.unparse(target) for target in targets if is_in_a_state(target)]
    return found


def is_in_a_state(target: ast.expr) -> bool:
    """Whether an assignment's target lies within a state of the broker."""
    owner, *names = ast.unparse(target).split(".")
    return owner == "broker" and len(names) > 1 and names[0] in STATES


def test_nothing_changes_a_state_past_carry() -> None:
    found = {
        path.name: lines
        for path in sorted(FOLDER.rglob("*.py"))
        if path.name not in OWNERS and (lines := changes_past_carry(path.read_text()))
    }
    assert found == {}


def test_a_change_past_carry_is_noticed() -> None:
    assert changes_past_carry("apply(broker.pop, changes)") == ["apply(broker.pop, changes)"]
    assert changes_past_carry("broker.pop.scan_offset[1] = 2") == ["broker.pop.scan_offset[1]"]
    assert changes_past_carry("broker.reputs = True") == []


def test_every_state_of_the_core_has_its_way(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    names = {
        name
        for name, value in vars(broker).items()
        if is_dataclass(value) and type(value).__name__.endswith(("State", "Subscriptions"))
    }
    assert names
    assert names == {kept.of or name for name, kept in STATES.items()}
