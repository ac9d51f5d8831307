"""rocketmq-rust, built by cargo from its crates, started on loopback."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from mqconform.cluster import READY_S, listens
from mqconform.connection import eventually
from mqconform.processes import Processes
from mqconform.target import Address, Target, free_ports
from mqrules import UserError

STOP_S: Final = 60
BUILD_S: Final = 3600  # the first time: some 300 crates
_VIP_OFFSET: Final = 2  # the fast port is listenPort - 2
_CRATES: Final = ("rocketmq-namesrv", "rocketmq-broker")

# As Apache is started here: small files, halves looked at each 2 s, locks that live 10 s.
_BROKER: Final = """\
[broker]
listenPort = {port}
brokerIp1 = "127.0.0.1"
storePathRootDir = "{home}/store"
namesrvAddr = "{nameserver}"
authConfigPath = "{home}/auth"
transactionCheckInterval = 2000
enablePropertyFilter = {is_last}
useServerSideResetOffset = {is_first}
recallMessageEnable = {is_first}

[broker.brokerServerConfig]
bindAddress = "127.0.0.1"

[broker.brokerIdentity]
brokerName = "{name}"
brokerClusterName = "DefaultCluster"
brokerId = 0

[store]
haListenAddress = "127.0.0.1"
haListenPort = {ha_port}
storePathRootDir = "{home}/store"
mappedFileSizeCommitLog = 67108864
mappedFileSizeConsumeQueue = 600000
"""
_ENVIRONMENT: Final = {"rocketmq.broker.rebalance.lockMaxLiveTime": "10000", "RUST_LOG": "warn"}


def programs(version: str) -> Path:
    """The folder of a version's programs, which cargo builds the first time.

    Raises UserError where there is no cargo, or no such version.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        what = f"rocketmq-rust:{version}"
        raise UserError(what, "no version", "say it as in rocketmq-rust:1.0.0")
    root = Path(sys.prefix) / "share" / "mqspec" / "rust" / version
    missing = [crate for crate in _CRATES if not (root / "bin" / f"{crate}-rust").is_file()]
    cargo = shutil.which("cargo")
    if missing and not cargo:
        raise UserError(f"rocketmq-rust:{version}", "needs cargo to be built", "install Rust")
    for crate in missing:
        print(f"building {crate} {version}", file=sys.stderr, flush=True)
        words = ["--debug", "--locked", "--quiet", "--root", str(root), f"{crate}@{version}"]
        built = subprocess.run(
            [str(cargo), "install", *words],
            env={**os.environ, "CARGO_PROFILE_DEV_DEBUG": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_S,
        )
        if built.returncode:
            why = next(iter(built.stderr.strip().splitlines()), "cargo fails")
            raise UserError(f"{crate} {version}", f"is not built: {why}", "see: cargo install")
    return root / "bin"


class RocketmqRust:
    """A nameserver and two brokers; the first is the one that `stop`, `kill` and `start` mean.

    Leaving the context ends every process.
    """

    def __init__(self, home: Path, version: str) -> None:
        self._home, self._version, self._programs = home, version, programs(version)
        self._processes = Processes()
        nameserver_port, ha_a, ha_b = free_ports(3)
        ports = free_ports(2, below=_VIP_OFFSET)
        self.nameserver = Address("127.0.0.1", nameserver_port)
        self._addresses = [Address("127.0.0.1", port) for port in ports]
        for name, port, ha_port in zip(("broker-a", "broker-b"), ports, (ha_a, ha_b), strict=True):
            own = home / name
            own.mkdir()
            config = _BROKER.format(
                name=name,
                port=port,
                ha_port=ha_port,
                nameserver=self.nameserver,
                home=own,
                # These take a restart there, and cases ask them of the last broker.
                is_last=str(name == "broker-b").lower(),
                is_first=str(name == "broker-a").lower(),
            )
            (own / "broker.toml").write_text(config, encoding="utf-8")
        self._first: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RocketmqRust:
        with contextlib.ExitStack() as undo:
            undo.callback(self._processes.close)
            home = self._home / "namesrv"
            home.mkdir()
            listen = ["--bindAddress", "127.0.0.1", "--listenPort", str(self.nameserver.port)]
            kept = ["--kvConfigPath", str(home / "kvConfig.json")]
            self._begin("rocketmq-namesrv-rust", home, *listen, *kept)
            eventually(lambda: listens(self.nameserver), READY_S)
            self._first = self._broker("broker-a")
            self._broker("broker-b")
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    @property
    def target(self) -> Target:
        return Target(
            "rocketmq-rust",
            self._version,
            self.nameserver,
            lifecycle=self,
            store=self._home / "broker-a" / "store",
            exclusive=True,
        )

    def stop(self) -> None:
        assert self._first
        self._first.terminate()
        try:
            self._first.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise UserError("rocketmq-rust", f"does not stop within {STOP_S} s") from None

    def kill(self) -> None:
        if self._first:
            self._first.kill()
            self._first.wait()

    def start(self) -> None:
        """Start the first broker again. Raises UserError where it ends, or does not listen."""
        process = self._first = self._broker("broker-a")
        address = self._addresses[0]
        eventually(lambda: process.poll() is not None or listens(address), READY_S)
        if not listens(address):
            raise UserError("rocketmq-rust", "the broker does not start", "see its out.log")

    def _broker(self, name: str) -> subprocess.Popen[bytes]:
        home = self._home / name
        return self._begin("rocketmq-broker-rust", home, "-c", str(home / "broker.toml"))

    def _begin(self, program: str, home: Path, *words: str) -> subprocess.Popen[bytes]:
        with (home / "out.log").open("ab") as output:
            return self._processes.popen(
                [str(self._programs / program), *words],
                env={
                    **os.environ,
                    **_ENVIRONMENT,
                    "HOME": str(home),
                    "ROCKETMQ_HOME": str(home),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
