"""PopOrder: messages of a queue that are popped in order, one batch at a time.

The twin of PopOrder.tla. A queue that was popped in order gives nothing more to its group while
a message of its last batch is neither acknowledged nor due again (POP-020). The group's offset
stays at the batch's first message until acknowledgements move it, to the first that is not
acknowledged; so what was not acknowledged comes again, from there on and in order, with what was
acknowledged behind it, and no checkpoint is needed. Blocking is by queue: message groups are
blocked as far as they share one.

Whoever lost the answer to a pop asks again with the same attempt id, and gets the batch again
(POP-022). A batch with another attempt id, or none, counts as delivered once more, which the
answer tells (POP-023).

Facts: ConsumerOrderInfoManager.java (5.3.3), and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from mqspec.core.conversation import Carry, Conversation, Persist
from mqspec.core.extra_info import OrderCount
from mqspec.core.metadata import MetadataState
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import Group, Topic

CLEAN_SPAN_MS: Final = 24 * 3_600_000  # after which a queue that nobody pops is forgotten


class OrderKey(NamedTuple):
    """What is popped in order."""

    topic: Topic
    group: Group
    queue_id: int


@dataclass(frozen=True, slots=True)
class OrderInfo:
    """The last batch of a queue."""

    pop_time: int  # ms
    invisible_time: int  # ms
    offsets: tuple[int, ...]  # of the messages, ascending
    next_visible_time: Mapping[int, int] = field(default_factory=dict)
    """By offset, ms: of messages whose invisible time was changed."""
    consumed_count: Mapping[int, int] = field(default_factory=dict)
    """By offset: how often a message was delivered before; without those that were not."""
    last_consume_timestamp: int = 0  # ms
    acked: frozenset[int] = frozenset()
    attempt_id: str | None = None

    @property
    def next_offset(self) -> int:
        """Where the group goes on: at the first message that is not acknowledged."""
        unacked = (offset for offset in self.offsets if offset not in self.acked)
        return next(unacked, self.offsets[-1] + 1)

    def free_at(self) -> int:
        """When the queue is free, if nobody acknowledges anything any more, ms."""
        return max(
            (
                self.next_visible_time.get(offset, self.pop_time + self.invisible_time)
                for offset in self.offsets
                if offset not in self.acked
            ),
            default=0,
        )


@dataclass(slots=True)
class PopOrderState:
    """The queues that are popped in order."""

    order_info: dict[OrderKey, OrderInfo] = field(default_factory=dict)


class IllegalOffsetError(ValueError):
    """The offset is not one of the batch."""


def is_blocked(state: PopOrderState, key: OrderKey, attempt_id: str | None, now_ms: int) -> bool:
    """The guard of PopOrder!Pop."""
    info = state.order_info.get(key)
    if info is None or (attempt_id is not None and attempt_id == info.attempt_id):
        return False
    return now_ms < info.free_at()


def pop(state: PopOrderState, key: OrderKey, batch: OrderInfo) -> Step:
    """PopOrder!Pop. A batch is delivered. Result: the OrderCount to tell with it."""
    last = state.order_info.get(key)
    if last is None:
        counts: Mapping[int, int] = {}
    elif batch.attempt_id is not None and last.attempt_id == batch.attempt_id:
        counts = last.consumed_count
    else:
        counts = {
            offset: last.consumed_count.get(offset, 0) + 1
            for offset in batch.offsets
            if offset in last.offsets
        }
    made = replace(batch, consumed_count=counts)
    all_again = len(counts) == len(batch.offsets)
    least = min(counts.values()) if counts and all_again else 0
    return Step((Change("order_info", key, made),), result=OrderCount(counts, least))


def ack(state: PopOrderState, key: OrderKey, offset: int, pop_time: int) -> Step:
    """PopOrder!Ack. Result: the group's new offset; None where the acknowledgement is ignored,
    being of an earlier batch, or of one that a crash took from the file (5.3.3 believes that
    one, and passes over what lies before the message). Raises IllegalOffsetError.
    """
    info = state.order_info.get(key)
    if info is None or pop_time != info.pop_time:
        return Step()
    if offset not in info.offsets:
        raise IllegalOffsetError(f"{offset} is not in the batch")
    acked = replace(info, acked=info.acked | {offset})
    return Step((Change("order_info", key, acked),), result=acked.next_offset)


def change_invisible_time(
    state: PopOrderState, key: OrderKey, offset: int, pop_time: int, next_visible_time: int
) -> Step:
    """A message of the last batch becomes due at another time."""
    info = state.order_info.get(key)
    if info is None or pop_time != info.pop_time:
        return Step()
    changed = replace(info, next_visible_time={**info.next_visible_time, offset: next_visible_time})
    return Step((Change("order_info", key, changed),))


def clear_block(state: PopOrderState, key: OrderKey) -> Step:
    """The group's offset was reset: the last batch counts no more."""
    return Step((Change("order_info", key, REMOVED),)) if key in state.order_info else Step()


