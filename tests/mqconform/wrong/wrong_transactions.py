"""Brokers that are wrong where transactions are ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from making import wrong
from msgspec import structs

from mqspec.core import end_transaction as ends
from mqspec.core import transaction
from mqspec.core.record import decode_properties, encode_properties, tags_code
from mqspec.core.step import Step

END = transaction.end_transaction


def _finals(step: Step, change: Any) -> Step:
    """The step, with what it publishes changed."""
    sends = tuple(transaction.PutFinal(change(each.message)) for each in step.sends)
    return structs.replace(step, sends=sends)


@wrong("transactions", END)
def second_commit_lost(right: Any, state: Any, config: Any, event: Any, *args: Any) -> Any:
    """A second commit within 3 s publishes nothing."""
    step = right(state, config, event, *args)
    again = event.tran_state_table_offset in state.op_batch
    return structs.replace(step, sends=()) if again else step


@wrong("transactions", END)
def commit_queue_mod_64(right: Any, *args: Any) -> Any:
    """A committed message goes to its queue modulo 64."""
    return _finals(right(*args), lambda final: structs.replace(final, queue_id=final.queue_id % 64))


@wrong("transactions", END)
def producers_alike(right: Any, state: Any, config: Any, event: Any, half: Any, now: int) -> Any:
    """Producer groups are told apart by their first nine characters."""
    group = half and decode_properties(half.properties).get("PGROUP", "")
    same = group and event.producer_group and group[:9] == event.producer_group[:9]
    asked = replace(event, producer_group=group) if same else event
    return right(state, config, asked, half, now)


@wrong("transactions", END)
def any_offset(right: Any, state: Any, config: Any, event: Any, half: Any, now: int) -> Any:
    """The half's queue offset is not compared."""
    asked = replace(event, tran_state_table_offset=half.queue_offset) if half else event
    return right(state, config, asked, half, now)


@wrong("transactions", END)
def negative_tags_lost(right: Any, *args: Any) -> Any:
    """A commit forgets a tag whose hash is negative."""

    def without(final: Any) -> Any:
        properties = decode_properties(final.properties)
        if tags_code(properties.get("TAGS", "")) >= 0:
            return final
        del properties["TAGS"]
        return structs.replace(final, properties=encode_properties(properties).encode())

    return _finals(right(*args), without)


@wrong("transactions", END)
def position_in_32_bits(right: Any, *args: Any) -> Any:
    """A committed message names its half's position in 16 bits."""
    return _finals(
        right(*args),
        lambda final: structs.replace(
            final, prepared_transaction_offset=final.prepared_transaction_offset & 0xFFFF
        ),
    )


@wrong("transactions", transaction.batch_send_op_message)
def two_noted(right: Any, state: Any) -> Any:
    """Of the halves that ended since the last op message two are noted."""
    step = right(state)
    return structs.replace(step, result=b",".join(step.result.split(b",")[:2]) + b",")


@wrong("transactions", END)
def checks_are_immune(right: Any, state: Any, config: Any, event: Any, *args: Any) -> Any:
    """The end of an old half with an immunity is refused also as the answer to a check."""
    return right(state, config, replace(event, from_transaction_check=False), *args)


@wrong("transactions", transaction._immunity_ms)
def immune_for_ever(right: Any, config: Any, seconds: str) -> Any:
    """An immunity of thirty seconds and more is one of an hour."""
    return right(config, "3600" if len(seconds) == 2 and seconds >= "30" else seconds)


@wrong("transactions", ends.end_transaction)
def odd_kinds(right: Any, broker: Any, event: Any, kind: int, now_ms: int) -> Any:
    """An end of type 9 is a rollback."""
    return right(broker, event, 12 if kind == 9 else kind, now_ms)


@wrong("transactions", transaction.prepare)
def large_halves_at_once(right: Any, message: Any) -> Any:
    """A half of more than 64 KiB less one is no half."""
    return message if len(message.body) > 65_535 else right(message)


@wrong("transactions", END)
def born_again(right: Any, *args: Any) -> Any:
    """A committed message is born when it is committed, if its half is old."""
    now_ms = args[-1]

    def fresh(final: Any) -> Any:
        is_old = now_ms - final.born_timestamp > 30_000
        return structs.replace(final, born_timestamp=now_ms) if is_old else final

    return _finals(right(*args), fresh)
