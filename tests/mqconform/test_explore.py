"""Exploration says no, and says it shortly; what it keeps can be played again."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from judge import AT_ONCE, judge
from patched import reference
from wrong_brokers import BROKERS

from mqconform import requests
from mqconform.cluster import Cluster
from mqconform.explore import engine, vigil
from mqconform.explore import found as cases
from mqconform.explore.areas import ALONE, NAMES, delays, keys, messages, transactions
from mqconform.explore.engine import Explored, Explorer, Found
from mqconform.explore.player import NAMESERVER, DepartureError, Program, World, _on
from mqconform.explore.possible import Answered, State, explained, settled
from mqconform.records import Record as Read
from mqconform.reference import Reference
from mqconform.requests import Request
from mqconform.scene import Scene
from mqconform.target import Target
from mqrules import rules
from mqspec.core.index import key_hash

ENOUGH = 50  # requests of an area, which are some programs


@dataclass(frozen=True)
class Write:
    """Of a register whose write answers what it held before."""

    value: int
    place = ("register",)

    def allowed(self, state: int) -> list[tuple[int, int]]:
        return [(state, self.value)]


def test_requests_side_by_side_are_explained_by_some_order() -> None:
    start = [State(0)]
    one, two = Write(1), Write(2)
    behind = explained(start, (), [Answered(one, 2), Answered(two, 0)])
    assert behind == [State(1)]
    assert not explained(start, (), [Answered(one, 2), Answered(two, 1)])


def test_a_one_way_request_arrives_at_any_time() -> None:
    late, seen = Write(1), Write(2)
    assert explained([State(0)], [late], [Answered(seen, 0)]) == [State(2, (late,))]
    assert explained([State(0)], [late], [Answered(seen, 1)]) == [State(2)]
    assert settled([State(2, (late,))]) == [State(1)]


# An area's thread draws numbers while another's has Hypothesis draw a program.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
def test_nothing_departs_in_the_reference(tmp_path: Path) -> None:
    """In any area; all are explored side by side, as `mqspec conform --explore` does."""
    lacking = list(map(cases.area_of, NAMES))
    with reference(tmp_path) as address:
        cluster = Cluster(address)
        cluster.wait(2)
        explorer = Explorer(Target("reference", "0", address), cluster, 1, "mq")
        for seconds in (15, 15, 30, 60, 120, 240):  # a slow machine comes to less of them
            explored = explorer.run(lacking, seconds)
            assert not explored.found
            lacking = [area for area in lacking if explored.requests[area.name] < ENOUGH]
            if not lacking:
                break
    assert not [area.name for area in lacking]


def test_a_wrong_broker_is_found_by_a_short_program_that_can_be_kept(tmp_path: Path) -> None:
    explored, _ = judge("commit-high-queues", 90, seed=1)
    (found,) = explored.found
    assert sum(map(len, found.program.rounds)) <= 8  # as far as a busy machine comes
    assert "Query(" in found.why
    assert "OFFSET-010" in found.rules
    kept = cases.keep(found, tmp_path / "found")
    compile(kept.read_text(encoding="utf-8"), kept, "exec")
    names = {**vars(import_module("mqconform.explore.areas.offsets")), "Program": Program}
    assert eval(cases.literal(found.program), names) == found.program


class Forgetful:
    """Starts the reference without some of the files that it left."""

    def __init__(self, reference: Reference, store: Path, files: str) -> None:
        self.stop, self.kill = reference.stop, reference.kill
        self._start, self._store, self._files = reference.start, store, files

    def start(self) -> None:
        for file in self._store.glob(f"*/config/{self._files}*"):
            file.unlink()
        self._start()


@pytest.mark.parametrize("files", ["consumerOffset.json", "topics.json"])
def test_what_a_restart_loses_is_noticed(tmp_path: Path, files: str) -> None:
    with Reference(tmp_path) as reference:
        target = reference.target
        assert target.store
        lossy = Forgetful(reference, target.store.parent, files)
        target = replace(target, lifecycle=lossy)
        cluster = Cluster(target.nameserver)
        cluster.wait(2)
        explorer = Explorer(target, cluster, 1, "mq", shrinks=False)
        found = explorer.run([cases.area_of("restarts")], 60).found
    assert found


WRONG = (
    "first-16-characters",
    "delete-namespace",
    "topics-of-the-first",
    "unlock-all",
    "pop-of-32-refused",
    "last-acknowledges-all",
    "any-offset",
    "seventeen-levels",
    "second-group-stays",
)


@pytest.fixture(scope="module")
def explored() -> Mapping[str, Explored]:
    """What exploration made of wrong brokers; some at once, since much of it is waiting."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        judged = pool.map(lambda name: judge(name, 90, seed=1, shrinks=False)[0], WRONG)
        return dict(zip(WRONG, judged, strict=True))


