"""The states of one nameserver, and how a step of them is carried out. What runs it is
`controller`."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from mqspec.core.kv_config import KvState
from mqspec.core.route import RouteState
from mqspec.core.step import Step, apply
from mqspec.nameserver.config import NamesrvConfig
from mqspec.service import clock_ms
from mqspec.store.config_file import ConfigFile
from mqspec.trace import Trace


class NameServer:
    """All that one nameserver knows. Routes do not survive it: brokers tell it again.

    The KV config does, where `kv_config_path` says in which file.
    """

    address: str  # where it listens, as host:port; put in as it starts

    def __init__(
        self,
        config: NamesrvConfig | None = None,
        kv_config_path: Path | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.config = config or NamesrvConfig()
        self.trace = trace
        self.state = RouteState()
        self.kv = KvState()
        self.kv_file = ConfigFile(kv_config_path) if kv_config_path else None
        self.started_ms = clock_ms()

    def carry(self, step: Step, event: object = None) -> Step:
        """Apply what an action changes of the routes."""
        self.note(step, event)
        apply(self.state, step.changes)
        return step

    def carry_kv(self, step: Step) -> None:
        """Apply what an action changes of the KV config; it is on disk when this returns."""
        apply(self.kv, step.changes)
        if self.kv_file:
            self.kv_file.persist({"configTable": self.kv.config_table})

    def note(self, step: Step, event: object = None) -> None:
        """Write to the trace what a step does, before it is done."""
        if self.trace:
            self.trace.step(self.address, "Route", step, event)

    def note_told(self, variable: str, key: Hashable, value: object) -> None:
        """Write to the trace what another process is about to be told of a variable."""
        if self.trace:
            self.trace.read(self.address, "Route", variable, key, value)
