"""Random programs: the same requests in the same order to Apache RocketMQ 5.3.3 and to the
reference are answered alike, and leave the same in their files.

A program has two topics, two groups and two clients of its own. What a step stores is seen by
whoever reads before the next step, so the answers depend on the program alone. Left out is what
depends on the clock: what waits for a delay, pops out of order, what comes again, rates; and what
is known to differ: to acknowledge what was popped in order before a reset, which 5.3.3 believes
(core/pop_order.py). Of a program that tells the two apart the steps are shown that it takes.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from itertools import chain, count
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from random_programs import OPERATIONS, Known, Operation, Step, Turn, document, random_program
from serving import serving

from mqconform import requests
from mqconform.apache import Apache
from mqconform.cluster import Cluster
from mqconform.connection import Connection
from mqconform.frame import Frame
from mqconform.scene import done
from mqconform.target import Address, parse_address
from mqconform.transcript import Transcript

PROGRAMS: Final = 100
SEEN_S: Final = 30.0  # within which what was stored is seen


class Answer(NamedTuple):
    """What is compared of an answer."""

    code: int
    remark: str
    fields: Sequence[str | None]
    body: object


FILES: Final = {
    "topics.json": "topicConfigTable",
    "subscriptionGroup.json": "subscriptionGroupTable",
    "consumerOffset.json": "offsetTable",
    (ORDER := "consumerOrderInfo.json"): "table",
}


class Player:
    """Plays programs to the one broker behind a nameserver."""

    def __init__(self, nameserver: Address) -> None:
        cluster = Cluster(nameserver)
        cluster.wait(1)
        ((self._broker_name, self._broker),) = cluster.brokers.items()
        self._watcher = Connection(self._broker, Transcript())
        self._seen = 0  # messages of the watcher's own

    def play(self, name: str, program: Sequence[Step]) -> list[Answer]:
        """What each step is answered; `name` is the program's own."""
        known = Known()
        with ExitStack() as stack:
            clients = [stack.enter_context(Connection(self._broker, Transcript())) for _ in "AB"]
            for topic in (f"{name}-T0", f"{name}-T1"):
                done(clients[0].call(requests.create_topic(topic, 2, 2)))
            answers = []
            for step in program:
                turn = Turn(step, name, self._broker_name, known)
                operation = OPERATIONS[step.operation]
                answer = clients[step.client].call(operation.ask(turn))
                if operation.stores:
                    self._wait_until_seen()
                turn.learn(answer)
                answers.append(self._compared(answer, operation))
            return answers

    def _wait_until_seen(self) -> None:
        """A message is seen by all who read when those before it are. Who waits for it in a held
        pull may not be told, and is answered after 5 s then."""
        done(self._watcher.call(requests.send("Seen")))
        self._seen += 1
        deadline = time.monotonic() + SEEN_S
        while self._watcher.call(requests.max_offset("Seen")).number("offset") < self._seen:
            assert time.monotonic() < deadline, "what was stored is not seen"

    def _compared(self, answer: Frame, operation: Operation) -> Answer:
        """Without what is another's each time."""
        remark = re.sub(r"\d[\d.:]*", "#", answer.remark or "") if answer.code else ""
        body = answer.body.replace(self._broker_name.encode(), b"BROKER")
        fields = [answer.fields.get(name) for name in operation.fields]
        return Answer(answer.code, remark, fields, operation.body(body))


class Apart(NamedTuple):
    """A program whose last step two brokers answer differently."""

    program: Sequence[Step]
    answers: tuple[Answer, ...]


