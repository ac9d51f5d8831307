"""Exploration beside the reference asks all that a broker serves, draws all that a request says and
compares all that an answer tells; or says why it does not."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from mqconform.catalogue import Form, forms
from mqconform.connection import SilentError
from mqconform.explore.areas.asking import ELSEWHERE, GROUPS, IN_TIME_S, KINDS, NOT_DRAWN
from mqconform.explore.areas.beside import ALWAYS, SPARED, Ask, Both, Wait, program
from mqconform.explore.oracle import Side
from mqconform.explore.player import TooSlowError
from mqconform.explore.telling import RECORD_NOT_TOLD, Words, differing, leaves
from mqconform.frame import Frame
from mqconform.records import Record
from mqconform.requests import GET_ALL_TOPIC_CONFIG, GET_TOPIC_CONFIG, Request
from mqconform.target import deviations_of
from mqrules import rules
from mqspec.broker.processor.table import PROCESSORS

DRAWN = 60  # of each kind
HANDLE = "0 1600000000000 3000 0 0 broker-a {0} {0}"
CONFIG = {"readQueueNums": 2, "writeQueueNums": 1}


class Recording(Side):
    """A side that nobody answers, but for what has to be known to ask more."""

    def __init__(self) -> None:
        self.topics = [f"T{n}" for n in range(4)]
        self.groups = [f"G{n}" for n in range(GROUPS)]
        self.names, self.words, self.asked = ["broker-a"], Words({}), 0
        self.notes: dict[Any, Any] = {("pop", 0): 0}
        self.lists: defaultdict[Any, list[Any]] = defaultdict(list)
        numbers = range(3)
        self.lists["popped", 0] = [(n, n, n, n, [HANDLE.format(n)]) for n in numbers]
        self.lists["halves", 0] = [("key", (n, n), n, n) for n in numbers]
        self.lists["recalls", 0] = [f"recall {n}" for n in numbers]
        self.lists["sent", 0] = [(f"T{n}", n) for n in numbers]
        self.sent: list[Request] = []
        self._connections = {}
        self.nameserver: Any = SimpleNamespace(call=lambda asked: self.call(asked, 0))

    def call(self, request: Request, broker: int, client: int = 0) -> Frame:
        self.sent.append(request)
        body = {
            GET_ALL_TOPIC_CONFIG: {"topicConfigTable": {"T0": CONFIG, "%RETRY%G0": CONFIG}},
            GET_TOPIC_CONFIG: CONFIG,
        }.get(request.code)
        told = json.dumps(body).encode() if body else b""
        return Frame(b"", 0, 0 if body else 1, 1, 0, 0, "JAVA", None, {}, told)

    def connection(self, client: int, broker: int) -> Any:
        def silent(*_: object) -> Frame:
            raise SilentError("nobody is there")

        return SimpleNamespace(
            ask=self.sent.append, answer=lambda *_: self.call(self.sent.pop(), 0), notice=silent
        )


@pytest.fixture(scope="module")
def asked() -> list[Request]:
    """Many requests of each kind, and a look."""
    side, r = Recording(), Random(1)
    for kind in KINDS.values():
        for _ in range(DRAWN):
            kind.ask(side, 0, r.randrange(2), **kind.draw(r))
    both = Both.__new__(Both)
    both.brokers, both.prefix, both.marker = range(1), "", "marker"
    both.deviates = frozenset()
    both._whole(side)
    return side.sent


def test_every_request_that_a_broker_serves_is_asked(asked: list[Request]) -> None:
    codes = {request.code for request in asked}
    assert {int(code) for code in PROCESSORS} - codes == set(ELSEWHERE)


def said(request: Request) -> Iterator[tuple[str, str]]:
    """Each field, property and place in a body of a request."""
    for name, value in request.fields.items():
        yield name, value
        for entry in value.split("\x02") if "\x01" in value else ():
            own, sign, text = entry.partition("\x01")
            if sign:
                yield f"{name}.{own}", text
    if request.body[:1] == b"{":
        for path, leaf in leaves(json.loads(request.body)).items():
            yield path.rpartition("/")[2], str(leaf)


def test_all_that_clients_say_in_a_request_is_drawn(asked: list[Request]) -> None:
    """A field that a real client sends, and a setting in a body, has two values at least; and a
    property of a message is there."""
    values: dict[tuple[int, str], set[str]] = defaultdict(set)
    for request in asked:
        for name, value in said(request):
            values[request.code, name].add(value)
    lacking = {
        f"{code} {name}"
        for code in {request.code for request in asked}
        for form in forms().get(code, ())
        for name in (*form.fields, *settings_of(form))
        if len(values[code, name]) < (1 if "." in name else 2)
        and not {name, f"{code} {name}"} & NOT_DRAWN.keys()
    }
    assert not lacking, " | ".join(sorted(lacking))


def settings_of(form: Form) -> Iterator[str]:
    """The names of the values in a body, but for those in lists of them or of somebody's choice."""
    for place, kinds in form.body.items():
        name = place.rpartition(".")[2]
        if name and not kinds & {"list", "object", "bytes"} and "[]" not in name and name != "*":
            yield name


