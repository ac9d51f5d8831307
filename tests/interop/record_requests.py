"""Records the requests of real clients, tools and brokers: where the suite's catalogue is from.

    python tests/interop/record_requests.py [VERSION ...]

starts Apache RocketMQ of each version (5.3.3 and 4.9.7 unless others are given) behind a proxy,
has its own client library (java/Usual.java, and java/Client.java of the newest), its mqadmin and
its brokers do what they do, and writes conformance/mqconform/data/requests/VERSION.json: of each
request code the forms in which it was sent (mqconform.catalogue).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from mqconform.apache import VERSION, Apache
from mqconform.catalogue import FOLDER, Form, form_of, merged, write_forms
from mqconform.cluster import Cluster
from mqconform.frame import ONE_WAY, FrameError, parse_frame
from mqconform.target import Address, free_ports
from mqspec import toolchain

HERE = Path(__file__).parent
TOPIC = "Recorded"
COMMAND_S = 60

# What 4.9.7 has as well comes first; a command that a version lacks prints its help.
ADMIN = """
clusterList
updateTopic -b {a} -t {t} -r 4 -w 4
updateTopic -c DefaultCluster -t Gone -r 2 -w 2
updateTopicPerm -b {a} -t {t} -p 6
topicList
topicList -c
topicRoute -t {t}
topicClusterList -t {t}
topicStatus -t {t}
updateSubGroup -b {a} -g Recorded -r 3
updateSubGroup -c DefaultCluster -g Gone
brokerStatus -b {a}
getBrokerConfig -b {a}
updateBrokerConfig -b {a} -k brokerFastFailureEnable -v true
brokerConsumeStats -b {a}
statsAll -t {t}
printMsg -t {t}
queryMsgByKey -t {t} -k key
queryMsgByOffset -t {t} -b broker-a -i 0 -o 0
queryCq -b {a} -t {t} -q 0 -i 0 -c 10
consumerProgress -g UsualPush
consumerConnection -g JavaGroup
producerConnection -g JavaProducers -t {t}
producer -b {a}
consumerStatus -g JavaGroup
consumerStatus -g JavaGroup -i {client}
queryMsgById -i {id} -g JavaGroup -d {client} -t {t}
cloneGroupOffset -s UsualPush -d Recorded -t {t}
resetOffsetByTime -g JavaGroup -t {t} -s 0
resetOffsetByTime -g UsualPush -t {t} -s now
skipAccumulatedMessage -g UsualPush -t {t}
getConsumerConfig -g UsualPush
exportMetadata -c DefaultCluster -f {dir}
exportMetrics -c DefaultCluster -f {dir}
exportConfigs -c DefaultCluster -f {dir}
setConsumeMode -b {a} -t {t} -g Recorded -m PULL -q 1
cleanExpiredCQ -b {a}
cleanUnusedTopic -b {a}
deleteExpiredCommitLog -b {a}
getNamesrvConfig
updateNamesrvConfig -k clusterTest -v false
updateKvConfig -s Recorded -k key -v value
updateOrderConf -t {t} -m put -v broker-a:4
updateOrderConf -t {t} -m get
updateOrderConf -t {t} -m delete
deleteKvConfig -s Recorded -k key
wipeWritePerm -b broker-b
addWritePerm -b broker-b
updateTopicList -b {a} -f {topics}
updateSubGroupList -b {a} -f {groups}
checkMsgSendRT -t {t} -a 1 -s 10
getBrokerEpoch -b broker-a
haStatus -b {a}
deleteSubGroup -b {a} -g Gone -r true
deleteSubGroup -c DefaultCluster -g Gone
deleteTopic -c DefaultCluster -t Gone
"""

CLIENT = """
send-timed {t} key 60000
push JavaGroup {t} concurrently
push Failing {t} failing-twice
push Ordered {t} orderly
push ByBroker {t} by-broker
push Popping {t} by-broker-failing-once
push Answering {t} answering
send {t} key 10
send-batch {t} one two
send-in-transaction {t} key commit
send-in-transaction {t} key rollback
lite-pull Lite {t} 1
query {t} key
"""


class Proxy:
    """Forwards frames and keeps each request, with who sent it: `client` or `server`."""

    def __init__(self) -> None:
        self.recorded: list[Form] = []
        self._places: dict[bytes, bytes] = {}  # an address and where the proxy stands for it

    async def stand_before(self, address: Address, by: str, port: int) -> None:
        """Listen on a port for what connects to an address; `by` says who does."""
        self._places[str(address).encode()] = f"127.0.0.1:{port}".encode()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                server_reader, server_writer = await asyncio.open_connection(*address)
            except OSError:  # it has ended already
                writer.close()
                return
            await asyncio.gather(
                self._forward(reader, server_writer, by, False),
                self._forward(server_reader, writer, "server", by == "client"),
            )

        await asyncio.start_server(connected, "127.0.0.1", port)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, by: str, moves: bool
    ) -> None:
        try:
            while True:
                head = await reader.readexactly(4)
                raw = head + await reader.readexactly(int.from_bytes(head, "big"))
                self._keep(raw, by)
                if moves:  # addresses are of one length: ports have five digits
                    for place, own in self._places.items():
                        raw = raw.replace(place, own)
                writer.write(raw)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _keep(self, raw: bytes, by: str) -> None:
        try:
            found = parse_frame(raw)
        except FrameError:
            return
        if not found.is_response:
            one_way = bool(found.flag & ONE_WAY)
            form = form_of(found.code, by, one_way, found.fields, found.body)
            self.recorded.append(form)


class Behind(Apache):
    """Apache whose brokers know its nameserver by another port."""

    @cached_property
    def seen_at(self) -> Address:
        return Address("127.0.0.1", *free_ports(1))

    def _config(self, name: str, port: int, ha_port: int, nameserver: Address) -> str:
        return super()._config(name, port, ha_port, self.seen_at)


def compiled(version: str, folder: Path, *sources: str) -> tuple[list[str], str]:
    """How to start a class of ours on a version's client, and its class path.

    `sources` are the files of `java/` that are compiled, by default those of `record`.
    """
    jars = os.pathsep.join(map(str, toolchain.apache_classpath(version)))
    (compiler,) = toolchain.classpath("ecj")
    sources = sources or (
        *("Usual.java", "Admin.java", "Tools.java"),
        *(["Client.java"] if version == VERSION else []),
    )
    options = ["-source", "17", "-target", "17", "-nowarn", "-d", str(folder), "-cp", jars]
    java, paths = str(toolchain.java()), [str(HERE / "java" / name) for name in sources]
    subprocess.run([java, "-jar", str(compiler), *options, *paths], check=True, timeout=120)
    words = [java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"]
    words += ["-Drocketmq.client.rebalance.waitInterval=1000", f"-Duser.home={folder}"]
    words += [f"-Drocketmq.home.dir={folder}"]
    return [*words, "-cp", os.pathsep.join((str(folder), jars))], jars


class Lines:
    """A process that carries out lines and says `done` after each."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def __call__(self, line: str) -> list[str]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\t".join(line.split()).encode() + b"\n")
        said: list[str] = []
        try:
            async with asyncio.timeout(COMMAND_S):
                while (word := (await self._process.stdout.readline()).decode()) != "done\n":
                    if not word:
                        break
                    said.append(word.rstrip())
        except TimeoutError:
            said.append("(not done in time)")
        print(f"{line}: {len(said)} lines {next((s for s in said if 'xception' in s), '')[:150]}")
        return said


