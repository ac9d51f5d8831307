"""What one broker, a master, knows: the states of the core together, as its conversations take
them. The store, the sockets and the clocks are the shell's."""

from __future__ import annotations

from dataclasses import dataclass, field

from mqspec.core.assignment import AssignmentState
from mqspec.core.consumer_filter import ConsumerFilterState
from mqspec.core.delay import DelayState
from mqspec.core.group import GroupState
from mqspec.core.lock import LockState
from mqspec.core.long_polling import LongPollingState
from mqspec.core.metadata import BrokerConfig, MetadataState
from mqspec.core.offset_commit import OffsetState
from mqspec.core.pop import PopState
from mqspec.core.pop_order import PopOrderState
from mqspec.core.record import NOWHERE, Host
from mqspec.core.subscription import BroughtSubscriptions
from mqspec.core.timer import TimerState
from mqspec.core.transaction import TransactionState


@dataclass(kw_only=True, eq=False)
class BrokerStates:
    """The states of one broker, what it is told by its options, and where its store is."""

    config: BrokerConfig = field(default_factory=BrokerConfig)
    sync_flush: bool = False  # a put is answered when it is on disk
    store_host: Host = NOWHERE  # where it listens, as its records have it

    metadata: MetadataState = field(default_factory=MetadataState)
    groups: GroupState = field(default_factory=GroupState)
    brought: BroughtSubscriptions = field(default_factory=BroughtSubscriptions)
    filters: ConsumerFilterState = field(default_factory=ConsumerFilterState)
    offsets: OffsetState = field(default_factory=OffsetState)
    long_polling: LongPollingState = field(default_factory=LongPollingState)
    delay: DelayState = field(default_factory=DelayState)
    transactions: TransactionState = field(default_factory=TransactionState)
    timer: TimerState = field(default_factory=TimerState)
    locks: LockState = field(default_factory=LockState)
    assignment: AssignmentState = field(default_factory=AssignmentState)
    pop: PopState = field(default_factory=PopState)
    pop_order: PopOrderState = field(default_factory=PopOrderState)
