"""Offset commit: how far a group has come on each queue. Twin of OffsetCommit.tla.

A consumer holds the messages that it pulled and has not finished in a ProcessQueue, reports the
smallest of them every 5 s, one-way, and the broker writes what it heard to a file every 5 s. So
progress lags behind consumption in three places, and any of them may lose its tail. What is
promised is that nothing is skipped (OFFSET-001, OFFSET-002); what is not promised is that
nothing is repeated (OFFSET-004), only that repeats stay in a named window (OFFSET-005).

An offset is always the next one to consume, never the last one consumed. A queue that was taken
away is not in the table any more: whoever still works on its messages finds another process
queue there, or none, and reports nothing (OFFSET-006). A queue that comes back is another
process queue, which its `generation` tells.

Facts: client/impl/consumer/{ProcessQueue,ConsumeMessageConcurrentlyService}.java,
client/consumer/store/RemoteBrokerOffsetStore.java, broker/offset/ConsumerOffsetManager.java,
broker/processor/ConsumerManageProcessor.java, 5.3.3; the broker's half seen on 5.3.3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from mqspec.core import response
from mqspec.core.conversation import Conversation, LogOnDisk, Persist, Told, note_whole
from mqspec.core.response import Refusal, ResponseCode
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import Group, MessageQueue, Topic

PERSIST_INTERVAL_MS: Final = 5_000  # of a consumer, and of the broker's file
PERSIST_FIRST_DELAY_MS: Final = 10_000

# Flow control, looked at before a pull: strictly more than any of these holds it back.
PULL_THRESHOLD_FOR_QUEUE: Final = 1_000  # messages
PULL_THRESHOLD_SIZE_FOR_QUEUE: Final = 100 << 20  # bytes, in whole MiB
CONSUME_CONCURRENTLY_MAX_SPAN: Final = 2_000  # offsets, from the first unfinished to the last
FLOW_CONTROL_DELAY_MS: Final = 50

NOT_FOUND: Final = -1  # no offset is stored, or none that a consumer may use


# The consumer's half


@dataclass(frozen=True, slots=True)
class FlowControl:
    """The most that a process queue may hold before its next pull is held back."""

    pull_threshold_for_queue: int = PULL_THRESHOLD_FOR_QUEUE
    pull_threshold_size_for_queue: int = PULL_THRESHOLD_SIZE_FOR_QUEUE
    consume_concurrently_max_span: int | None = CONSUME_CONCURRENTLY_MAX_SPAN  # None: orderly


@dataclass(frozen=True, slots=True)
class ProcessQueue:
    """What a consumer holds of one queue."""

    generation: int  # which of the consumer's process queues this is
    next_offset: int  # to pull next
    last_pull_ms: int
    msg_tree_map: tuple[int, ...] = ()  # offsets pulled and not finished, ascending
    size_bytes: int = 0  # of their bodies
    queue_offset_max: int = 0  # of the last message put
    dropped: bool = False  # and not removed yet: a listener is at work, or a reset
    # Of an orderly consumer (consume_orderly):
    consuming_msg_orderly_tree_map: tuple[int, ...] = ()  # taken out of msg_tree_map
    locked: bool = False  # for this member, as far as it knows
    last_lock_ms: int = 0

    @property
    def msg_count(self) -> int:
        """How many messages are not finished."""
        return len(self.msg_tree_map) + len(self.consuming_msg_orderly_tree_map)


@dataclass(slots=True)
class ConsumerState:
    """What one consumer of one group holds; nothing of it survives the consumer's end."""

    process_queue_table: dict[MessageQueue, ProcessQueue] = field(default_factory=dict)
    # RemoteBrokerOffsetStore: progress, to be reported.
    offset_store: dict[MessageQueue, int] = field(default_factory=dict)
    generation: int = 0  # process queues made so far


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to a pull for a process queue."""

    mq: MessageQueue
    generation: int  # of the process queue that asked
    next_offset: int
    time_ms: int
    offsets: tuple[int, ...] = ()  # of the messages to consume, ascending
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Consumed:
    """The listener is done with some messages of a process queue."""

    mq: MessageQueue
    generation: int
    offsets: tuple[int, ...]
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class UpdateConsumerOffset:
    """Request 15, one-way from a consumer: nobody tells whether it arrived, or in which order."""

    group: Group
    mq: MessageQueue
    commit_offset: int


def add_message_queue(
    state: ConsumerState, mq: MessageQueue, next_offset: int, stored: int, now_ms: int
) -> Step:
    """OffsetCommit!AddMessageQueue. Start on a queue, at the offset that was computed from what
    the broker has stored (NOT_FOUND: nothing, and nothing is reported before the first progress).

    Result: the new process queue; None where the queue is held already.
    """
    if mq in state.process_queue_table:
        return Step()
    made = ProcessQueue(state.generation + 1, next_offset, now_ms)
    return Step(
        (
            # What is left of an earlier time with the queue is dirty.
            Change("offset_store", mq, stored if stored >= 0 else REMOVED),
            Change("process_queue_table", mq, made),
            Change("generation", None, made.generation),
        ),
        result=made,
    )


def pull_message(state: ConsumerState, event: Pulled) -> Step:
    """OffsetCommit!PullMessage. Pulled messages enter the process queue, unless it was dropped.

    Result: whether the process queue is still there, and may be pulled for again.
    """
    queue = held(state, event.mq, event.generation)
    if queue is None:
        return Step(result=False)
    if event.offsets and queue.msg_tree_map and event.offsets[0] <= queue.msg_tree_map[-1]:
        raise ValueError(f"{event.mq}: pulled {event.offsets[0]} again")
    filled = replace(
        queue,
        next_offset=event.next_offset,
        last_pull_ms=event.time_ms,
        msg_tree_map=queue.msg_tree_map + event.offsets,
        size_bytes=queue.size_bytes + event.size_bytes,
        queue_offset_max=event.offsets[-1] if event.offsets else queue.queue_offset_max,
    )
    return Step((Change("process_queue_table", event.mq, filled),), result=True)


def correct_tags_offset(state: ConsumerState, event: Pulled) -> Step:
    """A pull found nothing to consume, and all before it is finished: progress is `next_offset`.

    Without this a queue whose tail is all filtered out would never be reported to its end.
    """
    queue = held(state, event.mq, event.generation)
    if queue is None or queue.msg_count:
        return Step()
    return update_offset(state, event.mq, event.next_offset, increase_only=True)


def process_consume_result(state: ConsumerState, event: Consumed) -> Step:
    """OffsetCommit!ProcessConsumeResult. Finished messages leave the process queue, and progress
    becomes the smallest unfinished one, or the one after the last (OFFSET-002).

    Result: whether it counted; it does not where the queue was dropped meanwhile (OFFSET-006).
    """
    queue = held(state, event.mq, event.generation)
    if queue is None:
        return Step(result=False)
    if not queue.msg_tree_map:
        return Step(result=True)
    left, progress = remove_message(queue, event)
    updated = update_offset(state, event.mq, progress, increase_only=True)
    return Step((Change("process_queue_table", event.mq, left), *updated.changes), result=True)


def remove_message(queue: ProcessQueue, event: Consumed) -> tuple[ProcessQueue, int]:
    """The process queue without some messages, and how far that is: to the smallest that is
    left, or to the one after the last that was put."""
    rest = _without(queue.msg_tree_map, event.offsets)
    left = replace(queue, msg_tree_map=rest, size_bytes=queue.size_bytes - event.size_bytes)
    return left, rest[0] if rest else queue.queue_offset_max + 1


def update_offset(
    state: ConsumerState, mq: MessageQueue, offset: int, *, increase_only: bool
) -> Step:
    """RemoteBrokerOffsetStore.updateOffset: note progress, to be reported later (OFFSET-003)."""
    old = state.offset_store.get(mq)
    if old is not None and increase_only and offset <= old:
        return Step()
    return Step((Change("offset_store", mq, offset),))


def persist_all(state: ConsumerState, group: Group) -> Step:
    """OffsetCommit!PersistAll. Every 5 s: report progress of each queue held, also unchanged.

    An entry of a queue that is not held any more is removed unreported; a consumer that holds
    no queue at all does nothing.
    """
    if not state.process_queue_table:
        return Step()
    gone = (mq for mq in state.offset_store if mq not in state.process_queue_table)
    sends = (
        UpdateConsumerOffset(group, mq, offset)
        for mq, offset in state.offset_store.items()
        if mq in state.process_queue_table
    )
    return Step(tuple(Change("offset_store", mq, REMOVED) for mq in gone), tuple(sends))


def remove_unnecessary_message_queue(state: ConsumerState, mq: MessageQueue, group: Group) -> Step:
    """OffsetCommit!RemoveUnnecessaryMessageQueue. A queue is taken away: its process queue is
    dropped, then its progress is reported for the last time and forgotten.

    It does not wait for messages in work: they are finished without being reported, and the new
    owner gets them again (scenario F).
    """
    offset = state.offset_store.get(mq)
    changes = (Change("process_queue_table", mq, REMOVED), Change("offset_store", mq, REMOVED))
    return Step(changes, () if offset is None else (UpdateConsumerOffset(group, mq, offset),))


def offset_illegal(
    state: ConsumerState, mq: MessageQueue, generation: int, next_offset: int, group: Group
) -> Step:
    """The broker called the pull's offset illegal and names another: the process queue is dropped,
    that offset reported, and the next rebalance starts on the queue anew."""
    if held(state, mq, generation) is None:
        return Step()
    changes = (Change("process_queue_table", mq, REMOVED), Change("offset_store", mq, REMOVED))
    return Step(changes, (UpdateConsumerOffset(group, mq, next_offset),))


def drop(state: ConsumerState, mq: MessageQueue) -> Step:
    """A process queue is not worked on any more, and stays in the table until it is removed."""
    queue = state.process_queue_table.get(mq)
    if queue is None:
        return Step()
    return Step((Change("process_queue_table", mq, replace(queue, dropped=True)),))


def reset_offset(state: ConsumerState, offsets: Mapping[MessageQueue, int], group: Group) -> Step:
    """Request 220: queues held are removed, their progress being what the administrator says;
    the next rebalance starts on them anew. Result: the queues removed."""
    reset = {mq: offset for mq, offset in offsets.items() if mq in state.process_queue_table}
    return Step(
        tuple(
            Change(variable, mq, REMOVED)
            for mq in reset
            for variable in ("process_queue_table", "offset_store")
        ),
        tuple(UpdateConsumerOffset(group, mq, offset) for mq, offset in reset.items()),
        tuple(reset),
    )


def pull_commit_offset(state: ConsumerState, mq: MessageQueue) -> int | None:
    """The progress that the next pull of `mq` carries along, None where it carries none."""
    offset = state.offset_store.get(mq, 0)
    return offset if offset > 0 else None


def held(state: ConsumerState, mq: MessageQueue, generation: int) -> ProcessQueue | None:
    """The process queue; None once it was dropped."""
    queue = state.process_queue_table.get(mq)
    if queue is None or queue.dropped or queue.generation != generation:
        return None
    return queue


_DEFAULT_FLOW_CONTROL: Final = FlowControl()


def must_wait(queue: ProcessQueue, limits: FlowControl = _DEFAULT_FLOW_CONTROL) -> bool:
    """Whether flow control holds the next pull back, for 50 ms at a time."""
    tree, span = queue.msg_tree_map, limits.consume_concurrently_max_span
    return (
        queue.msg_count > limits.pull_threshold_for_queue
        or queue.size_bytes >> 20 > limits.pull_threshold_size_for_queue >> 20
        or (span is not None and bool(tree) and tree[-1] - tree[0] > span)
    )


def _without(tree: tuple[int, ...], offsets: Collection[int]) -> tuple[int, ...]:
    if len(offsets) > 1:
        finished = frozenset(offsets)
        return tuple(offset for offset in tree if offset not in finished)
    for offset in offsets:
        at = bisect_left(tree, offset)
        if at < len(tree) and tree[at] == offset:
            return tree[:at] + tree[at + 1 :]
    return tree


# The broker's half


class OffsetKey(NamedTuple):
    """What an offset is stored under. The queue need not exist (OFFSET-010)."""

    topic: Topic
    group: Group
    queue_id: int


@dataclass(slots=True)
class OffsetState:
    """A broker's ConsumerOffsetManager. Resets are not in its file."""

    offset_table: dict[OffsetKey, int] = field(default_factory=dict)
    reset_offset_table: dict[OffsetKey, int] = field(default_factory=dict)  # not pulled yet
    pull_offset_table: dict[OffsetKey, int] = field(default_factory=dict)  # not on disk


