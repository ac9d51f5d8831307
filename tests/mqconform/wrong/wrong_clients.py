"""Wrong clients: the reference's own, each wrong in one thing, by functions that stand for its own.

Each names the rule that it breaks, which is the one that is to notice it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any, Final

from making import Wrong
from msgspec import structs

from mqspec.client import program, pull
from mqspec.client.consume_concurrently import ConsumeMessageConcurrentlyService
from mqspec.client.consume_orderly import ConsumeMessageOrderlyService
from mqspec.client.instance import BrokerError
from mqspec.client.listener import ConsumeStatus
from mqspec.client.lite_pull_consumer import LitePullConsumer
from mqspec.client.member import GroupMember
from mqspec.client.offset_store import LocalFileOffsetStore, RemoteBrokerOffsetStore
from mqspec.client.pop_consumer import PopConsumer
from mqspec.client.producer import Producer
from mqspec.client.send_back import SendBack
from mqspec.core import (
    allocation,
    consume_orderly,
    lite_pull_consumer,
    offset_commit,
    pop_consumer,
    producer,
    push_consumer,
)
from mqspec.core.step import Step
from mqspec.transport import Connection
from mqspec.wire.codes import RequestCode

CLIENTS: Final[dict[str, Wrong]] = {}


def wrong(rule: str, original: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a client of a function `(original, *arguments)`, under the function's name."""

    def listed(mistaken: Callable[..., Any]) -> Callable[..., Any]:
        def replacement(*args: Any, **known: Any) -> Any:
            return mistaken(original, *args, **known)

        name = mistaken.__name__.replace("_", "-")
        CLIENTS[name] = Wrong((mistaken.__doc__ or "").strip(), rule, original, replacement)
        return mistaken

    return listed


MANY: Final = 1_000_000  # an opaque that no other request comes to


@wrong("ALLOC-001", allocation.average_slice)
def one_queue_more(right: Any, *about: int) -> tuple[int, int]:
    """Its slice is one queue longer than it should be."""
    start, stop = right(*about)
    return start, stop + 1


@wrong("ALLOC-002", allocation.average_slice)
def no_remainder(right: Any, queues: int, members: int, index: int) -> tuple[int, int]:
    """Nobody takes the queues that remain where the numbers do not divide."""
    share = queues // members
    return share * index, share * (index + 1)


@wrong("ALLOC-016", allocation.allocate)
def last_first(right: Any, *about: Any) -> Any:
    """The last member takes the first queues."""
    *others, ids = about
    return right(*others, ids[::-1])


@wrong("OFFSET-002", offset_commit.remove_message)
def commits_what_came(right: Any, queue: Any, event: Any) -> Any:
    """Progress is behind what came last, whatever is unfinished."""
    left, _ = right(queue, event)
    return left, queue.queue_offset_max + 1


@wrong("OFFSET-003", offset_commit.process_consume_result)
def commits_each(right: Any, state: Any, event: Any) -> Any:
    """Each message that is finished sets the progress behind itself, also backwards."""
    step = right(state, event)
    put = offset_commit.update_offset(state, event.mq, event.offsets[0] + 1, increase_only=False)
    kept = tuple(change for change in step.changes if change.variable != "offset_store")
    return structs.replace(step, changes=(*kept, *put.changes))


@wrong("OFFSET-006", offset_commit.persist_all)
def commits_what_it_had(right: Any, state: Any, group: str) -> Any:
    """It goes on reporting the queues that were taken away."""
    commits_what_it_had.seen = {**getattr(commits_what_it_had, "seen", {}), **state.offset_store}  # type: ignore[attr-defined]
    step = right(state, group)
    sends = (
        offset_commit.UpdateConsumerOffset(group, mq, offset)
        for mq, offset in commits_what_it_had.seen.items()  # type: ignore[attr-defined]
    )
    return structs.replace(step, sends=tuple(sends))


@wrong("PULL-015", pull.pull)
def impatient(right: Any, instance: Any, request: Any, *rest: Any) -> Any:
    """It waits for a pull no longer than it lets the broker hold it, and asks again."""
    return right(instance, request, request.suspend_ms)


@wrong("RETRY-018", SendBack.send_message_back)
async def sent_back_or_not(right: Any, service: Any, message: Any, level: int) -> bool:
    """Whatever a broker says to a message that is sent back, it is done with it."""
    service.send_as_normal_message = _taken
    await right(service, message, level)
    return True


async def _taken(message: object) -> bool:
    return True


@wrong("LOCK-010", ConsumeMessageOrderlyService.unlock)
async def keeps_locks(right: Any, service: Any, mqs: Any, oneway: bool) -> None:
    """It gives queues up, and not their locks."""


