"""A standalone Spark cluster on this machine: a master and two workers, of pyspark's own jars.

The environment of its workers has the built wheel and nothing else of ours: it shares with this one
only the folder of what we depend on, whose `.pth` files, which name this checkout, do not count
there.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from mqaudit.session import spark_environment

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 2
_SPARK = Path(pyspark.__file__).parent
_LOOPBACK = "127.0.0.1"
_BIN = Path(sys.executable).parent  # where spark-submit is
_STARTS_S = 300
_RUNS_S = 1800
# For two processors, and little data.
_DEFAULTS = """\
spark.sql.shuffle.partitions 4
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""


@dataclass(frozen=True)
class Cluster:
    """Where the master listens, where each worker works, and the environment of them all."""

    master: str
    work: tuple[Path, ...]
    environment: Path

    def run(self, command: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """A command and its words, in a folder; none of its variables names this checkout."""
        path = f"{self.environment / 'bin'}:{_BIN}:{os.environ['PATH']}"
        variables = _variables(self.environment.parent) | {"PATH": path}
        if "spark-submit" not in command:
            del variables["JAVA_HOME"]  # a stand-in for Spark; ours finds a whole one by itself
        process = subprocess.Popen(
            shlex.split(command),
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            said = process.communicate(timeout=_RUNS_S)
        finally:
            with suppress(ProcessLookupError):  # its Java, where it was cut off
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return subprocess.CompletedProcess(command, process.returncode, *said)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster that lives as long as the block; its files are in `folder`."""
    home = environment(folder)
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(_DEFAULTS)
    work = tuple(folder / f"worker-{number}" for number in range(WORKERS))
    with ExitStack() as stack:
        said = _server("master.Master", r"Starting Spark master at (\S+)", folder / "master.log")
        master = stack.enter_context(said)[1]
        for place in work:
            place.mkdir()
            words = ("--cores", "1", "--memory", "1g", "--work-dir", str(place), master)
            registered = "registered with master"
            log = place.with_suffix(".log")
            stack.enter_context(_server("worker.Worker", registered, log, *words))
        yield Cluster(master, work, home)


def environment(folder: Path) -> Path:
    """An environment of Python with our wheel. Returns its path."""
    home = folder / "environment"
    build = ("wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, ROOT)
    subprocess.run([sys.executable, "-m", "pip", *build], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    (wheel,) = folder.glob("*.whl")
    install = ("--python", home / "bin" / "python", "install", "-q", "--no-deps", "--no-index")
    subprocess.run([sys.executable, "-m", "pip", *install, wheel], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


def _variables(folder: Path) -> dict[str, str]:
    """What a machine of a cluster has set up for Spark."""
    with spark_environment():
        java = os.environ["JAVA_HOME"]
    ours = ("PYSPARK_PYTHON", "PYTHONPATH", "VIRTUAL_ENV")
    variables = {name: value for name, value in os.environ.items() if name not in ours}
    return variables | {
        "JAVA_HOME": java,
        "SPARK_HOME": str(_SPARK),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": _LOOPBACK,
        "SPARK_DAEMON_MEMORY": "256m",
    }


@contextmanager
def _server(name: str, says: str, log: Path, *words: str) -> Iterator[re.Match[str]]:
    """One of Spark's servers, once it says something; what it says goes to a log."""
    ports = ("--host", _LOOPBACK, "--port", "0", "--webui-port", "0")
    process = subprocess.Popen(
        [_SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *ports, *words],
        cwd=log.parent,
        env=_variables(log.parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    late = threading.Timer(_STARTS_S, process.kill)
    late.start()
    try:
        lines = list[str]()
        for line in process.stdout:
            lines.append(line)
            if said := re.search(says, line):
                break
        else:
            raise AssertionError(f"{name} ended before it said {says!r}: {lines[-5:]}")
        late.cancel()
        rest = process.stdout
        reader = threading.Thread(target=lambda: log.write_text("".join((*lines, *rest))))
        reader.start()
        yield said
        process.terminate()
        reader.join()
    finally:
        late.cancel()
        process.kill()
        process.wait()
