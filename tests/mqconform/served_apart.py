"""A broker in a process of its own, made wrong from outside: what holds it against the core must
not be as wrong as it is."""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mqconform.target import Address, parse_address

STARTS_S = 60.0
ENDS_S = 30.0


@contextmanager
def serving(
    program: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Address | None]:
    """The nameserver's address that `program ARGUMENT... STORE` prints, which ends with its input;
    None where it prints none in time."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as store:
        process = subprocess.Popen(
            [sys.executable, str(program), *arguments, store],
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
