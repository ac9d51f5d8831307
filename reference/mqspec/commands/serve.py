"""Run the reference nameserver and brokers; real clients talk to them.

Each says where it listens once it does, one a line, and `ready` follows. With several brokers
the first is broker-a at the broker port, the next broker-b 10 ports further, and so on, each
with a directory of its own in the store. Ctrl-C or SIGTERM stops them cleanly.

Every option can stand in a TOML file too, under its name with _ for -; what is given here wins.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import difflib
import json
import resource
import signal
import socket
import ssl
import sys
import tomllib
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import Enum
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from types import UnionType
from typing import Any, Final, TypeVar, get_args

import msgspec

from mqrules import UserError
from mqspec.cluster import BROKERS_MAX, Cluster, ClusterConfig
from mqspec.core.log import Limits
from mqspec.core.metadata import BrokerConfig
from mqspec.logs import LogFormat, LogLevel, start_logging
from mqspec.nameserver.config import NamesrvConfig
from mqspec.options import Option, Value, build, options
from mqspec.selector import selector
from mqspec.store.message_store import StoreConfig
from mqspec.tls import Tls, TlsMode, server_context
from mqspec.trace import Trace

C = TypeVar("C")

HELP = "run the reference nameserver and brokers"
OPEN_MAX: Final = 10_240  # of macOS: no process gets more files, though any number is allowed


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """What is about the process, with the real ports as defaults."""

    store: Path | None = None  # where the messages are; made if it is not there
    host: str = "127.0.0.1"  # the address to listen on, which clients are told
    nameserver_port: int = 9876  # 0: any free one
    broker_port: int = 10911  # 0: any free ones
    brokers: int = 1
    metrics_port: int | None = None  # of Prometheus, at http://127.0.0.1:PORT/metrics
    log_level: LogLevel = LogLevel.WARNING
    log_format: LogFormat = LogFormat.TEXT
    trace: Path | None = None  # a file, for what they do, step by step
    fast_path: bool = True  # sends that are alike go their own way, with the same outcome
    tls_mode: TlsMode = TlsMode.PERMISSIVE
    tls_certificate: Path | None = None  # a PEM file; without it a self-signed one
    tls_key: Path | None = None  # where it is not in the certificate's file
    tls_trusted: Path | None = None  # clients must have a certificate that these signed


SECTIONS: Final = (ServeConfig, NamesrvConfig, BrokerConfig, StoreConfig)
"""Whatever is a field of these is an option."""

_GIVEN_OTHERWISE: Final = {(BrokerConfig, "host"), (BrokerConfig, "broker_name")}
_PORTS: Final = range(1 << 16)
_SIZES: Final = range(1, 1 << 31)
_RANGES: Final = {
    "nameserver_port": _PORTS,
    "broker_port": _PORTS,
    "metrics_port": _PORTS,
    "brokers": range(1, BROKERS_MAX + 1),
    "segment_size": _SIZES,
    "consume_queue_units": _SIZES,
    "max_hash_slot_num": _SIZES,
    "max_index_num": _SIZES,
    **dict.fromkeys((option.name for option in options(Limits)), _SIZES),
}


@cache
def _options(section: type) -> Mapping[str, Option]:
    """The options of a section by name."""
    return {
        option.name: option
        for option in options(section)
        if (section, option.name) not in _GIVEN_OTHERWISE
    }


@cache
def _all_options() -> Mapping[str, Option]:
    return ChainMap(*({**_options(section)} for section in SECTIONS))


def configure(parser: argparse.ArgumentParser) -> None:
    """A flag for each option that one word can give."""
    parser.usage = "%(prog)s --store DIR [options]"
    parser.add_argument("--config", type=Path, metavar="FILE", help="options, as TOML")
    parser.add_argument(
        "--print-config", action="store_true", help="print all options as TOML, and end"
    )
    for section in SECTIONS:
        group = parser.add_argument_group(section.__name__)
        for option in _options(section).values():
            _add(group, option)


def _add(group: argparse._ArgumentGroup, option: Option) -> None:
    kind = get_args(option.hint)[0] if isinstance(option.hint, UnionType) else option.hint
    help_text = f"default: {_toml(option.default)}"
    if kind is bool:
        group.add_argument(
            _flag(option.name),
            action=argparse.BooleanOptionalAction,
            default=argparse.SUPPRESS,
            help=help_text,
        )
    elif kind in (int, float, str, Path) or _is_choice(kind):
        group.add_argument(
            _flag(option.name),
            type=kind,
            default=argparse.SUPPRESS,
            choices=list(kind) if _is_choice(kind) else None,
            metavar=None if _is_choice(kind) else kind.__name__.upper(),
            help=help_text,
        )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _is_choice(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    settings = _Settings(args)
    if args.print_config:
        sys.stdout.write(settings.to_toml())
        return 0
    serve = settings.section(ServeConfig)
    if serve.store is None:
        raise UserError("--store", "is missing", "say in which directory the messages are")
    config = ClusterConfig(
        store=serve.store,
        host=_address(settings.where("host"), serve.host),
        nameserver_port=serve.nameserver_port,
        broker_port=serve.broker_port,
        brokers=serve.brokers,
        nameserver_config=settings.section(NamesrvConfig),
        broker_config=settings.section(BrokerConfig),
        store_config=settings.section(StoreConfig),
        tls=Tls(serve.tls_mode, _context(serve)),
        trace=Trace(serve.trace) if serve.trace else None,
        fast_path=serve.fast_path,
    )
    start_logging(serve.log_level, serve.log_format)
    _take_descriptors()
    with asyncio.Runner(loop_factory=_loop) as runner:
        runner.run(_serve(config, serve.metrics_port))
    return 0


def _context(serve: ServeConfig) -> ssl.SSLContext | None:
    files = serve.tls_certificate, serve.tls_key, serve.tls_trusted
    return server_context(*files) if any(files) else None


def _take_descriptors() -> None:
    """May open as many files as the system lets it, as a JVM does: each connection is one, and
    the 1,024 of a usual shell are few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, OPEN_MAX):
        if soft < wanted:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(selector())


