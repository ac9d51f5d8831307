"""The suite says no: of a broker that is wrong in one thing, just the cases for it fail."""

from __future__ import annotations

import asyncio
import io
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from by_night import one_in
from msgspec import structs
from patched import patch
from rich.console import Console

from mqconform import report, requests
from mqconform.case import Status
from mqconform.plugin import Suite
from mqconform.transcript import Transcript
from mqrules import Deviation, Verdict
from mqspec.broker import Broker
from mqspec.broker.processor import progress, relay, sending
from mqspec.broker.registrar import Registrar
from mqspec.core import (
    assignment,
    delay,
    group,
    log,
    long_polling,
    metadata,
    offset_commit,
    pop,
    pop_messages,
    publish,
    retry,
    route,
    subscription,
    timer,
    transaction,
)
from mqspec.core.conversation import Conversation
from mqspec.core.log import DELAY_LEVELS_MS
from mqspec.core.record import Batch, Record, decode_properties, encode_properties
from mqspec.core.response import Refusal
from mqspec.core.step import REMOVED, Change, Step
from mqspec.service import Dispatcher
from mqspec.store.message_store import MessageStore
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

Run = Callable[..., Suite]

COMMIT = offset_commit.update_consumer_offset
MEMBERS = group.consumer_id_list
CLOSE = group.close_channel
ADMINISTERED = metadata.update_subscription_group
FIRST_QUEUES = progress._first_queues
LEVEL_OF = delay.delay_level
JOIN = group.register_consumer
PREPARE = transaction.prepare
CHECK = transaction.check
DELIVER = delay.deliver
DELAYED_COPY = delay.delivered_copy
TIMED_COPY = timer.delivered_copy
END = transaction.end_transaction
SEEN = transaction.as_producer_sees_it
SEND_BACK = retry.consumer_send_msg_back
MAY_SEND_BACK = retry.check_send_back
MAKE = metadata.create_topic_in_send_message_back
QUERY = offset_commit.query_consumer_offset
CLONE = offset_commit.clone_offset
UNITS = MessageStore.units
UPDATE_TOPICS = metadata.update_topic_list
UPDATE_GROUPS = metadata.update_subscription_group_list
SET_MODE = assignment.set_message_request_mode
PEEK = pop_messages._peek_queues
STATUS = relay._get_consumer_status
RESUME = transaction.resume_check
CHANGE = pop.change_invisible_time
GET = MessageStore.get
REGISTERED = metadata.registered_topics
ON_CHANNEL = route.brokers_of_channel
PROCESS = Dispatcher._process


@dataclass(frozen=True)
class Wrong:
    """A function of the reference, what stands for it, and the cases that find it."""

    original: Any
    replacement: Any
    keyword: str  # which cases are run
    fails: set[str]


def only_forwards(state: Any, event: offset_commit.CommitOffset, **known: bool) -> Step:
    """A broker that keeps the greatest offset, as many believe that it does."""
    key = (event.topic, event.group, event.queue_id)
    kept = state.offset_table.get(key, 0)
    offset = None if event.offset is None else max(kept, event.offset)
    return COMMIT(state, replace(event, offset=offset), **known)


def distinct(state: Any, name: str) -> Any:
    """A broker that takes two connections of one id for one member."""
    ids = MEMBERS(state, name)
    return ids and sorted({str(each) for each in ids})


def untold(state: Any, event: Any) -> Step:
    """A broker that tells nobody of a newcomer."""
    return structs.replace(JOIN(state, event), sends=())


def one_of_an_id(state: Any, event: Any) -> Step:
    """A broker that keeps one connection of a client's id, whatever its groups, as rocketmq-rust
    1.0.0 does: right about all who have an id of their own."""
    for name, known in list(state.consumer_table.items()):
        kept = {
            channel: info
            for channel, info in known.channel_info_table.items()
            if channel == event.channel or info.client_id != event.info.client_id
        }
        state.consumer_table[name] = replace(known, channel_info_table=kept)
    return JOIN(state, event)


def first_on_channel(state: Any, channel: Any) -> Any:
    """A nameserver that looks for one broker of a connection that ends, as Apache's does
    (the defect OneBrokerOfAConnection)."""
    return itertools.islice(ON_CHANNEL(state, channel), 1)


