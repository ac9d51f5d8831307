"""The loop that carries out the core's conversations: one for all of them, over two tables."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from mqspec.broker.carrying import carry, note, note_told
from mqspec.broker.check_back import check_back, producers
from mqspec.broker.pop_polling import HeldPop
from mqspec.broker.stored import is_log_on_disk, put, put_message
from mqspec.core import conversation
from mqspec.core.consumer_filter import ConsumerFilterState
from mqspec.core.conversation import Ask, Conversation
from mqspec.core.delay import DelayState
from mqspec.core.due_messages import TimerProgress
from mqspec.core.group import GroupState
from mqspec.core.log import GetResult, Span
from mqspec.core.long_polling import LongPollingState
from mqspec.core.metadata import MetadataState
from mqspec.core.offset_commit import OffsetState
from mqspec.core.pop import PopState
from mqspec.core.pop_order import PopOrderState
from mqspec.core.pop_polling import PollingResult
from mqspec.core.response import Answer
from mqspec.core.subscription import (
    ALL,
    TAG,
    BroughtSubscriptions,
    is_matched_by_consume_queue,
    is_wanted_record,
)
from mqspec.core.timer import TimerState
from mqspec.core.transaction import TransactionState
from mqspec.service import Served, answered, clock_ms
from mqspec.store.message_store import Boundary
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

T = TypeVar("T")


def converse(broker: Broker, talk: Conversation[T]) -> T | Awaitable[T]:
    """Carry a conversation out. Its result, at once or, where it waits, in time."""
    try:
        waits_for = _until_it_waits(broker, talk, next(talk))
    except StopIteration as end:
        result: T = end.value
        return result
    return _go_on(broker, talk, waits_for)


async def _go_on(broker: Broker, talk: Conversation[T], waits_for: Ask) -> T:
    try:
        while True:
            try:
                answer = await _IN_TIME[type(waits_for)](broker, waits_for)
            except BaseException as error:
                following = talk.throw(error)
            else:
                following = talk.send(answer)
            waits_for = _until_it_waits(broker, talk, following)
    except StopIteration as end:
        result: T = end.value
        return result


def _until_it_waits(broker: Broker, talk: Conversation[Any], ask: Ask) -> Ask:
    """Carry out what can be at once. What the conversation waits for then; StopIteration, with
    its result, where it ends."""
    while carry_out := _AT_ONCE.get(type(ask)):
        try:
            answer = carry_out(broker, ask)
        except Exception as error:
            ask = talk.throw(error)
        else:
            ask = talk.send(answer)
    return ask


async def in_time(result: T | Awaitable[T]) -> T:
    """The result of a conversation, once it is there."""
    return await result if isinstance(result, Awaitable) else result


def converse_at_once(broker: Broker, talk: Conversation[T]) -> T:
    """The result of a conversation that does not wait."""
    result = converse(broker, talk)
    assert not isinstance(result, Awaitable)
    return result


def served(broker: Broker, request: RemotingCommand, talk: Conversation[Answer | None]) -> Served:
    """The answer to a request, once the conversation about it has ended; None: there is none, or
    none yet."""
    answer = converse(broker, talk)
    if isinstance(answer, Answer):
        return answered(request, answer)
    return None if answer is None else _answered_in_time(request, answer)


def served_at_once(
    broker: Broker, request: RemotingCommand, talk: Conversation[Answer | None]
) -> RemotingCommand | None:
    """The answer to a request whose conversation does not wait."""
    answer = converse_at_once(broker, talk)
    return None if answer is None else answered(request, answer)


def served_once_registered(
    broker: Broker,
    connection: Connection,
    request: RemotingCommand,
    talk: Conversation[Answer | None],
) -> Served:
    """The answer to a request, also where topics changed for it: then once the nameserver knows
    of them (ADMIN-028)."""
    before = broker.metadata.topic_data_version
    answer = served(broker, request, talk)
    is_changed = broker.metadata.topic_data_version is not before
    return broker.registrar.once_registered(is_changed, connection, request, answer)


async def _answered_in_time(
    request: RemotingCommand, answer: Awaitable[Answer | None]
) -> RemotingCommand | None:
    told = await answer
    return None if told is None else answered(request, told)


def _carry(broker: Broker, ask: conversation.Carry) -> Any:
    return carry(broker, _NAMES[type(ask.state)], ask.step, ask.event).result


def _read_span(broker: Broker, ask: conversation.ReadSpan) -> Span:
    store, topic, queue_id = broker.store, ask.topic, ask.queue_id
    return Span(store.min_offset(topic, queue_id), store.max_offset(topic, queue_id))


def _get(broker: Broker, ask: conversation.Get) -> GetResult:
    wanted = ask.wanted
    if wanted is None:
        return broker.store.get(ask.topic, ask.queue_id, ask.offset, ask.max_count)
    return broker.store.get(
        ask.topic,
        ask.queue_id,
        ask.offset,
        ask.max_count,
        # The store need not look at each message where all are wanted.
        None if wanted.sub_string == ALL else partial(is_matched_by_consume_queue, wanted),
        None if wanted.expression_type == TAG else partial(is_wanted_record, wanted),
    )


def _persist(broker: Broker, ask: conversation.Persist) -> None:
    _FILES[type(ask.state)](broker, ask.state)


def _hold_pop(broker: Broker, ask: conversation.HoldPop) -> PollingResult:
    connection, request = cast(tuple[Connection, RemotingCommand], ask.token)
    held = HeldPop(connection, request, ask.key, ask.born_time, ask.poll_time)
    holder = broker.pops if ask.kind == "pops" else broker.notifications
    return holder.polling(held, ask.wanted)


def _note(broker: Broker, ask: conversation.Note) -> None:
    note(broker, ask.module, ask.step, ask.event)


def _told(broker: Broker, ask: conversation.Told) -> None:
    note_told(broker, ask.module, ask.variable, ask.key, ask.value)


_NAMES: Final[Mapping[type, str]] = {
    MetadataState: "metadata",
    GroupState: "groups",
    BroughtSubscriptions: "brought",
    ConsumerFilterState: "filters",
    OffsetState: "offsets",
    DelayState: "delay",
    TimerState: "timer",
    TransactionState: "transactions",
    PopState: "pop",
    PopOrderState: "pop_order",
    LongPollingState: "long_polling",
}
"""The names that `carrying` has for states."""

_FILES: Final[Mapping[type, Callable[[Broker, Any], None]]] = {
    OffsetState: lambda broker, state: broker.files.persist_offsets(state, clock_ms()),
    DelayState: lambda broker, state: broker.files.persist_delay(state, clock_ms()),
    TimerProgress: lambda broker, state: broker.files.persist_timers(state),
    PopOrderState: lambda broker, state: broker.files.persist_pop_order(state),
}
"""By type of state: how its file is written."""

_AT_ONCE: Final[Mapping[type[Ask], Callable[[Broker, Any], object]]] = {
    conversation.Carry: _carry,
    conversation.ReadSpan: _read_span,
    conversation.Get: _get,
    conversation.OffsetByTime: lambda broker, ask: broker.store.offset_by_time(
        ask.topic, ask.queue_id, ask.time_ms, Boundary.LOWER
    ),
    conversation.Look: lambda broker, ask: broker.store.look_message_by_offset(ask.position),
    conversation.Units: lambda broker, ask: broker.store.units(
        ask.topic, ask.queue_id, ask.offset, ask.max_count
    ),
    conversation.IsAllVisible: lambda broker, ask: broker.store.is_all_visible(
        ask.topic, ask.queue_id
    ),
    conversation.Producers: producers,
    conversation.Now: lambda broker, _: clock_ms(),
    conversation.Put: lambda broker, ask: put_message(broker, ask.message),
    conversation.Store: lambda broker, ask: put(broker, ask.message),
    conversation.Append: lambda broker, ask: broker.store.put(ask.message),
    conversation.Persist: _persist,
    conversation.HoldPop: _hold_pop,
    conversation.NotifyPops: lambda broker, ask: broker.pops.notify(ask.key),
    conversation.CheckBack: check_back,
    conversation.NextReviveQueue: lambda broker, _: broker.next_revive_qid(),
    conversation.Count: lambda broker, ask: broker.stats.add(
        ask.kind, ask.key, ask.messages, ask.size
    ),
    conversation.Note: _note,
    conversation.Told: _told,
}
"""How what a conversation asks for is done. What it waits for is in the other table."""

_IN_TIME: Final[Mapping[type[Ask], Callable[[Broker, Any], Awaitable[object]]]] = {
    conversation.LogOnDisk: lambda broker, _: is_log_on_disk(broker),
    conversation.Flushed: lambda broker, ask: broker.group_commit.flushed(ask.end),
    conversation.OthersTurn: lambda broker, _: asyncio.sleep(0),
}
