"""The log: where a put lies, what of it is visible, what is found and what may go."""

from __future__ import annotations

from mqprove.contracts.contract import contract
from mqspec.core import index, log, retention
from mqspec.core.index import IndexHeader
from mqspec.core.log import Append, LogState, Put, Span
from mqspec.core.record import BLANK_BYTES_MIN
from mqspec.core.retention import RetentionConfig, StoredSegment
from mqspec.core.step import apply

QUEUE = ("topic", 0)
SEGMENT = 1024  # bytes; as good as any, and CrossHair knows no remainder by a symbolic number


@contract("LOG-001", "LOG-004")
def a_record_lies_in_one_segment(end: int, size: int) -> bool:
    """A put lies behind all before it, in one segment, with room for a blank behind it.

    pre: end >= 0 and 1 <= size <= 1016
    post: _
    """
    state = LogState(commit_log=Span(0, end))
    (place,) = log.append_message(state, Append((Put(QUEUE, size),), SEGMENT)).result
    into = place.position % SEGMENT
    return place.position >= end and into + size + BLANK_BYTES_MIN <= SEGMENT


@contract("LOG-004")
def a_closed_segment_ends_with_a_blank(end: int, size: int) -> bool:
    """What lies between the end and the put is a blank that reaches to the segment's end.

    pre: end >= 0 and 1 <= size <= 1016
    post: _
    """
    state = LogState(commit_log=Span(0, end))
    (place,) = log.append_message(state, Append((Put(QUEUE, size),), SEGMENT)).result
    if place.position == end:
        return place.blank is None
    return place.blank == Span(end, place.position) and place.position % SEGMENT == 0


@contract("LOG-005")
def a_put_that_fails_takes_no_offset(size: int, taken: int) -> bool:
    """A put that no segment holds changes nothing.

    pre: size > 1016 and taken >= 0
    post: _
    """
    state = LogState(topic_queue_table={QUEUE: taken})
    step = log.append_message(state, Append((Put(QUEUE, size),), SEGMENT))
    return step.changes == () and step.result == [None]


@contract("LOG-002", "SEND-002")
def queue_offsets_follow_each_other(taken: int, first: int, second: int) -> bool:
    """Two puts of a queue get offsets that follow each other, by how many messages each has.

    pre: taken >= 0 and first >= 1 and second >= 1
    post: _
    """
    state = LogState(topic_queue_table={QUEUE: taken})
    puts = Put(QUEUE, 10, first), Put(QUEUE, 10, second)
    step = log.append_message(state, Append(puts, SEGMENT))
    apply(state, step.changes)
    one, other = step.result
    return (one.queue_offset, other.queue_offset, state.topic_queue_table[QUEUE]) == (
        taken,
        taken + first,
        taken + first + second,
    )


@contract("LOG-007")
def nothing_is_visible_before_it_is_on_disk(end: int, flushed: int, committed: int) -> bool:
    """With synchronous flush a record is dispatched only when it was flushed.

    post: _
    """
    state = LogState(committed_where=committed, flushed_where=flushed)
    return log.may_dispatch(state, end, True) == (end <= flushed)


@contract("LOG-030")
def nothing_is_visible_before_it_is_in_the_files(end: int, flushed: int, committed: int) -> bool:
    """With asynchronous flush a record is dispatched only when it was committed.

    post: _
    """
    state = LogState(committed_where=committed, flushed_where=flushed)
    return log.may_dispatch(state, end, False) == (end <= committed)


@contract("RECOV-002")
def a_flush_takes_nothing_back(flushed: int, position: int) -> bool:
    """What is on disk stays there, whichever flush ends last.

    post: _
    """
    state = LogState(flushed_where=flushed)
    apply(state, log.flush(state, position).changes)
    return state.flushed_where == max(flushed, position)


@contract("LOG-003", "LOG-009")
def a_queue_grows_without_a_hole(least: int, end: int, begin: int, behind: int) -> bool:
    """A queue that is followed on grows; else it begins anew where the records are.

    pre: 0 <= least <= end and 0 <= begin < behind
    post: _
    """
    grown = log.grow(Span(least, end), begin, behind)
    follows = least < end == begin
    return grown == Span(least if follows else begin, behind) and grown.min < grown.max


