"""Averagely's arithmetic. Together the first four say that the slices tile the queues: each starts
where the one before it stops, the first at 0, and the last stops at the end."""

from __future__ import annotations

from mqprove.contracts.contract import contract
from mqspec.core import allocation


@contract("ALLOC-001", "ALLOC-002")
def slices_are_inside(queues: int, members: int, index: int) -> bool:
    """A slice does not start after its stop, nor leave the list.

    pre: queues >= 1 and 0 <= index < members
    post: _
    """
    start, stop = allocation.average_slice(queues, members, index)
    return 0 <= start <= stop <= queues


@contract("ALLOC-002")
def first_slice_starts_the_list(queues: int, members: int) -> bool:
    """The first slice starts at 0.

    pre: queues >= 1 and members >= 1
    post: _
    """
    return allocation.average_slice(queues, members, 0)[0] == 0


@contract("ALLOC-001", "ALLOC-002")
def slices_are_adjacent(queues: int, members: int, index: int) -> bool:
    """A slice starts where the one before it stops.

    pre: queues >= 1 and 1 <= index < members
    post: _
    """
    before = allocation.average_slice(queues, members, index - 1)
    return before[1] == allocation.average_slice(queues, members, index)[0]


@contract("ALLOC-002")
def last_slice_stops_the_list(queues: int, members: int) -> bool:
    """The last slice stops where the list does.

    pre: queues >= 1 and members >= 1
    post: _
    """
    return allocation.average_slice(queues, members, members - 1)[1] == queues


@contract("ALLOC-003")
def slices_are_balanced(queues: int, members: int, i: int, j: int) -> bool:
    """No slice is longer than another by two.

    pre: queues >= 1 and 0 <= i < members and 0 <= j < members
    post: _
    """
    one = allocation.average_slice(queues, members, i)
    other = allocation.average_slice(queues, members, j)
    return (one[1] - one[0]) - (other[1] - other[0]) <= 1
