"""Servers of a mutated tree, and what exploration from outside says of them.

They run in a process of their own: whoever explores holds them against a core that is not mutated.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "mqconform"))
from served_apart import serving

from mqconform.cluster import Cluster
from mqconform.explore.engine import Explorer
from mqconform.explore.found import area_of
from mqconform.target import Target
from mqrules import UserError

BROKERS = 2


def explored(
    tree: Path, environment: Mapping[str, str], seconds: float, seed: int, areas: Sequence[str]
) -> str:
    """What is wrong with the servers of a tree; empty where nothing is noticed for so long."""
    with serving(tree / "tests/mutants/serve.py", environment=environment) as address:
        if address is None:
            return "its servers do not start"
        cluster = Cluster(address)
        try:
            cluster.wait(BROKERS)
        except UserError as error:
            return str(error)
        explorer = Explorer(Target("mutant", "0", address), cluster, seed, "mq", shrinks=False)
        try:
            found = explorer.run([area_of(name) for name in areas], seconds).found
        except Exception as error:  # a server that lets nobody prepare anything is noticed too
            return f"{type(error).__name__}: {error}"
    return next((f"{each.area}: {' '.join(each.why.split())[:200]}" for each in found), "")
