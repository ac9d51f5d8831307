"""How a step of many records is dealt out to them in a trace."""

from __future__ import annotations

from itertools import islice

import pytest

from mqspec.broker.log_trace import _batch, _dealt, _said
from mqspec.core.log import Span, Stored
from mqspec.core.step import Change, Step

Q, R = ("T", 0), ("T", 1)


def test_each_record_changes_what_its_own_columns_say() -> None:
    first = [Change("commit_log", None, Span(0, 10)), Change("topic_queue_table", Q, 1)]
    second = [Change("commit_log", None, Span(0, 30)), Change("topic_queue_table", R, 8)]
    third = [Change("commit_log", None, Span(0, 60)), Change("topic_queue_table", Q, 2)]
    # The step says where all of it ends; one of the queues it forgets, and it has one more.
    told = (
        Change("commit_log", None, Span(0, 61)),
        Change("topic_queue_table", Q, 2),
        Change("flushed_where", None, 5),
    )
    assert _dealt(Step(told), [first, second, third]) == [
        first,
        [Change("commit_log", None, Span(0, 30))],
        [told[0], told[1], told[2]],
    ]


@pytest.mark.parametrize(("sizes", "told"), [((40,), 0), ((40, 50), 90), ((40, 50, 60), 150)])
def test_a_batch_is_told_by_where_it_begins_and_its_size(sizes: tuple[int, ...], told: int) -> None:
    positions = tuple(100 + sum(sizes[:number]) for number in range(len(sizes)))
    own = (b"",) * len(sizes)
    stored = Stored(Q, 0, True, positions, sizes, own, b"", 0, 0)
    assert _batch(stored) == (100, told)


def test_bytes_that_are_no_record_say_nothing_once() -> None:
    assert list(islice(_said([b"x" * 200, b"y" * 200]), 5)) == [(None, None)] * 2
