"""How fast the audit judges: beside the least that Spark needs, DuckDB, and a plain decoder.

The floor is what two shuffles cost, of the columns that the checks read: by queue and by message,
each sorted and hashed. It is measured in turn with the audit, in one session and over one file,
so that a ratio is one of the same minutes. Run as a script it does one of the works and tells
what they took in seconds, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import histories
from figures import Figure, Part
from fill import fill

MESSAGES: Final = 2_500_000  # four events each
LITTLE: Final = 25_000
RECORDS: Final = 3_000_000
BODY_BYTES: Final = 200
CORES: Final = 2

_COLUMNS: Final = (
    "run", "process", "seq", "kind", "outcome", "topic", "broker", "queue_id", "queue_offset",
    "message_key", "group", "client_id", "value",
)  # fmt: skip
# Of a record in a store: what its checks look at.
_DECODED: Final = (
    "kind", "segment", "physical_offset", "size", "topic", "queue_id", "queue_offset", "sys_flag",
    "crc_held",
)  # fmt: skip
_DUCKDB: Final = (
    """SELECT count(*) FROM (
        SELECT max(CASE WHEN kind = 'send' AND outcome = 'ok' THEN queue_offset END) AS stored,
            count(*) FILTER (kind = 'ack') AS acks
        FROM e WHERE message_key IS NOT NULL GROUP BY message_key)
    WHERE stored IS NOT NULL AND acks = 0""",
    """SELECT count(*) FROM (
        SELECT count(*) AS n FROM e WHERE kind = 'receive' GROUP BY client_id, message_key)
    WHERE n > 1""",
    *(
        f"""SELECT count(*) FROM (
            SELECT {column}, max({column}) OVER (
                PARTITION BY broker, queue_id, client_id ORDER BY seq
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM e WHERE kind = '{kind}')
        WHERE {column} < before"""
        for kind, column in (("receive", "queue_offset"), ("commit", "value"))
    ),
)


def audits(home: Path, rounds: int, messages: int = MESSAGES, records: int = RECORDS) -> Part:
    """Histories, and a store. Memory is that of all processes of the work together."""
    even, hot, little = (home / f"{name}.parquet" for name in ("even", "hot", "little"))
    events = histories.write(even, histories.Shape(messages))
    histories.write(hot, histories.Shape(messages, hot=0.9))
    histories.write(little, histories.Shape(LITTLE))
    store = home / "store"
    fill(store, 4, records, BODY_BYTES)

    judged, memory_gb = done(__file__, "histories", rounds, even, hot)
    alone, _ = done(__file__, "one core", 1, even)
    duckdb, _ = done(__file__, "duckdb", rounds, even)
    stored, _ = done(__file__, "store", rounds, store)
    command = [_seconds(lambda: _command(little)) for _ in range(rounds)]

    floor, audit = judged["floor"], judged["audit"]
    skew = _ratio(judged["hot"], audit)
    of_one_core = median(audit) / median(alone["audit"])
    of_floor = _ratio(audit, floor)
    figures = [
        Figure(f"audit of {events} events, of the floor of two shuffles", of_floor, most=4),
        Figure("audit, of DuckDB's four checks", median(audit) / median(duckdb["checks"])),
        Figure("audit of a queue with 90 % of the rows, of balanced ones", skew, most=1.3),
        Figure(f"audit on {CORES} cores, of one", of_one_core, most=0.65),
        Figure("audit of 10^5 events by the command, s", median(command), most=15),
        Figure("store read by Spark, of the plain decoder, a core",
               1 / (_ratio(stored["read"], stored["decoder"]) * CORES), least=0.7),
        Figure("store judged whole, of the plain decoder",
               _ratio(stored["audit"], stored["decoder"]), most=8),
    ]  # fmt: skip
    if memory_gb:
        figures.insert(1, Figure("memory of the audit, GB", memory_gb, most=4))
    measured = {**judged, "one core": alone, "duckdb": duckdb, "store": stored, "command": command}
    return Part(tuple(figures), measured)


def _ratio(ones: list[float], others: list[float]) -> float:
    """Round by round, as the machine is another one every minute."""
    return median(one / other for one, other in zip(ones, others, strict=True))


def done(script: str, *words: object) -> tuple[Any, float]:
    """What the work of a script says last, as JSON, and the most memory that its processes had at
    once, in GB; 0: unknown."""
    command = [sys.executable, script, *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    most, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            most[0] = max(most[0], memory_bytes(process.pid) / 1e9)

    watching = threading.Thread(target=watch)
    watching.start()
    said, _ = process.communicate()
    ended.set()
    watching.join()
    if process.returncode:
        raise SystemExit(f"bench: {' '.join(command[1:])} failed, see above")
    return json.loads(said.splitlines()[-1]), most[0]


def memory_bytes(root: int) -> int:
    """What a process and those that it started hold, shared pages counted once (Linux only)."""
    return sum(proportional_bytes(Path(f"/proc/{pid}")) for pid in family(root))


def family(root: int) -> set[int]:
    """A process and all that it started, as far as they run; none where there is no /proc."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        if fields := _status(status):
            parents[int(status.parent.name)] = int(fields[1])
    mine = {root} & parents.keys()
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return mine


def cpu_s(pid: int) -> float:
    """The processor time of a process, in seconds; 0 where it has ended (Linux only)."""
    fields = _status(Path(f"/proc/{pid}/stat"))
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _status(file: Path) -> list[str]:
    """What stands behind the name of a process, as the state comes first; nothing if it ended."""
    try:
        return file.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def proportional_bytes(process: Path) -> int:
    """What one process holds, of a page that others have as well a part; 0 where it has ended."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _command(path: Path) -> None:
    command = [sys.executable, "-m", "mqspec.cli", "audit", str(path), "--json"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


# The works, each in a process of its own.


def _histories(rounds: int, even: str, hot: str) -> dict[str, list[float]]:
    from mqaudit import audit
    from mqaudit.session import session

    spark = session(f"local[{CORES}]")
    took: dict[str, list[float]] = {"floor": [], "audit": [], "hot": []}
    for number in range(rounds + 1):
        once = {
            "floor": _seconds(lambda: _floor(spark, even)),
            "audit": _seconds(lambda: audit(spark, even)),
            "hot": _seconds(lambda: audit(spark, hot)),
        }
        for name, seconds in once.items():
            took[name] += [seconds] if number else []  # the first round warms up
    spark.stop()
    return took


def _one_core(rounds: int, path: str) -> dict[str, list[float]]:
    """The audit by tasks that run one at a time."""
    from mqaudit import audit
    from mqaudit.session import session

    spark = session("local[1]")
    took = [_seconds(lambda: audit(spark, path)) for _ in range(rounds + 1)]
    spark.stop()
    return {"audit": took[1:]}  # the first round warms up


def _floor(spark: Any, path: str) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    events = spark.read.parquet(path).select(*_COLUMNS)
    queue, message = ("run", "topic", "broker", "queue_id"), ("run", "message_key")
    for rows, keys, order in (
        (events, queue, (*queue, "process", "seq")),
        (events.where("message_key IS NOT NULL"), message, (*message, "seq")),
    ):
        shuffled = rows.repartition(4 * CORES, *keys).sortWithinPartitions(*order)
        shuffled.select(F.sum(F.hash("*"))).collect()


def _duckdb(rounds: int, path: str) -> dict[str, list[float]]:
    import duckdb

    def checks() -> None:
        connection = duckdb.connect()
        connection.execute(f"SET threads = {CORES}")
        connection.execute(f"CREATE TABLE e AS SELECT * FROM '{path}'")
        for query in _DUCKDB:
            connection.execute(query).fetchall()

    return {"checks": [_seconds(checks) for _ in range(rounds)]}


def _store(rounds: int, root: str) -> dict[str, list[float]]:
    from mqaudit import audit
    from mqaudit.session import session
    from mqaudit.store import register

    spark = session(f"local[{CORES}]")
    register(spark)
    log = spark.read.format("rocketmq-commitlog").option("columns", ",".join(_DECODED))

    def read_all() -> None:
        log.load(root).write.format("noop").mode("append").save()

    took: dict[str, list[float]] = {"decoder": [], "read": [], "audit": []}
    for number in range(rounds + 1):
        once = {
            "decoder": _seconds(lambda: _decode(Path(root), _DECODED)),
            "read": _seconds(read_all),
            "audit": _seconds(lambda: audit(spark, root)),
        }
        for name, seconds in once.items():
            took[name] += [seconds] if number else []
    spark.stop()
    return took


def _decode(root: Path, columns: Sequence[str]) -> None:
    from mqaudit.segments import log_batches, whole

    for segment in sorted((root / "commitlog").iterdir()):
        for _ in log_batches(whole(segment), columns):
            pass


_WORKS: Final[dict[str, Callable[..., dict[str, list[float]]]]] = {
    "histories": _histories,
    "one core": _one_core,
    "duckdb": _duckdb,
    "store": _store,
}

if __name__ == "__main__":
    work, rounds, *paths = sys.argv[1:]
    print(json.dumps(_WORKS[work](int(rounds), *paths)), flush=True)
    os._exit(0)
