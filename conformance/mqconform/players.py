"""Players: a scenario's steps taken to a broker, and its state compared after each of them.

A scenario is a behaviour of a TLA+ module. What its clients do and a broker sees is done over
the wire; what they do among themselves is left out. Of the state that a step leads to, what
a broker tells is asked for.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mqconform import requests
from mqconform.connection import Connection, eventually
from mqconform.scene import Scene, done
from mqrules import Scenario, UserError
from mqrules.scenario import Step
from mqrules.schema import decode

SCENARIOS = Path(__file__).parent / "data" / "scenarios"
NONE = "None"


def scenarios() -> dict[str, Scenario]:
    """The behaviours that the suite takes to every broker, by their ids."""
    return {path.stem: read_scenario(path) for path in sorted(SCENARIOS.glob("*.json"))}


def read_scenario(path: Path) -> Scenario:
    """A scenario from its file. Raises UserError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            str(path), f"not a scenario: {error}", "write one with mqspec check"
        ) from None
    return decode(Scenario, data, str(path))


def play(scene: Scene, scenario: Scenario) -> None:
    """Take a scenario to the first broker, or to as many as it has. Raises AssertionError at
    the first step after which the broker's state is not the scenario's."""
    begin, *steps = scenario.steps
    player = PLAYERS[scenario.module](scene, begin.state)
    for number, step in enumerate(steps, start=1):
        player.state |= step.state
        try:
            player.take(step)
            player.compare()
        except AssertionError as error:
            raise AssertionError(f"step {number}, {step.action}{_shown(step)}: {error}") from error


class Player(ABC):
    """What takes the steps of one module. `state` is the scenario's, as far as it is told."""

    def __init__(self, scene: Scene, state: Mapping[str, Any]) -> None:
        self.scene, self.state = scene, dict(state)

    @abstractmethod
    def take(self, step: Step) -> None:
        """Do over the wire what a step does there, if it does anything there."""

    @abstractmethod
    def compare(self) -> None:
        """Ask the broker for its state. Raises AssertionError where it is not the scenario's."""


class OffsetCommitPlayer(Player):
    """OffsetCommit: commits that arrive or not, in any order, of two members at once."""

    def __init__(self, scene: Scene, state: Mapping[str, Any]) -> None:
        super().__init__(scene, state)
        self._topic = scene.topic(len(state["maxOffset"]))
        self._group = scene.group()
        self._members = {member: scene.connect() for member in state["processQueueTable"]}
        for queue, end in state["maxOffset"].items():
            for _ in range(end):
                scene.send(self._topic, queue_id=int(queue))

    def take(self, step: Step) -> None:
        of: Mapping[str, Any] = step.parameters
        match step.action:
            case "SendMessage":
                self.scene.send(self._topic, queue_id=of["queue"])
            case "PullMessage":
                held = self.state["processQueueTable"][of["member"]][str(of["queue"])]
                offset = held["nextOffset"] - 1
                pull = requests.pull(self._topic, self._group, offset, of["queue"])
                answer = done(self._members[of["member"]].call(pull))
                least = answer.number("minOffset")
                assert least <= offset < answer.number("nextBeginOffset"), answer.fields
            case "UpdateConsumerOffset":
                member, queue, offset = of["commit"]
                commit = requests.commit_offset(self._group, self._topic, offset, queue)
                done(self._members[member].call(commit))

    def compare(self) -> None:
        for queue, offset in self.state["offsetTable"].items():
            kept = self.scene.committed(self._group, self._topic, int(queue))
            assert kept == (None if offset == NONE else offset), f"offset {kept} of queue {queue}"
        for queue, end in self.state["maxOffset"].items():
            found = self.scene.max_offset(self._topic, int(queue))
            assert found == end, f"queue {queue} ends at {found}"


class RebalancePlayer(Player):
    """Rebalance: members that come, go and lose connections, on the brokers of a cluster."""

    def __init__(self, scene: Scene, state: Mapping[str, Any]) -> None:
        super().__init__(scene, state)
        self._group = scene.new_group()
        brokers = sorted(state["consumerTable"])
        self._brokers = dict(zip(brokers, scene.broker_names, strict=False))
        assert len(self._brokers) == len(brokers), "the cluster has too few brokers"
        self._observers = {b: scene.connect(name) for b, name in self._brokers.items()}
        self._channels: dict[tuple[str, str], Connection] = {}
        for broker, members in state["consumerTable"].items():
            for member in members:
                self._register(member, broker)

    def take(self, step: Step) -> None:
        of: Mapping[str, Any] = step.parameters
        match step.action:
            case "RegisterConsumer":
                self._register(of["member"], of["broker"])
            case "UnregisterConsumer":
                leave = requests.unregister(self.scene.client(of["member"]), self._group)
                done(self._channels[of["member"], of["broker"]].call(leave))
            case "CloseChannel":
                self._channels.pop((of["member"], of["broker"])).close()
            case "ScanNotActiveChannel":
                raise UserError("ScanNotActiveChannel", "takes 120 s", "leave it out")
            case "DoRebalance":
                listed = self._listed(of["broker"])
                assert listed == sorted(self.state["cidAll"][of["member"]]), listed

    def compare(self) -> None:
        for broker, members in self.state["consumerTable"].items():
            # A closed connection is noticed some time later.
            as_known = partial(self._lists, broker, sorted(members))
            assert eventually(as_known), f"{broker} lists {self._listed(broker)}"

    def _lists(self, broker: str, known: list[str]) -> bool:
        return self._listed(broker) == known

    def _listed(self, broker: str) -> list[str]:
        return self.scene.members(self._group, self._observers[broker])

    def _register(self, member: str, broker: str) -> None:
        channel = self._channels.get((member, broker))
        if channel is None:
            channel = self._channels[member, broker] = self.scene.connect(self._brokers[broker])
        done(channel.call(requests.heartbeat(self.scene.client(member), self._group)))


PLAYERS = {"OffsetCommit": OffsetCommitPlayer, "Rebalance": RebalancePlayer}
"""By module. Its steps are those that the world of the module in mqcheck takes."""


def _shown(step: Step) -> str:
    return f"({', '.join(f'{name} {value}' for name, value in step.parameters.items())})"
