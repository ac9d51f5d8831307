"""The reference, started as `mqspec serve` like any other broker: a process, over TCP."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mqconform.processes import Popen, Processes
from mqconform.target import Address, Secured, Target, parse_address
from mqrules import UserError

STOP_S: Final = 10
PROGRAM: Final = ("-m", "mqspec.cli")
QUICK: Final = (
    *("--transaction-check-interval", "2000"),  # ms, instead of 30 s
    *("--rebalance-lock-max-live-time-ms", "10000"),  # instead of a minute
)
USER, PASSWORD = "rocketmq", "12345678"
_USERS: Final = f"""\
authentication_enabled = true
users = [{{ username = "{USER}", password = "{PASSWORD}" }}]
"""


def serve(
    log: Path, *words: str, popen: Popen = subprocess.Popen, program: Sequence[str] = PROGRAM
) -> tuple[subprocess.Popen[str], dict[str, Address]]:
    """The process of `mqspec serve`, what it says going to the end of `log`, and where it
    listens, once it does. Raises UserError."""
    with log.open("a", encoding="utf-8") as said:
        process = popen(
            [sys.executable, *program, "serve", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
    assert process.stdout
    listening: dict[str, Address] = {}
    for line in process.stdout:
        what, *rest = line.split()
        if what == "ready":
            return process, listening
        listening[what] = parse_address(rest[-1])
    process.wait()
    last = log.read_text(encoding="utf-8").strip().splitlines()[-1:]
    raise UserError("mqspec serve", last[0] if last else "ended before it was ready")


class Reference:
    """`mqspec serve` on a store of its own; leaving the context ends it. Its brokers' clocks are
    quick, so that cases need not wait, or have the options that are given; `program` is what
    Python runs for `mqspec`."""

    def __init__(
        self, home: Path, options: Sequence[str] = QUICK, program: Sequence[str] = PROGRAM
    ) -> None:
        self._home, self._options, self._program = home, options, program
        self._process: subprocess.Popen[str] | None = None
        self._processes = Processes()
        self.nameserver = Address("127.0.0.1", 0)

    def __enter__(self) -> Reference:
        with contextlib.ExitStack() as undo:
            undo.callback(self._processes.close)
            self.start()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        # Asked first: coverage and the store are written as it stops. What does not is killed.
        if self._process and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
        self._processes.close()

    @property
    def target(self) -> Target:
        from importlib.metadata import version

        return Target(
            "reference",
            version("mqspec"),
            self.nameserver,
            lifecycle=self,
            store=self._home / "store" / "broker-a",
            tls=True,
            to_the_letter=True,
            exclusive=True,
            secured=Secured(self._secured, USER, PASSWORD),
        )

    def start(self) -> None:
        """Start it; again on the port of before, where clients look for it."""
        self._process, listening = serve(
            self._home / "serve.log",
            *("--store", str(self._home / "store"), "--brokers", "2"),
            *("--nameserver-port", str(self.nameserver.port), "--broker-port", "0"),
            *self._options,
            popen=self._processes.popen,
            program=self._program,
        )
        self.nameserver = listening["nameserver"]

    def _secured(self) -> Address:
        """A broker that lets only a user in, with a nameserver of its own."""
        config = self._home / "secured.toml"
        config.write_text(_USERS, encoding="utf-8")
        _, listening = serve(
            self._home / "serve.log",
            *("--config", str(config), "--store", str(self._home / "secured")),
            *("--nameserver-port", "0", "--broker-port", "0"),
            popen=self._processes.popen,
            program=self._program,
        )
        return listening["broker"]

    def stop(self) -> None:
        assert self._process
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise UserError("mqspec serve", f"does not stop within {STOP_S} s") from None

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
