"""Where each property fails: the manifests say it, and `mqspec check --mutants` tries it."""

from __future__ import annotations

import pytest

from mqcheck.manifest import manifests, protocols, read_killers
from mqcheck.mutants import judge, mutants_by

PROTOCOLS = sorted(protocols())
CHEAP = ("Retention", "Retry", "Route")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_property_has_a_model_or_a_mutant_in_which_it_fails(protocol: str) -> None:
    listed = {model.name: model for model in protocols()[protocol]}
    killers = read_killers(manifests()[protocol])
    claimed = {
        name
        for model in listed.values()
        for name in model.config.properties
        if name in model.holds and not model.defect
    }
    assert killers.keys() == claimed
    for name, killer in killers.items():
        model = listed[killer.model]
        if killer.mutant or killer.edit:
            assert name in model.holds
            assert any(mutants_by(killer, model)), name
        else:
            assert name in model.breaks


@pytest.mark.parametrize("protocol", CHEAP)
def test_each_property_fails_where_its_manifest_says(protocol: str) -> None:
    recorded = read_killers(manifests()[protocol])
    fates = judge(protocols()[protocol], recorded, None, lambda _: None)
    assert {fate.property: fate.killer for fate in fates} == recorded
