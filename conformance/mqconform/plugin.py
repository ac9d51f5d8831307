"""The pytest plugin: `pytest -p mqconform.plugin --mqspec-nameserver HOST:PORT --pyargs
mqconform.cases` runs the suite; `mqspec conform` does the same with its own report.

Cases run side by side, each in a thread that is started before pytest comes to its item; the
item waits for the end of its case.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest

from mqconform.case import Capability, Case, Result, Status
from mqconform.causes import Departure, departure
from mqconform.cluster import Cluster
from mqconform.history import RecordedLifecycle, Recorder
from mqconform.scene import NotClaimedError, Scene
from mqconform.stage import End, Stage
from mqconform.target import CommandError, Target, parse_address, read_target
from mqconform.tidy import Tidy
from mqconform.transcript import SHOWN
from mqrules import Deviation, UserError, rules

SLOW = Path(__file__).parent / "data" / "slow.json"  # those that took more than 5 s
PREFIX = "mq"  # of all names of a run, before six digits of its own
END_S = 30.0  # for cases that were cut off to end: a broker may be about to start again


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mqspec", "conformance of a RocketMQ broker")
    group.addoption("--mqspec-nameserver", metavar="HOST:PORT", help="the nameserver to test")
    group.addoption("--mqspec-target", metavar="FILE", help="a target file (TOML)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "case: a conformance case, its rules and party")
    config.addinivalue_line("markers", "edge: the edge of a rule that a case tries")
    address, file = config.getoption("mqspec_nameserver"), config.getoption("mqspec_target")
    try:
        if file:
            target = read_target(Path(file))
        elif address:
            target = Target("address", address, parse_address(address))
        else:
            return
        cluster = Cluster(target.nameserver, target.places)
        cluster.find()
    except UserError as error:
        raise pytest.UsageError(str(error)) from None
    suite = Suite(target, cluster)
    config.pluginmanager.register(suite, "mqspec-suite")
    config.add_cleanup(lambda: _tell(suite.finish()))


def _tell(left: Iterable[str]) -> None:
    for line in left:
        print(f"mqspec: {line}")


class Selection:
    """Which cases there are and which are chosen: `results` has all of them, not run; `chosen`
    has those that are to run, `trouble` why not all that was asked for is done."""

    def __init__(self, rules: Collection[str] = (), *, quick: bool = False) -> None:
        self.results: dict[str, Result] = {}
        self.chosen: list[Result] = []
        self.trouble: UserError | None = None
        self._rules, self._quick = rules, quick

    def stop(self, trouble: UserError) -> None:
        """End the run before its end."""
        self.trouble = trouble

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        found = {item: case_of(item) for item in items}
        self.results = {
            item.name: Result(item.name, case, Status.NOT_RUN)
            for item, case in found.items()
            if case
        }
        for result in self.results.values():
            assert result.case.after in (None, *self.results), f"{result.name}: no such 'after'"
        chosen = [item for item, case in found.items() if case and self._is_wanted(item.name, case)]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen

    def _is_wanted(self, name: str, case: Case) -> bool:
        if self._quick and (name in slow() or Capability.RESTART in case.claims):
            return False
        return not self._rules or bool(set(case.rules) & set(self._rules))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.chosen = [self.results[item.name] for item in session.items]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            why = report.longreprtext.strip().rpartition("\n")[2].removeprefix("E ")
            self.stop(UserError(report.nodeid, f"cannot be imported: {why}"))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if excinfo.type is KeyboardInterrupt:  # not pytest's own, for what cannot be imported
            self.stop(UserError("interrupt", "not all cases were run"))


class Suite(Selection):
    """One run of the cases against one target, whose brokers `cluster` has found."""

    def __init__(
        self,
        target: Target,
        cluster: Cluster,
        deviations: Iterable[Deviation] = (),
        *,
        rule_ids: Collection[str] = (),
        prefix: str = PREFIX,
        quick: bool = False,
        frames_shown: int = SHOWN,
        on_done: Callable[[Result], None] = lambda result: None,
    ) -> None:
        super().__init__(rule_ids, quick=quick)
        self.target = target
        self.recorder = Recorder(f"{prefix}{uuid.uuid4().hex[:6]}")
        self._tidy = Tidy(cluster, self.recorder.run)
        self._frames_shown, self._on_done = frames_shown, on_done
        self._deviations = {deviation.case: deviation for deviation in deviations}
        self._cluster = cluster
        lifecycle = target.lifecycle
        if lifecycle:
            lifecycle = RecordedLifecycle(lifecycle, self.recorder, next(iter(cluster.brokers)))
        self._stage = Stage(lifecycle, cluster.wait)
        self.scenes: dict[str, Scene] = {}
        self._errors: dict[str, BaseException] = {}
        self._ends: dict[str, End] = {}
        self._looking = threading.Lock()  # for whether the target still serves

    def stop(self, trouble: UserError) -> None:
        super().stop(trouble)
        self._stage.stop(trouble)

    def finish(self) -> list[str]:
        """Take away what the run made, and put back what it set; a line for what may be left.

        Cases that still run, after an interrupt, come to their ends first.
        """
        self._stage.stop(self.trouble or UserError("run", "it is over"))
        for scene in list(self.scenes.values()):
            scene.cut_off()
        late = time.monotonic() + END_S
        for ended in self._ends.values():
            with contextlib.suppress(TimeoutError):
                ended.result(max(0.0, late - time.monotonic()))
        return self._tidy.finish(scene.transcript for scene in list(self.scenes.values()))

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the target can do."""
        claims = {
            Capability.TOPICS: self._cluster.topics_by_use,
            Capability.GROUPS: self._cluster.groups_by_use,
            Capability.EXCLUSIVE: self.target.exclusive,
            Capability.RESTART: self.target.lifecycle is not None and self.target.exclusive,
            Capability.STORE: self.target.store is not None,
            Capability.BROKERS: len(self._cluster.brokers) > 1,
            Capability.TLS: self.target.tls,
            Capability.USERS: self.target.secured is not None,
        }
        return frozenset(capability for capability, claimed in claims.items() if claimed)

    @property
    def stale(self) -> list[Deviation]:
        """Listed deviations that no longer show: their case passes."""
        passed = {name for name, r in self.results.items() if r.status is Status.PASSED}
        return [deviation for case, deviation in self._deviations.items() if case in passed]

    # Hooks of pytest

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Start all cases; pytest's own loop, which runs next, waits for each."""
        if not session.config.option.collectonly:
            self._start(session)
        ended = yield
        if self.trouble:
            session.shouldfail = str(self.trouble)
            raise session.Failed(session.shouldfail)
        return ended

    def _start(self, session: pytest.Session) -> None:
        items = {item.name: item for item in session.items if isinstance(item, pytest.Function)}
        bodies = {
            name: partial(self._play, item, f"{self.recorder.run}-{n}")
            for n, (name, item) in enumerate(items.items())
        }
        after = {name: self.results[name].case.after for name in items}
        self._ends = self._stage.start(
            bodies, {name: first for name, first in after.items() if first in items}
        )

    @pytest.fixture
    def scene(self, request: pytest.FixtureRequest) -> Scene | None:
        """The scene in which the case runs in its thread; here only so that pytest finds it."""
        return self.scenes.get(request.node.name)

    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Wait for the end of the case, and tell pytest what became of it."""
        raised = self._ends[pyfuncitem.name].result()
        result = self.results[pyfuncitem.name]
        if result.status is Status.NOT_RUN and not self.trouble:
            result = replace(result, status=Status.FAILED, why=f"has no result: {raised!r}")
            self.results[pyfuncitem.name] = result
        pyfuncitem.user_properties.append(("rules", " ".join(result.case.rules)))
        match result.status:
            case Status.FAILED:
                pyfuncitem.add_report_section("call", "frames", result.frames)
                raise self._errors.get(pyfuncitem.name) or AssertionError(result.why)
            case Status.DEVIATES:
                pytest.xfail(f"{result.status}: {result.why}")
            case Status.NOT_CLAIMED | Status.BLOCKED | Status.NOT_RUN:
                pytest.skip(f"{result.status}: {result.why}")
        return True

    # In the thread of the case

    def _play(self, item: pytest.Function, prefix: str) -> None:
        case = self.results[item.name].case
        began = time.monotonic()
        status, why = self._refused(case)
        departed = None
        if status is Status.PASSED:
            status, why, departed = self._judged(item, prefix)
        scene = self.scenes.get(item.name)
        self.results[item.name] = result = Result(
            item.name,
            case,
            status,
            time.monotonic() - began,
            why,
            frames=scene.transcript.render(self._frames_shown) if scene else "",
            exchanges=tuple(scene.transcript.exchanges)[-self._frames_shown :] if scene else (),
            departure=departed,
            letters=tuple(scene.letters) if scene else (),
        )
        self._on_done(result)

    def _refused(self, case: Case) -> tuple[Status, str]:
        others = [id_ for id_ in case.rules if not rules()[id_].holds_in(self.target.keeps)]
        if others:
            rule = rules()[others[0]]
            span = f"since {rule.since}" + (f" until {rule.until}" if rule.until else "")
            return Status.NOT_CLAIMED, f"{rule.id} holds {span}"
        if missing := sorted(case.claims - self.capabilities):
            return Status.NOT_CLAIMED, ", ".join(missing)
        first = self.results.get(case.after or "")
        if first and first.status is Status.NOT_CLAIMED:
            return first.status, first.why
        if first and first.status not in (Status.PASSED, Status.NOT_RUN) and not first.is_detail:
            return Status.BLOCKED, f"by {first.name}"
        return Status.PASSED, ""

    def _judged(self, item: pytest.Function, prefix: str) -> tuple[Status, str, Departure | None]:
        """Run a case: what became of it, why, and where it departed from what was expected."""
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        try:
            scene = Scene(
                prefix, self.target, self._cluster, self._stage, self.recorder, self._tidy
            )
            self.scenes[item.name] = scene
            with contextlib.closing(scene):
                item.obj(scene=scene, **parameters)
        except NotClaimedError as error:
            return Status.NOT_CLAIMED, str(error), None
        except (Exception, pytest.fail.Exception) as error:  # whatever a case ran into
            self._errors[item.name] = error
            self._look_at_target(item.name, error)
            if error is self.trouble:  # as who waits for a restart is told
                return Status.NOT_RUN, "", None
            if self.trouble:
                return Status.BLOCKED, f"by {self.trouble.where}", None
            known = self._deviations.get(item.name)
            if known and known.explains(error):
                return Status.DEVIATES, known.seen, None
            return self._departed(item.name, error)
        return Status.PASSED, "", None

    def _departed(self, name: str, error: BaseException) -> tuple[Status, str, Departure | None]:
        """Failed, or blocked where preparation failed that the case's rules do not speak of."""
        why = str(error) or type(error).__name__
        scene, rule_ids = self.scenes.get(name), self.results[name].case.rules
        if not scene:
            return Status.FAILED, why, None
        failed, step = scene.failed_step or (None, None)
        if failed is not error or step is None or step.fails(rule_ids):
            step = None
        failed_expectation, judged = scene.failed_as or (None, None)
        if failed_expectation is not error:
            judged = None
        departed = departure(error, scene.transcript, step, rule_ids, judged=judged)
        if step:
            return Status.BLOCKED, f"in preparation, {step.name}: {why}", departed
        return Status.FAILED, why, departed

    def _look_at_target(self, name: str, error: BaseException) -> None:
        """Stop the run where a case failed because the target is gone.

        Looked after at any failure, as a server that hangs shows in many ways, but not at that
        of a restart (a UserError): a broker that does not come back is what the case found.
        """
        with self._looking:
            if self.trouble:
                return
            if isinstance(error, CommandError):
                self.stop(error)
            elif not isinstance(error, UserError) and (lost := self._cluster.lost()):
                where, how = lost
                remedy = "find out why; the cases that ran then are blocked"
                self.stop(UserError(where, f"{how}, seen in {name}", remedy))


@cache
def slow() -> frozenset[str]:
    """The cases that wait for long, as most of their rules say."""
    return frozenset(json.loads(SLOW.read_text(encoding="utf-8")))


def case_of(item: pytest.Item) -> Case | None:
    """What `@case` says about an item; None where it is no case."""
    marker = item.get_closest_marker("case")
    return marker.args[0] if marker else None
