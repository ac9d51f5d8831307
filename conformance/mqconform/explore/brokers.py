"""Brokers that know nothing of each other: their states, and requests to one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")


@dataclass(frozen=True)
class Each(Generic[S]):
    """The state of each broker, in the order of their names."""

    of: tuple[S, ...]

    def having(self, broker: int, state: S) -> Each[S]:
        """The same, with another state of one of them."""
        return Each(tuple(state if b == broker else kept for b, kept in enumerate(self.of)))


@dataclass(frozen=True)
class OfBroker:
    """What one client asks one broker: those of other brokers are beside the point."""

    client: int
    broker: int

    @property
    def place(self) -> tuple[int, ...]:
        return (self.broker,)
