"""Dictionaries by rooms: what is read of them is what a dictionary does, or it is refused."""

from __future__ import annotations

import inspect
from typing import Final

import pytest

from mqprove.group import NEARBY
from mqprove.mutants import mutate
from mqprove.prover import Statement, tried, valid
from mqprove.symbolic import NotUnderstoodError
from mqprove.theorems import THEOREMS
from mqspec.core import allocation

ABOUT: Final = [theorem for theorem in THEOREMS if theorem.strategy == NEARBY]
PUT: Final = "rooms.setdefault(room, []).append(item)"
RETURN: Final = "            if room == own or room not in members:\n"

WRONG: Final = [
    (PUT, "rooms.setdefault(items[0] and room, [item])"),
    (PUT, "rooms[room] = [*rooms.get(room, []), item][-2:]"),
    (PUT, "len(rooms) < 2 and rooms.setdefault(room, []).append(item)"),
    (PUT, "rooms.setdefault(room, []).append(items[0])"),
    (PUT, "room in rooms and rooms[room].append(item)\n        rooms.setdefault(room, [])"),
    ("return rooms", "return rooms if len(rooms) > 1 else {}"),
    ("return rooms", "rooms.pop(room)\n    return rooms"),
    (RETURN, "            if room == own and queues[room][1:] or room not in members:\n"),
    (RETURN, "            if len(queues) > 1 and (room == own or room not in members):\n"),
    ("taken += allocate(inner, group, current_cid, queues[room], cids)", "taken += queues[room]"),
    ("members.get(room, cid_all)", "members.get(room, members.get(own, cid_all))"),
    ("members.get(room, cid_all)", "next(iter(members.values()))"),
    (
        '        return taken\n\n    return Strategy(f"MACH',
        '        return taken[1:]\n\n    return Strategy(f"MACH',
    ),
    (
        '        return taken\n\n    return Strategy(f"MACH',
        '        return taken[:-1]\n\n    return Strategy(f"MACH',
    ),
]


@pytest.mark.parametrize(("old", "new"), WRONG, ids=[new.strip() for _, new in WRONG])
def test_what_fails_on_ordinary_lists_is_never_proved(old: str, new: str) -> None:
    assert inspect.getsource(allocation).count(old) == 1
    edited = mutate("by hand", allocation, old, new).module
    failing = [theorem for theorem in ABOUT if tried(theorem, edited)]
    assert failing
    for theorem in failing:
        try:
            statement = Statement.of(theorem, edited)
        except NotUnderstoodError:
            continue
        assert not all(valid(goal) for goal in statement.goals), theorem.name