@contract("LOG-010", "PULL-002", "PULL-003")
def a_read_is_told_to_go_on_inside(least: int, end: int, offset: int) -> bool:
    """A read that finds nothing is told an offset inside the queue, or behind its last message.

    pre: 0 <= least <= end
    post: _
    """
    found = log.check_offset(Span(least, end), offset)
    if found is None:
        return least <= offset < end
    return least <= found[1] <= end or (end == 0 and found[1] == 0)


@contract("PULL-004", "PULL-005")
def a_pull_takes_its_first_message(count: int, most: int, held: int, size: int) -> bool:
    """The first message is taken whatever its size, and none beyond the limits.

    pre: count >= 0 and most >= 1 and held >= 0 and size >= 1
    post: _
    """
    limits = log.Limits()
    is_full = log.is_batch_full(limits, most, count, held, size)
    if count == 0:
        return not is_full
    most_bytes = limits.max_transfer_bytes_on_message_in_memory
    return is_full == (count >= min(most, 32) or held + size > most_bytes)


@contract("RECOV-011")
def what_is_indexed_is_not_indexed_again(end: int, position: int) -> bool:
    """A record before the one that was indexed last has its entries already.

    post: _
    """
    header = IndexHeader(0, 0, 0, end, 0, 1)
    return index.is_indexed_already(header, position) == (position < end)


@contract("LOG-023")
def no_file_of_the_time_is_passed_over(
    begun: int, ended: int, at: int, since: int, to: int
) -> bool:
    """A file that has a record of the time that is asked for is looked at.

    pre: begun <= at <= ended and since <= at <= to
    post: _
    """
    return index.is_time_matched(IndexHeader(begun, ended, 0, 0, 0, 1), since, to)


@contract("CLEAN-001")
def the_last_segment_stays(
    modified_ms: int, now_ms: int, used: int, dispatched: int, is_manual: bool
) -> bool:
    """However full the disk is, however old the log: the segment that is written to stays.

    pre: 0 <= used <= 100
    post: _
    """
    segments = [StoredSegment(0, modified_ms), StoredSegment(SEGMENT, modified_ms)]
    expired, _ = retention.clean_commit_log(
        RetentionConfig(), segments, dispatched, used, False, 4, now_ms, is_manual=is_manual
    )
    return expired in ((), (0,))


@contract("CLEAN-001", "CLEAN-002")
def a_young_segment_goes_only_by_force(modified_ms: int, now_ms: int, used: int) -> bool:
    """A segment that was written in the last 72 hours goes above 85 percent only.

    pre: 0 <= used <= 100 and modified_ms > now_ms - 259200000
    post: _
    """
    segments = [StoredSegment(0, modified_ms), StoredSegment(SEGMENT, modified_ms)]
    expired, _ = retention.clean_commit_log(
        RetentionConfig(), segments, SEGMENT, used, False, 4, now_ms
    )
    return bool(expired) == (used > 85)


@contract("CLEAN-004")
def what_is_not_dispatched_stays(modified_ms: int, now_ms: int, used: int, dispatched: int) -> bool:
    """A segment whose records are not all dispatched stays, however full the disk is.

    pre: 0 <= used <= 100 and dispatched < 1024
    post: _
    """
    segments = [StoredSegment(0, modified_ms), StoredSegment(SEGMENT, modified_ms)]
    expired, _ = retention.clean_commit_log(
        RetentionConfig(), segments, dispatched, used, False, 4, now_ms
    )
    return not expired


@contract("CLEAN-005")
def puts_are_refused_until_there_is_room(used: int, was_full: bool) -> bool:
    """Above 90 percent puts are refused, and from then on until 85 percent or less are used.

    pre: 0 <= used <= 100
    post: _
    """
    found = retention.clean_commit_log(RetentionConfig(), [], 0, used, was_full, 4, 0)
    return found.is_disk_full == (used > 90 or (was_full and used > 85))
