"""Pulls that are held: several at one queue, of many tags, the last racing with the message."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from mqconform.explore.areas import messages
from mqconform.explore.areas.messages import TAGS, Setting, Wake
from mqconform.explore.edges import COUNTS
from mqconform.explore.player import Program


class Area(messages.Area):
    name = "holds"
    about = "pulls that are held while messages come"

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()


@st.composite
def _wakes(draw: st.DrawFn, queues: int) -> tuple[Wake]:
    tag = draw(st.sampled_from(TAGS))
    wanting = ("*", "", tag or "*", f"none || {tag or 'A'}", "nothing")
    count = draw(st.sampled_from((1, 2, 3, 4, 5, 33)))
    expressions = st.lists(st.sampled_from(wanting), min_size=count, max_size=count).map(tuple)
    wake = Wake(
        client=0,
        broker=draw(st.integers(0, 1)),
        queue_id=draw(st.sampled_from(sorted({0, queues - 1}))),
        expressions=draw(expressions),
        tag=tag,
    )
    return (wake,)


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    queues = draw(st.sampled_from(COUNTS))
    return Program(Setting(queues), tuple(draw(st.lists(_wakes(queues), min_size=2, max_size=6))))


AREA: Final = Area()
