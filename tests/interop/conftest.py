"""What an interoperation test needs: our Java programs, compiled, and a cluster to meet on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import serving

from mqspec import toolchain

JAVA = Path(__file__).parent / "java"


@pytest.fixture(scope="session")
def java_command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How to start a class of tests/interop/java on the real client."""
    classes = tmp_path_factory.mktemp("classes")
    jars = os.pathsep.join(map(str, toolchain.classpath("apache")))
    (compiler,) = toolchain.classpath("ecj")
    java = str(toolchain.java())
    options = ["-source", "17", "-target", "17", "-nowarn", "-d", str(classes), "-cp", jars]
    sources = sorted(map(str, JAVA.glob("*.java")))
    subprocess.run([java, "-jar", str(compiler), *options, *sources], check=True, timeout=120)
    return [
        java,
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xmx96m",
        "-Drocketmq.client.rebalance.waitInterval=1000",  # instead of 20 s
        f"-Duser.home={classes}",  # where the client writes its log
        "-cp",
        os.pathsep.join((str(classes), jars)),
    ]


@pytest.fixture
def nameserver(tmp_path: Path) -> Iterator[str]:
    """The address of a nameserver with two brokers: `mqspec serve`, a process of its own."""
    with serving(tmp_path) as address:
        yield address