async def started(*command: str) -> asyncio.subprocess.Process:
    pipe, kept = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=kept)


async def record(version: str, home: Path) -> list[Form]:
    classes = home / "classes"
    classes.mkdir()
    (classes / "conf").mkdir()
    (classes / "conf" / "logback_tools.xml").write_text("<configuration/>", encoding="utf-8")
    java, _ = compiled(version, classes)
    for name, entries in (
        ("topics", [{"topicName": "T1", "readQueueNums": 2, "writeQueueNums": 2}]),
        ("groups", [{"groupName": "G1"}]),
    ):
        (home / name).write_text(json.dumps(entries), encoding="utf-8")
    apache, proxy = Behind(home / "apache", version=version), Proxy()
    (for_clients,) = free_ports(1)
    await proxy.stand_before(apache.nameserver, "client", for_clients)
    await proxy.stand_before(apache.nameserver, "broker", apache.seen_at.port)
    with apache:
        cluster = Cluster(apache.nameserver)
        await asyncio.to_thread(cluster.wait, 2)
        for port, broker in zip(free_ports(2), cluster.brokers.values(), strict=True):
            await proxy.stand_before(broker, "client", port)
            # Between brokers no address is moved: they are told the real ones.
        seen = f"127.0.0.1:{for_clients}"
        first = proxy._places[str(next(iter(cluster.brokers.values()))).encode()].decode()
        admin = Lines(await started(*java, "Admin"))
        await admin(f"updateTopic -b {first} -t {TOPIC} -r 4 -w 4 -n {seen}")
        await asyncio.sleep(3)
        port_of_first = first.rpartition(":")[2]
        usual = await started(*java, "Usual", seen, TOPIC, port_of_first)
        try:
            async with asyncio.timeout(180):
                print((await usual.communicate())[0].decode()[-1000:])
        except TimeoutError:
            usual.kill()
        client_id, message_id, client = "none", "none", None
        if version == VERSION:
            client = Lines(await started(*java, "Client", seen))
            await admin(f"setConsumeMode -b {first} -t {TOPIC} -g Popping -m POP -q 1 -n {seen}")
            for line in CLIENT.strip().splitlines():
                said = await client(line.format(t=TOPIC))
                if line.startswith("send-timed"):
                    handle = next((s.split()[1] for s in said if s.startswith("handle")), "none")
                    await client(f"recall {TOPIC} {handle}")
            await asyncio.sleep(20)
            said = await admin(f"consumerConnection -g JavaGroup -n {seen}")
            client_id = next((s.split()[1] for s in said if "@" in s and s.split()), "none")
        tools = await started(*java, "Tools", seen, first, TOPIC, "JavaGroup", "UsualPush")
        print((await tools.communicate())[0].decode()[-3000:])
        for line in ADMIN.strip().splitlines():
            words = line.format(
                a=first, t=TOPIC, dir=home, client=client_id, id=message_id,
                topics=home / "topics", groups=home / "groups",
            )  # fmt: skip
            await admin(f"{words} -n {seen}")
        await asyncio.sleep(35)  # a broker tells all its topics each 30 s
        await asyncio.to_thread(apache.stop)
        await asyncio.sleep(1)
    return proxy.recorded


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mqspec-", ignore_cleanup_errors=True) as home:
        yield Path(home)


def main(versions: list[str]) -> None:
    for version in versions:
        began = time.monotonic()
        with folder() as home:
            forms = merged(asyncio.run(record(version, home)))
        write_forms(FOLDER / f"{version}.json", forms)
        print(f"{version}: {len(forms)} forms, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:] or [VERSION, "4.9.7"])
