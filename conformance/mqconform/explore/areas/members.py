"""Membership: many connections join groups, leave and break; lists of members, and notices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import eventually
from mqconform.explore.edges import COUNTS, around
from mqconform.explore.player import DepartureError, Program, World
from mqconform.explore.possible import branch
from mqconform.requests import Request, Subscription
from mqspec.core import group as core
from mqspec.core.step import Step, apply

EDGES: Final = tuple(count for count in COUNTS if count <= 16)  # each of them is watched
TOPICS: Final = 5
EXPRESSIONS: Final = ("*", "A", "A || B")
GROUPS: Final = 2
NOTICED_S: Final = 5.0


@dataclass(frozen=True)
class Setting:
    members: int


@dataclass(frozen=True)
class Members:
    """Who belongs to the groups, and how many notices each connection got, of which group."""

    table: core.GroupState
    told: tuple[tuple[tuple[int, str], int], ...] = ()

    def behind(self, step: Step) -> Members:
        told = Counter(dict(self.told))
        told.update((send.channel, send.group) for send in step.sends)
        return Members(branch(self.table, step.changes, apply), tuple(sorted(told.items())))


@dataclass(frozen=True)
class _Act:
    """Something that a client does, and what it and all others see then."""

    client: int
    group: int
    broker = 0

    @property
    def place(self) -> tuple[int, ...]:
        return ()

    def act(self, world: World) -> Any:
        answer = self.do(world)
        clients: set[int] = world.notes["clients"]
        told: Counter[tuple[int, str]] = world.notes.setdefault("told", Counter())
        expected = self.expected(world)

        def are_told() -> bool:
            for client in clients:
                # An answer comes behind what was sent before it.
                world.call(requests.consumer_list(world.groups[0]), 0, client)
                notices = world.connection(client).notices
                while notices:
                    name = notices.popleft().fields["consumerGroup"]
                    told[client, str(world.groups.index(name))] += 1
            return all(told[key] >= count for key, count in expected.items())

        eventually(are_told, NOTICED_S)
        seen = {key: count for key, count in told.items() if key[0] in clients}
        return answer, tuple(sorted(seen.items()))

    def expected(self, world: World) -> Counter[tuple[int, str]]:
        """How many notices are to be waited for: the model says."""
        model: Members = world.notes["model"]
        step = self.step(model.table, world.notes["clients"])
        world.notes["model"] = behind = model.behind(step)
        clients = world.notes["clients"]
        return Counter({key: count for key, count in behind.told if key[0] in clients})

    def do(self, world: World) -> Any:
        raise NotImplementedError

    def step(self, table: core.GroupState, clients: set[int]) -> Step:
        raise NotImplementedError

    def answered(self, table: core.GroupState) -> Any:
        return 0

    def allowed(self, state: Members) -> Iterator[tuple[Any, Members]]:
        behind = state.behind(self.step(state.table, set()))
        closed = isinstance(self, Break)
        told = tuple(
            (key, count) for key, count in behind.told if not (closed and key[0] == self.client)
        )
        behind = Members(behind.table, told)
        yield (self.answered(state.table), told), behind


@dataclass(frozen=True)
class Beat(_Act):
    """A heartbeat. `member` is the id that it names: two connections may name one."""

    member: int
    topics: tuple[int, ...] = ()
    version: int = 1
    expression: str = "*"
    model: str = "CLUSTERING"
    rules = "GROUP-001", "GROUP-002", "GROUP-003", "GROUP-004", "GROUP-010"

    def do(self, world: World) -> Any:
        world.notes["clients"].add(self.client)
        wanted = [
            Subscription(f"topic-{each}", self.expression, self.version) for each in self.topics
        ]
        request = requests.heartbeat(
            f"member-{self.member}", world.groups[self.group], wanted, model=self.model
        )
        return world.call(request, 0, self.client).code

    def step(self, table: core.GroupState, clients: set[int]) -> Step:
        wanted = tuple(
            core.SubscriptionData(f"topic-{each}", self.expression, sub_version=self.version)
            for each in self.topics
        )
        info = core.ClientChannelInfo(f"member-{self.member}", "JAVA", 0, 0)
        event = core.RegisterConsumer(
            str(self.group), self.client, info, wanted, message_model=core.MessageModel(self.model)
        )
        return core.register_consumer(table, event)


@dataclass(frozen=True)
class Leave(_Act):
    rules = "GROUP-005", "GROUP-007"

    def do(self, world: World) -> Any:
        world.notes["clients"].add(self.client)
        request = requests.unregister("whoever", world.groups[self.group])
        return world.call(request, 0, self.client).code

    def step(self, table: core.GroupState, clients: set[int]) -> Step:
        return core.unregister_consumer(table, str(self.group), self.client)


@dataclass(frozen=True)
class Break(_Act):
    """The connection ends."""

    rules = ("GROUP-005",)

    def do(self, world: World) -> Any:
        if self.client in world.notes["clients"]:
            world.hang_up(self.client)
            world.notes["clients"].discard(self.client)
            told = world.notes.setdefault("told", Counter())
            for key in [key for key in told if key[0] == self.client]:
                del told[key]
            _await_gone(world, self.client)
        return 0

    def expected(self, world: World) -> Counter[tuple[int, str]]:
        found = super().expected(world)
        model: Members = world.notes["model"]
        told = tuple(each for each in model.told if each[0][0] != self.client)
        world.notes["model"] = Members(model.table, told)
        return found

    def step(self, table: core.GroupState, clients: set[int]) -> Step:
        return core.close_channel(table, self.client)


@dataclass(frozen=True)
class Look(_Act):
    """The ids of a group's members, each as often as it has connections."""

    rules = "GROUP-002", "GROUP-008"

    def do(self, world: World) -> Any:
        world.notes["clients"].add(self.client)
        answer = world.call(requests.consumer_list(world.groups[self.group]), 0, self.client)
        return tuple(sorted(answer.json()["consumerIdList"])) if answer.code == 0 else None

    def step(self, table: core.GroupState, clients: set[int]) -> Step:
        return Step()

    def answered(self, table: core.GroupState) -> Any:
        ids = core.consumer_id_list(table, str(self.group))
        return ids and tuple(sorted(map(str, ids)))


