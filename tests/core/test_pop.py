"""Pop: offsets, checkpoints, acknowledgements, and what comes again."""

from __future__ import annotations

import pytest

from mqspec.core import pop
from mqspec.core.extra_info import ReceiptHandle
from mqspec.core.log import Span
from mqspec.core.metadata import (
    BrokerConfig,
    MetadataState,
    SubscriptionGroupConfig,
    TopicConfig,
)
from mqspec.core.offset_commit import OffsetKey, OffsetState
from mqspec.core.pop import ChangeInvisibleTime, Places, Pop, Popped, PoppedCheckPoint, PopState
from mqspec.core.record import Host, Record, decode_properties
from mqspec.core.response import Refusal
from mqspec.core.revive_log import AckMsg, CheckPointKey, PopCheckPoint, ReviveMessage
from mqspec.core.step import apply

KEY = CheckPointKey("T", "G", 0, 0, 1_000, "broker-a")
CHECK_POINT = PopCheckPoint(KEY, 100, (0, 1, 2))
HANDLE = ReceiptHandle(0, 1_000, 100, 3, "0", "broker-a", 0, 1)
HOST = Host.parse("127.0.0.1", 1)
CONFIG = BrokerConfig()
METADATA = MetadataState(
    {"T": TopicConfig("T", 3, 3), "%RETRY%G_T": TopicConfig("%RETRY%G_T", 1, 1)},
    subscription_group_table={"G": SubscriptionGroupConfig("G")},
)


def a_pop(queue_id: int = -1, order: bool = False) -> Pop:
    return Pop("G", "T", queue_id, 32, 100, 0, 1_000, 0, "TAG", "*", order, None, "1.1.1.1:1")


def read(*messages: ReviveMessage) -> PopState:
    """The state after these messages of queue 3 of the revive topic."""
    state = PopState()
    for offset, message in enumerate(messages):
        apply(state, pop.consume_revive_message(state, 3, offset, message).changes)
    return state


@pytest.mark.parametrize(
    ("random_q", "places"),
    [
        (1, Places((("%RETRY%G_T", 0), ("T", 1), ("T", 2), ("T", 0)), ())),
        (20, Places((("T", 2), ("T", 0), ("T", 1)), (("%RETRY%G_T", 0),))),
    ],
)
def test_the_retry_topic_is_looked_at_first_now_and_then(random_q: int, places: Places) -> None:
    assert pop.places(METADATA, CONFIG, a_pop(), random_q) == places


def test_an_ordered_pop_looks_at_no_retry_topic() -> None:
    assert pop.places(METADATA, CONFIG, a_pop(1, order=True), 0) == Places((("T", 1),), ())


def test_retry_topics_of_both_versions_are_looked_at_in_turn() -> None:
    config = BrokerConfig(enable_retry_topic_v2=True)
    retry = {"%RETRY%G+T": TopicConfig("%RETRY%G+T", 1, 1)}
    metadata = MetadataState(METADATA.topic_config_table | retry)
    found = {
        pop.places(metadata, config, a_pop(0), random_q).if_not_full[0][0]
        for random_q in range(20, 100)
    }
    assert found == {"%RETRY%G_T", "%RETRY%G+T"}


def test_where_a_group_begins() -> None:
    key = OffsetKey("T", "G", 0)
    old, young = Span(5, 9), Span(0, 9)
    for init_mode, queue, expected in ((0, old, 5), (1, old, 8), (1, young, 0), (1, Span(0, 0), 0)):
        state = OffsetState()
        step = pop.init_offset(state, key, init_mode, queue)
        apply(state, step.changes)
        assert (step.result, state.offset_table[key]) == (expected, expected)
        assert pop.init_offset(state, key, 0, Span(99, 99)).result == expected
    retry = OffsetKey("%RETRY%G_T", "G", 0)
    assert pop.init_offset(OffsetState(), retry, 1, old).result == 5


def test_a_pop_moves_the_offset_and_leaves_a_checkpoint() -> None:
    step = pop.pop_message(Popped("T", 0, 0, (0, 1, 2), 4), a_pop(), 1_000, "broker-a")
    assert step.result == CHECK_POINT
    state = OffsetState()
    apply(state, step.changes)
    assert state.offset_table == {OffsetKey("T", "G", 0): 4}


def test_a_pop_that_matches_nothing_leaves_no_checkpoint() -> None:
    step = pop.pop_message(Popped("T", 0, 0, (), 4), a_pop(), 1_000, "broker-a")
    assert (step.result, len(step.changes)) == (None, 1)


def test_a_checkpoint_is_done_when_all_of_it_is_acknowledged() -> None:
    some = read(CHECK_POINT, pop.ack_message("T", "G", 0, (0, 2), HANDLE))
    (held,) = some.check_points.values()
    assert held.unacked == (1,)
    whole = read(CHECK_POINT, AckMsg(KEY, 0, (0, 2)), AckMsg(KEY, 0, (1,)))
    assert whole.check_points == {}


def test_acknowledgements_without_a_checkpoint_have_no_effect() -> None:
    assert read(AckMsg(KEY, 0, (0,))).check_points == {}
    other = KEY._replace(pop_time=999)
    (held,) = read(CHECK_POINT, AckMsg(other, 0, (0,)), AckMsg(KEY, 0, (7,))).check_points.values()
    assert held.unacked == (0, 1, 2)


