"""Locks as Apache 5.3.3 was seen to grant them."""

from __future__ import annotations

from mqspec.core.lock import LockBatch, LockState, is_lock_all_expired, try_lock_batch, unlock_batch
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue

GROUP = "GLK"
LIVE_MS = 60_000
A, B = (MessageQueue("BG1", "broker-a", queue_id) for queue_id in range(2))


def lock(state: LockState, client_id: str, *queues: MessageQueue, at_ms: int = 0) -> set[object]:
    step = try_lock_batch(state, LockBatch(GROUP, client_id, queues), at_ms, LIVE_MS)
    apply(state, step.changes)
    return set(step.result)


def unlock(state: LockState, client_id: str, *queues: MessageQueue) -> None:
    apply(state, unlock_batch(state, LockBatch(GROUP, client_id, queues)).changes)


def test_a_queue_has_one_holder_until_it_unlocks() -> None:
    state = LockState()
    assert lock(state, "X", A) == {A}
    assert lock(state, "Y", A, B) == {B}
    unlock(state, "Y", A)
    assert lock(state, "Y", A) == set()
    unlock(state, "X", A)
    assert lock(state, "Y", A) == {A}


def test_a_queue_that_is_asked_for_twice_is_granted_once() -> None:
    step = try_lock_batch(LockState(), LockBatch(GROUP, "X", (A, B, A)), 0, LIVE_MS)
    assert step.result == (A, B)


def test_a_lock_lives_sixty_seconds_after_it_was_renewed() -> None:
    state = LockState()
    lock(state, "X", A)
    assert lock(state, "X", A, at_ms=40_000) == {A}
    assert lock(state, "Y", A, at_ms=100_000) == set()
    assert lock(state, "Y", A, at_ms=100_001) == {A}
    assert lock(state, "X", A, at_ms=100_002) == set()


def test_a_group_whose_locks_are_all_expired_or_unlocked_holds_none() -> None:
    def holds_none(at_ms: int) -> bool:
        return is_lock_all_expired(state, GROUP, at_ms, LIVE_MS)

    state = LockState()
    assert holds_none(0)
    lock(state, "X", A)
    lock(state, "Y", B, at_ms=30_000)
    assert not holds_none(90_000)
    assert holds_none(90_001)
    unlock(state, "X", A)
    unlock(state, "Y", B)
    assert state == LockState()


def test_what_is_refused_changes_nothing() -> None:
    state = LockState()
    lock(state, "X", A)
    assert not try_lock_batch(state, LockBatch(GROUP, "Y", (A,)), 1, LIVE_MS).changes
    assert not unlock_batch(state, LockBatch(GROUP, "Y", (A,))).changes
