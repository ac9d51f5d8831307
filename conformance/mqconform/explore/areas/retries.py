"""Messages sent back: which level their delay has, how many tries they count, and when they are
given up. A level that is far away is read where it waits, in the log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import eventually
from mqconform.explore.edges import around
from mqconform.explore.player import Program, World
from mqconform.records import parse_records
from mqconform.scene import done
from mqrules import edges
from mqspec.core import metadata
from mqspec.core.log import DELAY_LEVELS_MS, SCHEDULE_TOPIC
from mqspec.core.metadata import SubscriptionGroupConfig
from mqspec.core.record import Record, decode_properties
from mqspec.core.retry import SendBack as Event
from mqspec.core.retry import consumer_send_msg_back, dlq_topic, retry_topic

LEVELS: Final = len(DELAY_LEVELS_MS)
TRIES: Final = (0, 1, 2, 3, 8, 13, 14, 15, 16, 17, 30, 2**31 - 2)
LONGEST: Final = max(edges()["SEND-008"][0].inside)  # characters of a topic
NOT_FOUND_S: Final = 5.0


@dataclass(frozen=True)
class Setting:
    retry_max_times: int
    name: int = 0  # characters of the group's name, at least


@dataclass(frozen=True)
class State:
    """How many messages wait at each level, and how many were given up, of this world."""

    retry_max_times: int


@dataclass(frozen=True)
class SendBack:
    """A message that was tried so often fails again; where its copy is, and what it counts."""

    client: int
    broker: int
    tries: int
    level: int
    maximum: int | None = None
    rules = "RETRY-002", "RETRY-003", "RETRY-004", "RETRY-005"

    @property
    def place(self) -> tuple[int, ...]:
        return (self.broker,)

    def act(self, world: World) -> Any:
        """The code; and of the copy its level, its tries and whether it waits for the group."""
        group, key = world.groups[0], world.scene.name("K")
        send = requests.send(world.topics[0], b"failing", 0, {"KEYS": key}).having(j=self.tries)
        sent = done(world.call(send, self.broker, self.client))
        position = int(sent.fields["msgId"][16:], 16)
        known = {level: self._end(world, level) for level in range(1, LEVELS + 1)}
        dead = self._max(world, dlq_topic(group), 0)
        back = requests.send_back(group, world.topics[0], position, self.level, self.maximum)
        answer = world.call(back, self.broker, self.client)
        if answer.code != 0:
            return answer.code, None
        found: list[Any] = []

        def is_found() -> bool:
            copy = self._copy(world, dlq_topic(group), 0, dead, key) if dead is not None else None
            if copy:
                found.append((0, ("dead", copy.reconsume_times, True)))
                return True
            for level, begin in known.items():
                if copy := self._copy(world, SCHEDULE_TOPIC, level - 1, begin, key):
                    is_ours = copy.properties.get("REAL_TOPIC") == retry_topic(group)
                    found.append((0, (level, copy.reconsume_times, is_ours)))
                    return True
            return False

        eventually(is_found, NOT_FOUND_S)
        return found[0] if found else (0, "no copy is found")

    def _end(self, world: World, level: int) -> int:
        return self._max(world, SCHEDULE_TOPIC, level - 1)

    def _max(self, world: World, topic: str, queue_id: int) -> int:
        return world.call(requests.max_offset(topic, queue_id), self.broker).number("offset")

    def _copy(self, world: World, topic: str, queue_id: int, begin: int, key: str) -> Any:
        """The message with that key, at or behind an offset of a queue."""
        pull = requests.pull(topic, world.groups[1], begin, queue_id)
        answer = world.call(pull, self.broker, self.client)
        if answer.code != 0:
            return None
        return next((r for r in parse_records(answer.body) if r.key == key), None)

    def allowed(self, state: State) -> Iterator[tuple[Any, State]]:
        message = Record(topic="topic", body=b"", reconsume_times=self.tries)
        event = Event("group", 0, self.level, self.maximum, version=479)
        group = SubscriptionGroupConfig("group", retry_max_times=state.retry_max_times)
        copy = consumer_send_msg_back(metadata.MetadataState(), event, group, message, 0).result
        if copy.topic == dlq_topic("group"):
            yield (0, ("dead", copy.reconsume_times, True)), state
            return
        level = int(decode_properties(copy.properties)["DELAY"])
        yield (0, (min(level, LEVELS), copy.reconsume_times, True)), state


class Area:
    name = "retries"
    about = "messages that are sent back: levels, tries, maximum"
    within_s = math.inf

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> State:
        world.make_topic(1)
        world.make_group(setting.name, retryMaxTimes=setting.retry_max_times)
        world.make_group()
        world.topics.append(retry_topic(world.groups[0]))
        world.topics.append(dlq_topic(world.groups[0]))
        return State(setting.retry_max_times)

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        return

    def last(self, world: World, setting: Setting) -> Sequence[Any]:
        return ()


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    names = st.sampled_from((0, 64, LONGEST - len(retry_topic(""))))
    setting = Setting(draw(st.sampled_from((0, 1, 3, 16, 40))), draw(names))
    tries = st.sampled_from(sorted({*TRIES, *around(setting.retry_max_times, 0)}))
    ops = st.builds(
        SendBack, client=st.integers(0, 2), broker=st.integers(0, 1), tries=tries,
        # Level 1 is over in a second: its copy may be gone before it is looked for.
        level=st.sampled_from((0, 0, 0, -1, 3, 4, 5, *around(LEVELS), 99)),
        maximum=st.sampled_from((None, None, 0, 1, 16, 17, 100)),
    )  # fmt: skip
    drawn = draw(st.lists(ops, min_size=4, max_size=10))
    return Program(setting, tuple((op,) for op in drawn))


AREA: Final = Area()
