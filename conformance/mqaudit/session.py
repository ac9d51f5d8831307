"""A quiet Spark session that needs nothing but Python."""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mqrules import UserError
from mqspec import toolchain

LOCAL = "local[*]"

# What Spark's launcher asks of every Java: a module that small runtimes lack, which is fatal,
# and a package that Java 24 took away, which is a warning on every start.
_VECTOR_MODULE = "jdk.incubator.vector"
_REFUSED = (
    f"--add-modules={_VECTOR_MODULE}",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
)
_LOOPBACK = "127.0.0.1"
_WORKER = "thrown from the Python worker:"
# How Spark, and Python, say that a task does not find a file that was there as tasks were planned.
_UNSEEN = re.compile(
    r"FILE_NOT_EXIST\].* while reading file (?:file://)?(\S+?)\.? |FileNotFoundError:.*'(.+)'"
)

_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # a variable that spark-submit sets

_QUERIES = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}

_LOG4J = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.stream.name = org.apache.spark.sql.execution.streaming
logger.stream.level = off
logger.inbox.name = org.apache.spark.rpc.netty.Inbox
logger.inbox.level = off
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


def session(master: str = LOCAL, *, little: bool = False) -> SparkSession:
    """A Spark session on `master`, which is any that Spark takes; of what spark-submit started,
    the one that it was told.

    A local one binds the loopback address only. `little` is for little data, whose audit is
    mostly compiling queries: it compiles them less, and takes half the time. Raises UserError
    where Java is missing or the master does not answer.
    """
    if _SUBMITTED in os.environ:
        return _submitted()
    builder = SparkSession.builder.master(master).appName("mqspec audit")
    for key, value in _settings(master, little).items():
        builder = builder.config(key, value)
    # What a query's error says reaches the user as one line, not as a log record as well.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with spark_environment():
            return builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise UserError(f"--master {master}", f"no Spark session: {error}") from None
    except Exception as error:  # py4j raises what the Java side raised, of no common class of ours
        raise UserError(f"--master {master}", f"no Spark session: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """What an error of Spark's says, without the Java stack below it."""
    cause = getattr(error, "java_exception", None)
    text = str(cause.getMessage() if cause is not None else error).strip()
    lines = text.splitlines() or [type(error).__name__]
    # Of what a worker in Python raised the first line says nothing, and the last one what.
    return lines[-1] if lines[0].endswith(_WORKER) else lines[0]


@contextmanager
def spark_errors(where: str) -> Iterator[None]:
    """Turn what Spark raises about its input into one line."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        line = first_line(error)
        if "PATH_NOT_FOUND" in line:
            raise UserError(where, "no such path") from None
        if unseen := _UNSEEN.search(line):
            file = unseen[1] or unseen[2]
            raise UserError(
                where,
                f"a worker does not see {file}, which was there when the audit began",
                "put it where all machines see it under one name, or choose --master local[*]",
            ) from None
        raise UserError(where, f"Spark cannot read it: {line}") from None


def _submitted() -> SparkSession:
    """A session in the Java that spark-submit has started, set up and logs from already."""
    builder = SparkSession.builder
    for key, value in _QUERIES.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _settings(master: str, little: bool) -> dict[str, str]:
    log4j = _home() / "log4j2.properties"
    _write(log4j, _LOG4J)
    settings = _QUERIES | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j.as_uri()}",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.host": _LOOPBACK,
            "spark.driver.memory": "2g",
            # Few enough for a small history; Spark merges those that hold little.
            "spark.sql.shuffle.partitions": "32",
        }
    if little:
        settings["spark.driver.extraJavaOptions"] += " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        settings |= {
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            # More would be as many empty blocks to write and to fetch in each of many shuffles.
            "spark.sql.shuffle.partitions": "4",
        }
    return settings


@contextmanager
def spark_environment() -> Iterator[None]:
    """What Spark only takes from the environment: its Java, and the Python of its workers.

    A PYSPARK_PYTHON of the user's wins, for workers on other machines.
    """
    home = toolchain.java_home()
    if _VECTOR_MODULE not in toolchain.java_modules(home):
        home = _shim(home)
    before = dict(os.environ)
    os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _shim(home: Path) -> Path:
    """A JAVA_HOME whose `java` drops the arguments that the real one would refuse."""
    shim = _home() / "java"
    script = f"""#!/bin/sh
for argument do
    shift
    case $argument in
    {"|".join(_REFUSED)}) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec {shlex.quote(str(home / "bin" / "java"))} "$@"
"""
    _write(shim / "bin" / "java", script, mode=0o755)
    return shim


def _home() -> Path:
    return Path(sys.prefix) / "share" / "mqspec" / "spark"


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file as a whole, so that a session that starts beside us never sees half."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.chmod(mode)
    part.replace(path)
