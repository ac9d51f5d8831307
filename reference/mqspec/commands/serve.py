"""Run the reference nameserver and brokers; real clients talk to them.

Each says where it listens once it does, one a line, and `ready` follows. With several brokers
the first is broker-a at the broker port, the next broker-b 10 ports further, and so on, each
with a directory of its own in the store. Ctrl-C or SIGTERM stops them cleanly.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
import sys
from ipaddress import ip_address
from pathlib import Path

from mqrules import UserError
from mqspec.cluster import BROKERS_MAX, Cluster, ClusterConfig
from mqspec.store.message_store import StoreConfig
from mqspec.tls import Tls, TlsMode, server_context

HELP = "run the reference nameserver and brokers"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options, with the real ports as defaults."""
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument(
        "--store",
        type=Path,
        required=True,
        default=argparse.SUPPRESS,
        metavar="DIR",
        help="where the messages are; made if it is not there",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on, which clients are told"
    )
    parser.add_argument(
        "--nameserver-port", type=_port, default=9876, metavar="PORT", help="0: any free one"
    )
    parser.add_argument(
        "--broker-port", type=_port, default=10911, metavar="PORT", help="0: any free ones"
    )
    parser.add_argument("--brokers", type=int, default=1, metavar="N", help="how many brokers")
    parser.add_argument(
        "--segment-size",
        type=int,
        default=StoreConfig().segment_size,
        metavar="BYTES",
        help="of a CommitLog file; a store keeps the size that it was made with",
    )
    parser.add_argument(
        "--auto-create",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="topics and groups come to be by use",
    )
    parser.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="speak TLS as well, with this certificate (PEM, its key too unless that is given)",
    )
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's key")
    parser.add_argument(
        "--tls-mode",
        type=TlsMode,
        choices=list(TlsMode),
        default=TlsMode.PERMISSIVE,
        help="whom to serve: plain clients only, those and TLS clients, TLS clients only",
    )


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 1 << 16:
        raise argparse.ArgumentTypeError(f"{port} is not a port")
    return port


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    if not 1 <= args.brokers <= BROKERS_MAX:
        raise UserError(
            "--brokers", f"{args.brokers} brokers", f"choose a number from 1 to {BROKERS_MAX}"
        )
    if args.segment_size < 1:
        raise UserError("--segment-size", f"{args.segment_size} bytes", "choose a positive one")
    config = ClusterConfig(
        store=args.store,
        host=_address(args.host),
        nameserver_port=args.nameserver_port,
        broker_port=args.broker_port,
        brokers=args.brokers,
        auto_create=args.auto_create,
        store_config=StoreConfig(segment_size=args.segment_size),
        tls=_tls(args),
    )
    asyncio.run(_serve(config))
    return 0


def _tls(args: argparse.Namespace) -> Tls:
    context = server_context(args.tls_cert, args.tls_key) if args.tls_cert else None
    if args.tls_mode is TlsMode.ENFORCING and not context:
        raise UserError("--tls-mode", "enforcing needs a certificate", "give --tls-cert")
    return Tls(args.tls_mode, context)


def _address(host: str) -> str:
    try:
        address = socket.gethostbyname(host)
    except OSError as error:
        raise UserError("--host", f"{host}: {error.strerror}", "name one of this machine") from None
    if ip_address(address).is_unspecified:
        raise UserError("--host", f"clients cannot be told {host}", "name one of this machine")
    return address


async def _serve(config: ClusterConfig) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Cluster(config) as cluster:
        _say(f"nameserver {cluster.nameserver.address}")
        for broker in cluster.brokers:
            _say(f"broker {broker.config.broker_name} {broker.address}")
        _say("ready")
        await stop.wait()


def _say(line: str) -> None:
    print(line)
    sys.stdout.flush()
