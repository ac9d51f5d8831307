"""Conversations of the core, answered by a list."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from typing import Any

import pytest

from mqspec.core import check_transaction, due_messages, pop_revive, timer
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import (
    Append,
    Ask,
    Carry,
    Conversation,
    Get,
    IsAllVisible,
    LogOnDisk,
    Look,
    Now,
    OthersTurn,
    Persist,
    Producers,
    ReadSpan,
    Store,
    Units,
)
from mqspec.core.delay import HALF_TOPIC, DelayState, persist_progress
from mqspec.core.log import (
    SCHEDULE_TOPIC,
    GetMessageStatus,
    GetResult,
    PutResult,
    PutStatus,
    Span,
    Unit,
)
from mqspec.core.metadata import MetadataState, SubscriptionGroupConfig, TopicConfig
from mqspec.core.offset_commit import OffsetKey, OffsetState, persist_offsets
from mqspec.core.pop import PoppedCheckPoint, PopState
from mqspec.core.record import NOWHERE, Record, encode_properties, encode_record, offset_message_id
from mqspec.core.revive_log import REVIVE_GROUP, CheckPointKey, PopCheckPoint, revive_topic
from mqspec.core.step import apply
from mqspec.core.timer import TIMER_TOPIC, TimerState
from mqspec.core.transaction import OP_TOPIC, TransactionState

KEY = OffsetKey("topic", "group", 0)


def asks(talk: Conversation[Any], answer: Callable[[Ask], object]) -> list[Ask]:
    """What a conversation yields that is answered so."""
    asked: list[Ask] = []
    try:
        asked.append(next(talk))
        while True:
            asked.append(talk.send(answer(asked[-1])))
    except StopIteration:
        return asked


@pytest.mark.parametrize(
    ("state", "talk"),
    [(OffsetState({KEY: 1}), persist_offsets), (DelayState({1: 1}), persist_progress)],
)
def test_nothing_is_written_before_the_log_is_on_disk(
    state: Any, talk: Callable[[Any], Conversation[None]]
) -> None:
    def fails(ask: Ask) -> bool:
        return False

    assert not any(isinstance(ask, Persist) for ask in asks(talk(state), fails))
    kinds = [type(ask) for ask in asks(talk(state), lambda _: True)]
    assert kinds.index(LogOnDisk) < kinds.index(Persist)


@pytest.mark.parametrize(
    ("state", "key", "talk"),
    [(OffsetState({KEY: 1}), KEY, persist_offsets), (DelayState({1: 1}), 1, persist_progress)],
)
def test_what_moves_while_the_log_is_flushed_is_not_written(
    state: Any, key: Any, talk: Callable[[Any], Conversation[None]]
) -> None:
    def flushes(ask: Ask) -> bool:
        if isinstance(ask, LogOnDisk):
            state.offset_table[key] = 2  # another request, meanwhile
        return True

    written = [ask.state for ask in asks(talk(state), flushes) if isinstance(ask, Persist)]
    assert [file.offset_table for file in written] == [{key: 1}]


class Stores:
    """What conversations ask for, answered by lists of messages, by topic; all in queue 0. Puts
    end as the statuses say, in turn, and well after these."""

    def __init__(self, now_ms: int, *statuses: PutStatus, **queues: list[Record]) -> None:
        self.now_ms, self.statuses, self.queues = now_ms, list(statuses), queues
        self.asked: list[Ask] = []

    def converse(self, talk: Conversation[Any], end_at: type[Ask] | None = None) -> Any:
        """The result; None where it is cancelled at the first of a kind."""
        try:
            ask = next(talk)
            while True:
                self.asked.append(ask)
                is_end = end_at is not None and isinstance(ask, end_at)
                ask = talk.throw(CancelledError) if is_end else talk.send(self.answer(ask))
        except StopIteration as end:
            return end.value
        except CancelledError:
            return None

    def kinds(self, *but: type[Ask]) -> list[type[Ask]]:
        return [type(ask) for ask in self.asked if not isinstance(ask, but)]

    def answer(self, ask: Any) -> object:
        match ask:
            case Carry():
                apply(ask.state, ask.step.changes)
                return ask.step.result
            case Now():
                return self.now_ms
            case ReadSpan():
                return Span(0, len(self.queues.get(ask.topic, ())))
            case Get():
                found = self.queues.get(ask.topic, [])[ask.offset : ask.offset + ask.max_count]
                end = ask.offset + len(found)
                status = GetMessageStatus.OFFSET_OVERFLOW_ONE
                return GetResult(
                    GetMessageStatus.FOUND if found else status,
                    end,
                    0,
                    end,
                    tuple(map(encode_record, found)),
                )
            case Units():
                messages = self.queues.get(ask.topic, [])
                offsets = range(ask.offset, min(ask.offset + ask.max_count, len(messages)))
                return [self._unit(ask.topic, offset) for offset in offsets]
            case Look():
                return self._at(ask.position)
            case Store() | Append():
                ended = self.statuses.pop(0) if self.statuses else PutStatus.PUT_OK
                return PutResult(ended, message_ids=offset_message_id(NOWHERE, 0))
            case IsAllVisible() | LogOnDisk():
                return True
            case Producers():
                return ()
        return None

    def _unit(self, topic: str, offset: int) -> Unit:
        place = 1000 * list(self.queues).index(topic) + offset
        return Unit(place, 0, self.queues[topic][offset].store_timestamp)

    def _at(self, position: int) -> Record | None:
        topics = list(self.queues)
        place, offset = divmod(position, 1000)
        return self.queues[topics[place]][offset] if position >= 0 else None


REVIVE_LOG = revive_topic(BrokerStates().config.cluster_name)
POPPED = CheckPointKey("topic", "group", 0, 0, 1_000, "broker-a")
REFUSED = PutStatus.SERVICE_NOT_AVAILABLE


def reviving(*offsets: int) -> BrokerStates:
    """A broker with one checkpoint, of messages of these offsets, at offset 5 of its log."""
    held = PoppedCheckPoint(PopCheckPoint(POPPED, 60_000, offsets), 5)
    return BrokerStates(
        metadata=MetadataState(
            {"topic": TopicConfig("topic", 1, 1)},
            subscription_group_table={"group": SubscriptionGroupConfig("group")},
        ),
        pop=PopState({(0, POPPED): held}, dict.fromkeys(range(8), 0)),
    )


def test_the_time_is_taken_first_and_all_queues_are_read_before_anything_is_revived() -> None:
    broker, stores = reviving(0), Stores(63_001, topic=[Record("topic", b"a")])
    stores.converse(pop_revive.revive(broker))
    kinds = stores.kinds(Carry, OthersTurn)
    queues = [type(ask) for ask in stores.asked if getattr(ask, "topic", "") == REVIVE_LOG]
    assert queues == [ReadSpan] * broker.config.revive_queue_num
    assert kinds[0] is Now
    assert kinds[2:] == [*queues, Get, Now, Store]  # behind what is told to the trace
    assert not broker.pop.check_points


@pytest.mark.parametrize(("late_ms", "is_revived"), [(2_000, False), (2_001, True)])
def test_a_checkpoint_waits_for_acknowledgements_on_their_way(
    late_ms: int, is_revived: bool
) -> None:
    broker, stores = reviving(0), Stores(61_000 + late_ms, topic=[Record("topic", b"a")])
    stores.converse(pop_revive.revive(broker))
    assert bool(broker.pop.check_points) is not is_revived


def test_others_have_their_turn_behind_each_checkpoint() -> None:
    broker, stores = reviving(0), Stores(63_001, topic=[Record("topic", b"a")])
    stores.converse(pop_revive.revive(broker))
    kinds = stores.kinds()
    assert kinds[kinds.index(Store) :] == [Store, Carry, OthersTurn, *[Carry] * 8]


def test_a_checkpoint_of_which_nothing_can_be_stored_is_not_passed() -> None:
    messages = [Record("topic", b"a"), Record("topic", b"b")]
    broker, stores = reviving(0, 1), Stores(63_001, REFUSED, REFUSED, topic=messages)
    stores.converse(pop_revive.revive(broker))
    assert stores.kinds().count(Store) == stores.kinds().count(Append) == 1
    assert broker.pop.check_points
    key = OffsetKey(REVIVE_LOG, REVIVE_GROUP, 0)
    assert broker.offsets.offset_table[key] == 4


@pytest.mark.parametrize("is_torn", [True, False])
def test_for_a_message_that_is_no_more_nothing_is_stored(is_torn: bool) -> None:
    class Gone(Stores):
        def answer(self, ask: Any) -> object:
            if isinstance(ask, Get) and is_torn:
                return GetResult(GetMessageStatus.FOUND, 1, 0, 1, (b"torn",))
            return super().answer(ask)

    broker, stores = reviving(0), Gone(63_001)
    stores.converse(pop_revive.revive(broker))
    assert not broker.pop.check_points
    assert not {Store, Append} & {*stores.kinds()}


def half(offset: int) -> Record:
    """A half that is checked: it is as old as the epoch."""
    properties = {"TRAN_MSG": "true", "PGROUP": "group"}
    return Record(HALF_TOPIC, b"", encode_properties(properties).encode(), queue_offset=offset)


def checked(broker: BrokerStates, stores: Stores) -> TransactionState:
    stores.converse(check_transaction.check(broker, file_reserved_ms=1_000_000))
    return broker.transactions


@pytest.mark.parametrize("puts_before", [0, 1, 2])
def test_a_half_that_cannot_be_stored_is_looked_at_again(puts_before: int) -> None:
    """And what was stored before it is not."""
    statuses = [*[PutStatus.PUT_OK] * puts_before, REFUSED]
    stores = Stores(10_000, *statuses, **{HALF_TOPIC: [half(n) for n in range(3)]})
    broker = BrokerStates()
    assert checked(broker, stores).half_offset == puts_before
    assert broker.offsets.offset_table[check_transaction.HALF_QUEUE] == puts_before
    assert checked(broker, stores).half_offset == 3


def test_halves_that_are_ended_are_not_read() -> None:
    halves = [half(n) for n in range(3)]
    ops = [Record(OP_TOPIC, b"1,")]
    stores = Stores(10_000, **{HALF_TOPIC: halves, OP_TOPIC: ops})
    checked(BrokerStates(transactions=TransactionState(op_batch=(0,))), stores)
    assert [ask.position for ask in stores.asked if isinstance(ask, Look)] == [2]


def test_no_half_is_looked_at_before_all_op_messages_are_seen() -> None:
    class Hidden(Stores):
        def answer(self, ask: Any) -> object:
            return not isinstance(ask, IsAllVisible) and super().answer(ask)

    stores = Hidden(10_000, **{HALF_TOPIC: [half(0)], OP_TOPIC: []})
    assert checked(BrokerStates(), stores).half_offset == 0
    assert stores.kinds() == [ReadSpan, ReadSpan, IsAllVisible, LogOnDisk, IsAllVisible]


def test_op_messages_are_read_from_the_first_that_is_left() -> None:
    class Cut(Stores):
        def answer(self, ask: Any) -> object:
            is_of_ops = (getattr(ask, "topic", ""), getattr(ask, "queue_id", 0)) == (OP_TOPIC, 0)
            if is_of_ops and isinstance(ask, ReadSpan):
                return Span(5, 6)
            if is_of_ops and isinstance(ask, Get):
                if ask.offset < 5:
                    return GetResult(GetMessageStatus.OFFSET_TOO_SMALL, 5, 5, 6)
                return super().answer(Get(ask.topic, 0, ask.offset - 5, ask.max_count))
            return super().answer(ask)

    ops = [Record(OP_TOPIC, b"0,")]
    stores = Cut(10_000, **{HALF_TOPIC: [half(0)], OP_TOPIC: ops})
    state = checked(BrokerStates(), stores)
    assert (state.half_offset, state.op_offset) == (1, 6)
    assert Store not in stores.kinds()


def test_an_op_message_that_cannot_be_read_names_nothing_and_those_behind_it_count() -> None:
    class Torn(Stores):
        def answer(self, ask: Any) -> object:
            found = super().answer(ask)
            if isinstance(ask, Get) and ask.offset == 0:
                assert isinstance(found, GetResult)
                return found._replace(records=(b"torn", *found.records[1:]))
            return found

    ops = [Record(OP_TOPIC, body) for body in (b"0,", b"1,")]
    stores = Torn(10_000, **{HALF_TOPIC: [half(0), half(1)], OP_TOPIC: ops})
    state = checked(BrokerStates(), stores)
    assert [ask.message.queue_offset for ask in stores.asked if isinstance(ask, Store)] == [0]
    assert (state.half_offset, state.op_offset) == (2, 2)


def delayed(count: int, store_ms: int = 0) -> list[Record]:
    properties = encode_properties({"REAL_TOPIC": "topic", "REAL_QID": "0"}).encode()
    return [Record(SCHEDULE_TOPIC, b"", properties, store_timestamp=store_ms) for _ in range(count)]


def test_a_level_goes_on_until_nothing_is_due_and_others_have_their_turn() -> None:
    state, stores = DelayState(), Stores(10_000, **{SCHEDULE_TOPIC: delayed(250)})
    stores.converse(due_messages.deliver_delayed(state, [1_000]))
    assert state.offset_table == {1: 250}
    assert stores.kinds().count(OthersTurn) == 2


def test_the_progress_of_a_level_moves_behind_each_put() -> None:
    state = DelayState()
    stores = Stores(10_000, PutStatus.PUT_OK, REFUSED, **{SCHEDULE_TOPIC: delayed(3)})
    stores.converse(due_messages.deliver_delayed(state, [1_000]))
    assert stores.kinds()[3:] == [Look, Store, Carry, Look, Store]
    assert state.offset_table == {1: 1}


def timed(count: int, slot: int = 1_000) -> list[Record]:
    properties = {"REAL_TOPIC": "topic", "REAL_QID": "0", timer.OUT_MS: str(slot)}
    return [Record(TIMER_TOPIC, b"", encode_properties(properties).encode())] * count


def test_of_a_slot_that_is_cancelled_what_is_not_delivered_waits() -> None:
    state, stores = TimerState(), Stores(0, **{TIMER_TOPIC: timed(250)})
    stores.converse(due_messages.deliver_timers(state))
    assert (len(state.wheel), state.queue_offset) == (1, 250)

    stores.now_ms = 5_000
    stores.converse(due_messages.deliver_slot(state), end_at=OthersTurn)
    assert stores.kinds().count(Store) == 100
    stores.converse(due_messages.deliver_timers(state))
    assert stores.kinds().count(Store) == 250
    assert not state.wheel


@pytest.mark.parametrize(("written_ms", "is_written"), [(0, True), (5_000, False)])
def test_progress_of_timers_is_written_where_it_has_moved(
    written_ms: int, is_written: bool
) -> None:
    state, stores = TimerState(), Stores(5_500, **{TIMER_TOPIC: timed(3)})
    stores.converse(due_messages.deliver_timers(state))
    written = due_messages.TimerProgress(written_ms, 0, 0)

    stores.converse(due_messages.persist_timers(state, written))
    files = [ask.state for ask in stores.asked if isinstance(ask, Persist)]
    assert files == [due_messages.TimerProgress(5_000, 3, 3)] * is_written


def test_progress_of_timers_waits_for_the_log() -> None:
    state, stores = TimerState(), Stores(5_500, **{TIMER_TOPIC: timed(3)})
    stores.converse(due_messages.deliver_timers(state))
    talk = due_messages.persist_timers(state, due_messages.TimerProgress(0, 0, 0))
    assert asks(talk, lambda _: False) == [LogOnDisk()]
