"""Servers of a mutated tree, and what exploration from outside says of them.

They run in a process of their own: whoever explores holds them against a core that is not mutated.
"""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mqconform.cluster import Cluster
from mqconform.explore.areas import NAMES
from mqconform.explore.engine import Explorer
from mqconform.explore.found import area_of
from mqconform.target import Address, Target, parse_address
from mqrules import UserError

STARTS_S = 60.0
ENDS_S = 30.0
BROKERS = 2


def explored(tree: Path, environment: Mapping[str, str], seconds: float, seed: int) -> str:
    """What is wrong with the servers of a tree; empty where nothing is noticed for so long."""
    with serving(tree, environment) as address:
        if address is None:
            return "its servers do not start"
        cluster = Cluster(address)
        try:
            cluster.wait(BROKERS)
        except UserError as error:
            return str(error)
        explorer = Explorer(Target("mutant", "0", address), cluster, seed, "mq", shrinks=False)
        try:
            found = explorer.run([area_of(name) for name in NAMES], seconds).found
        except Exception as error:  # a server that lets nobody prepare anything is noticed too
            return f"{type(error).__name__}: {error}"
    return next((f"{each.area}: {' '.join(each.why.split())[:200]}" for each in found), "")


@contextmanager
def serving(tree: Path, environment: Mapping[str, str]) -> Iterator[Address | None]:
    """The address of the nameserver of a tree's servers; None where they do not start."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as store:
        process = subprocess.Popen(
            [sys.executable, str(tree / "tests/mutants/serve.py"), store],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdin
        assert process.stdout
        try:
            told, _, _ = select.select([process.stdout], [], [], STARTS_S)
            line = process.stdout.readline().strip() if told else ""
            yield parse_address(line) if line else None
        finally:
            process.stdin.close()
            try:
                process.wait(ENDS_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
