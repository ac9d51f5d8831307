"""The consumer that pops, once it has messages: whether they are still its own, and for how long
one that failed is put away.

What it decides of pops, acknowledgements and handles stands with the broker's side, in pop.

Facts: client/impl/consumer/{ConsumeMessagePopConcurrentlyService,DefaultMQPushConsumerImpl}.java,
client/consumer/DefaultMQPushConsumer.java, 5.3.3.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from mqspec.core.extra_info import ReceiptHandle

POP_DELAY_MS: Final[tuple[int, ...]] = tuple(
    seconds * 1000
    for seconds in (10, 30, *range(60, 601, 60), 1_200, 1_800, 3_600, 7_200)
)  # fmt: skip
"""For how long a message is put away that was tried so often before."""
POP_THRESHOLD_FOR_QUEUE: Final = 96  # more unfinished messages than this stop a pop (POP-053)


def is_pop_timeout(handle: ReceiptHandle, now_ms: int) -> bool:
    """Whether the invisible time of a message is over: it goes to whoever pops next (POP-052)."""
    return now_ms - handle.pop_time >= handle.invisible_time


def invisible_after_failure_ms(
    reconsume_times: int, age_ms: int, max_reconsume_times: int
) -> int | None:
    """For how long a message is put away with which the listener failed (POP-051); None where it is
    acknowledged in place of that.

    It comes again later each time. Once it was tried so often as the group permits, its age tells:
    one that is older than twice the longest delay is given up.
    """
    if reconsume_times < max_reconsume_times:
        tried = reconsume_times
    elif age_ms > 2 * POP_DELAY_MS[-1]:
        return None
    else:
        tried = bisect_right(POP_DELAY_MS, age_ms)
    return POP_DELAY_MS[min(tried, len(POP_DELAY_MS) - 1)]
