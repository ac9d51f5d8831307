"""Half messages, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from msgspec import structs

from mqspec.core.log import Span
from mqspec.core.metadata import BrokerConfig
from mqspec.core.record import (
    PROPERTIES_BYTES_MAX,
    Record,
    SysFlag,
    decode_properties,
    encode_properties,
)
from mqspec.core.response import Refusal, ResponseCode
from mqspec.core.step import Step, apply
from mqspec.core.transaction import (
    CheckRound,
    EndTransaction,
    OpMessages,
    Park,
    PutBack,
    PutFinal,
    TransactionState,
    as_producer_sees_it,
    batch_send_op_message,
    check,
    end_transaction,
    ended_halves,
    is_batch_full,
    is_prepared,
    next_producer,
    prepare,
)

CONFIG = BrokerConfig()
NOW_MS = 1_700_000_000_000
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OLD_MS = NOW_MS - CONFIG.transaction_time_out
DAY_MS = 86_400_000


def message(**properties: str) -> Record:
    properties = {"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "k", **properties}
    return Record("T", b"body", encode_properties(properties).encode(), queue_id=3, flag=7)


def half(offset: int = 5, born_ms: int = OLD_MS, **properties: str) -> Record:
    """A half at a queue offset; it lies at 1000 times that."""
    return structs.replace(
        prepare(message(**properties)),
        queue_offset=offset,
        physical_offset=1000 * offset,
        born_timestamp=born_ms,
    )


def properties_of(record: Record) -> dict[str, str]:
    return decode_properties(record.properties)


# Preparing


@pytest.mark.parametrize(
    ("record", "prepared"),
    [
        (message(), True),
        (message(TRAN_MSG="TRUE"), True),
        (message(TRAN_MSG="false"), False),
        (Record("T", b"", b"TAGS\x01TRAN_MSG\x02"), False),
        (message(DELAY="3"), True),
        (structs.replace(message(DELAY="3"), reconsume_times=1), False),
    ],
)
def test_what_is_a_half(record: Record, prepared: bool) -> None:
    assert is_prepared(record) is prepared


def test_a_half_lies_in_the_half_topic() -> None:
    stored = prepare(
        structs.replace(message(DELAY="3"), sys_flag=SysFlag.PREPARED | SysFlag.COMPRESSED)
    )
    assert (stored.topic, stored.queue_id, stored.sys_flag) == (HALF_TOPIC, 0, SysFlag.COMPRESSED)
    assert (stored.body, stored.flag) == (b"body", 7)
    assert properties_of(stored) == {
        "TRAN_MSG": "true",
        "PGROUP": "PG",
        "UNIQ_KEY": "k",
        "DELAY": "3",
        "__transactionId__": "k",
        "REAL_TOPIC": "T",
        "REAL_QID": "3",
    }


# Ending

END = EndTransaction("PG", 5, 5000, is_commit=True)


def test_a_commit_sends_the_message_to_its_topic() -> None:
    step = end_transaction(TransactionState(op_batch=(4,)), CONFIG, END, half(), NOW_MS)
    (put,) = step.sends
    assert isinstance(put, PutFinal)
    final = put.message
    assert (final.topic, final.queue_id, final.body, final.flag) == ("T", 3, b"body", 7)
    assert final.sys_flag == SysFlag.COMMIT
    assert final.prepared_transaction_offset == 5000
    assert noted(step) == (4, 5)


def test_a_rollback_sends_nothing() -> None:
    step = end_transaction(
        TransactionState(), CONFIG, replace(END, is_commit=False), half(), NOW_MS
    )
    assert (step.sends, step.result, noted(step)) == ((), None, (5,))


def noted(step: Step) -> tuple[int, ...]:
    state = TransactionState()
    apply(state, step.changes)
    return state.op_batch


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize(
    ("event", "record", "remark"),
    [
        (END, None, "Find prepared"),
        (END, structs.replace(half(), topic="T"), "Find prepared"),
        (replace(END, producer_group="other"), half(), "producer group wrong"),
        (replace(END, producer_group=None), half(), "producer group wrong"),
        (replace(END, tran_state_table_offset=4), half(), "table offset wrong"),
        (replace(END, commit_log_offset=4000), half(), "commit log offset wrong"),
    ],
)
def test_an_end_that_fits_no_half(
    event: EndTransaction, record: Record | None, remark: str, is_commit: bool
) -> None:
    step = end_transaction(
        TransactionState(), CONFIG, replace(event, is_commit=is_commit), record, NOW_MS
    )
    assert isinstance(step.result, Refusal)
    assert step.result.code is ResponseCode.SYSTEM_ERROR
    assert remark in str(step.result.remark)
    assert step.changes == step.sends == ()


@pytest.mark.parametrize(
    ("seconds", "age_ms", "from_check", "accepted"),
    [
        ("10", 10_000, False, True),
        ("10", 10_001, False, False),
        ("10", 10_001, True, True),
        ("1", 6000, False, True),  # never less than transactionTimeOut
        ("1", 6001, False, False),
    ],
)
def test_an_end_after_the_immunity_of_its_half(
    seconds: str, age_ms: int, from_check: bool, accepted: bool
) -> None:
    record = half(born_ms=NOW_MS - age_ms, CHECK_IMMUNITY_TIME_IN_SECONDS=seconds)
    event = replace(END, from_transaction_check=from_check)
    result = end_transaction(TransactionState(), CONFIG, event, record, NOW_MS).result
    if accepted:
        assert result is None
    else:
        assert isinstance(result, Refusal)
        assert result.code is ResponseCode.ILLEGAL_OPERATION


# Op messages


def test_what_was_noted_becomes_one_op_message() -> None:
    state = TransactionState(op_batch=(0, 0, 5))
    step = batch_send_op_message(state)
    apply(state, step.changes)
    assert step.result == b"0,0,5,"
    assert ended_halves(step.result) == (0, 0, 5)
    assert batch_send_op_message(state).result == b""


def test_when_an_op_message_is_full() -> None:
    state = TransactionState(op_batch=(1,) * 2048)
    assert not is_batch_full(state, CONFIG)
    assert is_batch_full(replace_batch(state, 1), CONFIG)


def replace_batch(state: TransactionState, offset: int) -> TransactionState:
    return TransactionState(op_batch=(*state.op_batch, offset))


# Checking


def look(
    halves: Mapping[int, Record | None],
    *ops: tuple[int, ...],
    state: TransactionState | None = None,
    config: BrokerConfig = CONFIG,
) -> tuple[Step, TransactionState]:
    """One round over some halves; the state after it."""
    state = state or TransactionState()
    span = Span(min(halves, default=0), max(halves, default=-1) + 1)
    messages = OpMessages(state.op_offset)
    for op in ops:
        messages.add(op)
    event = CheckRound(messages, state.op_batch, span, halves.get, 3 * DAY_MS, NOW_MS)
    step = check(state, config, event)
    apply(state, step.changes)
    return step, state


def test_a_half_is_ended_while_an_op_message_that_is_not_done_names_it() -> None:
    ops = OpMessages(4)
    for halves in ((0, 1), (0, 2)):
        ops.add(halves)
    ops.forget(5)
    assert (ops.offset, list(ops.messages)) == (5, [(0, 2)])
    assert [half in ops for half in range(3)] == [True, False, True]


def test_an_undecided_half_is_appended_again_and_asked_about() -> None:
    step, state = look({0: half(0)})
    (put,) = step.sends
    assert isinstance(put, PutBack)
    assert (put.group, put.is_checked, put.message.topic) == ("PG", True, HALF_TOPIC)
    assert properties_of(put.message)["TRANSACTION_CHECK_TIMES"] == "1"
    assert (step.result, state.half_offset) == (True, 1)


def test_checks_are_counted_and_the_last_one_parks_the_half() -> None:
    record = half(0)
    for times in range(1, CONFIG.transaction_check_max + 1):
        (put,) = look({0: record})[0].sends
        assert isinstance(put, PutBack)
        assert properties_of(put.message)["TRANSACTION_CHECK_TIMES"] == str(times)
        record = put.message
    (park,) = look({0: record})[0].sends
    assert isinstance(park, Park)
    assert (park.message.topic, park.message.queue_id) == ("TRANS_CHECK_MAX_TIME_TOPIC", 0)
    assert properties_of(park.message)["REAL_TOPIC"] == "T"


def test_a_half_as_old_as_files_are_kept_is_parked() -> None:
    (park,) = look({0: half(0, born_ms=NOW_MS - 3 * DAY_MS - 1)})[0].sends
    assert isinstance(park, Park)


def test_a_half_that_was_ended_is_left_alone() -> None:
    step, state = look({0: half(0), 1: half(1)}, (1, 0), (0,))
    assert step.sends == ()
    assert (state.half_offset, state.op_offset) == (2, 2)


def test_a_half_whose_end_waits_in_memory_is_left_alone() -> None:
    step, state = look({0: half(0), 1: half(1)}, state=TransactionState(op_batch=(0,)))
    assert len(step.sends) == 1
    assert (state.half_offset, state.op_offset, state.op_batch) == (2, 0, (0,))


def test_a_young_half_ends_the_round() -> None:
    halves = {0: half(0), 1: half(1, born_ms=OLD_MS + 1), 2: half(2)}
    step, state = look(halves, (0,), (2,))
    assert step.sends == ()
    assert (step.result, state.half_offset, state.op_offset) == (False, 1, 1)
    # The op message of a half behind it is still needed.
    step, state = look(halves | {1: half(1)}, (2,), state=state)
    assert len(step.sends) == 1
    assert (state.half_offset, state.op_offset) == (3, 2)


def test_a_half_from_a_clock_that_is_ahead_is_checked() -> None:
    (put,) = look({0: half(0, born_ms=NOW_MS + DAY_MS)})[0].sends
    assert isinstance(put, PutBack)


def test_a_half_that_cannot_be_read_is_passed_over() -> None:
    step, state = look({3: None, 4: half(4)}, state=TransactionState(half_offset=1))
    assert len(step.sends) == 1
    assert state.half_offset == 5


def test_an_immune_half_holds_nobody_up() -> None:
    immune = half(0, born_ms=OLD_MS, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    step, state = look({0: immune, 1: half(1)})
    first, second = step.sends
    assert isinstance(first, PutBack)
    assert not first.is_checked
    assert properties_of(first.message)["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert "TRANSACTION_CHECK_TIMES" not in properties_of(first.message)
    assert isinstance(second, PutBack)
    assert second.is_checked
    assert state.half_offset == 2

    # An end names the half that was sent, not the copy.
    copy = structs.replace(first.message, queue_offset=2)
    assert look({2: copy}, (0,), state=state)[0].sends == ()


def test_an_immune_half_is_checked_when_its_time_is_over() -> None:
    for seconds in ("6", "-1", "soon"):
        record = half(0, born_ms=OLD_MS, CHECK_IMMUNITY_TIME_IN_SECONDS=seconds)
        (put,) = look({0: record})[0].sends
        assert isinstance(put, PutBack)
        assert put.is_checked


def test_producers_are_asked_in_turn() -> None:
    state = TransactionState()
    asked = []
    for _ in range(5):
        step = next_producer(state, 2)
        apply(state, step.changes)
        asked.append(step.result)
    assert asked == [0, 1, 0, 1, 0]


def test_a_producer_sees_its_own_topic() -> None:
    seen = as_producer_sees_it(half())
    assert (seen.topic, seen.queue_id, seen.body) == ("T", 3, b"body")
    assert decode_properties(seen.properties)["WAIT"] == "false"


def test_a_producer_sees_a_half_that_is_full_as_it_is() -> None:
    full = half(A="x" * (PROPERTIES_BYTES_MAX + 1 - len(half(A="x").properties)))
    assert len(full.properties) == PROPERTIES_BYTES_MAX
    assert as_producer_sees_it(full).properties == full.properties
