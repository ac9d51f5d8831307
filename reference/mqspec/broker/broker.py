"""The states and the store of one broker. What runs it is `controller`."""

from __future__ import annotations

import itertools
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mqspec.broker.config_files import ConfigFiles
from mqspec.broker.fast.usual_sends import UsualSends
from mqspec.broker.group_commit import GroupCommit
from mqspec.broker.stats import BrokerStats
from mqspec.core.broker_states import BrokerStates
from mqspec.core.metadata import BrokerConfig, is_system_topic
from mqspec.service import Dispatcher, clock_ms
from mqspec.store.message_store import MessageStore, StoreConfig
from mqspec.trace import Trace

if TYPE_CHECKING:
    from mqspec.broker.fast.sends import Sends
    from mqspec.broker.pop_polling import PopLongPolling
    from mqspec.broker.registrar import Registrar


class Broker(BrokerStates):
    """All that one broker, a master, knows: the states of the core, by the names that
    `carrying` has for them, the store, and what helps to keep both.

    What talks to others is put in by the controller, as it starts.
    """

    # Put in before the first request.
    sends: Sends
    pops: PopLongPolling
    notifications: PopLongPolling
    dispatcher: Dispatcher[Broker]
    registrar: Registrar
    address: str  # where it listens, as host:port

    def __init__(
        self,
        root: Path,
        config: BrokerConfig | None = None,
        store_config: StoreConfig | None = None,
        trace: Trace | None = None,
        fast_path: bool = True,
    ) -> None:
        self.store_config = store_config or StoreConfig()  # as it is shown
        super().__init__(config=config or BrokerConfig(), sync_flush=self.store_config.sync_flush)
        self.trace = trace
        self.traced_as = self.config.broker_name  # whatever name is set later
        self.is_fast = fast_path

        self.store = MessageStore(root, self.store_config, clock_ms)
        self.store.limits = self.config.limits

        self.files: ConfigFiles = ConfigFiles(root)
        self.group_commit = GroupCommit(self.store)
        self.stats = BrokerStats(self.config.cluster_name, partial(is_system_topic, self.config))
        self.usual_sends = UsualSends()
        self.reputs = False  # whether a reput is about to be done

        self._check_points = itertools.count()
        self.key_prefix = os.urandom(10).hex().upper()  # no other process has it
        self._keys = itertools.count()

    def next_revive_qid(self) -> int:
        """The queue of the revive topic for the checkpoints of one more pop."""
        return next(self._check_points) % self.config.revive_queue_num

    def next_unique_key(self) -> str:
        """A key for a message whose producer gave it none."""
        return f"{self.key_prefix}{next(self._keys):012X}"