@pytest.mark.parametrize("name", WRONG)
def test_some_wrong_brokers_are_noticed(name: str, explored: Mapping[str, Explored]) -> None:
    assert [found.area for found in explored[name].found] == [BROKERS[name].area]


def test_a_departure_is_told_while_others_are_explored(monkeypatch: pytest.MonkeyPatch) -> None:
    told, waited = threading.Event(), list[bool]()

    def batch(self: Explorer, area: Any, *_: object) -> Found:
        if area.name == "waits":
            waited.append(told.wait(30))
        return Found(area.name, Program(None, ()), "", (), 1, True)

    def tell(so_far: Explored) -> None:
        if so_far.found:
            told.set()

    monkeypatch.setattr(Explorer, "_batch", batch)
    nowhere = cast(Any, SimpleNamespace(lifecycle=None, wait=None))
    areas = cast(Any, [SimpleNamespace(name=name) for name in ("waits", "departs")])
    explored = Explorer(nowhere, nowhere, 1, "mq").run(areas, 60, tell)
    assert waited == [True]
    assert [found.area for found in explored.found] == ["departs", "waits"]


def test_what_is_checked_in_several_lanes_is_counted_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Programs that are played at once: each ends once all have begun."""
    begun = threading.Barrier(4)

    def play(*_: object) -> int:
        begun.wait(30)
        return 10

    monkeypatch.setattr(engine, "play", play)
    monkeypatch.setattr(Explorer, "scene", lambda self: SimpleNamespace(close=lambda: None))
    nowhere = cast(Any, SimpleNamespace(lifecycle=None, wait=None))
    explorer, area = Explorer(nowhere, nowhere, 1, "mq"), cast(Any, SimpleNamespace(name="one"))
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(explorer.play, area, Program(None, ()))
    assert explorer.explored.requests["one"] == 40
    assert explorer.explored.programs["one"] == 4


def test_every_request_names_rules_that_there_are() -> None:
    for name in (*NAMES, *ALONE):
        for each in vars(import_module(f"mqconform.explore.areas.{name}")).values():
            found = getattr(each, "rules", ()) if isinstance(each, type) else ()
            for rule in found if isinstance(found, tuple) else ():  # else by kind: test_beside
                assert rule in rules(), f"{name}.{each.__name__}: {rule}"


@dataclass(frozen=True)
class Asked:
    """A request to a broker, by its number."""

    broker: int


def test_a_target_with_one_broker_is_asked_of_that_one() -> None:
    """Or answers of one broker would be held against the states of two."""
    program = Program(None, ((Asked(1), Asked(0), Asked(NAMESERVER)),))
    alone, both = _on(program, brokers=1), _on(program, brokers=2)
    assert [op.broker for op in alone.rounds[0]] == [0, 0, NAMESERVER]
    assert [op.broker for op in both.rounds[0]] == [1, 0, NAMESERVER]


def test_what_is_found_by_a_key_is_awaited_to_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many may be found before it is: the oldest of them are left out then."""
    told: Iterator[Sequence[int]] = iter([range(64), range(1, 65)])

    def call(request: Request, broker: int) -> SimpleNamespace:
        return SimpleNamespace(body=next(told))

    def records(body: Sequence[int]) -> list[SimpleNamespace]:
        return [SimpleNamespace(queue_offset=offset) for offset in body]

    monkeypatch.setattr(keys, "parse_records", records)
    monkeypatch.setattr(keys, "INDEXED_S", 0.2)
    notes = {(0, key_hash("", "k")): 64}
    world: Any = SimpleNamespace(topics=["T"], notes=notes, call=call)
    keys.AREA._await(world, 0, "k")
    assert next(told, None) is None

    told = repeat(range(64))
    with pytest.raises(DepartureError, match="is not found by it"):
        keys.AREA._await(world, 0, "k")


