"""What members get, finish and commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mqrecord.holds import Received
from mqrecord.membership import begins, comes_back, elsewhere
from mqrecord.messages import known
from mqrecord.seen import Asked, Link, Row, Rows, Seen, at_queue, row
from mqrules import EventKind, Outcome
from mqspec.core.push_consumer import is_wanted
from mqspec.core.record import Record
from mqspec.core.types import MessageQueue
from mqspec.wire.bodies import decode_messages, loads
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import ResponseCode

LEFT_MS: Final = 1_000  # so long may a pull come that was asked before its queue was left
_COMMITS: Final = 1  # a bit of a pull's sysFlag: it says how far its group has come
_RETRY_TOPICS: Final = {"1": "%RETRY%{}_{}", "2": "%RETRY%{}+{}"}  # by a mark in a pop's extraInfo
_RETRY_MARK: Final = 4  # its place there


def commit(seen: Seen, link: Link, asked: Asked, now_ms: float) -> Rows:
    """15: how far it has come; mostly nobody answers."""
    if asked.request.is_oneway:
        yield from _committed(seen, link, asked, Outcome.UNKNOWN, now_ms)


def committed(seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float) -> Rows:
    """15, answered."""
    went = Outcome.OK if answer.code == ResponseCode.SUCCESS else Outcome.FAILED
    yield from _committed(seen, link, asked, went, now_ms)


def told_progress(
    seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float
) -> Rows:
    """14: from where it is to go on. A member that asks holds the queue from now on."""
    if answer.code not in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND):
        return
    value = int(answer.ext_fields["offset"]) if answer.code == ResponseCode.SUCCESS else None
    queue, member = link.queue(asked), link.member(asked)
    yield row(EventKind.QUERY_OFFSET, value=value, **link.at(asked))
    if member and queue not in member.holds:
        yield from begins(seen, link, member, queue, now_ms)
        member.holds[queue].next_offset = value


def pull(seen: Seen, link: Link, asked: Asked, now_ms: float) -> Rows:
    """11: it holds the queue; it may say how far it has come, or go on elsewhere."""
    fields = asked.request.ext_fields
    member, queue = link.member(asked), link.queue(asked)
    if int(fields["sysFlag"]) & _COMMITS and int(fields["commitOffset"]) > 0:
        yield from _committed(seen, link, asked, Outcome.UNKNOWN, now_ms)
    if member is None:
        return

    yield from comes_back(link, member, queue, now_ms)
    if queue not in member.holds:
        if now_ms < member.left.get(queue, -LEFT_MS) + LEFT_MS:
            return  # it has not been through its rebalance yet
        member.is_averaging &= queue not in member.left
        yield from begins(seen, link, member, queue, now_ms)
    hold = member.holds[queue]
    if not hold.is_taking:
        return
    hold.seen_ms = now_ms

    offset = int(fields["queueOffset"])
    if offset != hold.next_offset:
        hold.goes_on(offset)
        yield elsewhere(link.client, offset, link.at(asked))


def pulled(seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float) -> Rows:
    """11, answered: what a member got of a queue that it holds."""
    member, queue = link.member(asked), link.queue(asked)
    hold = member.holds.get(queue) if member else None
    if member is None or hold is None:
        return
    if "nextBeginOffset" in answer.ext_fields:
        hold.next_offset = int(answer.ext_fields["nextBeginOffset"])
    # As after a reset by the broker itself.
    if answer.code == ResponseCode.PULL_OFFSET_MOVED and hold.is_taking:
        hold.goes_on(int(answer.ext_fields["nextBeginOffset"]))
        yield elsewhere(link.client, hold.next_offset, link.at(asked))
    if answer.code != ResponseCode.SUCCESS:
        return

    at = link.at(asked)
    wanted = member.subscriptions.get(queue.topic)
    for record in decode_messages(answer.body):
        message = _received(record)
        if wanted is not None and not is_wanted(wanted, message.tag):
            continue
        if hold.is_taking:
            hold.received(record.queue_offset, message)
            yield _received_row(seen, at, record.queue_offset, message)
        else:
            hold.doubtful[record.queue_offset] = message


def told_reset(seen: Seen, link: Link, notice: RemotingCommand, now_ms: float) -> Rows:
    """220, of the broker: from where a member is to go on in queues that it keeps."""
    member = link.client.groups.get(notice.ext_fields["group"])
    offsets = loads(notice.body)["offsetTable"]
    if member is None or not isinstance(offsets, dict):  # a list, for a client in C++
        return
    for queue, offset in offsets.items():
        if hold := member.holds.get(queue):
            hold.goes_on(int(offset))
            yield elsewhere(link.client, int(offset), at_queue(link.client, member.group, queue))


def given_back(
    seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float
) -> Rows:
    """36: a message that is to come again."""
    member = link.client.groups.get(asked.request.ext_fields["group"])
    if member is None or answer.code != ResponseCode.SUCCESS:
        return
    place = int(asked.request.ext_fields["offset"])  # in the log of this broker
    held = (one for one in member.holds.items() if one[0].broker_name == link.broker)
    for queue, hold in held:
        at = at_queue(link.client, member.group, queue)
        for offset in _that_lie_at(place, hold.doubtful):  # it was received, then
            hold.received(offset, hold.doubtful.pop(offset))
            yield _received_row(seen, at, offset, hold.unfinished[offset])
        for offset in _that_lie_at(place, hold.unfinished):
            yield _with(EventKind.ACK, Outcome.FAILED, at, offset, hold.unfinished.pop(offset))


def _that_lie_at(place: int, messages: Mapping[int, Received]) -> list[int]:
    """The queue offsets of messages by their place in the log: one, or none."""
    return [offset for offset, one in messages.items() if one.physical_offset == place]


def popped(seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float) -> Rows:
    """200050, answered: what a member got of queues that nobody holds."""
    if answer.code != ResponseCode.SUCCESS:
        return
    group = asked.request.ext_fields["consumerGroup"]
    for record in decode_messages(answer.body):
        queue = MessageQueue(record.topic, link.broker or "", record.queue_id)
        at = at_queue(link.client, group, queue)
        message = _received(record)
        yield _received_row(seen, at, record.queue_offset, message)


def pop_finished(
    seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float
) -> Rows:
    """200051, answered: one of them is finished."""
    if answer.code != ResponseCode.SUCCESS:
        return
    fields, queue = asked.request.ext_fields, link.queue(asked)
    group, mark = fields["consumerGroup"], fields["extraInfo"].split(" ")[_RETRY_MARK]
    topic = _RETRY_TOPICS.get(mark, "{1}").format(group, queue.topic)
    at = at_queue(link.client, group, MessageQueue(topic, queue.broker_name, queue.queue_id))
    yield row(EventKind.ACK, queue_offset=int(fields["offset"]), **at)


def _committed(seen: Seen, link: Link, asked: Asked, went: Outcome, now_ms: float) -> Rows:
    """A commit, and what it says to be finished."""
    member, queue = link.member(asked), link.queue(asked)
    value = int(asked.request.ext_fields["commitOffset"])
    at = link.at(asked)
    if member:
        yield from comes_back(link, member, queue, now_ms)
    hold = member.holds.get(queue) if member else None
    if hold:
        hold.seen_ms = now_ms
        for offset, message in hold.no_longer_doubtful(value):
            yield _received_row(seen, at, offset, message)
        for offset, message in hold.finished(value):
            yield _with(EventKind.ACK, Outcome.OK, at, offset, message)

    # One that a pull carries is told with the offset from which that reads.
    read_at = asked.request.ext_fields.get("queueOffset")
    yield row(EventKind.COMMIT, went, value=value, queue_offset=read_at and int(read_at), **at)
    if hold and read_at is None:
        hold.commits(now_ms)


def _received(record: Record) -> Received:
    of = known(record.properties)
    return Received(of.key, of.tag, record.reconsume_times, of.level, record.physical_offset)


def _received_row(seen: Seen, at: Row, offset: int, message: Received) -> Row:
    """What is tried again is delayed by the broker, and no more by its producer."""
    delay_ms = None if message.attempt else seen.delay_ms(message.level)
    return _with(EventKind.RECEIVE, Outcome.OK, at, offset, message) | {"value": delay_ms}


def _with(kind: EventKind, went: Outcome, at: Row, offset: int, message: Received) -> Row:
    return row(
        kind,
        went,
        queue_offset=offset,
        message_key=message.key,
        tag=message.tag,
        attempt=message.attempt,
        **at,
    )
