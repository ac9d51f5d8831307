"""Retention: which segments of the log go, and when nothing is written any more.

The twin of Retention.tla. A segment goes as a whole, the oldest first, and never the last one
(CLEAN-001). Once it was not written for 72 hours it goes in the hour of the day that is set for
it, and at any hour when the disk is used above 75 percent (CLEAN-002); above 85 percent it goes
however young it is, and above 90 percent puts are refused until the disk is used to 85 percent
or less again (CLEAN-005). What refers to records that are gone, in ConsumeQueues and the index,
follows (CLEAN-003, CLEAN-004).

Facts: CleanCommitLogService in DefaultMessageStore.java, MappedFileQueue.java,
MessageStoreConfig.java (5.3.3).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final, NamedTuple

from mqspec.core.log import LogState, Span, TopicQueue, Unit
from mqspec.core.step import Change, Step

DELETE_FILES_BATCH_MAX: Final = 10  # of one round
CLEAN_RESOURCE_INTERVAL_MS: Final = 10_000  # between rounds
MANUAL_ROUNDS: Final = 20  # at any hour, after an operator asked for it

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    """Names and defaults of the real properties. Ratios are in percent of the disk."""

    file_reserved_time: int = 72  # hours
    delete_when: str = "04"  # hours of the day, separated by ;
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90

    @property
    def file_reserved_ms(self) -> int:
        """How long a segment is kept that was written last."""
        return self.file_reserved_time * _HOUR_MS


class StoredSegment(NamedTuple):
    """A segment as the directory shows it."""

    start: int  # position
    last_modified_ms: int


class Round(NamedTuple):
    """What a round of cleaning decides."""

    expired: tuple[int, ...]  # the starts of the segments that go, ascending
    is_disk_full: bool  # puts are refused


def clean_commit_log(
    config: RetentionConfig,
    segments: Sequence[StoredSegment],
    dispatched: int,
    used: int,
    was_disk_full: bool,
    hour: int,
    now_ms: int,
    *,
    is_manual: bool = False,
) -> Round:
    """One round. `segments` are ascending, `dispatched` is the position that dispatch has come to,
    `used` the percentage of the disk, `hour` the local one, and `is_manual` is for any hour
    (CLEAN-002). Between 85 and 90 percent a disk that
    was full stays so."""
    at_once = used > config.disk_space_clean_forcibly_ratio
    is_disk_full = used > config.disk_space_warning_level_ratio or (at_once and was_disk_full)
    is_space_short = used > min(
        config.disk_max_used_space_ratio, config.disk_space_clean_forcibly_ratio
    )
    # As request 25 may have set it: what is no number is no hour.
    words = map(str.strip, config.delete_when.split(";"))
    is_time_up = hour in map(int, filter(str.isdecimal, words))
    if not (is_space_short or is_time_up or is_manual):
        return Round((), is_disk_full)
    before_ms = now_ms - config.file_reserved_ms
    expired = _expired(segments, dispatched, before_ms, at_once)
    return Round(tuple(islice(expired, DELETE_FILES_BATCH_MAX)), is_disk_full)


def _expired(
    segments: Sequence[StoredSegment], dispatched: int, before_ms: int, at_once: bool
) -> Iterator[int]:
    for segment, following in pairwise(segments):
        if following.start > dispatched:
            return  # without a unit nobody would know a queue offset, after a crash (CLEAN-004)
        if not at_once and segment.last_modified_ms > before_ms:
            return  # or there would be a gap: the younger ones stay too
        yield segment.start


def delete_expired_file(
    state: LogState, log_min: int, unit: Callable[[TopicQueue, int], Unit]
) -> Step:
    """The log begins at a later segment now, and each queue with the first
    record that is still there. A queue without any keeps its maximum as its minimum."""
    return Step(
        (
            Change("commit_log", None, Span(log_min, state.commit_log.max)),
            *(
                Change("consume_queue", queue, _from(log_min, queue, span, unit))
                for queue, span in state.consume_queue.items()
            ),
        )
    )


def _from(
    log_min: int, queue: TopicQueue, span: Span, unit: Callable[[TopicQueue, int], Unit]
) -> Span:
    offsets = range(span.min, span.max)
    gone = bisect_left(offsets, True, key=lambda k: unit(queue, k).position >= log_min)
    return Span(span.min + gone, span.max)