class _Settings:
    """What was given, by flags and in a file, and where."""

    def __init__(self, args: argparse.Namespace) -> None:
        given = vars(args)
        self._file: Path | None = args.config
        self._flags = {name: given[name] for name in _all_options() if name in given}
        self._values = (_read(self._file) if self._file else {}) | self._flags
        for name, allowed in _RANGES.items():
            value = self._values.get(name)
            if value is not None and value not in allowed:
                remedy = f"choose a number from {allowed[0]} to {allowed[-1]}"
                raise UserError(self.where(name), f"{value} is out of range", remedy)

    def where(self, name: str) -> str:
        """Where an option was given."""
        if name in self._flags or name not in self._values:
            return _flag(name)
        return f"{self._file}: {name}"

    def section(self, section: type[C]) -> C:
        """The configuration that a section makes."""
        return build(section, {name: self._values[name] for name in self._given(section)})

    def _given(self, section: type) -> Iterator[str]:
        return (name for name in _options(section) if name in self._values)

    def to_toml(self) -> str:
        """Every option that one line can hold, with its value, as a file for --config."""
        lines = []
        for section in SECTIONS:
            lines.append(f"# {section.__name__}\n")
            for option in _options(section).values():
                value = self._values.get(option.name, option.default)
                if isinstance(value, Value | Path):
                    lines.append(f"{option.name} = {_toml(value)}\n")
        return "".join(lines)


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            data = tomllib.load(stream)
    except OSError as error:
        raise UserError(str(file), f"cannot be read: {error.strerror}", "name a file") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(str(file), f"not TOML: {error}", "correct it") from None
    known, values = _all_options(), {}
    for name, value in data.items():
        if name not in known:
            (near,) = difflib.get_close_matches(name, known, n=1, cutoff=0)
            raise UserError(f"{file}: {name}", "no such option", f"the nearest is {near}")
        try:
            values[name] = msgspec.convert(value, known[name].hint, dec_hook=_decode)
        except msgspec.ValidationError as error:
            raise UserError(f"{file}: {name}", str(error), "correct it") from None
    return values


def _decode(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError


def _toml(value: Any) -> str:
    return json.dumps(str(value) if isinstance(value, Path) else value, default=str)


def _address(where: str, host: str) -> str:
    try:
        address = socket.gethostbyname(host)
    except OSError as error:
        raise UserError(where, f"{host}: {error.strerror}", "name one of this machine") from None
    if ip_address(address).is_unspecified:
        raise UserError(where, f"clients cannot be told {host}", "name one of this machine")
    return address


async def _serve(config: ClusterConfig, metrics_port: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as running:
        cluster = await running.enter_async_context(Cluster(config))
        _say(f"nameserver {cluster.nameserver.address}")
        for broker in cluster.brokers:
            _say(f"broker {broker.config.broker_name} {broker.address}")
        if metrics_port is not None:
            from mqspec.metrics import Metrics  # what it needs takes a while to import

            metrics = await running.enter_async_context(Metrics(cluster, metrics_port))
            _say(f"metrics {metrics.url}")
        _say("ready")
        await stop.wait()


def _say(line: str) -> None:
    print(line)
    sys.stdout.flush()