def test_all_of_a_record_is_compared() -> None:
    told = Words({}).record(Record(0, 0, 0, 0, 0, 0, b"", 0, 0, 0, 0, b"", "", {}))
    fields = {field.name for field in dataclasses.fields(Record)}
    assert fields - told.keys() == RECORD_NOT_TOLD.keys()


def test_what_differs_is_told_with_its_place() -> None:
    ours = {"body": {"topics": [{"name": "a", "perm": 6}, {"name": "b"}]}, "code": 0}
    theirs = {"body": {"topics": [{"name": "a", "perm": 4}, {"name": "b"}]}, "code": 0}
    assert differing(theirs, ours) == ({"/body/topics/0/perm": 4}, {"/body/topics/0/perm": 6})
    assert differing(ours, ours) == ({}, {})
    assert differing({}, {"body": 1}) == ({"": "empty"}, {"/body": 1})


def test_lists_of_tables_are_told_in_one_order() -> None:
    """Whatever order a broker tells them in, and the entries of each."""
    one, other = {"b": {"y": 1, "x": 2}, "a": 3}, {"a": 4, "b": {"x": 2, "y": 1}}
    told = Words({}).plain([one, other])
    assert told == Words({}).plain([other, {"a": 3, "b": {"x": 2, "y": 1}}])
    assert told != Words({}).plain([other, {"a": 3, "b": {"x": 2, "y": 7}}])


def test_kinds_name_rules_that_there_are() -> None:
    for kind in KINDS.values():
        assert set(kind.rules) <= rules().keys(), kind.name


def test_what_a_short_pop_starts_is_waited_for() -> None:
    both = Both.__new__(Both)
    both.sides, both.waits = (Recording(), Recording()), set()
    both._note(Ask(0, 0, "pop"))
    assert not both.waits
    both.sides[1].notes["short"] = time.monotonic()
    both._note(Ask(0, 1, "ack"))
    assert not both.waits
    both._note(Ask(0, 1, "pop"))
    assert both.waits == {(Wait.SHORT, 1)}

    both.sides[1].notes["short"] -= IN_TIME_S
    with pytest.raises(TooSlowError):
        both._note(Ask(0, 1, "ack"))


@pytest.mark.parametrize("version", ["5.3.3", "another"])
def test_only_a_listed_departure_is_passed_over(version: str) -> None:
    """What is not looked at, and not drawn, of Apache 5.3.3 is so of any other broker."""
    listed = {one.rule for one in deviations_of("apache", version)}
    both, side = Both.__new__(Both), Recording()
    both.brokers, both.prefix, both.marker = range(1), "", "marker"
    both.deviates, both.waits, both.sides = frozenset(listed), set(), (side, side)
    both.theirs = both.ours = side
    shown = both._of_topic(side, 0, "T0").keys()
    flags = set()
    for _ in range(DRAWN):
        both.asked(Ask(0, 0, "half", tuple(KINDS["half"].draw(Random()).items())))
        flags |= {one.fields["h"] for one in side.sent if "h" in one.fields}

    is_apache = version == "5.3.3"
    assert (set(SPARED.values()) & shown == set()) == is_apache
    assert (flags == {"0"}) == is_apache
    assert (SPARED.keys() | ALWAYS.keys() <= listed) == is_apache


def test_a_seed_makes_one_program() -> None:
    assert program(b"seed") == program(b"seed") != program(b"other")
