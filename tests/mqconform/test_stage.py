"""The stage: cases side by side, and one restart for all that wait for it."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from mqconform.cases.test_nameserver import new_host
from mqconform.stage import AT_A_TIME, Restart, Stage


class Broker:
    """A lifecycle that notes what is done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def stop(self) -> None:
        self.done.append("stop")

    def kill(self) -> None:
        self.done.append("kill")

    def start(self) -> None:
        self.done.append("start")


def test_a_restart_is_shared_and_waits_for_all_that_run() -> None:
    broker = Broker()
    stage = Stage(broker, lambda: broker.done.append("ready"))
    going = threading.Event()

    def plain() -> None:
        going.wait(10)
        broker.done.append("plain")

    def restarts() -> None:
        stage.restart(Restart.KILL, lambda: broker.done.append("damage"))
        stage.restart(Restart.CLEAN)

    ends = stage.start({"a": restarts, "b": plain, "c": restarts}, {})
    going.set()
    for end in ends.values():
        assert end.result(10) is None
    assert broker.done == [
        *("plain", "kill", "damage", "damage", "start", "ready"),
        *("stop", "start", "ready"),
    ]


def test_more_cases_than_work_at_a_time_come_to_one_restart() -> None:
    broker = Broker()
    stage = Stage(broker, lambda: None)
    cases = {str(n): lambda: stage.restart(Restart.CLEAN) for n in range(3 * AT_A_TIME)}
    for end in stage.start(cases, {}).values():
        assert end.result(10) is None
    assert broker.done == ["stop", "start"]


def test_what_is_settled_comes_after_the_damage_and_restarts_nothing() -> None:
    broker = Broker()
    stage = Stage(broker, lambda: None)

    def settled() -> None:
        stage.restart(Restart.SETTLED)
        broker.done.append("settled")
        stage.restart(Restart.RUIN, lambda: broker.done.append("ruin"))

    def stalls() -> None:
        stage.restart(Restart.SETTLED)
        stage.restart(Restart.STALL, lambda: broker.done.append("stall"))

    def damages() -> None:
        for part in ("one", "two"):
            stage.restart(Restart.DAMAGE, partial(broker.done.append, part))

    for end in stage.start({"a": settled, "b": damages, "c": stalls}, {}).values():
        assert end.result(10) is None
    assert broker.done == [
        *("kill", "one", "start", "kill", "two", "start", "settled"),
        *("kill", "stall", "start", "kill", "ruin", "start"),
    ]


def test_a_restart_that_fails_is_told_to_all_that_wait() -> None:
    class Stuck(Broker):
        def start(self) -> None:
            raise OSError("stuck")

    stage = Stage(Stuck(), lambda: None)
    told: list[str] = []

    def case() -> None:
        with pytest.raises(OSError, match="stuck"):
            stage.restart(Restart.KILL)
        told.append("told")

    for end in stage.start({"a": case, "b": case}, {}).values():
        assert end.result(10) is None
    assert told == ["told", "told"]


def test_a_stage_that_is_stopped_begins_no_case_and_restarts_nothing() -> None:
    broker, told = Broker(), ValueError("gone")
    stage = Stage(broker, lambda: None)
    waiting = threading.Event()
    order: list[str] = []

    def waits() -> None:
        waiting.set()
        with pytest.raises(ValueError, match="gone"):
            stage.restart(Restart.KILL)
        order.append("told")

    def stops() -> None:
        waiting.wait(10)
        stage.stop(told)

    cases = {"waits": waits, "stops": stops, "later": lambda: order.append("later")}
    for end in stage.start(cases, {"later": "stops"}).values():
        assert end.result(10) is None
    assert (order, broker.done) == (["told"], [])


def test_a_damage_that_cannot_be_done_leaves_a_broker() -> None:
    broker = Broker()
    stage = Stage(broker, lambda: broker.done.append("ready"))

    def fail() -> None:
        raise OSError("no such file")

    def case() -> None:
        with pytest.raises(OSError, match="no such file"):
            stage.restart(Restart.DAMAGE, fail)

    for end in stage.start({"a": case}, {}).values():
        assert end.result(10) is None
    assert broker.done == ["kill", "start", "ready"]


def test_a_case_comes_after_its_prerequisite() -> None:
    stage = Stage(None, lambda: None)
    order: list[str] = []
    cases = {name: lambda name=name: order.append(name) for name in ("last", "middle", "first")}
    ends = stage.start(cases, {"last": "middle", "middle": "first"})
    for end in ends.values():
        assert end.result(10) is None
    assert order == ["first", "middle", "last"]


def test_brokers_of_cases_side_by_side_have_hosts_of_their_own() -> None:
    interval, number = sys.getswitchinterval(), 20_000
    try:
        sys.setswitchinterval(1e-6)  # s: as a machine that is busy takes turns
        with ThreadPoolExecutor(AT_A_TIME) as cases:
            hosts = list(cases.map(lambda _: new_host(), range(number)))
    finally:
        sys.setswitchinterval(interval)
    assert len(set(hosts)) == number
