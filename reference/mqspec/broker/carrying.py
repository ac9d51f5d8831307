"""How a step is carried out: it is noted in the trace, applied, and then what follows from it.

Nothing changes a state of the broker but `carry`. What a change of each state has written, told or
woken is a table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from mqspec.broker import events
from mqspec.broker.blocked import wake_when_free
from mqspec.core import consumer_filter, group
from mqspec.core.metadata import may_notify
from mqspec.core.pop_order import OrderKey
from mqspec.core.step import REMOVED, Change, Step, apply
from mqspec.service import clock_ms
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def carry(broker: Broker, state: str, step: Step, event: object = None) -> Step:
    """Carry out a step of a state, and return it. `event` is what the action was given, where a
    trace is to tell it."""
    if not (step.changes or step.sends):
        return step
    kept = STATES[state]
    if kept.module:
        note(broker, kept.module, step, event)
    if kept.before:
        kept.before(broker, step)
    apply(getattr(broker, kept.of or state), step.changes)
    if kept.follows:
        kept.follows(broker, step)
    return step


def carry_departure(broker: Broker, step: Step, *, is_asked: bool) -> None:
    """Carry out that a member left, or, not asked, lost its connection: a group without members
    filters by nothing any more."""
    carry(broker, "groups" if is_asked else "lost", step)
    for change in step.changes:
        if change.variable == "consumer_table" and change.value is REMOVED:
            gone = consumer_filter.un_register(broker.filters, str(change.key), clock_ms())
            carry(broker, "filters", gone)


# What follows from a change


def _topics_changed(broker: Broker, step: Step) -> None:
    """Topics and groups are on disk, and the nameserver is told of topics."""
    broker.usual_sends.forget()
    topics = [change.key for change in step.changes if change.variable == "topic_config_table"]
    if topics:
        broker.files.persist_topics(broker.metadata)
        broker.registrar.register_soon(broker.metadata, map(str, topics))
    if any(change.variable == "group_data_version" for change in step.changes):
        broker.files.persist_groups(broker.metadata)


def _members_changed(broker: Broker, step: Step, *, is_asked: bool) -> None:
    """Members are told, and those whom the core closes are closed. What a group says of notices
    counts where a member asked for the change (GROUP-062)."""
    for send in step.sends:
        assert isinstance(send.channel, Connection)
        if isinstance(send, group.Close):
            send.channel.close()
        elif may_notify(broker.metadata, broker.config, send.group, is_asked=is_asked):
            fields = {"consumerGroup": send.group}
            notice = RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields)
            send.channel.oneway(notice)


def _order_changed(broker: Broker, step: Step) -> None:
    """Whoever waits for a queue that is blocked is told when it is free."""
    for change in step.changes:
        if change.value is not REMOVED:
            assert isinstance(change.key, OrderKey)
            wake_when_free(broker, change.key)


def _assignment_changed(broker: Broker, _: Step) -> None:
    """How groups ask for messages is on disk."""
    broker.files.persist_assignment(broker.assignment)


class Kept(NamedTuple):
    """How the steps of one state are carried out."""

    of: str = ""  # the name of the state, where it is not the table's
    module: str = ""  # of TLA+, under which a trace has them; empty: a trace has none
    before: Callable[[Broker, Step], None] | None = None
    follows: Callable[[Broker, Step], None] | None = None


_GROUPS: Final = Kept(
    module="Group",
    before=events.membership,
    follows=partial(_members_changed, is_asked=True),
)
STATES: Final = {
    "metadata": Kept(follows=_topics_changed),
    "groups": _GROUPS,
    "lost": _GROUPS._replace(of="groups", follows=partial(_members_changed, is_asked=False)),
    "brought": Kept(),
    "filters": Kept(),  # written every 10 s
    "offsets": Kept(module="OffsetCommit"),  # written every 5 s
    "locks": Kept(module="Lock"),
    "delay": Kept(module="Delay"),  # written every 10 s
    "timer": Kept(),
    "transactions": Kept(module="Transaction"),
    "pop": Kept(module="Pop"),
    "pop_order": Kept(follows=_order_changed),  # written with the offsets
    "assignment": Kept(follows=_assignment_changed),
    "long_polling": Kept(),
}


# The trace


def note(broker: Broker, module: str, step: Step, event: object = None) -> None:
    """Write to the trace what a step does, before it is done."""
    if broker.trace:
        broker.trace.step(broker.traced_as, module, step, event)


def note_whole(broker: Broker, module: str, variable: str, value: object) -> None:
    """Write to the trace what all of a variable is now."""
    note(broker, module, Step((Change(variable, None, value),)))


def note_told(
    broker: Broker, module: str, variable: str, key: Hashable | None, value: object
) -> None:
    """Write to the trace what another process is about to be told of a variable."""
    if broker.trace:
        broker.trace.read(broker.traced_as, module, variable, key, value)
