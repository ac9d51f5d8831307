"""Topics and groups: names, creation by use, versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import pytest

from mqspec.core.metadata import (
    BrokerConfig,
    MetadataState,
    Perm,
    SubscriptionGroupConfig,
    TopicConfig,
    allow_read,
    check_topic_name,
    contains_subscription_group,
    create_retry_topic,
    create_topic_in_send,
    delete_subscription_group,
    delete_topic,
    find_subscription_group,
    forbid_read,
    is_read_forbidden,
    registered_topics,
    system_topics,
    update_subscription_group,
    update_topic,
    update_topic_list,
)
from mqspec.core.response import ResponseCode
from mqspec.core.step import Step, apply

NOW_MS = 1_700_000_000_000


CONFIG = BrokerConfig()


def broker_state(config: BrokerConfig | None = None) -> MetadataState:
    topics = system_topics(config or BrokerConfig())
    return MetadataState({topic.topic_name: topic for topic in topics})


def carry(state: MetadataState, step: Step) -> Step:
    apply(state, step.changes)
    return step


@pytest.mark.parametrize("name", ["A", "%RETRY%g", "a|b-c_d", "T" * 127])
def test_a_legal_name(name: str) -> None:
    assert check_topic_name(name) is None


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("", "The specified topic is blank."),
        (" ", "The specified topic is blank."),
        ("a b", "illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("T" * 128, "The specified topic is longer than topic max length."),
    ],
)
def test_an_illegal_name(name: str, remark: str) -> None:
    refusal = check_topic_name(name)
    assert refusal is not None
    assert refusal.code == ResponseCode.INVALID_PARAMETER
    assert refusal.remark is not None
    assert remark in refusal.remark


@pytest.mark.parametrize(("asked", "queues"), [(4, 4), (16, 8), (0, 0), (-1, 0)])
def test_a_topic_made_by_a_send_has_what_is_asked_for_and_its_template_allows(
    asked: int, queues: int
) -> None:
    state = broker_state()
    made = carry(state, create_topic_in_send(state, CONFIG, "T", "TBW102", asked, NOW_MS)).result
    assert made == TopicConfig("T", queues, queues, Perm.READ | Perm.WRITE)
    assert state.topic_config_table["T"] == made
    assert (state.topic_data_version.counter, state.topic_data_version.timestamp) == (1, NOW_MS)


@pytest.mark.parametrize("template", ["BenchmarkTest", "nosuch"])
def test_no_topic_is_made_after_one_that_does_not_inherit(template: str) -> None:
    assert create_topic_in_send(broker_state(), CONFIG, "T", template, 4, NOW_MS) == Step()


NO_AUTO_CREATE = BrokerConfig(auto_create_topic_enable=False)


def test_no_template_without_auto_create() -> None:
    state = broker_state(NO_AUTO_CREATE)
    assert create_topic_in_send(state, NO_AUTO_CREATE, "T", "TBW102", 4, NOW_MS) == Step()


def test_the_template_is_none_any_more_once_topics_may_not_come_to_be_by_use() -> None:
    state = broker_state()  # with its template
    version = state.topic_data_version
    refused = carry(state, create_topic_in_send(state, NO_AUTO_CREATE, "T", "TBW102", 4, NOW_MS))
    assert refused.result is None
    assert "T" not in state.topic_config_table
    assert state.topic_config_table["TBW102"].perm == Perm.READ | Perm.WRITE
    assert state.topic_data_version == version
    for config in (NO_AUTO_CREATE, CONFIG):
        assert create_topic_in_send(state, config, "T", "TBW102", 4, NOW_MS) == Step()


def test_a_template_of_ones_own_is_one_all_the_same() -> None:
    state = broker_state()
    carry(state, update_topic(state, CONFIG, TopicConfig("M", 4, 4, 7), NOW_MS))
    made = create_topic_in_send(state, NO_AUTO_CREATE, "T", "M", 4, NOW_MS).result
    assert made == TopicConfig("T", 4, 4, Perm.READ | Perm.WRITE)


def test_a_retry_topic_needs_no_template() -> None:
    state = broker_state(NO_AUTO_CREATE)
    made = create_topic_in_send(state, NO_AUTO_CREATE, "%RETRY%g", "TBW102", 4, NOW_MS).result
    assert made == TopicConfig("%RETRY%g", 1, 1)


def test_a_topic_made_by_a_send_filters_as_its_template() -> None:
    state = broker_state()
    template = TopicConfig("M", 4, 4, 7, topic_filter_type="MULTI_TAG")
    carry(state, update_topic(state, CONFIG, template, NOW_MS))
    assert (
        create_topic_in_send(state, CONFIG, "T", "M", 4, NOW_MS).result.topic_filter_type
        == "MULTI_TAG"
    )


@pytest.mark.parametrize(
    ("topic", "template", "flag"),
    [("T", "TBW102", 1), ("%RETRY%g", "TBW102", 2), ("%RETRY%g", "nosuch", 2)],
)
def test_what_a_client_in_unit_mode_makes_is_marked(topic: str, template: str, flag: int) -> None:
    state = broker_state()
    made = create_topic_in_send(state, CONFIG, topic, template, 4, NOW_MS, unit_mode=True).result
    assert made.topic_sys_flag == flag
    state = broker_state()
    assert (
        create_topic_in_send(state, CONFIG, topic, template, 4, NOW_MS).result.topic_sys_flag == 0
    )


def test_a_retry_topic_is_ordered_as_the_last_heartbeat_says() -> None:
    state = MetadataState({"O": TopicConfig("O", order=True), "T": TopicConfig("T")})
    group = SubscriptionGroupConfig("g")
    for subscribed, is_order in ((("T", "O"), True), (("T", "nosuch"), False), (("O",), True)):
        step = create_retry_topic(state, group, NOW_MS, subscribed=subscribed)
        assert carry(state, step).result.order is is_order
        assert state.topic_config_table["%RETRY%g"].order is is_order
    assert create_retry_topic(state, group, NOW_MS, subscribed=["O"]).changes == ()


@pytest.mark.parametrize(("permission", "perms"), [(6, [7, 99]), (7, [7, 99]), (4, [4, 0])])
def test_a_broker_without_permissions_registers_topics_with_what_it_has(
    permission: int, perms: list[int]
) -> None:
    topics = [TopicConfig("A", perm=7), TopicConfig("B", perm=99)]
    config = BrokerConfig(broker_permission=permission)
    assert [topic.perm for topic in registered_topics(topics, config)] == perms


@pytest.mark.parametrize(("enabled", "code"), [(False, 29), (True, None)])
def test_a_topic_of_mixed_messages(enabled: bool, code: int | None) -> None:
    config = BrokerConfig(enable_mixed_message_type=enabled)
    mixed = altered(1, {"+message.type": "MIXED"})
    refusal = update_topic(MetadataState(), config, mixed, NOW_MS).result
    assert (refusal and refusal.code) == code


def test_a_heartbeat_makes_the_retry_topic_once() -> None:
    state = MetadataState()
    group = SubscriptionGroupConfig("g", retry_queue_nums=2)
    carry(state, create_retry_topic(state, group, NOW_MS))
    assert state.topic_config_table["%RETRY%g"].read_queue_nums == 2
    assert create_retry_topic(state, group, NOW_MS).changes == ()


def test_an_administrator_creates_and_changes_a_topic() -> None:
    state = broker_state()
    topic = TopicConfig("T", 8, 2, perm=0)
    assert carry(state, update_topic(state, CONFIG, topic, NOW_MS)).result is None
    assert update_topic(state, CONFIG, topic, NOW_MS) == Step(), "the same again is no change"
    assert state.topic_data_version.counter == 1


@pytest.mark.parametrize("name", ["SCHEDULE_TOPIC_XXXX", "rmq_sys_anything", "TBW102", "a b"])
def test_an_administrator_cannot_have_every_name(name: str) -> None:
    step = update_topic(MetadataState(), CONFIG, TopicConfig(name), NOW_MS)
    assert not step.changes
    assert step.result.code == ResponseCode.INVALID_PARAMETER


def test_a_topic_is_deleted() -> None:
    state = MetadataState({"T": TopicConfig("T")})
    assert carry(state, delete_topic(state, CONFIG, "T", NOW_MS)).result is None
    assert state.topic_config_table == {}
    assert delete_topic(state, CONFIG, "T", NOW_MS) == Step()


def test_a_group_comes_to_be_by_use() -> None:
    state = MetadataState()
    made = carry(state, find_subscription_group(state, BrokerConfig(), "g", NOW_MS)).result
    assert made == SubscriptionGroupConfig("g")
    found = find_subscription_group(state, BrokerConfig(), "g", NOW_MS)
    assert found == Step(result=made)


@pytest.mark.parametrize(
    ("name", "config"),
    [("b d", BrokerConfig()), ("g", BrokerConfig(auto_create_subscription_group=False))],
)
def test_a_group_does_not_come_to_be(name: str, config: BrokerConfig) -> None:
    assert find_subscription_group(MetadataState(), config, name, NOW_MS) == Step()


def test_a_group_of_the_system_comes_to_be_all_the_same() -> None:
    config = BrokerConfig(auto_create_subscription_group=False)
    made = find_subscription_group(MetadataState(), config, "CID_RMQ_SYS_X", NOW_MS).result
    assert made == SubscriptionGroupConfig("CID_RMQ_SYS_X")


def test_an_administrator_may_name_a_group_as_it_likes() -> None:
    state = MetadataState()
    carry(state, update_subscription_group(state, SubscriptionGroupConfig("b d"), NOW_MS))
    assert find_subscription_group(state, CONFIG, "b d", NOW_MS).result.group_name == "b d"


def test_a_topic_is_quoted_as_java_quotes_it() -> None:
    assert str(TopicConfig("TRW", 8, 2, Perm.READ | Perm.WRITE)) == (
        "TopicConfig [topicName=TRW, readQueueNums=8, writeQueueNums=2, perm=RW-, "
        "topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={}]"
    )


def test_a_group_without_a_name_is_there_and_is_not() -> None:
    state = MetadataState()
    assert carry(state, find_subscription_group(state, CONFIG, "", NOW_MS)).result
    assert "" in state.subscription_group_table
    assert not contains_subscription_group(state, "")
    assert not contains_subscription_group(state, None)
    assert carry(state, find_subscription_group(state, CONFIG, "G", NOW_MS)).result
    assert contains_subscription_group(state, "G")


def altered(queues: int, alterations: Mapping[str, str]) -> TopicConfig:
    return TopicConfig("T", queues, queues, attributes=alterations)


def test_attributes_of_a_topic_are_kept_when_it_changes() -> None:
    state = MetadataState()
    carry(
        state,
        update_topic(state, CONFIG, altered(1, {"+message.type": "FIFO"}), NOW_MS),
    )
    carry(state, update_topic(state, CONFIG, TopicConfig("T", 2, 2), NOW_MS))
    assert state.topic_config_table["T"] == TopicConfig(
        "T", 2, 2, attributes={"message.type": "FIFO"}
    )
    step = update_topic(state, CONFIG, altered(3, {"+message.type": "BLUE"}), NOW_MS)
    assert step.changes == ()
    assert step.result.code == ResponseCode.SYSTEM_ERROR


def test_topics_of_a_list_are_made_up_to_one_that_may_not_be() -> None:
    state = MetadataState({"A": TopicConfig("A", 1, 1)})
    lists = (
        [TopicConfig("B"), TopicConfig("a b")],  # refused before anything is made
        [TopicConfig("B"), TopicConfig("A", 1, 1)],  # one is as it was
    )
    for topics in lists:
        assert update_topic_list(state, CONFIG, topics, NOW_MS).changes == ()
    topics = [TopicConfig("B"), altered(1, {"+message.type": "BLUE"}), TopicConfig("C")]
    step = carry(state, update_topic_list(state, CONFIG, topics, NOW_MS))
    assert step.result.code == ResponseCode.SYSTEM_ERROR
    assert set(state.topic_config_table) == {"A", "B"}
    carry(state, update_topic_list(state, CONFIG, [TopicConfig("C"), TopicConfig("D")], NOW_MS))
    assert set(state.topic_config_table) == {"A", "B", "C", "D"}
    assert state.topic_data_version.counter == 3


def test_what_a_group_may_not_read() -> None:
    state = MetadataState()
    for topic in ("T", "U"):
        carry(state, forbid_read(state, "G", topic, NOW_MS))
    assert allow_read(state, "G", "X", NOW_MS) == Step()
    carry(state, allow_read(state, "G", "T", NOW_MS))
    assert [is_read_forbidden(state, "G", topic) for topic in ("T", "U")] == [False, True]
    carry(state, allow_read(state, "G", "U", NOW_MS))
    assert not state.forbidden_table
    assert state.group_data_version.counter == 4
    carry(state, forbid_read(state, "G", "T", NOW_MS))
    carry(state, delete_subscription_group(state, "G", NOW_MS))  # there never was one
    assert not is_read_forbidden(state, "G", "T")


def test_a_group_is_deleted_once() -> None:
    state = MetadataState()
    carry(state, update_subscription_group(state, SubscriptionGroupConfig("G"), NOW_MS))
    version = state.group_data_version
    carry(state, delete_subscription_group(state, "G", NOW_MS))
    assert state.subscription_group_table == {}
    assert state.group_data_version == version.next(NOW_MS)
    assert delete_subscription_group(state, "G", NOW_MS) == Step()


def test_groups_have_no_attributes() -> None:
    group = SubscriptionGroupConfig("G", attributes={"+consume.lag": "1"})
    step = update_subscription_group(MetadataState(), group, NOW_MS)
    assert (step.changes, step.result.remark) == ((), "unsupported key: consume.lag")


def test_a_topic_of_which_nothing_is_said_has_16_queues() -> None:
    """TopicConfig.java: read, written, and both allowed."""
    topic = TopicConfig("T")
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (16, 16, 6)


def test_what_5_3_3_does_without_being_told() -> None:
    """BrokerConfig.java, MessageStoreConfig.java."""
    switches = {name: value for name, value in asdict(BrokerConfig()).items() if value is True}
    assert switches.keys() == {
        "auto_create_topic_enable",
        "auto_create_subscription_group",
        "notify_consumer_ids_changed_enable",
        "lite_pull_message_enable",
        "store_reply_message_enable",
        "trace_on",
        "timer_wheel_enable",
        "retrieve_message_from_pop_retry_topic_v1",
        "use_server_side_reset_offset",
    }
