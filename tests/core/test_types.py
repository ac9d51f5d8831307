"""The shared names: the order of message queues and of client ids."""

from mqspec.core.types import MessageQueue, string_order


def test_queues_are_ordered_by_topic_broker_and_numeric_id() -> None:
    first, *rest = queues = [
        MessageQueue("T", "a", 2),
        MessageQueue("T", "a", 10),
        MessageQueue("T", "b", 0),
        MessageQueue("U", "a", 0),
    ]
    assert sorted([*rest, first]) == queues


def test_strings_are_ordered_as_java_does() -> None:
    # Code points would put U+FF5E first; UTF-16 code units put the surrogate pair first.
    assert sorted(["\uff5e", "\U0001f600", "10", "2"], key=string_order) == [
        "10",
        "2",
        "\U0001f600",
        "\uff5e",
    ]
