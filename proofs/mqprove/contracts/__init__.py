"""Contracts of the core's pure functions, for CrossHair: a second prover, with a method of its own.

Each says something of the functions that run, for any numbers. Only 'confirmed over all paths'
counts as confirmed. Where that was not reached, as where there are more paths than time, nothing
was found: that is said apart, and is no evidence.
"""

from __future__ import annotations

# Each lists its contracts when it is imported.
from mqprove.contracts import (
    allocation,
    locks,
    logs,
    numbers,
    offsets,
    pops,
    rebalances,
    sends,
    waits,
)
from mqprove.contracts.confirming import Confirmation, Outcome, confirm
from mqprove.contracts.contract import CONTRACTS, Contract

__all__ = ["AREAS", "CONTRACTS", "Confirmation", "Contract", "Outcome", "confirm"]

AREAS = (allocation, rebalances, offsets, locks, pops, logs, waits, sends, numbers)
"""The modules of contracts."""