def test_a_message_is_due_2_s_after_its_time() -> None:
    held = PoppedCheckPoint(CHECK_POINT, 0)
    assert not pop.is_due(held, 1_100 + pop.REVIVE_DELAY_MS)
    assert pop.is_due(held, 1_101 + pop.REVIVE_DELAY_MS)


def test_a_message_that_comes_again_is_one_more_delivery() -> None:
    message = Record("T", b"x", b"TAGS\x01A\x02", 2, reconsume_times=0, born_timestamp=7)
    first = pop.revived_message(CHECK_POINT, message, CONFIG, HOST)
    assert (first.topic, first.queue_id, first.reconsume_times) == ("%RETRY%G_T", 0, 1)
    assert (first.body, first.born_timestamp) == (b"x", 7)
    assert decode_properties(first.properties) == {"TAGS": "A", "1ST_POP_TIME": "1000"}
    later = PopCheckPoint(KEY._replace(topic=first.topic, pop_time=5_000), 100, (0,))
    second = pop.revived_message(later, first, CONFIG, HOST)
    assert (second.topic, second.reconsume_times) == (first.topic, 2)
    assert decode_properties(second.properties)["1ST_POP_TIME"] == "1000"


def test_a_failed_revival_is_tried_again_later_and_later() -> None:
    again = pop.re_put_ck(CHECK_POINT, 1)
    assert (again.offsets, again.key.start_offset, again.invisible_time) == ((1,), 1, 10_100)
    for _ in range(40):
        again = pop.re_put_ck(again, 1)
    assert again.re_put_times == 41
    assert pop.re_put_ck(again, 1).invisible_time - again.invisible_time == 7_200_000


@pytest.mark.parametrize("now_ms", [1_000, 999, 5_000])
def test_a_changed_invisible_time_never_meets_the_old_checkpoint(now_ms: int) -> None:
    event = ChangeInvisibleTime("T", "G", 0, 0, HANDLE, 500)
    new, ack = pop.change_invisible_time(event, now_ms)
    assert new.key != ack.key == KEY
    (held, changed) = read(CHECK_POINT, new, ack).check_points.values()
    assert (held.unacked, changed.unacked) == ((1, 2), (0,))
    assert changed.check_point.revive_time >= now_ms + 500


def test_a_message_is_hidden_for_no_longer_than_a_timer_message_waits() -> None:
    config = BrokerConfig(timer_max_delay_sec=60)
    assert not pop.is_too_long(config, 61_000)
    assert pop.is_too_long(config, 61_001)


def test_the_revive_log_is_read_again_from_its_first_open_checkpoint() -> None:
    later = PopCheckPoint(KEY._replace(start_offset=3), 100, (3,))
    state = read(AckMsg(KEY, 0, (0,)), CHECK_POINT, later, AckMsg(KEY, 0, (0, 1)))
    offsets = OffsetState()
    step = pop.commit_revive_offset(state, offsets, "c", 3)
    apply(offsets, step.changes)
    key = OffsetKey("rmq_sys_REVIVE_LOG_c", "CID_RMQ_SYS_REVIVE_GROUP", 3)
    assert offsets.offset_table == {key: 0}  # the last that is not needed
    config = BrokerConfig(cluster_name="c")
    restarted = pop.restart(offsets, config, {3: Span(0, 4), 4: Span(2, 5)})
    assert restarted.scan_offset == {3: 1, 4: 2}
    apply(state, pop.consume_revive_message(state, 3, 4, AckMsg(KEY, 0, (2,))).changes)
    apply(offsets, pop.commit_revive_offset(state, offsets, "c", 3).changes)
    assert offsets.offset_table == {key: 1}
    assert pop.commit_revive_offset(state, offsets, "c", 3).changes == ()


def test_messages_of_what_is_no_more_are_forgotten() -> None:
    assert not pop.is_forgotten(METADATA, CHECK_POINT)
    retry = PopCheckPoint(KEY._replace(topic="%RETRY%G_T"), 100, (0,))
    assert not pop.is_forgotten(METADATA, retry)
    assert pop.is_forgotten(METADATA, PopCheckPoint(KEY._replace(topic="X"), 100, (0,)))
    assert pop.is_forgotten(METADATA, PopCheckPoint(KEY._replace(group="X"), 100, (0,)))


def test_a_group_that_must_not_consume_pops_nothing() -> None:
    group = SubscriptionGroupConfig("G", consume_enable=False)
    metadata = MetadataState(METADATA.topic_config_table, subscription_group_table={"G": group})
    refusal = pop.check_pop(metadata, CONFIG, a_pop(), 1_000).result
    assert isinstance(refusal, Refusal)
    assert refusal.code == 16


def test_an_acknowledgement_of_the_message_behind_the_last_is_accepted() -> None:
    assert pop.check_ack_offset("T", 0, 4, Span(1, 4)) is None
    for offset in (0, 5):
        refusal = pop.check_ack_offset("T", 0, offset, Span(1, 4))
        assert refusal is not None
        assert refusal.code == 208


def test_a_broker_that_may_not_be_read_tells_nothing_of_its_queues() -> None:
    unreadable = BrokerConfig(broker_permission=2)
    asked = ("T", 0, "G", "127.0.0.1:1", 1_000)
    refusal = pop.check_peek(METADATA, unreadable, *asked).result
    assert (refusal.code, refusal.remark) == (
        16,
        "the broker[127.0.0.1] peeking message is forbidden",
    )
    assert pop.check_peek(METADATA, CONFIG, *asked).result is None
    assert pop.check_pop(METADATA, unreadable, a_pop(), 1_000).result.code == 16
