"""Draws programs, plays them until the time is over, and shrinks what departs."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any, Final

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky

from mqconform.cluster import Cluster
from mqconform.explore.player import Area, DepartureError, Program, play
from mqconform.history import Recorder
from mqconform.scene import Scene
from mqconform.stage import Stage
from mqconform.target import Target
from mqconform.tidy import Tidy

_BATCH: Final = 20  # programs of an area in a row
_SHRINK_S: Final = 15.0  # by Hypothesis
_LEAVE_OUT_S: Final = 30.0
_TELL_S: Final = 1.0


@dataclass(frozen=True)
class Found:
    """A departure: the shortest program that shows it, and what was wrong."""

    area: str
    program: Program[Any]
    why: str
    rules: tuple[str, ...]
    seed: int
    repeats: bool  # whether the program showed it each time that it was played


@dataclass
class Explored:
    """What an exploration did."""

    seed: int
    seconds: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)  # checked ones, by area
    programs: Counter[str] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return self.requests.total() / max(self.seconds, 0.001)


class _OverError(BaseException):
    """The time is over. Hypothesis lets it pass, as it does an interrupt."""


class Explorer:
    """Explores areas of one target, whose brokers `cluster` has found."""

    def __init__(
        self, target: Target, cluster: Cluster, seed: int, prefix: str, *, shrinks: bool = True
    ) -> None:
        """Who does not want departures to be shrunk wants one: all areas end with the first."""
        self._target, self._cluster = target, cluster
        self._recorder = Recorder(f"{prefix}{seed % 10_000_000:x}{random.getrandbits(24):06x}")
        self.tidy = Tidy(cluster, self._recorder.run)
        self._stage = Stage(target.lifecycle, cluster.wait)
        self._scenes = itertools.count(1)
        self._counting = threading.Lock()
        self._is_over = False
        self._is_one_enough = not shrinks
        self._shrink_s = _SHRINK_S if shrinks else 0.0
        self._leave_out_s = _LEAVE_OUT_S if shrinks else 0.0
        self.explored = Explored(seed)

    def run(
        self,
        areas: Sequence[Area],
        duration_s: float,
        on_progress: Callable[[Explored], None] = lambda explored: None,
    ) -> Explored:
        """Explore the areas side by side. An area ends with its first departure: what is wrong once
        would be found again and again."""
        began = time.monotonic()
        end = began + duration_s
        lanes = [(area, lane) for area in areas for lane in range(getattr(area, "lanes", 1))]
        with ThreadPoolExecutor(len(lanes)) as pool:
            explored = [pool.submit(self._explore, *lane, end) for lane in lanes]
            try:
                while wait(explored, _TELL_S).not_done:
                    self.explored.seconds = time.monotonic() - began
                    on_progress(self.explored)
            except BaseException:
                self._is_over = True
                raise
        for each in explored:
            each.result()
        self.explored.seconds = time.monotonic() - began
        return self.explored

    def _explore(self, area: Area, lane: int, end: float) -> None:
        for batch in itertools.count(lane, getattr(area, "lanes", 1)):
            is_found = area.name in [found.area for found in self.explored.found]
            if time.monotonic() > end or self._is_over or is_found:
                return
            if found := self._batch(area, batch, end):
                self.explored.found.append(found)
                self._is_over = self._is_over or self._is_one_enough
                return

    def scene(self) -> Scene:
        prefix = f"{self._recorder.run}-{next(self._scenes)}"
        return Scene(prefix, self._target, self._cluster, self._stage, self._recorder, self.tidy)

    def play(self, area: Area, program: Program[Any]) -> None:
        """Play one program in a scene of its own. Raises DepartureError."""
        scene = self.scene()
        try:
            checked = play(area, program, scene)
            with self._counting:  # an area may have several lanes
                self.explored.requests[area.name] += checked
                self.explored.programs[area.name] += 1
        finally:
            scene.close()

    def _batch(self, area: Area, batch: int, end: float) -> Found | None:
        """Play some programs; the least that departs, if one does."""
        least: list[tuple[Program[Any], str]] = []
        latest = [end]

        def body(program: Program[Any]) -> None:
            if time.monotonic() > latest[0] or self._is_over:
                raise _OverError
            try:
                self.play(area, program)
            except DepartureError as error:
                if not least:  # from now on it is shrunk
                    latest[0] = time.monotonic() + self._shrink_s
                if not least or _size(program) <= _size(least[-1][0]):
                    least.append((program, str(error)))
                raise

        seed = random.Random(f"{self.explored.seed}/{area.name}/{batch}").getrandbits(64)
        seeded: Callable[[Any], Callable[[], None]] = hypothesis.seed(seed)
        explore = seeded(_SETTINGS(hypothesis.given(area.programs())(body)))  # type: ignore[no-untyped-call]
        repeats = True
        try:
            explore()
        except (DepartureError, _OverError):
            pass
        except Flaky:
            repeats = False
        if not least:
            return None
        program, why = self._shorter(area, *least[-1])
        rules = why.rpartition("rules: ")[2].split(", ")
        return Found(area.name, program, why, tuple(rules), self.explored.seed, repeats)

    def _shorter(self, area: Area, program: Program[Any], why: str) -> tuple[Program[Any], str]:
        """The program without all that can be left out of it one by one."""
        end, is_shorter = time.monotonic() + self._leave_out_s, True
        while is_shorter:
            is_shorter = False
            for less in _with_less(program):
                if time.monotonic() > end or self._is_over:
                    return program, why
                try:
                    self.play(area, less)
                except DepartureError as error:
                    program, why, is_shorter = less, str(error), True
                    break
        return program, why


def _with_less(program: Program[Any]) -> Iterator[Program[Any]]:
    """The program with all requests answered, without half of its rounds, without a round,
    without half of a round's requests, without a request."""
    rounds = program.rounds
    answered = tuple(tuple(map(_answered, round_)) for round_ in rounds)
    if answered != rounds:
        yield replace(program, rounds=answered)
    size = len(rounds) // 2
    while size:
        for at in range(0, len(rounds), size):
            yield replace(program, rounds=rounds[:at] + rounds[at + size :])
        size //= 2
    for at, round_ in enumerate(rounds):
        size = len(round_) // 2
        while size:
            for n in range(0, len(round_), size):
                rest = round_[:n] + round_[n + size :]
                yield replace(program, rounds=(*rounds[:at], rest, *rounds[at + 1 :]))
            size //= 2


def _answered(op: Any) -> Any:
    return replace(op, one_way=False) if getattr(op, "one_way", False) else op


_SETTINGS: Final = settings(
    max_examples=_BATCH,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
    print_blob=False,
    verbosity=hypothesis.Verbosity.quiet,
)


def _size(program: Program[Any]) -> tuple[int, int, int]:
    return sum(map(len, program.rounds)), len(program.rounds), len(repr(program))
