"""MC_LockLateUnlock on the reference: Lock, with unlocks that are on their way for a while."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from mqcheck.replay import require
from mqcheck.worlds.lock import LockWorld


class LockLateUnlockWorld(LockWorld):
    """Everything of a model of MC_LockLateUnlock."""

    actions: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **{n: of for n, of in LockWorld.actions.items() if n not in ("UnlockBatch", "Restart")},
        "GiveUp": ("member",),
        "Unlock": ("member",),
    }
    overtaken = True
    unlocking: frozenset[str] = frozenset()

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> LockLateUnlockWorld:
        world = super().of(constants)
        assert isinstance(world, LockLateUnlockWorld)
        world.overtaken = constants["Overtaken"]
        return world

    def state(self) -> dict[str, object]:
        return super().state() | {"unlocking": self.unlocking}

    def try_lock_batch(self, member: str) -> None:
        require(self.overtaken or member not in self.unlocking)
        super().try_lock_batch(member)

    def give_up(self, member: str) -> None:
        self._give_up(member)
        self.unlocking |= {member}

    def unlock(self, member: str) -> None:
        require(member in self.unlocking)
        self.unlocking -= {member}
        self._unlock(member)