def of_good_name(state: Any, made: Any, now_ms: int) -> Step:
    """A broker that drops a group of a name that no group gets by use."""
    return ADMINISTERED(state, made, now_ms) if metadata.is_group_name(made.group_name) else Step()


def in_ascii(properties: Any) -> int:
    """A broker that knows one kind of digits."""
    if not properties.get("DELAY", "").isascii():
        raise ValueError
    return LEVEL_OF(properties)


def not_to_inherit(topics: Any, config: Any) -> Any:
    """A broker that registers topics without the permission to inherit them."""
    kept = ~int(metadata.Perm.INHERIT)
    return (replace(topic, perm=topic.perm & kept) for topic in REGISTERED(topics, config))


def unwiped(state: Any, broker_name: str) -> Step:
    """A nameserver that says that it took the permission, and did not."""
    return Step(result=2)


def delayed_half(message: Any) -> Any:
    """A broker that has a half message wait for its own delay, as Apache does (the defect
    DelayedHalf)."""
    return delay.schedule_message(DELAY_LEVELS_MS, PREPARE(message))


def unflagged(state: Any, config: Any, event: Any) -> Step:
    """A broker that appends a half again without its flag, as Apache does (the defect
    CheckedHalfLosesFlag)."""
    step = CHECK(state, config, event)
    sends = (
        send._replace(message=structs.replace(send.message, flag=0))
        if isinstance(send, transaction.PutBack)
        else send
        for send in step.sends
    )
    return structs.replace(step, sends=tuple(sends))


def at_once(state: Any, event: delay.TimeUp, delay_ms: int) -> Step:
    """A broker that does not wait until a delayed message is due."""
    return DELIVER(state, event._replace(now_ms=event.deliver_at), delay_ms)


def to_queue_0(copy: Callable[..., Record | None]) -> Callable[..., Record | None]:
    """A broker that puts into queue 0 what was sent to another."""

    def put(*known: Any) -> Record | None:
        message = copy(*known)
        return message and structs.replace(message, queue_id=0)

    return put


def ends(change: Callable[[Record], Record]) -> Callable[..., Step]:
    """A broker that makes something else of a half that is committed."""

    def end(*known: Any) -> Step:
        step = END(*known)
        sends = (transaction.PutFinal(change(send.message)) for send in step.sends)
        return structs.replace(step, sends=tuple(sends))

    return end


def undelayed(message: Record) -> Record:
    """A message that no longer asks for a level."""
    properties = decode_properties(message.properties)
    properties.pop("DELAY", None)
    return structs.replace(message, properties=encode_properties(properties).encode())


def noted(state: Any, config: Any, event: Any, half: Any, now_ms: int) -> Step:
    """A broker that refuses an end and takes the half for ended all the same."""
    step = END(state, config, event, half, now_ms)
    if half and isinstance(step.result, Refusal):
        state.op_batch = (*state.op_batch, half.queue_offset)
    return step


def noted_for_the_next(state: Any, config: Any, event: Any, half: Any, now_ms: int) -> Step:
    """A broker that notes the end of a half with a delay as that of another one, as Apache may
    (the defect EndsAnother)."""
    if half and "DELAY" in decode_properties(half.properties):
        state.op_batch = (*state.op_batch, half.queue_offset + 1)
    return END(state, config, event, half, now_ms)


def guessing() -> Callable[..., Step]:
    """A broker that asks any producer of a group."""
    guess = random.Random(1)
    return lambda state, producers: Step(result=guess.randrange(producers))


def one_level(state: Any, event: delay.TimeUp, delay_ms: int) -> Step:
    """A broker with a delay of one second for each level."""
    stored_at = event.deliver_at - delay_ms
    return DELIVER(state, event._replace(deliver_at=stored_at + 1000), 1000)


def sent_back_without_flag(*known: Any) -> Step:
    """A broker that has a message tried again without its flag."""
    step = SEND_BACK(*known)
    return structs.replace(step, result=structs.replace(step.result, flag=0))


def tried_again(state: Any, config: Any, event: Any, now_ms: int) -> Step:
    """A broker that has a group without retry queues try again what is not given up."""
    step = MAY_SEND_BACK(state, config, event, now_ms)
    if step.result is None and event.delay_level >= 0:
        group = state.subscription_group_table[event.group]
        return structs.replace(step, result=structs.replace(group, retry_queue_nums=1))
    return step


