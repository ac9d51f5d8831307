"""Apache RocketMQ itself, of any version that resolves, started on loopback.

A version below 5 knows no `bindAddress`: its servers listen on every address of the machine.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mqconform.cluster import READY_S, listens
from mqconform.connection import eventually
from mqconform.processes import Processes
from mqconform.target import Address, Secured, Target, free_ports
from mqrules import UserError
from mqrules.rule import version_key
from mqspec import toolchain

VERSION: Final = "5.3.3"
STOP_S: Final = 120  # it waits for its eight revive services, one after the other, some 7 s each
USER, PASSWORD = "rocketmq", "12345678"
_VIP_OFFSET: Final = 2  # the fast port is listenPort - 2

JVM: Final = (
    *("-Xmx384m", "-Xms384m", "-XX:MaxDirectMemorySize=768m"),
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",  # the transient store pool asks for it
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
)
_BRIEF_LOCKS: Final = "-Drocketmq.broker.rebalance.lockMaxLiveTime=10000"  # ms, not a minute

# What a version below 5 takes by reflection, as when it lets a mapped file go.
_OPENS: Final = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.nio", "jdk.internal.ref", "sun.nio.ch")
)

# Small files, so that a run costs little disk, and halves looked at each 2 s instead of 30 s;
# everything else as it is delivered.
_BROKER: Final = """\
brokerClusterName=DefaultCluster
brokerName={name}
brokerId=0
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
namesrvAddr={nameserver}
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
bindAddress=127.0.0.1
listenPort={port}
haListenPort={ha_port}
storePathRootDir={store}
storePathCommitLog={store}/commitlog
mappedFileSizeCommitLog=67108864
mappedFileSizeConsumeQueue=600000
mappedFileSizeTimerLog=1048576
maxHashSlotNum=50000
maxIndexNum=200000
diskMaxUsedSpaceRatio=99
transactionCheckInterval=2000
"""
_USERS: Final = """\
authenticationEnabled=true
authenticationMetadataProvider=\
org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
initAuthenticationUser={{"username":"{user}","password":"{password}"}}
"""
_NAMESERVER: Final = """\
listenPort={port}
bindAddress=127.0.0.1
kvConfigPath={home}/kvConfig.json
"""


# A version below 5 does not start without the configuration of its log.
_LOG: Final = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %t - %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


class Apache:
    """A nameserver and brokers, two at most, in a directory of their own.

    The first broker is the one that `stop`, `kill` and `start` mean. Leaving the context ends
    every process. `jvm` are the options of each JVM; with `own_sessions` each process has a
    session of its own, as a service has.
    """

    def __init__(
        self,
        home: Path,
        brokers: int = 2,
        jvm: Sequence[str] = (*JVM, _BRIEF_LOCKS),
        own_sessions: bool = False,
        version: str = VERSION,
    ) -> None:
        self.home, self.version = home, version
        self._jars = toolchain.apache_classpath(version)
        opens = _OPENS if version_key(version) < (5,) else ()
        self._jvm, self._processes = (*jvm, *opens), Processes(start_new_session=own_sessions)
        nameserver_port, ha_a, ha_b = free_ports(3)
        broker_a, broker_b = free_ports(2, below=_VIP_OFFSET)
        self.nameserver = Address("127.0.0.1", nameserver_port)
        self._nameserver_java = _Java(
            home / "namesrv", "namesrv.NamesrvStartup",
            _NAMESERVER.format(port=nameserver_port, home=home / "namesrv"), self._jvm, self._jars,
            self._processes,
        )  # fmt: skip
        self._brokers = [
            self._broker("broker-a", broker_a, ha_a),
            self._broker("broker-b", broker_b, ha_b),
        ][:brokers]

    def __enter__(self) -> Apache:
        with contextlib.ExitStack() as undo:
            undo.callback(self._processes.close)
            self._nameserver_java.start()
            for broker in self._brokers:
                broker.start()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()  # no need to wait for a clean end: nothing is looked at any more

    @property
    def target(self) -> Target:
        store = self.home / "broker-a" / "store"
        return Target(
            "apache",
            self.version,
            self.nameserver,
            lifecycle=self,
            store=store,
            keeps=self.version,
            tls=True,
            to_the_letter=version_key(self.version) >= (5,),  # remarks were others before
            exclusive=True,
            secured=Secured(self._secured, USER, PASSWORD) if self._has_users else None,
        )

    @property
    def _has_users(self) -> bool:
        """Authentication of users came with 5.3; before it was a plug-in of another kind."""
        return version_key(self.version) >= (5, 3)

    def stop(self) -> None:
        self._brokers[0].stop()

    def kill(self) -> None:
        self._brokers[0].kill()

    def start(self) -> None:
        self._brokers[0].start()
        self._brokers[0].wait_until_it_listens()

    @property
    def pids(self) -> list[int]:
        """The processes that run: the nameserver's first, then the brokers'."""
        javas = (self._nameserver_java, *self._brokers)
        return [java.process.pid for java in javas if java.process]

    def _secured(self) -> Address:
        """A broker that knows no nameserver and lets only a user in."""
        port, ha_port = *free_ports(1, below=_VIP_OFFSET), *free_ports(1)
        config = self._config("secured", port, ha_port, Address("127.0.0.1", 1))
        config += _USERS.format(user=USER, password=PASSWORD)
        home = self.home / "secured"
        _Java(home, "broker.BrokerStartup", config, self._jvm, self._jars, self._processes).start()
        return Address("127.0.0.1", port)

    def _broker(self, name: str, port: int, ha_port: int) -> _Java:
        config = self._config(name, port, ha_port, self.nameserver)
        home = self.home / name
        return _Java(
            home, "broker.BrokerStartup", config, self._jvm, self._jars, self._processes, port
        )

    def _config(self, name: str, port: int, ha_port: int, nameserver: Address) -> str:
        store = self.home / name / "store"
        return _BROKER.format(
            name=name, nameserver=nameserver, port=port, ha_port=ha_port, store=store
        )


class _Java:
    """One Java process of Apache RocketMQ."""

    def __init__(
        self,
        home: Path,
        main_class: str,
        config: str,
        jvm: Sequence[str],
        jars: Sequence[Path],
        processes: Processes,
        port: int = 0,
    ) -> None:
        self._home, self._main, self._jvm = home, f"org.apache.rocketmq.{main_class}", jvm
        self._jars = jars
        self._processes, self._address = processes, Address("127.0.0.1", port)
        self.process: subprocess.Popen[bytes] | None = None
        (home / "conf").mkdir(parents=True)
        (home / "conf" / "this.conf").write_text(config, encoding="utf-8")
        for server in ("namesrv", "broker"):
            (home / "conf" / f"logback_{server}.xml").write_text(_LOG, encoding="utf-8")

    def start(self) -> None:
        classpath = os.pathsep.join(map(str, self._jars))
        command = [
            *(str(toolchain.java()), *self._jvm, f"-Duser.home={self._home}"),
            *("-cp", classpath, self._main, "-c", str(self._home / "conf" / "this.conf")),
        ]
        with (self._home / "out.log").open("ab") as output:
            self.process = self._processes.popen(
                command,
                env={**os.environ, "ROCKETMQ_HOME": str(self._home)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def wait_until_it_listens(self) -> None:
        """Raises UserError where it ends, or does nothing for long."""

        def is_over() -> bool:
            return (self.process and self.process.poll() is not None) or listens(self._address)

        eventually(is_over, READY_S)
        if not listens(self._address):
            raise UserError(str(self._home), "the broker does not start", "see its out.log")

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                why = f"it does not stop within {STOP_S} s"
                raise UserError(str(self._home), why, "run again on a quieter machine") from None

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