@wrong("LOCK-021", consume_orderly.is_locked)
def believes_for_ever(right: Any, queue: Any, now_ms: int) -> bool:
    """A lock is believed in however long ago it was granted."""
    return bool(queue.locked)


@wrong("LOCK-022", consume_orderly.make_message_to_consume_again)
def goes_on_behind(right: Any, state: Any, mq: Any, generation: int) -> Any:
    """A message that failed in order is put behind the one after it."""
    step = right(state, mq, generation)
    change = step.changes[0]
    first, *others = change.value.msg_tree_map
    again = dataclasses.replace(change.value, msg_tree_map=(*others, first))
    return structs.replace(step, changes=(structs.replace(change, value=again),))


@wrong("LOCK-023", consume_orderly.take_messages)
def commits_as_it_takes(right: Any, state: Any, mq: Any, generation: int, count: int) -> Any:
    """Progress in order is behind what goes to the listener, before that is done."""
    step = right(state, mq, generation, count)
    if not step.result:
        return step
    put = offset_commit.update_offset(state, mq, step.result[-1] + 1, increase_only=False)
    return structs.replace(step, changes=(*step.changes, *put.changes))


@wrong("WIRE-019", Connection.request)
async def few_opaques(right: Any, connection: Any, request: Any, *rest: Any) -> Any:
    """Pulls that are open at once share six opaques; the client comes so far as to consume."""
    if request.code == RequestCode.PULL_MESSAGE:
        request = structs.replace(request, opaque=MANY + request.opaque % 6)
    return await right(connection, request, *rest)


@wrong("SUBS-015", push_consumer.is_wanted)
def takes_all_tags(right: Any, subscription: Any, tags: str | None) -> bool:
    """It gives the listener what the broker lets through."""
    return True


@wrong("REBAL-006", GroupMember.rebalance_immediately)
def hears_nobody(right: Any, member: Any) -> None:
    """It rebalances by its timer alone, whoever comes or goes."""


@wrong("SEND-027", producer.select_one_message_queue)
def same_broker(right: Any, state: Any, queues: Any, last_broker: Any, *rest: Any) -> Any:
    """It tries the broker again that failed."""
    step = right(state, queues, None, *rest)
    if last_broker is None:
        return step
    again = [queue for queue in queues if queue.broker_name == last_broker]
    return structs.replace(step, result=again[0])


@wrong("SEND-022", Producer.send)
async def tells_all_sent(right: Any, sender: Any, *about: Any, **known: Any) -> Any:
    """A send that brokers refused has succeeded, as it tells its caller."""
    try:
        return await right(sender, *about, **known)
    except BrokerError:
        return None


_heartbeats = count()
_routes = count()


@wrong("GROUP-063", GroupMember.heartbeat)
async def every_other_heartbeat(right: Any, member: Any) -> None:
    """It leaves out every other heartbeat."""
    if next(_heartbeats) % 2 == 0:
        await right(member)


@wrong("REBAL-007", GroupMember.update_routes)
async def old_routes(right: Any, member: Any) -> None:
    """It never asks again where a topic is."""
    if next(_routes) == 0:
        await right(member)


@wrong("PULL-018", offset_commit.must_wait)
def no_flow_control(right: Any, queue: Any, limits: Any) -> bool:
    """However much is unfinished, it pulls on."""
    return False


@wrong("OFFSET-060", push_consumer.pull_status)
def stays_where_it_is(right: Any, code: int) -> Any:
    """An answer that sends it elsewhere is taken for one that asks it to wait."""
    return push_consumer.PullStatus.FLOW_CONTROL if code == 21 else right(code)


@wrong("OFFSET-001", RemoteBrokerOffsetStore.read_offset)
async def nothing_is_stored(right: Any, store: Any, queue: Any) -> int:
    """A query of an offset that was refused is taken for one that finds none."""
    try:
        return int(await right(store, queue))
    except BrokerError:
        return offset_commit.NOT_FOUND


@wrong("SYSTEM-001", pull.pull)
async def passes_over(right: Any, instance: Any, request: Any, *rest: Any) -> Any:
    """A pull that was refused is followed by one behind the next message."""
    try:
        return await right(instance, request, *rest)
    except BrokerError:
        behind = request.queue_offset + 1
        return pull.PullResult(push_consumer.PullStatus.NO_MATCHED_MSG, behind)


@wrong("SEND-031", Producer.send)
async def tries_on(right: Any, sender: Any, *about: Any, **known: Any) -> Any:
    """A send that was refused three times is tried three times more."""
    try:
        return await right(sender, *about, **known)
    except BrokerError:
        return await right(sender, *about, **known)