def kept_zero(state: Any, key: Any, **known: bool) -> Any:
    """A broker that stores the offset that it answers where there is none."""
    answer = QUERY(state, key, **known)
    if answer.offset == 0:
        state.offset_table[key] = 0
    return answer


def beside_its_own(state: Any, *named: str) -> Step:
    """A broker that leaves a group those of its offsets that the other does not have."""
    kept = [c for c in CLONE(state, *named).changes if isinstance(c.value, int)]
    return Step(tuple(kept))


def with_the_rest(store: Any, topic: str, queue_id: int, offset: int, _: int) -> Any:
    """A broker that shows all units of a queue from an offset on."""
    return UNITS(store, topic, queue_id, offset, 1 << 20)


def those_that_change(state: Any, config: Any, topics: Any, now_ms: int) -> Step:
    """A broker that makes of a list all topics that are not as they were."""
    known = state.topic_config_table
    changed = [each for each in topics if each != known.get(each.topic_name)]
    return UPDATE_TOPICS(state, config, changed, now_ms)


def allowing_others(state: Any, name: str, topic: str, now_ms: int) -> Step:
    """A broker that lets a group read all topics where it lets it read one, as Apache's does (the
    defect AllowsOthers)."""
    return Step((Change("forbidden_table", name, REMOVED),))


def taking(
    broker: Broker, event: pop_messages.Peek, queues: Any, records: list[bytes]
) -> Conversation[int]:
    """A broker whose peek is a pop."""
    rest = 0
    for topic, queue_id in queues:
        before = len(records)
        rest += yield from PEEK(broker, event, ((topic, queue_id),), records)
        key = offset_commit.OffsetKey(topic, event.group, queue_id)
        offsets = broker.offsets.offset_table
        offsets[key] = offsets.get(key, 0) + len(records) - before
    return rest


async def of_all_members(request: RemotingCommand, members: Any, _: str) -> RemotingCommand:
    """A broker that asks all members where one was meant."""
    return await STATUS(request, members, "")


def as_often_checked(half: Record) -> Record:
    """A broker that remembers how often it checked a half that is to be checked again."""
    return structs.replace(RESUME(half), properties=half.properties)


def too_late(event: pop.ChangeInvisibleTime, now_ms: int) -> Any:
    """A broker with which a change that is too late comes to nothing for long."""
    is_over = event.handle.pop_time + event.handle.invisible_time < now_ms
    return CHANGE(event._replace(invisible_time=600_000) if is_over else event, now_ms)


