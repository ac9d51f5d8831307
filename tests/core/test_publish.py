"""What a broker checks before it stores a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mqspec.core.delay import schedule_message
from mqspec.core.log import DELAY_LEVELS_MS
from mqspec.core.metadata import BrokerConfig, MetadataState, Perm, TopicConfig, system_topics
from mqspec.core.publish import (
    Send,
    batched,
    check_send,
    is_plain,
    own_properties,
    properties_stamp,
    stamped,
    with_unique_key,
)
from mqspec.core.record import Batch, BatchMessage, Record, SysFlag, decode_properties
from mqspec.core.response import Refusal, ResponseCode
from mqspec.core.step import Step, apply
from mqspec.core.timer import recall_handle, schedule_timer
from mqspec.core.transaction import is_prepared

NOW_MS = 1_700_000_000_000
CONFIG = BrokerConfig()
SEND = Send("T", "TBW102", 4, 0, "", "127.0.0.1:5000")


def state_with(*topics: TopicConfig) -> MetadataState:
    return MetadataState({t.topic_name: t for t in (*system_topics(CONFIG), *topics)})


def refusal_of(step: Step) -> Refusal:
    assert isinstance(step.result, Refusal)
    return step.result


def test_a_send_to_a_new_topic_creates_it() -> None:
    state = state_with()
    step = check_send(state, CONFIG, SEND, NOW_MS)
    apply(state, step.changes)
    assert step.result == 0
    assert state.topic_config_table["T"] == TopicConfig("T", 4, 4)


def test_a_topic_comes_to_be_even_if_its_queue_does_not() -> None:
    step = check_send(state_with(), CONFIG, structs.replace(SEND, queue_id=4), NOW_MS)
    assert refusal_of(step).code == ResponseCode.INVALID_PARAMETER
    assert step.changes


def test_the_permission_to_write_is_not_checked() -> None:
    state = state_with(TopicConfig("T", 1, 1, perm=0), TopicConfig("R", 1, 1, perm=Perm.READ))
    for topic in ("T", "R"):
        assert check_send(state, CONFIG, structs.replace(SEND, topic=topic), NOW_MS) == Step(
            result=0
        )


@pytest.mark.parametrize(("queue_id", "accepted"), [(5, True), (7, True), (8, False)])
def test_a_queue_may_lie_beyond_the_write_queues(queue_id: int, accepted: bool) -> None:
    state = state_with(TopicConfig("T", read_queue_nums=8, write_queue_nums=2))
    result = check_send(state, CONFIG, structs.replace(SEND, queue_id=queue_id), NOW_MS).result
    assert (result == queue_id) is accepted


def test_the_broker_picks_a_write_queue_where_the_producer_does_not() -> None:
    state = state_with(TopicConfig("T", read_queue_nums=8, write_queue_nums=3))
    picked = {
        check_send(state, CONFIG, structs.replace(SEND, queue_id=-1, random=r), NOW_MS).result
        for r in range(10)
    }
    assert picked == {0, 1, 2}


@pytest.mark.parametrize(
    ("send", "code", "remark"),
    [
        (structs.replace(SEND, topic="a b"), ResponseCode.INVALID_PARAMETER, "illegal characters"),
        (
            structs.replace(SEND, topic="SCHEDULE_TOPIC_XXXX"),
            ResponseCode.NO_PERMISSION,
            "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden.",
        ),
        (
            structs.replace(SEND, default_topic="nosuch"),
            ResponseCode.TOPIC_NOT_EXIST,
            "topic[T] not exist, apply first please!\nSee ",
        ),
        *(
            (
                structs.replace(SEND, **{missing: None}),
                ResponseCode.SYSTEM_ERROR,
                "topic[T] not exist, nor a template",
            )
            for missing in ("default_topic", "default_topic_queue_nums")
        ),
        (
            structs.replace(SEND, queue_id=4),
            ResponseCode.INVALID_PARAMETER,
            "request queueId[4] is illegal, TopicConfig [topicName=T, readQueueNums=4, "
            "writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, "
            "order=false, attributes={}] Producer: 127.0.0.1:5000",
        ),
        (
            structs.replace(SEND, topic="%RETRY%g", is_batch=True),
            ResponseCode.MESSAGE_ILLEGAL,
            "batch request does not support retry group %RETRY%g",
        ),
        (
            structs.replace(SEND, properties="DELAY\x013\x02", is_batch=True),
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal",
        ),
        (
            structs.replace(SEND, sys_flag=SysFlag.PREPARED, is_batch=True),
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal",
        ),
        (
            structs.replace(SEND, body_bytes=4 * 1024 * 1024 + 1, is_batch=True),
            ResponseCode.SYSTEM_ERROR,
            "message body size exceeded",
        ),
        (
            structs.replace(SEND, properties="DELAY\x01soon\x02"),
            ResponseCode.SYSTEM_ERROR,
            "DELAY is not a number",
        ),
    ],
)
def test_a_refused_send(send: Send, code: ResponseCode, remark: str) -> None:
    refusal = refusal_of(check_send(state_with(), CONFIG, send, NOW_MS))
    assert refusal.code == code
    assert refusal.remark is not None
    assert remark in refusal.remark


@pytest.mark.parametrize(
    ("is_ordered", "permission", "is_refused"),
    [(True, 4, True), (True, 6, False), (False, 4, False), (False, 6, False)],
)
def test_a_broker_that_may_not_be_written_refuses_what_is_ordered(
    is_ordered: bool, permission: int, is_refused: bool
) -> None:
    """AbstractSendMessageProcessor.msgCheck, 5.3.3: of an ordered topic alone."""
    state = state_with(TopicConfig("T", order=is_ordered))
    step = check_send(state, replace(CONFIG, broker_permission=permission), SEND, NOW_MS)
    if is_refused:
        assert refusal_of(step).code == ResponseCode.NO_PERMISSION
    else:
        assert step.result == 0


def test_a_broker_may_take_no_half_messages() -> None:
    half = structs.replace(SEND, properties="TRAN_MSG\x01true\x02")
    assert check_send(state_with(TopicConfig("T")), CONFIG, half, NOW_MS).result == 0
    config = replace(CONFIG, reject_transaction_message=True)
    refusal = refusal_of(check_send(state_with(), config, half, NOW_MS))
    assert refusal.code == ResponseCode.NO_PERMISSION


def test_a_retry_topic_belongs_to_a_group() -> None:
    state = state_with()
    send = structs.replace(SEND, topic="%RETRY%g")
    step = check_send(state, CONFIG, send, NOW_MS)
    apply(state, step.changes)
    assert step.result == 0
    assert "g" in state.subscription_group_table
    assert state.topic_config_table["%RETRY%g"].write_queue_nums == 4

    no_groups = replace(CONFIG, auto_create_subscription_group=False)
    refusal = refusal_of(check_send(state_with(), no_groups, send, NOW_MS))
    assert refusal.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


STAMP = properties_stamp(BrokerConfig(cluster_name="C"))


@pytest.mark.parametrize("end", ["", "\x02"])
def test_a_message_is_stamped(end: str) -> None:
    text = stamped(f"TAGS\x01A\x02POP_CK\x01forged{end}", STAMP)
    assert decode_properties(text) == {
        "TAGS": "A",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "C",
    }
    assert decode_properties(stamped(f"TAGS\x01A{end}", STAMP))["TAGS"] == "A"


VALUES = st.sampled_from(["", "1", "true", "DELAY", "TIMER_DELAY_MS\x011"])
PLAIN = st.tuples(st.sampled_from(["KEYS", "WAIT", "XDELAY"]), VALUES)
ASKING = st.tuples(
    st.sampled_from(["DELAY", "TIMER_DELAY_MS", "TIMER_OUT_MS", "TRAN_MSG", "POP_CK", "INNER_NUM"]),
    VALUES,
)


@given(
    (st.lists(PLAIN) | st.lists(PLAIN | ASKING)).map(
        lambda each: "\x02".join(map("\x01".join, each))
    ),
    st.sampled_from(["", "\x02"]),
)
def test_plain_properties_ask_for_nothing(text: str, end: str) -> None:
    properties = text + end
    known = decode_properties(properties)
    asks = known.keys() - {"KEYS", "WAIT", "XDELAY"}
    assert is_plain(properties) <= (not asks and stamped(properties, "") == properties)
    message = Record("T", b"x", properties.encode())
    if is_plain(properties):
        send = structs.replace(SEND, properties=properties)
        state, closed = (
            state_with(TopicConfig("T")),
            replace(CONFIG, reject_transaction_message=True),
        )
        assert check_send(state, closed, send, NOW_MS).result == send.queue_id
        assert schedule_timer(CONFIG, message, NOW_MS) is message
        assert schedule_message(DELAY_LEVELS_MS, message) is message
        assert not is_prepared(message)
        assert recall_handle("b", message) is None


def test_most_properties_are_plain() -> None:
    assert is_plain("")
    assert is_plain("KEYS\x01DELAY\x02UNIQ_KEY\x01u\x02WAIT\x01true\x02TAGS\x01T\x02")


def test_a_stamp_counts_more_than_what_the_producer_says() -> None:
    assert decode_properties(stamped("CLUSTER\x01mine\x02", STAMP))["CLUSTER"] == "C"


def test_only_the_broker_makes_checkpoints() -> None:
    assert own_properties("A\x011\x02POP_CK\x01forged\x02") == "A\x011\x02"


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ("A\x011\x02B\x012\x013\x02", "A\x011\x02B\x012\x013\x02"),
        ("A\x02B\x01\x02\x01C\x02\x02D\x014\x02", "D\x014\x02"),
        ("A\x011\x02B\x02A\x012\x02", "A\x012\x02"),
        ("A\x011\x02B\x02C\x012\x013\x02", "A\x011\x02C\x012\x013\x02"),
        ("", ""),
    ],
)
def test_what_is_no_property_is_not_stored(properties: str, kept: str) -> None:
    assert own_properties(properties) == kept


@pytest.mark.parametrize(
    ("own", "beside"),
    [
        ((b"A\x01\xff\x02B\x012\x02", b"", b"A\x011\x02"), b"C\x013\x02"),
        ((b"A\x01\xff\x02B\x012", b"POP_CK\x01x\x02A\x011"), b"\x02C\x013\x02"),
    ],
)
def test_the_messages_of_a_batch_are_stored_as_they_came(
    own: Sequence[bytes], beside: bytes
) -> None:
    messages = [BatchMessage(b"x", each, 7) for each in own]
    message = Record("T", b"".join(own), b"C\x013\x02")
    batch = batched(message, messages)
    assert batch == Batch(message, messages, beside)
    assert batch.messages is messages  # none is copied


def test_the_messages_of_a_batch_are_parted_where_they_must() -> None:
    own = [b"A\x011", b"A\x011\x02", b""]
    message = Record("T", b"xxx", b"C\x013\x02")
    batch = batched(message, [BatchMessage(b"x", each, 7) for each in own])
    whole = [one.properties + batch.beside for one in batch.messages]
    assert whole == [b"A\x011\x02C\x013\x02", b"A\x011\x02C\x013\x02", b"C\x013\x02"]
    assert [(one.body, one.flag) for one in batch.messages] == [(b"x", 7)] * 3


REJECTING = BrokerConfig(reject_transaction_message=True)


@pytest.mark.parametrize(
    ("properties", "fields", "code"),
    [
        ("TRAN_MSG\x01TRUE\x02", {}, 16),
        ("TRAN_MSG\x01true\x02INNER_NUM\x011\x02", {}, 16),
        ("TRAN_MSG\x01true\x02DELAY\x01abc\x02", {}, 16),
        ("TRAN_MSG\x01truex\x02", {}, 0),
        ("TRAN_MSG\x01true\x02TRAN_MSG\x01false\x02", {}, 0),
        ("TIMER_X\x01TRAN_MSG\x02a\x01xTRAN_MSG\x02", {}, 0),
        ("TRAN_MSG\x01true\x02DELAY\x011\x02", {"reconsume_times": 1}, 0),
        ("TRAN_MSG\x01true\x02DELAY\x01abc\x02", {"reconsume_times": 1}, 1),
        ("TRAN_MSG\x01true\x02", {"is_reply": True}, 0),
        ("DELAY\x01abc\x02", {"sys_flag": 4}, 0),
        ("DELAY\x01abc\x02", {"sys_flag": 12}, 0),
        ("DELAY\x01abc\x02", {"sys_flag": 8}, 1),
        ("DELAY\x01abc\x02", {"sys_flag": 128}, 13),
        ("DELAY\x01abc\x02INNER_NUM\x012\x02", {}, 13),
        ("DELAY\x01abc\x02", {"sys_flag": 4, "is_batch": True}, 13),
        ("DELAY\x01abc\x02", {"is_batch": True}, 1),
    ],
)
def test_what_is_looked_at_first(properties: str, fields: dict[str, object], code: int) -> None:
    state = state_with(TopicConfig("T", 4, 4))
    send = structs.replace(SEND, properties=properties, **fields)
    result = check_send(state, REJECTING, send, NOW_MS).result
    assert (result.code if isinstance(result, Refusal) else 0) == code


def test_a_compacted_topic_wants_keys() -> None:
    state = state_with(TopicConfig("T", 4, 4, attributes={"cleanup.policy": "COMPACTION"}))
    for properties, is_batch, is_fine in (
        ("", False, False),
        ("KEYS\x01 \x02", False, False),
        ("KEYS\x01k\x02", False, True),
        ("", True, True),
    ):
        send = structs.replace(SEND, properties=properties, is_plain=True, is_batch=is_batch)
        found = check_send(state, CONFIG, send, NOW_MS).result
        assert (found == 0) is is_fine, properties


@pytest.mark.parametrize("properties", ["", "TAGS\x01A", "TAGS\x01A\x02"])
def test_a_key_is_added(properties: str) -> None:
    text, key = with_unique_key(properties, lambda: "made")
    assert key == "made"
    assert decode_properties(text) == decode_properties(properties) | {"UNIQ_KEY": "made"}


def test_a_producers_own_key_stays() -> None:
    own = "TAGS\x01A\x02UNIQ_KEY\x01own"
    assert with_unique_key(own, lambda: "made") == (own, "own")
