"""Pop polling: who is held, and whom a message wakes."""

from __future__ import annotations

from mqspec.core import pop_polling
from mqspec.core.pop_polling import PollingKey, PollingResult, PopPollingState, PopRequest
from mqspec.core.record import string_hash
from mqspec.core.step import apply
from mqspec.core.subscription import build_subscription_data

KEY, ALL = PollingKey("T", "G", 0), PollingKey("T", "G", -1)
WANTS_A = build_subscription_data("T", "A")
A, B = string_hash("A"), string_hash("B")


def holding(*held: tuple[PollingKey, str, int]) -> PopPollingState:
    state = PopPollingState()
    for key, token, expired_ms in held:
        request = PopRequest(token, WANTS_A, expired_ms)
        step = pop_polling.polling(state, key, request, True, 1, 0)
        assert step.result is PollingResult.POLLING_SUC
        apply(state, step.changes)
    return state


def test_one_waiter_of_each_place_is_woken_the_one_that_waited_longest() -> None:
    state = holding((KEY, "young", 200), (KEY, "old", 100), (ALL, "all", 100))
    step = pop_polling.notify_message_arriving(state, "T", 0, 1, A)
    assert set(step.result) == {"old", "all"}
    apply(state, step.changes)
    assert pop_polling.notify_message_arriving(state, "T", 0, 2, A).result == ("young",)


def test_a_message_wakes_only_who_wants_it() -> None:
    state = holding((KEY, "one", 100))
    assert pop_polling.notify_message_arriving(state, "T", 0, 1, B).result == ()
    assert pop_polling.notify_message_arriving(state, "T", 1, 1, A).result == ()
    assert pop_polling.notify_message_arriving(state, "X", 0, 1, A).result == ()
    forced = pop_polling.notify_message_arriving(state, "T", 0, 800, B)
    assert forced.result == ("one",)


def test_not_everybody_is_held() -> None:
    state = holding((KEY, "one", 100), (KEY, "two", 100))
    request = PopRequest("three", WANTS_A, 1_000)
    assert pop_polling.polling(state, KEY, request, True, 1, 0).result is PollingResult.POLLING_FULL
    for asked, now_ms, result in (
        (False, 0, PollingResult.NOT_POLLING),
        (True, 951, PollingResult.POLLING_TIMEOUT),
        (True, 950, PollingResult.POLLING_SUC),
    ):
        assert pop_polling.polling(state, ALL, request, asked, 1, now_ms).result is result


def test_who_ended_otherwise_is_not_woken() -> None:
    state = holding((KEY, "one", 100), (KEY, "two", 100))
    (first, _) = state.polling_map[KEY]
    step = pop_polling.forget(state, KEY, first.token)
    assert step.result is True
    apply(state, step.changes)
    assert pop_polling.forget(state, KEY, first.token).result is False
    apply(state, pop_polling.forget_closed(state, lambda token: token == "two").changes)
    assert state.polling_map == {}


def test_a_queue_that_is_free_again_wakes_one_waiter() -> None:
    state = holding((KEY, "one", 100), (ALL, "all", 100))
    step = pop_polling.notify_lock_free(state, KEY)
    assert step.result == ("all",)
    apply(state, step.changes)
    assert pop_polling.notify_lock_free(state, KEY).result == ("one",)