WRONG = {
    "what_changes_of_a_list_is_made": Wrong(
        UPDATE_TOPICS,
        those_that_change,
        "of_a_list_are_made",
        {"topics_of_a_list_are_made"},
    ),
    "one_group_of_a_list_is_made": Wrong(
        UPDATE_GROUPS,
        lambda state, groups, now_ms: UPDATE_GROUPS(state, groups[:1], now_ms),
        "of_a_list_are_made",
        {"groups_of_a_list_are_made"},
    ),
    "groups_read_what_they_may_not": Wrong(
        metadata.is_read_forbidden,
        lambda *_: False,
        "kept_from_reading or of_a_list",
        {"a_group_is_kept_from_reading_a_topic"},
    ),
    "all_is_allowed_with_one": Wrong(
        metadata.allow_read,
        allowing_others,
        "kept_from_reading or one_topic_lets",
        {"to_let_a_group_read_one_topic_lets_it_read_no_other"},
    ),
    "a_peek_takes": Wrong(
        PEEK, taking, "peek or popped_message_is_invisible", {"a_peek_takes_nothing"}
    ),
    "subscriptions_are_not_told": Wrong(
        group.subscription,
        lambda *_: None,
        "wants_of_a_topic or asked_what_it_does",
        {"what_a_group_wants_of_a_topic"},
    ),
    "all_members_are_asked": Wrong(
        STATUS,
        of_all_members,
        "asked_how_far or asked_what_it_does",
        {"members_are_asked_how_far_they_are"},
    ),
    "modes_without_sharing": Wrong(
        SET_MODE,
        lambda state, event: SET_MODE(state, replace(event, pop_share_queue_num=0)),
        "how_all_groups_ask or not_set_for_any",
        {"how_all_groups_ask_is_shown"},
    ),
    "cloned_offsets_are_added": Wrong(
        CLONE,
        beside_its_own,
        "offsets_of_another or last_offset_counts",
        {"a_group_gets_the_offsets_of_another"},
    ),
    "members_are_not_asked_before_offsets_are_cloned": Wrong(
        subscription.may_consume,
        lambda *_: True,
        "offsets_of_another or not_cloned",
        {"offsets_that_are_not_cloned"},
    ),
    "parked_halves_stay_parked": Wrong(
        RESUME,
        as_often_checked,
        "a_parked_half_is or checked_often_is_parked",
        {"a_parked_half_is_checked_again"},
    ),
    "late_changes_come_to_nothing": Wrong(
        CHANGE,
        too_late,
        "change_that_is_too_late or comes_again_after or what_is_not_acknowledged",
        {"a_change_that_is_too_late_has_the_message_come_twice"},
    ),
    "commits_go_to_queue_0": Wrong(
        END,
        ends(lambda message: structs.replace(message, queue_id=0)),
        "committed_message_is or half_waits",
        {"a_committed_message_is_delivered"},
    ),
    "commits_forget_the_delay": Wrong(
        END,
        ends(undelayed),
        "half_with_a_delay_is or committed_message_is",
        {"a_half_with_a_delay_is_delivered"},
    ),
    "check_backs_are_about_queue_0": Wrong(
        SEEN,
        to_queue_0(SEEN),
        "half_without_an_end or half_waits",
        {"a_half_without_an_end_is_checked_back"},
    ),
    "refused_ends_are_noted": Wrong(
        END,
        noted,
        "end_that_fits or end_that_is_refused or ended_halves",
        {"an_end_that_is_refused_is_not_written"},
    ),
    "ends_of_delayed_halves_are_noted_for_others": Wrong(
        END,
        noted_for_the_next,
        "ends_no_other or half_without_an_end",
        {"the_end_of_a_half_with_a_delay_ends_no_other"},
    ),
    "producers_are_asked_at_random": Wrong(
        transaction.next_producer,
        guessing(),
        "asked_in_turn or half_without_an_end",
        {"producers_of_a_group_are_asked_in_turn"},
    ),
    "delayed_messages_go_to_queue_0": Wrong(
        DELAYED_COPY,
        to_queue_0(DELAYED_COPY),
        "comes_after_its_delay and 1000 or level_that_is",
        {"a_delayed_message_comes_after_its_delay"},
    ),
    "timer_messages_go_to_queue_0": Wrong(
        TIMED_COPY,
        to_queue_0(TIMED_COPY),
        "comes_after_its_time or time_that_is_past",
        {"a_timer_message_comes_after_its_time"},
    ),
    "all_levels_are_a_second": Wrong(
        DELIVER,
        one_level,
        "comes_after_its_delay or level_that_is",
        {"a_delayed_message_comes_after_its_delay"},
    ),
    "a_level_is_another": Wrong(
        log.parse_delay_levels,
        lambda text: (*DELAY_LEVELS_MS[:2], 20_000, *DELAY_LEVELS_MS[3:]),
        "how_long_each_level or (comes_after_its_delay and 1000)",
        {"how_long_each_level_waits"},
    ),
    "what_is_sent_back_loses_its_flag": Wrong(
        SEND_BACK,
        sent_back_without_flag,
        "sent_back_comes_again or given_up or without_retry_queues",
        {
            "a_message_that_was_sent_back_comes_again",
            "a_message_that_is_given_up_is_in_the_dead_letter_topic",
        },
    ),
    "no_retry_queues_is_one": Wrong(
        MAY_SEND_BACK,
        tried_again,
        "without_retry_queues or given_up",
        {"a_group_without_retry_queues_loses_what_it_sends_back"},
    ),
    "one_retry_queue_a_group": Wrong(
        MAKE,
        lambda state, topic, queues, now_ms, **said: MAKE(state, topic, 1, now_ms, **said),
        "topics_of_a_group or given_up",
        {"the_topics_of_a_group"},
    ),
    "queries_store_what_they_answer": Wrong(
        QUERY,
        kept_zero,
        "young_queue or kept_as_it_is",
        {"a_young_queue_is_consumed_from_its_first_message"},
    ),
    "halves_wait_for_their_delay": Wrong(
        PREPARE,
        delayed_half,
        "half_with_a_delay_is or committed_message_is",
        {"a_half_with_a_delay_is_delivered"},
    ),
    "halves_lose_their_flag": Wrong(
        CHECK,
        unflagged,
        "half_without_an_end or half_that_was_checked_back",
        {"a_half_that_was_checked_back_is_delivered_as_it_was_sent"},
    ),
    "delayed_messages_come_at_once": Wrong(
        DELIVER,
        at_once,
        "comes_after_its_delay or level_that_is",
        {"a_delayed_message_comes_after_its_delay"},
    ),
    "one_broker_of_a_connection": Wrong(
        ON_CHANNEL,
        first_on_channel,
        "of_a_connection or whose_connection or broker_is_in_the_route",
        {"all_brokers_of_a_connection_go_with_it"},
    ),
    "brokers_stay_writable": Wrong(
        route.wipe_write_perm,
        unwiped,
        "write_permission or broker_is_in_the_route",
        {"write_permission_is_taken_and_given_back"},
    ),
    "commits_only_go_forwards": Wrong(
        COMMIT,
        only_forwards,
        "test_offset and not held",
        {
            "the_last_offset_counts_though_it_goes_back",
            "an_offset_before_the_first_message_is_not_the_least",
            "a_negative_offset_is_taken_for_none",
            "the_least_offset_is_that_of_any_group",
        },
    ),
    "commits_only_go_forwards_in_a_scenario": Wrong(
        COMMIT,
        only_forwards,
        "commits_are_those or offset_is_kept_as",
        {"commits_are_those_of_the_specification"},
    ),
    "who_unregisters_stays": Wrong(
        group.unregister_consumer,
        lambda *_: Step(),
        "members_are_those or heartbeat_makes",
        {"members_are_those_of_the_specification"},
    ),
    "one_member_an_id": Wrong(
        MEMBERS, distinct, "test_membership", {"two_connections_of_one_id_are_two_members"}
    ),
    "one_connection_of_an_id": Wrong(
        *(JOIN, one_of_an_id, "test_membership or test_subscription or test_assignment"),
        {"two_connections_of_one_id_are_two_members"},
    ),
    "newcomers_are_not_told_of": Wrong(
        JOIN,
        untold,
        "newcomer or heartbeat_makes or list_of_its_own",
        {"a_newcomer_and_the_others_are_told", "each_broker_keeps_a_list_of_its_own"},
    ),
    "everything_is_wanted": Wrong(
        subscription.is_matched_by_consume_queue,
        lambda subscription, tags_code: True,
        "test_subscription or stored_as",
        {
            "a_pull_delivers_the_tags_that_it_wants",
            "a_pull_that_wants_none_of_the_tags_moves_on",
            "a_tag_of_the_same_hash_passes_the_broker",
            "an_expression_without_tags",
            "a_member_that_changes_what_it_wants_misses_nothing",
            "the_newest_subscription_of_a_group_wins",
            "a_subscription_must_be_newer_to_win",
            "every_broker_filters",
            "a_long_queue_is_filtered_to_its_end",
        },
    ),
    "routes_are_not_to_inherit": Wrong(
        REGISTERED,
        not_to_inherit,
        "route_has_the_permission or finds_its_route",
        {"a_route_has_the_permission_of_its_topic"},
    ),
    "lost_members_are_not_told_of": Wrong(
        group.close_channel,
        lambda state, channel: structs.replace(CLOSE(state, channel), sends=()),
        "without_notices or connection_closes or heartbeat_makes",
        {
            "a_group_without_notices_is_told_of_a_lost_connection",
            "a_member_whose_connection_closes_is_gone_and_the_rest_is_told",
        },
    ),
    "each_heartbeat_says_who_it_is": Wrong(
        group._heard_again,
        lambda known, now: now,
        "stays_who_it_was or heartbeat_makes",
        {"who_is_known_stays_who_it_was"},
    ),
    "groups_of_some_names_only": Wrong(
        ADMINISTERED,
        of_good_name,
        "may_name_a_group or group_is_shown_as",
        {"an_administrator_may_name_a_group_as_it_likes"},
    ),
    "lists_of_topics_are_ignored": Wrong(
        progress._listed,
        lambda topics: [],
        "topics_of_a_list or how_far_a_group",
        {"a_group_is_shown_on_the_topics_of_a_list"},
    ),
    "one_queue_is_counted": Wrong(
        FIRST_QUEUES,
        lambda broker, topic, count: FIRST_QUEUES(broker, topic, 1),
        "queues_are_counted or that_never_was",
        {"which_queues_are_counted"},
    ),
    "no_message_is_of_several_tags": Wrong(
        sending._sys_flag,
        lambda broker, send: send.sys_flag,
        "of_several_tags or stored_as_it",
        {"a_message_says_that_its_topic_is_of_several_tags"},
    ),
    "compacted_topics_want_no_keys": Wrong(
        publish._check_key,
        lambda topic, event: None,
        "compacted_topic or unknown_topic_is",
        {"a_compacted_topic_wants_keys"},
    ),
    "messages_of_a_batch_are_always_parted": Wrong(
        publish.batched,
        lambda message, messages: Batch(message, messages, b"\x02" + message.properties),
        "are_put_together or one_after_the_other or makes_a_batch",
        {"how_the_messages_of_a_batch_are_put_together"},
    ),
    "levels_in_ascii_only": Wrong(
        LEVEL_OF,
        in_ascii,
        "level_in_other or level_that_is",
        {"a_level_in_other_digits"},
    ),
    "check_backs_wait": Wrong(
        SEEN,
        lambda half: structs.replace(SEEN(half), properties=half.properties),
        "of_a_check_back or half_without_an_end",
        {"the_message_of_a_check_back_does_not_wait"},
    ),
    "arrivals_wake_nobody": Wrong(
        long_polling.notify_message_arriving,
        lambda *_: Step(result=()),
        "held_until or outside",
        {"a_pull_is_held_until_a_message_arrives"},
    ),
}


