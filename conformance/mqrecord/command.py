"""Record what clients do with a cluster, for `mqspec audit`.

  mqspec record 10.0.0.5:9876                           listens on 127.0.0.1:9886
  mqspec record 10.0.0.5:9876 --listen 0.0.0.0:9886 --advertise 10.0.0.9
  mqspec record 10.0.0.5:9876 --topic 'orders*' --hash-names

Give clients this address in place of the nameserver's. Everything they ask and are answered goes
through here, unchanged but for the addresses of brokers, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import secrets
import signal
import time
from itertools import count
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.status import Status

from mqrecord.journal import Journal, to_parquet
from mqrecord.names import Hashed, Patterns
from mqrecord.observer import Observer
from mqrecord.relay import Address, Place, Relay
from mqrules import UserError
from mqspec.core.log import DELAY_LEVELS, parse_delay_levels
from mqspec.tls import client_context

HELP = "record what clients do with a cluster, standing between the two"

TURN_S: Final = 0.5  # how often what was seen is written
SAID_EVERY: Final = 4  # turns, before the line that tells how far it is


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("nameserver", help="HOST:PORT, or several with ';' between them")
    parser.add_argument(
        "--listen", default="127.0.0.1:9886", metavar="HOST:PORT", help="default 127.0.0.1:9886"
    )
    parser.add_argument(
        "--advertise", metavar="HOST", help="the host that clients are told; default: as listened"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("recorded"), metavar="DIR", help="default: recorded"
    )
    parser.add_argument(
        "--topic", action="append", default=[], metavar="PATTERN", help="only topics like 'a*'"
    )
    parser.add_argument(
        "--group", action="append", default=[], metavar="PATTERN", help="only groups like 'a*'"
    )
    parser.add_argument(
        "--hash-names",
        action="store_true",
        help="names of topics, groups, clients, keys and tags as hashes, salted anew each run",
    )
    parser.add_argument(
        "--delay-levels",
        metavar="LEVELS",
        default=DELAY_LEVELS,
        help=f"messageDelayLevel of the brokers; default: {DELAY_LEVELS}",
    )
    parser.add_argument("--tls", action="store_true", help="speak TLS to the cluster")


def run(args: argparse.Namespace) -> int:
    nameservers = [_address(one) for one in args.nameserver.split(";") if one]
    if not nameservers:
        raise UserError(args.nameserver, "no nameserver", "give HOST:PORT")
    host, port = _address(args.listen)
    place = Place(host, port, args.advertise or host)
    if host in ("0.0.0.0", "::") and not args.advertise:
        raise UserError(args.listen, "no address that clients can reach", "add --advertise HOST")
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    asyncio.run(_record(nameservers, place, args))
    return 0


async def _record(nameservers: list[Address], place: Place, args: argparse.Namespace) -> None:
    await _answers(nameservers, args.tls)
    journal = _journal(args)
    observer = Observer(_delays_ms(args.delay_levels))
    to_servers = client_context() if args.tls else None
    relay = Relay(nameservers, place, observer, journal.add, to_servers)
    console = Console(stderr=True, highlight=False)
    try:
        try:
            await relay.start()
        except OSError as error:
            said = f"cannot listen: {error.strerror}"
            raise UserError(args.listen, said, "give another --listen") from None
        console.print(f"clients: namesrvAddr {place.advertised}:{relay.port}")
        with console.status("nobody has come yet") as status:
            await _until_stopped(journal, relay, status)
    finally:
        await relay.close()
        journal.close()
    console.print(f"{journal.events:,} events in {args.out}: mqspec audit {args.out}")


async def _until_stopped(journal: Journal, relay: Relay, status: Status) -> None:
    """Write what is seen, turn by turn, until SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(wanted, stopped.set)
    rolling = loop.create_future()
    rolling.set_result(None)

    for turn in count(1):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), TURN_S)
        relay.tell(relay.observer.tick(time.time() * 1000))
        journal.flush()
        # Beside, since clients do not wait for a table.
        if journal.is_due and rolling.done():
            await rolling
            rolling = loop.run_in_executor(None, to_parquet, journal.turn_over())
        if stopped.is_set():
            await rolling
            return
        if turn % SAID_EVERY == 0:
            status.update(_how_far(journal, relay))


def _journal(args: argparse.Namespace) -> Journal:
    name = f"rec{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    keeps = Patterns(args.topic, args.group).keeps
    hashed = [Hashed(secrets.token_bytes(16)).written] if args.hash_names else []
    return Journal(args.out, name, f"recorder-{os.getpid()}", keeps, *hashed)


def _how_far(journal: Journal, relay: Relay) -> str:
    observer = relay.observer
    said = f"{journal.events:,} events, {observer.clients} clients, {relay.brokers} brokers"
    return f"{said}, {observer.unread} frames unread" if observer.unread else said


async def _answers(nameservers: list[Address], tls: bool) -> None:
    """Whether any nameserver takes a connection. Raises UserError."""
    for host, port in nameservers:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(3):
                _, writer = await asyncio.open_connection(
                    host, port, ssl=client_context() if tls else None
                )
            writer.close()
            return
    said = ";".join(f"{host}:{port}" for host, port in nameservers)
    raise UserError(said, "nobody takes a connection", "is the nameserver up?")


def _delays_ms(text: str) -> tuple[int, ...]:
    try:
        return parse_delay_levels(text)
    except ValueError:
        raise UserError(text, "no delay levels", "write them as '1s 5s 10m 2h'") from None


def _address(text: str) -> Address:
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UserError(text, "no address", "give HOST:PORT")
    return host, int(port)