@dataclass(frozen=True, slots=True)
class Answer:
    """What the broker answers."""

    code: ResponseCode
    remark: str | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class CommitOffset:
    """UPDATE_CONSUMER_OFFSET as it arrives; None is a field that is missing."""

    group: Group | None
    topic: Topic
    queue_id: int | None
    offset: int | None


def update_consumer_offset(
    state: OffsetState, event: CommitOffset, *, group_exists: bool, topic_exists: bool
) -> Step:
    """OffsetCommit!UpdateConsumerOffset. What arrives last is stored as it is: backwards,
    negative, beyond the end, for a queue that does not exist (OFFSET-010, OFFSET-011). While a
    reset waits for a pull, nothing is stored (OFFSET-018).

    Result: the Answer.
    """
    refused = _check_commit(event, group_exists, topic_exists)
    if refused or event.group is None or event.queue_id is None or event.offset is None:
        return Step(result=refused)
    key = OffsetKey(event.topic, event.group, event.queue_id)
    if key in state.reset_offset_table:
        return Step(result=Answer(ResponseCode.SUCCESS, "Offset has been previously reset"))
    return Step((Change("offset_table", key, event.offset),), result=Answer(ResponseCode.SUCCESS))


def _check_commit(event: CommitOffset, group_exists: bool, topic_exists: bool) -> Answer | None:
    """The Answer of a commit that cannot be stored: the first reason, in the order of 5.3.3."""
    code, topic = ResponseCode, event.topic
    group = "null" if event.group is None else event.group
    no_group = event.group is None or not group_exists
    reasons = (
        (no_group, code.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!"),
        (not topic_exists, code.TOPIC_NOT_EXIST, f"Topic {topic} not exist!"),
        (event.queue_id is None, code.INVALID_PARAMETER, f"QueueId is null, topic is {topic}"),
        (event.offset is None, code.INVALID_PARAMETER, f"Offset is null, topic is {topic}"),
    )
    return next((Answer(code, remark) for holds, code, remark in reasons if holds), None)


def commit_offset(state: OffsetState, key: OffsetKey, offset: int) -> Step:
    """A commit that rides on a pull, unless the pull fails a check (seen on 5.3.3). A reset does
    not keep it off (OFFSET-020)."""
    return Step((Change("offset_table", key, offset),))


class QueueSpan(NamedTuple):
    """A queue, as far as a reset looks at it."""

    key: OffsetKey
    min_offset: int
    max_offset: int
    offset_by_time: int  # of the time that the administrator names; a negative time: the end


def reset_offset_inner(spans: Sequence[QueueSpan], offset: int | None) -> Step:
    """An administrator moves a group on some queues: to an offset,
    which lies in the queue or is one behind its end; or, where that is None, to a time
    (OFFSET-017).

    Result: the offsets by queue id, or a Refusal.
    """
    for span in spans:
        if offset is not None and not span.min_offset <= offset <= span.max_offset + 1:
            remark = (
                f"Target offset {offset} not in consume queue range "
                f"[{span.min_offset}-{span.max_offset}]"
            )
            return Step(result=Refusal(ResponseCode.SYSTEM_ERROR, remark))
    if not spans:
        return Step(result=Refusal(ResponseCode.SYSTEM_ERROR, "No queues to reset."))
    reset = {span.key: span.offset_by_time if offset is None else offset for span in spans}
    changes = [
        Change(table, key, there)
        for key, there in reset.items()
        for table in ("reset_offset_table", "offset_table")
    ]
    return Step(tuple(changes), result={key.queue_id: there for key, there in reset.items()})


def reset_offset_of_members(
    state: OffsetState, spans: Sequence[QueueSpan], *, is_force: bool
) -> dict[int, int] | Refusal:
    """Where the members that are online are told to go on, by queue id, where the broker does not
    reset by itself: to the time, but forward only where it is forced (OFFSET-021)."""
    told: dict[int, int] = {}
    for span in spans:
        stored = state.offset_table.get(span.key, NOT_FOUND)
        if stored == NOT_FOUND:
            remark = f"THe consumer group <{span.key.group}> not exist"
            return Refusal(ResponseCode.SYSTEM_ERROR, remark)
        told[span.key.queue_id] = (
            span.offset_by_time if is_force else min(span.offset_by_time, stored)
        )
    return told


def query_then_erase_reset_offset(state: OffsetState, key: OffsetKey) -> Step:
    """A pull learns of a reset, and is the only one that
    does (OFFSET-019). Result: the offset, or None."""
    offset = state.reset_offset_table.get(key)
    if offset is None:
        return Step()
    return Step((Change("reset_offset_table", key, REMOVED),), result=offset)


def query_consumer_offset(
    state: OffsetState, key: OffsetKey, *, set_zero_if_not_found: bool, queue_is_young: bool
) -> Answer:
    """Request 14. A negative offset counts as none (OFFSET-012).

    Where none is stored a young queue, one that still holds its message 0 in memory, answers 0
    unless the request forbids it: whatever the group's policy says, it starts at the beginning
    (OFFSET-013).
    """
    stored = query_offset(state, key)
    if stored >= 0:
        return Answer(ResponseCode.SUCCESS, offset=stored)
    if not set_zero_if_not_found:
        return Answer(
            ResponseCode.QUERY_NOT_FOUND,
            "Not found, do not set to zero, maybe this group boot first",
        )
    if queue_is_young:
        return Answer(ResponseCode.SUCCESS, offset=0)
    return Answer(
        ResponseCode.QUERY_NOT_FOUND,
        "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
    )


def query_offset(state: OffsetState, key: OffsetKey) -> int:
    """Where a group was moved to, until a pull has learned of it; else what is stored, or
    NOT_FOUND."""
    return state.reset_offset_table.get(key, state.offset_table.get(key, NOT_FOUND))


def told(answer: Answer) -> response.Answer:
    """An answer with its offset, if it has one, as a field."""
    fields = {} if answer.offset is None else {"offset": str(answer.offset)}
    return response.Answer(answer.code, answer.remark, fields)


def min_offset_told(offset: int) -> response.Answer:
    """The answer to request 31. Its remark is empty, not absent."""
    return response.Answer(remark="", ext_fields={"offset": str(offset)})


def commit_pull_offset(state: OffsetState, key: OffsetKey, next_begin_offset: int) -> Step:
    """A group was told where its next pull begins; only administrators look at it."""
    return Step((Change("pull_offset_table", key, next_begin_offset),))


def clone_offset(state: OffsetState, source: Group, target: Group, topic: Topic) -> Step:
    """A group gets the offsets that another has of a topic, in place of its own of it; where the
    other has none nothing changes (OFFSET-058)."""
    of_topic = {key: offset for key, offset in state.offset_table.items() if key.topic == topic}
    cloned = {
        key._replace(group=target): offset
        for key, offset in of_topic.items()
        if key.group == source
    }
    if not cloned:
        return Step()
    own = (key for key in of_topic if key.group == target)
    removed = (Change("offset_table", key, REMOVED) for key in own if key not in cloned)
    made = (Change("offset_table", key, offset) for key, offset in cloned.items())
    return Step((*removed, *made))


def clean_offset_by_topic(state: OffsetState, topic: Topic) -> Step:
    """The topic is deleted: no group has an offset of it any more (ADMIN-004)."""
    return _clean(state, ("offset_table",), lambda key: key.topic == topic)


def clean_offset(state: OffsetState, group: Group) -> Step:
    """The group is deleted, and its offsets with it (ADMIN-009)."""
    tables = "offset_table", "reset_offset_table", "pull_offset_table"
    return _clean(state, tables, lambda key: key.group == group)


def _clean(
    state: OffsetState, tables: Sequence[str], is_meant: Callable[[OffsetKey], bool]
) -> Step:
    return Step(
        tuple(
            Change(variable, key, REMOVED)
            for variable in tables
            for key in getattr(state, variable)
            if is_meant(key)
        )
    )


def which_group_by_topic(state: OffsetState, topic: Topic) -> list[Group]:
    """The groups that have an offset of the topic."""
    return list(dict.fromkeys(key.group for key in state.offset_table if key.topic == topic))


def which_topic_by_consumer(state: OffsetState, group: Group) -> list[Topic]:
    """The topics of which the group has an offset."""
    return list(dict.fromkeys(key.topic for key in state.offset_table if key.group == group))


def query_min_offset_in_all_group(
    state: OffsetState,
    topic: Topic,
    filter_groups: Collection[Group],
    min_offset: Callable[[int], int],
) -> dict[int, int]:
    """The least offset that a group has stored of each queue of the topic, but for some groups and
    for offsets below the queue's minimum, from which nobody can read.

    It only looks (OFFSET-022, OFFSET-023): 5.3.3 takes those groups out of the table itself.
    """
    least: dict[int, int] = {}
    for key, offset in state.offset_table.items():
        is_meant = key.topic == topic and key.group not in filter_groups
        if is_meant and offset >= min_offset(key.queue_id):
            least[key.queue_id] = min(offset, least.get(key.queue_id, offset))
    return least


def persist(state: OffsetState) -> dict[str, Any]:
    """OffsetCommit!Persist. What consumerOffset.json holds: `topic@group` to queue id to offset."""
    table: dict[str, dict[str, int]] = {}
    topics: dict[Group, dict[Topic, None]] = {}  # in order, each once
    for (topic, group, queue_id), offset in state.offset_table.items():
        table.setdefault(f"{topic}@{group}", {})[str(queue_id)] = offset
        topics.setdefault(group, {})[topic] = None
    of_groups = {group: list(of_group) for group, of_group in topics.items()}
    return {"offsetTable": table, "groupTopicMap": of_groups}


def persist_offsets(state: OffsetState) -> Conversation[None]:
    """Every 5 s the broker's file is written. It holds what the table held when this began, and is
    not written before the log is on disk as far as it was then: or a crash of the machine could
    leave an offset there without the checkpoint for whose sake it moved (POP-002)."""
    offsets = OffsetState(dict(state.offset_table))  # all that the file holds
    yield Told("OffsetCommit", "offset_table", None, offsets.offset_table)

    if (yield LogOnDisk()):
        # Also when nothing changed: what is written twice is in the .bak too.
        yield Persist(offsets)
        yield note_whole("OffsetCommit", "offset_file", offsets.offset_table)


def load(data: Mapping[str, Any]) -> OffsetState:
    """OffsetCommit!Load. A broker starts with what the file says; what was not written is lost.

    Raises ValueError where an entry is not one of an offset table.
    """
    table = data.get("offsetTable", {})
    if not isinstance(table, Mapping):
        raise ValueError("offsetTable is not an object")
    found: dict[OffsetKey, int] = {}
    for name, queues in table.items():
        topic, at, group = str(name).partition("@")
        if not at or not isinstance(queues, Mapping):
            raise ValueError(f"{name!r} is no topic@group with its queues")
        for queue_id, offset in queues.items():
            if not isinstance(offset, int | str):
                raise ValueError(f"{name!r}: {offset!r} is no offset")
            found[OffsetKey(topic, group, int(queue_id))] = int(offset)
    return OffsetState(found)
