"""Receipt handles and the strings of POP's answers."""

from __future__ import annotations

import pytest

from mqspec.core.extra_info import (
    HandleError,
    OrderCount,
    ReceiptHandle,
    msg_offset_info,
    normal_topic,
    notified_topic,
    order_count_info,
    parse_handle,
    parse_start_offset_info,
    pop_retry_topic,
    real_topic,
    start_offset_info,
)

OBSERVED = "0 1795257554813 60000 4 1 broker-a 0 0"  # a POP_CK of 5.3.3


def test_a_handle_is_read_as_it_was_written() -> None:
    handle = parse_handle(OBSERVED)
    assert handle == ReceiptHandle(0, 1795257554813, 60_000, 4, "1", "broker-a", 0, 0)
    assert str(handle) == OBSERVED


def test_a_handle_need_not_name_its_message() -> None:
    assert parse_handle("7 1 2 3 0 b")[-2:] == (-1, -1)


@pytest.mark.parametrize(
    "text", [None, "", "x", "0 1 2 3 0", "0 1 2 x 0 b", "0 1 2 3 0 b x", "1_0 1 2 3 0 b"]
)
def test_what_is_no_handle_is_refused(text: str | None) -> None:
    with pytest.raises(HandleError):
        parse_handle(text)


def test_the_entries_of_an_answer() -> None:
    retry = pop_retry_topic("T", "G")
    assert start_offset_info("T", 1, 5) == "0 1 5"
    assert msg_offset_info(retry, 0, (1, 3)) == "1 0 1,3"
    assert msg_offset_info(pop_retry_topic("T", "G", v2=True), 0, (1,)) == "2 0 1"
    assert order_count_info("T", 1, OrderCount({0: 1, 1: 1}, 1)) == "0 qo1%0 1;0 qo1%1 1;0 1 1"


def test_the_names_of_retry_topics() -> None:
    assert pop_retry_topic("T", "G") == "%RETRY%G_T"
    for flag in "012":
        assert normal_topic(real_topic("T", "G", flag), "G") == "T"
    with pytest.raises(HandleError):
        real_topic("T", "G", "3")


def test_nobody_can_tell_whose_retry_topic_one_of_version_1_is() -> None:
    assert notified_topic("%RETRY%G+T") == "T"
    assert notified_topic("%RETRY%G_T") == "%RETRY%G_T"
    assert notified_topic("T") == "T"


def test_where_reads_began_is_read() -> None:
    assert parse_start_offset_info("0 1 5;1 0 7") == {("0", 1): 5, ("1", 0): 7}
    assert parse_start_offset_info("") == {}
    for text in ("0 1", "0 1 x", "0 1 5;0 1 6"):
        with pytest.raises(ValueError, match=r".+"):
            parse_start_offset_info(text)
