"""Brokers that are wrong as those of `wrong_pairs` are, in other places: written when the suite had
been mended for those, before anybody looked whether it notices these."""

from __future__ import annotations

from typing import Any

from making import keeping, wrong
from msgspec import structs

from mqspec.core import attributes, group, pull, record, retry
from mqspec.core.step import Step
from mqspec.wire import bodies


def _without(properties: bytes, name: str) -> bytes:
    kept = record.decode_properties(properties)
    kept.pop(name, None)
    return record.encode_properties(kept).encode()


@wrong("keys", bodies.decode_batch)
def keys_of_the_first(right: Any, body: bytes) -> Any:
    """Of a batch the first message has its keys."""
    first, *others = right(body)
    return [
        first,
        *(structs.replace(it, properties=_without(it.properties, "KEYS")) for it in others),
    ]


@wrong("messages", bodies.decode_batch)
def flags_of_the_first(right: Any, body: bytes) -> Any:
    """Of a batch the first message has its flag."""
    first, *others = right(body)
    return [first, *(structs.replace(it, flag=0) for it in others)]


@wrong("retries", retry.consumer_send_msg_back)
def sent_back_uncompressed(right: Any, *args: Any) -> Any:
    """A message that is sent back is no longer said to be compressed."""
    step = right(*args)
    if not isinstance(step.result, record.Record):
        return step
    mask = ~(record.SysFlag.COMPRESSED | record.COMPRESSION_TYPE)
    return keeping(step, structs.replace(step.result, sys_flag=step.result.sys_flag & mask))


@wrong("retries", retry.consumer_send_msg_back)
def dead_without_tags(right: Any, *args: Any) -> Any:
    """A message that is given up loses its tags."""
    step = right(*args)
    if not isinstance(step.result, record.Record) or not step.result.topic.startswith("%DLQ%"):
        return step
    kept = _without(step.result.properties, "TAGS")
    return keeping(step, structs.replace(step.result, properties=kept))


@wrong("members", group.unregister_producer)
def producers_take_consumers_along(right: Any, state: Any, name: str, channel: Any) -> Any:
    """A producer that leaves takes the consumer of its connection with it whose group has its
    group's name."""
    step, left = right(state, name, channel), group.unregister_consumer(state, name, channel)
    return Step((*step.changes, *left.changes), left.sends)


@wrong("holds", pull.pull_message)
def held_pulls_stay(right: Any, broker: Any, event: Any, *args: Any, is_first: bool) -> Any:
    """The answer to a pull that was held says to go on where it began."""
    answer = yield from right(broker, event, *args, is_first=is_first)
    if is_first or answer is None or "nextBeginOffset" not in answer.ext_fields:
        return answer
    fields = {**answer.ext_fields, "nextBeginOffset": str(event.queue_offset)}
    return structs.replace(answer, ext_fields=fields)


@wrong("tools", attributes.alter)
def altered_by_nothing(right: Any, *args: Any) -> Any:
    """A topic that is changed without a word of its attributes loses them."""
    return right(*args) if any(args[-1:]) else {}
