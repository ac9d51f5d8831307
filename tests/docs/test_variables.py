"""Where the variables of a module stand, as the book tells it."""

from __future__ import annotations

import pytest

from mqcheck.manifest import TLA
from mqdocs.tla import parse
from mqdocs.twin import module_names
from mqdocs.variables import Variable, used_by, variables


def of(name: str) -> dict[str, Variable]:
    text = (TLA / f"{name}.tla").read_text(encoding="utf-8")
    return {one.name: one for one in variables(parse(text), text)}


def test_a_variable_is_told_by_who_changes_it_who_reads_it_and_what_speaks_of_it() -> None:
    table = of("OffsetCommit")["offsetTable"]
    assert table.what == "queue -> what the broker has in memory, or None"
    assert table.python == "offset_table"
    assert table.changed_by == ("UpdateConsumerOffset", "Load")
    assert "Persist" in table.read_by
    assert "StoredNeverGoesBack" in table.properties
    assert not {"vars", "Init", "TypeOK"} & {*table.changed_by, *table.read_by, *table.properties}


def test_what_the_core_does_not_have_has_no_name_in_python() -> None:
    assert of("OffsetCommit")["offsetFile"].python == ""


def test_what_an_action_leaves_unchanged_it_does_not_read() -> None:
    found = [*of("OffsetCommit").values()]
    changed, read = used_by(found, "Persist")
    assert changed == ["offsetFile"]
    assert read == ["offsetTable", "brokerCrashes"]


@pytest.mark.parametrize("name", module_names())
def test_every_variable_stands_somewhere(name: str) -> None:
    """One that Rebalance hands to its instance of Group stands in what is made of it alone."""
    found = of(name)
    assert found
    nowhere = [
        one for one in found.values() if not (one.changed_by or one.read_by or one.properties)
    ]
    assert nowhere == []