@wrong("SEND-030", Producer.send_oneway)
async def one_way_twice(right: Any, sender: Any, *about: Any) -> None:
    """What is sent one-way is sent again, to be sure."""
    await right(sender, *about)
    await right(sender, *about)


@wrong("SEND-029", Producer.send_orderly)
async def selected_or_another(right: Any, sender: Any, message: Any, selector: Any) -> Any:
    """A message that its selector's broker refuses is sent to another one."""
    try:
        return await right(sender, message, selector)
    except BrokerError:
        return await sender.send(message)


@wrong("SEND-028", producer.update_fault_item)
def forgives_at_once(right: Any, *about: Any, **known: Any) -> Any:
    """It takes no note of brokers that are slow or fail."""
    return Step()


@wrong("RETRY-015", ConsumeMessageConcurrentlyService._clean_one)
async def expired_is_gone(right: Any, service: Any, mq: Any, generation: int) -> bool:
    """A message that was with the listener for too long is dropped, whoever takes it back."""
    send_back = service._consumer.send_back
    kept = send_back.send_message_back

    async def taken(*about: Any) -> bool:
        await kept(*about)
        return True

    service._consumer.send_back = SimpleNamespace(send_message_back=taken)
    try:
        return bool(await right(service, mq, generation))
    finally:
        service._consumer.send_back = send_back


@wrong("LITE-001", lite_pull_consumer.commit)
def commits_what_it_pulled(right: Any, state: Any, mqs: Any) -> Any:
    """Progress is behind what was pulled ahead, whatever of it was polled."""
    pulled = {mq: queue.next_offset for mq, queue in state.process_queue_table.items()}
    return lite_pull_consumer.commit_offset(state, pulled)


@wrong("LITE-002", LitePullConsumer.poll)
async def commits_as_it_gives(right: Any, consumer: Any, *about: Any) -> Any:
    """What is polled is committed before its user is at work on it."""
    messages = await right(consumer, *about)
    await consumer.commit()
    return messages


@wrong("LITE-004", LitePullConsumer.poll)
async def gives_it_again(right: Any, consumer: Any, *about: Any) -> Any:
    """What is polled is given twice."""
    messages = await right(consumer, *about)
    return (*messages, *messages)


@wrong("LITE-005", LitePullConsumer.poll)
async def loses_the_first(right: Any, consumer: Any, *about: Any) -> Any:
    """Of several messages that are polled at once the first is lost."""
    messages = await right(consumer, *about)
    return messages[1:] if len(messages) > 1 else messages


@wrong("BCAST-001", LocalFileOffsetStore.persist)
async def one_ahead(right: Any, store: Any, updates: Any) -> None:
    """The file says one message more than was consumed."""
    ahead = (dataclasses.replace(each, commit_offset=each.commit_offset + 1) for each in updates)
    await right(store, list(ahead))


@wrong("POP-050", PopConsumer.pop)
async def acknowledges_what_comes(right: Any, consumer: Any) -> Any:
    """What is popped is acknowledged before the listener is at work on it."""
    messages = await right(consumer)
    for message in messages:
        await consumer.ack(message)
    return messages


@wrong("POP-050", program.listen)
async def whatever_came_of_it(right: Any, messages: Any) -> Any:
    """What the listener failed on is acknowledged, too."""
    await right(messages)
    return ConsumeStatus.CONSUME_SUCCESS


@wrong("POP-050", PopConsumer.ack)
async def acknowledges_nothing(right: Any, consumer: Any, message: Any) -> None:
    """What the listener succeeded with is left to come again."""


@wrong("POP-051", PopConsumer.change_invisible_time)
async def again_in_a_minute(right: Any, consumer: Any, message: Any, *about: int) -> Any:
    """What the listener failed on comes again after a minute."""
    return await right(consumer, message, 60_000)


@wrong("POP-051", PopConsumer.change_invisible_time)
async def leaves_failures(right: Any, consumer: Any, message: Any, *about: int) -> Any:
    """What the listener failed on comes again when its time is over."""


@wrong("POP-052", pop_consumer.is_pop_timeout)
def gives_what_is_over(right: Any, handle: Any, now_ms: int) -> bool:
    """Messages go to the listener, and are acknowledged, however long ago they were popped."""
    return False


@wrong("POP-052", pop_consumer.is_pop_timeout)
def tells_what_is_over(right: Any, handle: Any, now_ms: int) -> bool:
    """What was given to the listener in time is acknowledged whenever that is done with it."""
    seen = tells_what_is_over.__dict__.setdefault("seen", set())
    is_first = handle not in seen
    seen.add(handle)
    return is_first and bool(right(handle, now_ms))


@wrong("POP-053", program.room)
async def pops_without_end(right: Any, unfinished: Any) -> None:
    """It pops on, however much is unfinished."""
