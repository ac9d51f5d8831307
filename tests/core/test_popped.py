"""What a consumer that pops does with a message: lets it go in time, puts it away, gives it up."""

from __future__ import annotations

import pytest

from mqspec.core.extra_info import NORMAL_TOPIC, ReceiptHandle
from mqspec.core.pop_consumer import POP_DELAY_MS, invisible_after_failure_ms, is_pop_timeout

MAX: int = 16


@pytest.mark.parametrize(("now_ms", "over"), [(0, False), (60_999, False), (61_000, True)])
def test_it_is_its_own_until_the_invisible_time_is_over(now_ms: int, over: bool) -> None:
    handle = ReceiptHandle(7, 1_000, 60_000, 0, NORMAL_TOPIC, "broker-a", 0, 7)
    assert is_pop_timeout(handle, now_ms) is over


def test_the_delays_are_those_of_the_java_client() -> None:
    told = "10 30 60 120 180 240 300 360 420 480 540 600 1200 1800 3600 7200"
    assert [delay / 1000 for delay in POP_DELAY_MS] == [int(each) for each in told.split()]


@pytest.mark.parametrize(
    ("tried", "age_s", "seconds"),
    [
        (0, 0, 10),
        (1, 99_999, 30),  # the age does not matter before the last try
        (15, 0, 7_200),
        # Then the first delay that is longer than its age.
        (16, 10, 30),
        (16, 29, 30),
        (16, 30, 60),
        (17, 7_199, 7_200),
        (16, 7_200, 7_200),
        (16, 14_400, 7_200),
    ],
)
def test_one_that_failed_is_put_away(tried: int, age_s: int, seconds: int) -> None:
    assert invisible_after_failure_ms(tried, age_s * 1000, MAX) == seconds * 1000


def test_one_that_was_tried_too_often_and_is_old_is_given_up() -> None:
    assert invisible_after_failure_ms(16, 14_400_001, MAX) is None
    assert invisible_after_failure_ms(15, 14_400_001, MAX) == 7_200_000


def test_more_tries_than_delays_are_put_away_for_the_longest() -> None:
    assert invisible_after_failure_ms(99, 0, 100) == 7_200_000
