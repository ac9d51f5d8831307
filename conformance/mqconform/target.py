"""What is under test: an address, and what more the target can do.

An address is enough for most cases. A target that can also be stopped, killed and started,
or whose store can be reached, opens the restart cases; a plain address claims none of that.
"""

from __future__ import annotations

import socket
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

from mqrules import UserError
from mqrules.schema import decode


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`host:port`. Raises UserError."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdigit() and 0 < int(port) < 65536):
        raise UserError(text, "not an address", "give a nameserver as host:port")
    return Address(host, int(port))


class Lifecycle(Protocol):
    """How the broker under test is ended and started again, on the same store."""

    def stop(self) -> None:
        """End it as an operator would; it has ended when this returns."""

    def kill(self) -> None:
        """End it without a word (SIGKILL)."""

    def start(self) -> None:
        """Start it again; it may still be getting ready when this returns. Raises UserError
        where it ends instead."""


@dataclass(frozen=True)
class Secured:
    """A broker that lets only users in, and the one that we are. It may be started only when
    it is asked for; it is in no route."""

    start: Callable[[], Address]
    access_key: str
    secret_key: str

    @cached_property
    def address(self) -> Address:
        """Where it listens, or will soon."""
        return self.start()


@dataclass(frozen=True, slots=True)
class Target:
    """The system under test."""

    name: str  # apache, reference, ...: deviations are listed under it
    version: str
    nameserver: Address
    lifecycle: Lifecycle | None = None
    store: Path | None = None  # the store of the broker that `lifecycle` restarts
    tls: bool = False  # its brokers speak TLS
    secured: Secured | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.version}" if self.version else self.name


@dataclass(frozen=True, slots=True)
class TargetFile:
    """`--target FILE`: a target that somebody else runs. Commands are lists of words."""

    name: str
    version: str
    nameserver: str
    stop: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    store: str | None = None
    tls: bool = False
    secured: str | None = None  # the address of a broker that lets only this user in
    access_key: str = ""
    secret_key: str = ""


@dataclass(frozen=True, slots=True)
class Commands:
    """A lifecycle by commands; each returns when it has done its work."""

    stop_command: Sequence[str]
    kill_command: Sequence[str]
    start_command: Sequence[str]

    def stop(self) -> None:
        subprocess.run(self.stop_command, check=True, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        subprocess.run(self.kill_command, check=True, stdin=subprocess.DEVNULL)

    def start(self) -> None:
        subprocess.run(self.start_command, check=True, stdin=subprocess.DEVNULL)


def read_target(path: Path) -> Target:
    """Read a target file. Raises UserError where it is wrong."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(str(path), f"not a target file: {error}") from None
    found = decode(TargetFile, table, str(path))
    commands = (found.stop, found.kill, found.start)
    if any(commands) and not all(commands):
        raise UserError(str(path), "stop, kill and start belong together", "give all three")
    return Target(
        found.name,
        found.version,
        parse_address(found.nameserver),
        Commands(*commands) if all(commands) else None,
        Path(found.store) if found.store else None,
        found.tls,
        _secured(found),
    )


def _secured(found: TargetFile) -> Secured | None:
    if not found.secured:
        return None
    address = parse_address(found.secured)
    return Secured(lambda: address, found.access_key, found.secret_key)


def free_ports(count: int, *, below: int = 0) -> list[int]:
    """Ports that nobody listens on now; `below`: the port so much lower is free as well."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as probe, socket.socket() as lower:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            try:
                lower.bind(("127.0.0.1", port - below if below else 0))
            except OSError:
                continue
        if port not in found and port - below not in found:
            found.append(port)
    return found
