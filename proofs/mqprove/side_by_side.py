"""All that there is to prove, in processes side by side.

Each process is new and takes what belongs together: theorems about one protocol, whose module is
read once. So what Z3 finds does not depend on what was proved before, or beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, groupby
from multiprocessing import get_context
from typing import TypeAlias

from mqprove.contracts import Confirmation, confirm
from mqprove.contracts.contract import Contract
from mqprove.inductive import Invariance, prove_invariance
from mqprove.prover import Proof, Theorem, prove
from mqspec.core import allocation

Claim: TypeAlias = Theorem | Invariance | Contract


def come_of(claims: Iterable[Claim]) -> Iterator[Proof | Confirmation]:
    """What comes of each, in their order."""
    together = [list(some) for _, some in groupby(claims, _belonging)]
    if len(together) == 1:
        yield from map(_comes_of, together[0])
        return
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(os.cpu_count(), context, max_tasks_per_child=1) as pool:
        yield from chain.from_iterable(pool.map(_come_of, together))


def _belonging(claim: Claim) -> tuple[str, str]:
    """What is proved in one process: the protocol, or whether it is a theorem or a contract."""
    of = claim.protocol.of if isinstance(claim, Invariance) else ""
    return type(claim).__name__, of


def _come_of(claims: Sequence[Claim]) -> list[Proof | Confirmation]:
    return list(map(_comes_of, claims))


def _comes_of(claim: Claim) -> Proof | Confirmation:
    match claim:
        case Theorem():
            return prove(claim, allocation)
        case Invariance():
            return prove_invariance(claim)
        case Contract():
            return confirm(claim)
