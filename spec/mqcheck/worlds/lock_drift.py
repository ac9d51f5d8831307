"""MC_LockDrift on the reference: Lock, with clocks that come apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mqcheck.values import FrozenDict
from mqcheck.worlds.lock import LockWorld


class LockDriftWorld(LockWorld):
    """Everything of a model of MC_LockDrift."""

    actions: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **{name: of for name, of in LockWorld.actions.items() if name not in ("Tick", "Restart")},
        "BrokerTick": (),
        "MemberTick": ("member",),
    }

    def state(self) -> dict[str, object]:
        ahead = {m: (ms - self.broker_ms) // self.unit_ms for m, ms in self.clock_ms.items()}
        return super().state() | {"drift": FrozenDict(ahead)}

    def broker_tick(self) -> None:
        self.broker_ms += self.unit_ms

    def member_tick(self, member: str) -> None:
        self._pass_time(member)
