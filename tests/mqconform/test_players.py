"""The scenarios that the suite ships are what TLC makes of the specifications now."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqcheck.manifest import models
from mqcheck.scenario import behaviours_of
from mqconform.players import PLAYERS, read_scenario, scenarios
from mqrules import UserError

SEED = 7  # mqspec check MODEL --simulate N --seed 7 --scenario FOLDER

SCENARIOS = scenarios()
SHIPPED = {
    model: {id_: shipped for id_, shipped in SCENARIOS.items() if id_.startswith(f"{model}-")}
    for model in {id_.partition("-")[0] for id_ in SCENARIOS}
}


@pytest.mark.parametrize("model", sorted(SHIPPED))
def test_scenarios_are_behaviours_of_their_model(model: str) -> None:
    last = max(int(id_.rpartition("-")[2]) for id_ in SHIPPED[model])
    made = {made.id: made for made in behaviours_of(models()[model], last + 1, SEED)}
    assert SHIPPED[model].items() <= made.items()


def test_there_are_scenarios_for_every_player() -> None:
    assert {scenario.module for scenario in SCENARIOS.values()} == PLAYERS.keys()


def test_a_file_that_is_no_scenario_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "torn.json"
    path.write_text('{"id": "x", "steps": [', encoding="utf-8")
    with pytest.raises(UserError, match="not a scenario"):
        read_scenario(path)