def auto_clean(
    state: PopOrderState,
    read_queue_nums: Mapping[Topic, int],
    groups: Mapping[Group, Any],
    now_ms: int,
) -> Step:
    """Queues of topics and groups that are no more are forgotten, and unused ones."""
    gone = (
        key
        for key, info in state.order_info.items()
        if key.queue_id >= read_queue_nums.get(key.topic, 0)
        or key.group not in groups
        or now_ms - info.last_consume_timestamp > CLEAN_SPAN_MS
    )
    return Step(tuple(Change("order_info", key, REMOVED) for key in gone))


# The file


def load(content: Mapping[str, Any]) -> PopOrderState:
    """PopOrder!Load. What consumerOrderInfo.json holds. Raises ValueError where it is not
    what a broker writes."""
    found: dict[OrderKey, OrderInfo] = {}
    try:
        for name, queues in content.get("table", {}).items():
            topic, _, group = name.partition("@")
            for queue_id, info in queues.items():
                found[OrderKey(topic, group, int(queue_id))] = _read(info)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"table: {error!r}") from None
    return PopOrderState(found)


def persist(state: PopOrderState) -> dict[str, Any]:
    """PopOrder!Persist. What consumerOrderInfo.json holds."""
    table: dict[str, dict[int, dict[str, Any]]] = {}
    for key, info in state.order_info.items():
        table.setdefault(f"{key.topic}@{key.group}", {})[key.queue_id] = _write(info)
    return {"table": table}


def persist_orders(
    state: PopOrderState, metadata: MetadataState, now_ms: int
) -> Conversation[None]:
    """Every 5 s the file is written, without what nobody pops any more."""
    queues = {name: topic.read_queue_nums for name, topic in metadata.topic_config_table.items()}
    yield Carry(state, auto_clean(state, queues, metadata.subscription_group_table, now_ms))
    yield Persist(state)


def _write(info: OrderInfo) -> dict[str, Any]:
    first, *others = info.offsets
    fields: dict[str, Any] = {
        "cm": sum(1 << at for at, offset in enumerate(info.offsets) if offset in info.acked),
        "i": info.invisible_time,
        "l": info.last_consume_timestamp,
        "o": [first, *(offset - first for offset in others)],
        "popTime": info.pop_time,
    }
    if info.consumed_count:
        fields["oc"] = dict(info.consumed_count)
    if info.next_visible_time:
        fields["ot"] = dict(info.next_visible_time)
    if info.attempt_id is not None:
        fields["a"] = info.attempt_id
    return fields


def _read(fields: Mapping[str, Any]) -> OrderInfo:
    first, *others = map(int, fields["o"])
    offsets = (first, *(first + other for other in others))
    return OrderInfo(
        pop_time=int(fields["popTime"]),
        invisible_time=int(fields.get("i") or 0),
        offsets=offsets,
        next_visible_time=_by_offset(fields.get("ot")),
        consumed_count=_by_offset(fields.get("oc")),
        last_consume_timestamp=int(fields.get("l", 0)),
        acked=frozenset(
            offset for at, offset in enumerate(offsets) if int(fields.get("cm", 0)) >> at & 1
        ),
        attempt_id=fields.get("a"),
    )


def _by_offset(entries: Mapping[str, Any] | None) -> dict[int, int]:
    return {int(offset): int(value) for offset, value in (entries or {}).items()}
