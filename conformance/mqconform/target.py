"""What is under test: an address, and what more the target can do.

An address is enough for most cases. A target that can also be stopped, killed and started,
or whose store can be reached, opens the restart cases; a plain address claims none of that.
"""

from __future__ import annotations

import random
import socket
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from mqrules import Deviation, UserError
from mqrules.deviation import read_deviations
from mqrules.schema import decode

_FIRST_PORT, _FIRST_OUTGOING_PORT = 12_000, 32_000
COMMAND_S: Final = 120  # for a command to return: a clean stop of a busy broker takes a minute


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
    keeps: str = "5.3.3"  # the version of RocketMQ whose rules it keeps
    to_the_letter: bool = False  # wording, nulls and the order of keys are judged
    exclusive: bool = False  # nobody else uses it: it may be set otherwise and restarted
    places: Mapping[Address, Address] = field(default_factory=dict)  # as Cluster takes them

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
    keeps: str = "5.3.3"  # the version of RocketMQ whose rules it keeps
    exclusive: bool = False  # nobody else uses it: options may be set and brokers restarted
    identical: bool = False  # wording, nulls and the order of keys are judged
    map: dict[str, str] = field(default_factory=dict)  # registered address to reachable one


class CommandError(UserError):
    """A command of a target file does not do its work, which says nothing about any rule."""


@dataclass(frozen=True, slots=True)
class Commands:
    """A lifecycle by the commands of a target file; each returns when it has done its work."""

    file: Path
    stop_command: Sequence[str]
    kill_command: Sequence[str]
    start_command: Sequence[str]

    def stop(self) -> None:
        self._run("stop", self.stop_command)

    def kill(self) -> None:
        self._run("kill", self.kill_command)

    def start(self) -> None:
        self._run("start", self.start_command)

    def _run(self, field: str, command: Sequence[str]) -> None:
        """Raises CommandError."""
        try:
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=COMMAND_S)
        except OSError as error:
            what, remedy = f"cannot be run: {error.strerror}", "name a program, and its words"
        except subprocess.CalledProcessError as error:
            what, remedy = f"ended with {error.returncode}", "it must end with 0 when it is done"
        except subprocess.TimeoutExpired:
            what = f"does not return within {COMMAND_S} s"
            remedy = "each must return: let `start` leave the broker in the background"
        else:
            return
        raise CommandError(f"{self.file}, {field}", f"{command[0]} {what}", remedy)


def read_target(path: Path) -> Target:
    """Read a target file. Raises UserError where it is wrong."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # no TOML, or no UTF-8
        raise UserError(str(path), f"not a target file: {error}") from None
    found = decode(TargetFile, table, str(path))
    commands = (found.stop, found.kill, found.start)
    if any(commands) and not all(commands):
        raise UserError(str(path), "stop, kill and start belong together", "give all three")
    if found.store is not None and not Path(found.store).is_dir():
        raise UserError(f"{path}, store", f"no directory {found.store!r}", "name the broker's")
    return Target(
        found.name,
        found.version,
        parse_address(found.nameserver),
        Commands(path, *commands) if all(commands) else None,
        Path(found.store) if found.store else None,
        found.tls,
        _secured(found),
        found.keeps,
        found.identical,
        found.exclusive,
        {parse_address(told): parse_address(place) for told, place in found.map.items()},
    )


def _secured(found: TargetFile) -> Secured | None:
    if not found.secured:
        return None
    address = parse_address(found.secured)
    return Secured(lambda: address, found.access_key, found.secret_key)


@cache
def deviations_of(name: str, version: str) -> tuple[Deviation, ...]:
    """The known departures of a target, as they are listed with the suite."""
    source = files("mqconform").joinpath(f"deviations/{name}-{version}.toml")
    if not source.is_file():
        return ()
    with as_file(source) as path:
        return tuple(read_deviations(path))


def free_ports(count: int, *, below: int = 0) -> list[int]:
    """Ports that nobody listens on now; `below`: the port so much lower is free as well.

    They lie below those that Linux gives to outgoing connections, so that none of these takes one
    before its server starts.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(_FIRST_PORT, _FIRST_OUTGOING_PORT)
        wanted = (port, port - below) if below else (port,)
        if not any(place in found for place in wanted) and all(map(_is_free, wanted)):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
