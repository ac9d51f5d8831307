"""Who is in which group, and which queues each member holds, by what is asked and answered."""

from __future__ import annotations

from hashlib import sha256
from itertools import chain
from typing import Final

from mqrecord.holds import LEAVING_MS, Hold, Membership
from mqrecord.seen import Asked, Client, Link, Row, Rows, Seen, at_queue, row
from mqrules import SECOND, EventKind, Outcome
from mqspec.core.allocation import STRATEGIES, AllocationError, allocate
from mqspec.core.group import MessageModel, SubscriptionData
from mqspec.core.push_consumer import subscribe_queues
from mqspec.core.route import TopicRouteData
from mqspec.core.types import MessageQueue, string_order
from mqspec.wire.bodies import (
    ConsumerList,
    HeartbeatData,
    LockBatchBody,
    from_body,
    from_plain,
    loads,
)
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import ResponseCode

_VIEW_DIGITS: Final = 12


def heartbeat(seen: Seen, link: Link, asked: Asked, now_ms: float) -> Rows:
    """34: who is at the other end, of which groups, and what it subscribes to."""
    beat = from_body(HeartbeatData, asked.request.body)
    if not beat.client_id:
        return
    client = seen.named(link, beat.client_id, now_ms)
    for group in beat.consumer_data_set:
        member = client.groups.get(group.group_name)
        if member is None:
            broadcasts = group.message_model is MessageModel.BROADCASTING
            written = f"{group.group_name} of {client.name}" if broadcasts else group.group_name
            member = client.groups[group.group_name] = Membership(written)
            yield _joins(client, member)
        elif member.is_cut_off:
            yield _joins(client, member)

        for wanted in group.subscription_data_set:
            before = member.subscriptions.get(wanted.topic)
            member.subscriptions[wanted.topic] = SubscriptionData(
                wanted.topic, wanted.sub_string, frozenset(wanted.tags_set)
            )
            if before is None or before.sub_string != wanted.sub_string:
                said: Row = {"topic": wanted.topic, "tag": wanted.sub_string}
                who: Row = {"group": member.group, "client_id": client.name}
                yield row(EventKind.SUBSCRIBE, **who, **said)


def unregister(seen: Seen, link: Link, asked: Asked, now_ms: float) -> Rows:
    """35: it leaves, once its last commits are here."""
    member = link.client.groups.get(asked.request.ext_fields.get("consumerGroup", ""))
    if member is not None:
        member.unregistered_ms = now_ms
        for hold in member.holds.values():
            hold.leaves(now_ms, given_up=True)
    yield from ()


def gone(client: Client, name: str, now_ms: float) -> Rows:
    """A member is no more: it left its group, or is dead."""
    member = client.groups.pop(name)
    if member.unregistered_ms is None:
        if not member.is_cut_off:
            yield row(EventKind.CRASH, group=member.group, client_id=client.name)
        return
    for queue in list(member.holds):
        yield revoked(client, member, queue, now_ms)
    yield row(EventKind.LEAVE, group=member.group, client_id=client.name)


def cut_off(client: Client) -> Rows:
    """Its brokers end the last connection of a client that was silent: to them it is no more."""
    for member in client.groups.values():
        member.silent |= member.holds
        member.holds.clear()
        member.is_cut_off = True
        yield row(EventKind.CRASH, group=member.group, client_id=client.name)


def comes_back(link: Link, member: Membership, queue: MessageQueue, now_ms: float) -> Rows:
    """A member works at a queue: one of which nothing was heard for long it had kept."""
    hold = member.silent.pop(queue, None)
    if hold is None:
        return
    if member.is_cut_off:
        yield _joins(link.client, member)
    hold.seen_ms = now_ms
    member.holds[queue] = hold
    member.left.pop(queue, None)
    at = at_queue(link.client, member.group, queue)
    yield row(EventKind.ASSIGN, **at)
    if hold.next_offset is not None:
        yield elsewhere(link.client, hold.next_offset, at)


def told_route(
    seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float
) -> Rows:
    """105: which queues there are."""
    if answer.code == ResponseCode.SUCCESS:
        topic = asked.request.ext_fields["topic"]
        route = from_body(TopicRouteData, answer.body)
        seen.told_route(topic, tuple(sorted(subscribe_queues(topic, route))), now_ms)
    yield from ()


