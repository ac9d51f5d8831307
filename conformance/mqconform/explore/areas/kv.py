"""The nameserver's KV configuration: namespaces, keys and values put, read and deleted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from mqconform import requests
from mqconform.connection import Connection
from mqconform.explore.edges import ALIKE
from mqconform.explore.player import Program, World
from mqconform.explore.possible import branch
from mqconform.frame import Frame
from mqconform.requests import Request
from mqspec.core import kv_config as core
from mqspec.core.step import apply

CLIENTS: Final = 4
NAMESPACES: Final = ("N", "n")
VALUES: Final = ("", "v", "w", " v ", "a b=c", "ä€𝄞", "x" * 1000)


@dataclass(frozen=True)
class _Of:
    client: int
    namespace: str
    key: str
    broker = 0
    rules = ("NAMESRV-022",)

    @property
    def place(self) -> tuple[str, ...]:
        return self.namespace, self.key

    def connection(self, world: World) -> Connection:
        return world.named_connection(self.client)

    def fields(self, world: World) -> dict[str, str]:
        return {"namespace": f"{world.scene.prefix}-{self.namespace}", "key": self.key}


@dataclass(frozen=True)
class Put(_Of):
    value: str

    def request(self, world: World) -> Request:
        return Request(requests.PUT_KV_CONFIG, {**self.fields(world), "value": self.value})

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: core.KvState) -> Iterator[tuple[Any, core.KvState]]:
        step = core.put_kv_config(state, self.namespace, self.key, self.value)
        yield 0, branch(state, step.changes, apply)


@dataclass(frozen=True)
class Delete(_Of):
    def request(self, world: World) -> Request:
        return Request(requests.DELETE_KV_CONFIG, self.fields(world))

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: core.KvState) -> Iterator[tuple[Any, core.KvState]]:
        step = core.delete_kv_config(state, self.namespace, self.key)
        yield 0, branch(state, step.changes, apply)


@dataclass(frozen=True)
class Get(_Of):
    def request(self, world: World) -> Request:
        return Request(requests.GET_KV_CONFIG, self.fields(world))

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code, answer.fields.get("value") if answer.code == 0 else None

    def allowed(self, state: core.KvState) -> Iterator[tuple[Any, core.KvState]]:
        value = core.get_kv_config(state, self.namespace, self.key)
        yield ((22, None) if value is None else (0, value)), state


class Area:
    name = "kv"
    about = "the nameserver's KV configuration"
    within_s = math.inf

    def programs(self) -> st.SearchStrategy[Program[None]]:
        return _programs()

    def begin(self, world: World, setting: None) -> core.KvState:
        return core.KvState()

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        places = world.notes.setdefault("places", {})
        places.update(dict.fromkeys((op.namespace, op.key) for op in round_))

    def last(self, world: World, setting: None) -> Sequence[Any]:
        places = list(world.notes.get("places", ()))
        return [*(Get(0, *place) for place in places), *(Delete(0, *place) for place in places)]


@st.composite
def _programs(draw: st.DrawFn) -> Program[None]:
    of = {
        "client": st.integers(0, CLIENTS - 1),
        "namespace": st.sampled_from(NAMESPACES),
        "key": st.sampled_from(ALIKE),
    }
    puts = st.builds(Put, **of, value=st.sampled_from(VALUES))
    ops = st.one_of(puts, puts, st.builds(Get, **of), st.builds(Delete, **of))
    rounds = draw(st.lists(st.lists(ops, min_size=1, max_size=5), min_size=10, max_size=30))
    return Program(None, tuple(map(tuple, rounds)))


AREA: Final = Area()