def test_a_pull_that_a_broker_never_comes_to_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was too busy for it; the pull is asked for again, and not for ever."""
    asked: list[Any] = []

    def ask(pull: Request) -> int:
        asked.append(pull)
        return len(asked)

    connection: Any = SimpleNamespace(ask=ask)
    monkeypatch.setattr(messages, "COMES_TO_S", 0.01)
    wake = messages.Wake(0, 0, 0, ("*",), "A")

    def world(mark_at: int) -> Any:
        def call(request: Request, *_: int) -> SimpleNamespace:
            return SimpleNamespace(fields={"offset": "7" if len(asked) >= mark_at else "6"})

        return SimpleNamespace(topics=["T"], groups=["G"], call=call)

    pull = requests.pull("T", "G")
    assert wake._hold(world(2), connection, pull, 7) == 2
    with pytest.raises(DepartureError, match="is not committed"):
        wake._hold(world(100), connection, pull, 7)


class Watching:
    """A vigil over two members beside an exploration, and how often it looked at them."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._looked, self._members = threading.Semaphore(0), Scene.members
        self._tmp_path = tmp_path
        monkeypatch.setattr(vigil, "HEARTBEAT_INTERVAL_MS", 200)
        monkeypatch.setattr(Scene, "members", lambda scene, group: self._look(scene, group))

    def members(self, scene: Scene, group: str) -> list[str]:
        return self._members(scene, group)

    def _look(self, scene: Scene, group: str) -> list[str]:
        members = self.members(scene, group)
        self._looked.release()
        return members

    def told(self, looks: int) -> list[str]:
        """What it told once it had looked so often."""
        with reference(self._tmp_path) as address:
            cluster = Cluster(address)
            cluster.wait(2)
            explorer = Explorer(Target("reference", "0", address), cluster, 1, "mq")
            watched = vigil.Vigil(explorer.scene, vigil.SILENT_S + 1)
            with watched:
                explorer.run([cases.area_of("kv")], 1)
                for _ in range(looks):
                    assert self._looked.acquire(timeout=60)
            return watched.end()


@pytest.mark.parametrize(("silent_s", "wrong"), [(60.0, []), (0.1, ["GROUP-006"])])
def test_a_member_is_watched_that_speaks_and_one_that_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent_s: float, wrong: list[str]
) -> None:
    """Where it is looked at too soon, who is silent is still listed."""
    monkeypatch.setattr(vigil, "SILENT_S", silent_s)
    told = Watching(tmp_path, monkeypatch).told(looks=1 if wrong else 5)
    assert [line.partition(":")[0] for line in told] == wrong


def test_a_member_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Watching(tmp_path, monkeypatch)
    monkeypatch.setattr(watching, "members", lambda *_: [])
    (told,) = watching.told(looks=1)
    assert told.startswith("GROUP-001: a member is gone after")


def test_halves_that_are_drawn_alike_are_born_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter((1_000_000_000, 1_007_000_000))
    monkeypatch.setattr(transactions, "time", SimpleNamespace(time_ns=lambda: next(ticks)))
    half = transactions.Half(client=5, broker=0, producer=1, queue_id=0)
    world = cast(World, SimpleNamespace(topics=["T"]))
    asked = [half.meant(world).request(world) for _ in range(2)]
    assert [request.fields["g"] for request in asked] == ["1000", "1007"]


@pytest.mark.parametrize(
    ("level", "after_ms", "told"),
    [("1", 1_000, "came"), ("1", 500, "early"), ("3", 10_000, ""), ("3", 9_000, "early")],
)
def test_what_waits_for_longer_than_it_is_waited_for_may_have_come(
    level: str, after_ms: int, told: str
) -> None:
    later = delays.Later(client=0, broker=0, queue_id=0, level=level, key="K")
    world = cast(World, SimpleNamespace(notes={("kept", "K"): (50_000, later)}))
    record = SimpleNamespace(
        body=later.body, properties={"KEYS": "K"}, store_timestamp=50_000 + after_ms
    )
    found = delays.Come(0, 0, 0).told(world, cast(Read, record))
    assert ("" if found is None else "early" if found[-1] else "came") == told