class Both:
    """Two players, who play each program side by side."""

    def __init__(self, *nameservers: str) -> None:
        self._players = [Player(parse_address(each)) for each in nameservers]
        self._played = count()
        self.codes: dict[str, set[int]] = {}  # by operation: what the first answered so far
        self.changed: set[str] = set()  # topics and groups that were deleted, or were smaller

    def compare(self, program: Sequence[Step]) -> Apart | None:
        """Play a program: its steps up to the first one that is answered differently."""
        name = f"P{next(self._played)}"
        for step in program:
            is_smaller = step.operation == "create a topic" and step.queue == 0
            if step.operation == "delete a topic" or is_smaller:
                self.changed.add(f"{name}-T{step.topic}")
            if step.operation == "delete a group":
                self.changed.add(f"{name}-G{step.group}")
        with ThreadPoolExecutor() as pool:
            plays = pool.map(lambda player: player.play(name, program), self._players)
            for number, answers in enumerate(zip(*plays, strict=True)):
                if answers[0] != answers[1]:
                    return Apart(program[: number + 1], answers)
                self.codes.setdefault(program[number].operation, set()).add(answers[0].code)
        return None

    def shortest(self, program: Sequence[Step]) -> Apart | None:
        """The same without the steps that it does not take to tell the two apart."""
        if found := self.compare(program):
            for number in reversed(range(len(found.program) - 1)):
                shorter = [*found.program[:number], *found.program[number + 1 :]]
                found = self.compare(shorter) or found
        return found


def serving_one(store: Path, *options: str) -> AbstractContextManager[str]:
    return serving(store, "--brokers", "1", "--log-level", "error", *options)


def kept(store: Path) -> dict[str, dict[str, object]]:
    """What the files of a broker that was stopped hold of the programs' topics and groups."""
    found = {}
    for file, table in FILES.items():
        content: Any = document((store / "config" / file).read_bytes())
        found[file] = {
            name: each for name, each in content[table].items() if "-T" in name or "-G" in name
        }
        assert found[file], file
    return found


def forget(kept: dict[str, dict[str, object]], other: dict[str, dict[str, object]]) -> set[str]:
    """Take out what was popped in order and the other has nothing of; the topics and groups."""
    only_here = kept[ORDER].keys() - other[ORDER].keys()
    for name in only_here:
        del kept[ORDER][name]
    return set(only_here)


def test_random_programs_are_answered_as_by_apache(tmp_path: Path) -> None:
    home = tmp_path / "apache"
    home.mkdir()
    with Apache(home, brokers=1) as apache, serving_one(tmp_path / "ours") as own:
        both = Both(str(apache.nameserver), own)
        for seed in range(PROGRAMS):
            found = both.shortest(random_program(seed))
            assert not found, f"of program {seed}:\n" + "\n".join(map(str, chain(*found)))
        apache.stop()
    ours, theirs = kept(tmp_path / "ours"), kept(home / "broker-a" / "store")
    # What was popped in order of queues that are not there is forgotten by a clean-up, each 5 s: of
    # those that came again one of the two may have forgotten it.
    for name in forget(ours, theirs) | forget(theirs, ours):
        assert not both.changed.isdisjoint(name.split("@")), name
    assert ours == theirs
    assert both.codes.keys() == OPERATIONS.keys()
    assert [what for what, codes in both.codes.items() if 0 not in codes] == []
    assert len(set().union(*both.codes.values())) > 8


def test_what_is_kept_otherwise_is_seen_and_times_are_not(tmp_path: Path) -> None:
    def written(name: str, offset: int, time_ms: int) -> dict[str, dict[str, object]]:
        store = tmp_path / name
        (store / "config").mkdir(parents=True)
        entry = {"0": {"o": [offset], "popTime": time_ms, "l": time_ms}}
        for file, table in FILES.items():
            content = {table: {"P1-T0@P1-G0": entry, "other": time_ms}, "counter": time_ms}
            (store / "config" / file).write_text(json.dumps(content))
        return kept(store)

    first = written("a", 1, 5)
    assert written("b", 1, 6) == first
    second = written("c", 2, 5)
    assert [file for file in FILES if second[file] == first[file]] == []


@pytest.mark.parametrize(
    ("option", "last"),
    [
        ("--reject-transaction-message", {"send a half"}),
        ("--no-use-server-side-reset-offset", {"reset", "reset to an offset"}),
    ],
)
def test_what_is_answered_otherwise_is_found(tmp_path: Path, option: str, last: set[str]) -> None:
    with serving_one(tmp_path / "a") as one, serving_one(tmp_path / "b", option) as other:
        both = Both(one, other)
        found = next(filter(None, map(both.shortest, map(random_program, range(PROGRAMS)))))
    assert found.program[-1].operation in last
    assert len(found.program) <= 3
    assert found.answers[0] != found.answers[1]