def named(suite: Suite, status: Status) -> set[str]:
    """The cases with a status, without `test_` and parameters."""
    return {
        name.removeprefix("test_").partition("[")[0]
        for name, result in suite.results.items()
        if result.status is status
    }


@pytest.mark.parametrize("name", one_in(2, WRONG))
def test_just_the_cases_for_it_fail(run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    wrong = WRONG[name]
    patch(monkeypatch, wrong.original, wrong.replacement)
    suite = run(wrong.keyword)
    assert named(suite, Status.FAILED) == wrong.fails
    assert named(suite, Status.PASSED) - wrong.fails
    failed = [result for result in suite.results.values() if result.status is Status.FAILED]
    assert all(" 127.0.0.1:" in result.frames for result in failed)


def test_a_lost_message_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def lossy(store: MessageStore, topic: str, queue_id: int, offset: int, *more: Any) -> Any:
        return GET(store, topic, queue_id, offset + (offset == 0), *more)

    monkeypatch.setattr(MessageStore, "get", lossy)
    suite = run("order_of_their_offsets or message_is_stored_as or bounds")
    assert named(suite, Status.FAILED) == {"a_message_is_stored_as_it_was_sent"}
    assert "messages_are_delivered_in_the_order_of_their_offsets" in named(suite, Status.BLOCKED)
    assert named(suite, Status.PASSED) == set()
    assert report.is_failure(suite.results.values(), suite.stale)


def test_a_request_that_is_refused_and_done_is_found(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sends = itertools.count(1)

    def busy(dispatcher: Any, connection: Any, request: RemotingCommand) -> Any:
        answer = PROCESS(dispatcher, connection, request)
        if request.code == RequestCode.SEND_MESSAGE_V2 and next(sends) % 100 == 0:
            return request.response(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]")
        return answer

    monkeypatch.setattr(Dispatcher, "_process", busy)
    suite = run("what_is_too_much or unknown_code_is_answered")
    assert named(suite, Status.FAILED) == {"what_is_too_much_is_refused_and_not_done"}
    assert named(suite, Status.PASSED)


def test_an_answer_without_the_flags_of_its_topic_is_found(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unflagged(dispatcher: Any, connection: Any, request: RemotingCommand) -> Any:
        answer = PROCESS(dispatcher, connection, request)
        if request.code == RequestCode.PULL_MESSAGE:
            assert isinstance(answer, RemotingCommand)
            answer = structs.replace(answer, ext_fields={**answer.ext_fields, "topicSysFlag": "0"})
        return answer

    monkeypatch.setattr(Dispatcher, "_process", unflagged)
    suite = run("flags_of_topic_and_group or stored_as_it")
    assert named(suite, Status.FAILED) == {"an_answer_has_the_flags_of_topic_and_group"}
    assert named(suite, Status.PASSED)


def test_a_message_that_is_refused_and_stored_is_found(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sends = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}

    def stored(dispatcher: Any, connection: Any, request: RemotingCommand) -> Any:
        answer = PROCESS(dispatcher, connection, request)
        if request.code in sends and answer:  # what is not refused is answered later
            dispatcher._service.store.put(Record(request.ext_fields["b"], b"refused", b""))
        return answer

    monkeypatch.setattr(Dispatcher, "_process", stored)
    suite = run(
        "plain_messages_only or inner_batch or level_that_is or time_that_cannot_be"
        " or in_pulls_and_sends"
    )
    assert named(suite, Status.FAILED) == {
        "a_batch_takes_plain_messages_only",
        "an_inner_batch_is_refused",
        "a_level_that_is_no_number_is_refused",
        "a_time_that_cannot_be_is_refused",
        "a_number_that_is_none_is_refused_in_pulls_and_sends",
    }


def test_an_answer_before_the_registration_is_found(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = Registrar._register

    async def late(registrar: Registrar, *topics: Any) -> None:
        await asyncio.sleep(0.05)  # a nameserver that is not near
        await register(registrar, *topics)

    monkeypatch.setattr(Registrar, "_register", late)
    monkeypatch.setattr(Registrar, "once_registered", lambda *words: words[-1])
    suite = run("finds_its_route or a_topic_is_shown")
    assert named(suite, Status.FAILED) == {"who_is_answered_that_a_topic_is_made_finds_its_route"}
    assert named(suite, Status.PASSED) == {"a_topic_is_shown_as_it_was_made"}


def test_units_that_were_not_asked_for_are_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageStore, "units", with_the_rest)
    suite = run("the_units_of_a_queue or crc_of_its_body")
    assert named(suite, Status.FAILED) == {"the_units_of_a_queue_are_shown"}
    assert named(suite, Status.PASSED) == {"a_record_names_the_crc_of_its_body"}


def test_only_passed_is_a_pass(run: Run) -> None:
    suite = run("survive_a_clean or heartbeat_makes")
    assert named(suite, Status.NOT_CLAIMED) == {
        "messages_survive_a_clean_restart", "offsets_survive_a_clean_restart"}  # fmt: skip
    records = [record for result in suite.results.values() for record in result.evidence("x")]
    held = {record.rule for record in records if record.verdict is Verdict.HELD}
    assert held == {"GROUP-001", "GROUP-050"}
    assert {record.verdict for record in records} == {
        Verdict.HELD, Verdict.NOT_CLAIMED, Verdict.NOT_RUN}  # fmt: skip
    console = Console(record=True, file=io.StringIO())
    report.show_summary(console, list(suite.results.values()), suite.stale, 0)
    assert "1 passed, 2 not claimed, " in (said := console.export_text())
    assert "; 2 rules;" in said  # those of the cases that were not claimed were not tested


def test_a_case_that_gives_up_has_failed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object) -> None:
        pytest.fail("three times")

    monkeypatch.setattr(requests, "consumer_list", give_up)
    (result,) = (r for r in run("two_connections").results.values() if r.why)
    assert (result.status, result.why) == (Status.FAILED, "three times")


def test_a_case_without_a_result_has_failed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no frames")

    monkeypatch.setattr(Transcript, "render", fail)
    suite = run("heartbeat_makes")
    assert named(suite, Status.FAILED) == {"a_heartbeat_makes_a_member"}
    assert "has no result: OSError('no frames')" in {each.why for each in suite.results.values()}


def test_a_listed_deviation_is_one_until_it_is_stale(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "test_two_connections_of_one_id_are_two_members"
    listed = Deviation("patched", "0", name, "GROUP-002", "one member an id", "assert", "00")
    keyword = "two_connections or heartbeat_makes"
    suite = run(keyword, listed)
    assert suite.stale == [listed]
    assert report.is_failure(suite.results.values(), suite.stale)
    patch(monkeypatch, MEMBERS, distinct)
    suite = run(keyword, listed)
    assert suite.results[name].status is Status.DEVIATES
    assert suite.stale == []
    assert not report.is_failure(suite.results.values(), suite.stale)
    suite = run(keyword, replace(listed, fails="^(KeyError|ClosedError)"))
    assert suite.results[name].status is Status.FAILED  # in another way than the one listed