def told_members(
    seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float
) -> Rows:
    """38: of all that it holds it leaves what the list leaves to others."""
    member = link.member(asked)
    if answer.code != ResponseCode.SUCCESS or member is None:
        return
    ids = sorted(from_body(ConsumerList, answer.body).ids, key=string_order)
    view = _named(ids)
    if view != member.view:
        member.view = view
        who: Row = {"group": member.group, "client_id": link.client.name, "broker": link.broker}
        yield row(EventKind.VIEW, value=len(ids), tag=view, **who)

    if member.is_averaging:
        share = _share(seen, link.client, member, ids, now_ms)
        for queue, hold in chain(member.holds.items(), member.silent.items()):
            if queue in share or member.is_locking:
                hold.stays()
            else:
                hold.leaves(now_ms)


def locked(seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float) -> Rows:
    """41: which of the queues it got."""
    wanted = from_body(LockBatchBody, asked.request.body)
    member = link.client.groups.get(wanted.consumer_group or "")
    if member is None or answer.code != ResponseCode.SUCCESS:
        return
    member.is_locking = True
    got = {from_plain(MessageQueue, one) for one in loads(answer.body)["lockOKMQSet"]}
    for queue in sorted(wanted.mq_set):
        went = Outcome.OK if queue in got else Outcome.FAILED
        yield row(EventKind.LOCK, went, **at_queue(link.client, member.group, queue))


def unlock(seen: Seen, link: Link, asked: Asked, now_ms: float) -> Rows:
    """42: it leaves the queues."""
    body = from_body(LockBatchBody, asked.request.body)
    member = link.client.groups.get(body.consumer_group or "")
    if member is None:
        return
    for queue in sorted(body.mq_set):
        if hold := member.holds.get(queue):
            hold.leaves(now_ms, given_up=True)
        at = at_queue(link.client, member.group, queue)
        yield row(EventKind.UNLOCK, Outcome.UNKNOWN, **at)


def left_in_time(seen: Seen, now_ms: float) -> Rows:
    """Time has passed: who has left its queues, or its group, by now?"""
    for client in seen.clients.values():
        for name, member in list(client.groups.items()):
            for queue in [q for q, hold in member.holds.items() if hold.is_over(now_ms)]:
                yield revoked(client, member, queue, now_ms)
            said_ms = member.unregistered_ms
            if said_ms is not None and now_ms > said_ms + LEAVING_MS:
                yield from gone(client, name, now_ms)


def begins(seen: Seen, link: Link, member: Membership, queue: MessageQueue, now_ms: float) -> Rows:
    """A member holds a queue from now on: who has given it up does no longer."""
    for client in seen.clients.values():
        for other in client.groups.values():
            hold = other.holds.get(queue) if other.group == member.group else None
            if hold and hold.is_given_up:
                yield revoked(client, other, queue, now_ms)
    member.holds[queue] = Hold(seen_ms=now_ms)
    member.silent.pop(queue, None)
    member.left.pop(queue, None)
    yield row(EventKind.ASSIGN, **at_queue(link.client, member.group, queue))


def revoked(client: Client, member: Membership, queue: MessageQueue, now_ms: float) -> Row:
    """It does no longer, or was silent."""
    hold = member.holds.pop(queue)
    if hold.leaving_since_ms is None:
        member.silent[queue] = hold
    member.left[queue] = now_ms
    return row(EventKind.REVOKE, **at_queue(client, member.group, queue))


def elsewhere(client: Client, offset: int | None, at: Row) -> Row:
    """A member tells itself from where it goes on."""
    return row(EventKind.QUERY_OFFSET, value=offset, peer=client.name, **at)


def _joins(client: Client, member: Membership) -> Row:
    """It is one of its group, or is so again."""
    member.is_cut_off = False
    return row(EventKind.JOIN, group=member.group, client_id=client.name)


def _named(ids: list[str]) -> str:
    """A name for a list, as others do not have it."""
    return sha256("\n".join(ids).encode()).hexdigest()[:_VIEW_DIGITS]


def _share(
    seen: Seen, client: Client, member: Membership, ids: list[str], now_ms: float
) -> set[MessageQueue]:
    """What may be the member's of all topics that it subscribes to, averagely."""
    found: set[MessageQueue] = set()
    own_id = client.name.partition(SECOND)[0]
    for topic in member.subscriptions:
        for queues in seen.believed(topic, now_ms):
            try:
                found.update(allocate(STRATEGIES["AVG"], member.group, own_id, list(queues), ids))
            except AllocationError:  # no queues, or no list: the member changes nothing
                found.update(queue for queue in member.holds if queue.topic == topic)
    return found