@dataclass(frozen=True)
class Show(_Act):
    """What the group wants of each topic, by which version; None where it has no member."""

    rules = "GROUP-009", "ADMIN-007"

    def do(self, world: World) -> Any:
        world.notes["clients"].add(self.client)
        asked = Request(
            requests.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": world.groups[self.group]}
        )
        answer = world.call(asked, 0, self.client)
        if answer.code != 0:
            return None
        told = answer.json()["subscriptionTable"]
        return tuple(
            sorted((name, told[name]["subString"], told[name]["subVersion"]) for name in told)
        )

    def step(self, table: core.GroupState, clients: set[int]) -> Step:
        return Step()

    def answered(self, table: core.GroupState) -> Any:
        info = table.consumer_table.get(str(self.group))
        wanted = info.subscription_table.values() if info else ()
        told = tuple(sorted((each.topic, each.sub_string, each.sub_version) for each in wanted))
        return told if info else None


def _await_gone(world: World, client: int) -> None:
    """A connection that ended is noticed soon: wait until the lists of members are shorter."""
    model: Members = world.notes["model"]
    for name, info in model.table.consumer_table.items():
        if client in info.channel_info_table:
            wanted = len(info.channel_info_table) - 1

            def is_gone(name: str = name, wanted: int = wanted) -> bool:
                answer = world.call(requests.consumer_list(world.groups[int(name)]), 0, WATCHER)
                ids = answer.json()["consumerIdList"] if answer.code == 0 else ()
                return len(ids) <= wanted

            eventually(is_gone, NOTICED_S)


WATCHER: Final = 1000  # a connection that is no member's


class Area:
    name = "members"
    about = "heartbeats, leaving, broken connections; lists of members and notices"
    within_s = 60.0  # half of what a silent member lives

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> Members:
        for _ in range(GROUPS):
            world.make_group()
        world.notes["clients"] = set()
        world.notes["model"] = Members(core.GroupState())
        state = Members(core.GroupState())
        for n in range(setting.members):
            beat = Beat(n, 0, n)
            state = _only(beat, state, beat.act(world))
        return state

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        return

    def last(self, world: World, setting: Setting) -> Sequence[Any]:
        return ()


def _only(op: Beat, state: Members, seen: Any) -> Members:
    for answer, behind in op.allowed(state):
        if answer == seen:
            return behind
        told = f"answered {seen}\n    allowed  {answer}"
        raise DepartureError(f"while members join: {op}\n    {told}\n  rules: GROUP-003, GROUP-001")
    raise AssertionError("a heartbeat is allowed in every state")


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    edge = draw(st.sampled_from(EDGES))
    setting = Setting(draw(st.sampled_from(around(edge))))
    of = {"client": st.integers(0, edge + 2), "group": st.integers(0, GROUPS - 1)}
    topics = st.sampled_from(((), (0,), (0, 1), (1,), tuple(range(TOPICS))))
    beats = st.builds(
        Beat, **of, member=st.integers(0, edge + 1), topics=topics,
        version=st.sampled_from((0, 1, 2, 2**63 - 1)), expression=st.sampled_from(EXPRESSIONS),
        model=st.sampled_from(("CLUSTERING",) * 5 + ("BROADCASTING",)),
    )  # fmt: skip
    ops = st.one_of(
        beats, beats, st.builds(Leave, **of), st.builds(Break, **of), st.builds(Look, **of),
        st.builds(Show, **of),
    )  # fmt: skip
    drawn = draw(st.lists(ops, min_size=6, max_size=20))
    looks = [look(edge + 3, group) for group in range(GROUPS) for look in (Look, Show)]
    return Program(setting, tuple((op,) for op in (*drawn, *looks)))


AREA: Final = Area()
