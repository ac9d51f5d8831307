"""The reference, started as `mqspec serve` like any other broker: a process, over TCP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from mqconform.target import Address, Target, parse_address
from mqrules import UserError

STOP_S: Final = 10
LOOPBACK_CERTIFICATE: Final = Path(__file__).parent / "data" / "loopback.pem"


class Reference:
    """`mqspec serve` on a store of its own; leaving the context ends it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._process: subprocess.Popen[str] | None = None
        self.nameserver = Address("127.0.0.1", 0)

    def __enter__(self) -> Reference:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def target(self) -> Target:
        from importlib.metadata import version

        store = self._home / "store" / "broker-a"
        return Target(
            "reference", version("mqspec"), self.nameserver, lifecycle=self, store=store, tls=True
        )

    def start(self) -> None:
        """Start it; again on the port of before, where clients look for it."""
        words = [
            *("--store", str(self._home / "store"), "--brokers", "2"),
            *("--nameserver-port", str(self.nameserver.port), "--broker-port", "0"),
            *("--transaction-check-interval", "2000"),  # ms, instead of 30 s
            *("--rebalance-lock-max-live-time-ms", "10000"),  # instead of a minute
            *("--tls-cert", str(LOOPBACK_CERTIFICATE)),
        ]
        with (self._home / "serve.log").open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mqspec.cli", "serve", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout
        for line in self._process.stdout:
            what, *rest = line.split()
            if what == "nameserver":
                self.nameserver = parse_address(rest[-1])
            if what == "ready":
                return
        said = (self._home / "serve.log").read_text(encoding="utf-8").strip().splitlines()
        raise UserError("mqspec serve", said[-1] if said else "ended before it was ready")

    def stop(self) -> None:
        assert self._process
        self._process.terminate()
        self._process.wait(STOP_S)

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
