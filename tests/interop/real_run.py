"""Apache RocketMQ 5.3.3 and its Java client, recorded and kept in every way, and judged from each.

    python tests/interop/real_run.py clean [--messages 100000] [--keep DIR]
    python tests/interop/real_run.py incidents --keep DIR
    python tests/interop/real_run.py judge --keep DIR     # incidents that were kept

Two brokers with their trace topic; `mqspec record` between them and all clients; message trace on
in every client, whose logs are kept, each in a folder of its own; the stores as they are when the
brokers have stopped. `clean`: four members consume what one producer sends, and nothing happens to
them. `incidents`: to each group something happens. Then all of it is audited: what was recorded,
the stores with their traces, the logs, and everything together; `judge` does only that, of a run
that was kept. How often what is said of each group is printed.

Exit code 1 where something is violated, or permitted that is neither that members came and went
(`ONLY`) nor what happened to the group (`SURELY`); of a clean run, where less was judged than there
is; of incidents, where one is not told (`SURELY`).
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).resolve().parents[1] / "bench"))

from record_cluster import TRACED, Program, Traced, clients
from record_requests import compiled
from recording import recording

from mqaudit import audit
from mqaudit.check import Check
from mqaudit.command import is_little
from mqaudit.history_checks import (
    EQUAL_IDS,
    LOST,
    NO_OWNER,
    REPEATED,
    TAKEN_AWAY,
    TWO_OWNERS,
    WENT_BACK,
)
from mqaudit.report import CheckReport, Judgement
from mqaudit.session import session
from mqconform.apache import JVM, VERSION
from mqconform.cluster import Cluster
from mqconform.connection import eventually

WAIT_S: Final = 180
EXAMPLES: Final = 1_000_000
RATE: Final = 2000  # messages a second
FEW: Final = 400
FROZEN_S: Final = 150  # a broker takes 120 s to find a connection dead
QUEUES: Final = 4  # of a topic, on each broker


class Usual(Traced):
    """With files of the usual size, and locks that live as long as they usually do."""

    options = TRACED

    def stop_all(self) -> None:
        """In good order, so that all is in the stores."""
        for broker in self._brokers:
            broker.stop()


class Told(Program):
    """A program that is told lines, and says `done` after each."""

    def do(self, *words: object) -> list[str]:
        """Carry one out. What it said meanwhile."""
        before = len(self.said)
        done = sum(line == "done" for line in self.said)
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write("\t".join(map(str, words)) + "\n")
        stdin.flush()
        self.wait_for("done", done + 1)
        return self.said[before:]


class Play:
    """A cluster that is recorded, and those who come to it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._sending = threading.Lock()
        self._numbers: Counter[str] = Counter()
        self.programs: list[Program] = []

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """The cluster is there; in the end all are stopped in good order."""
        classes = self.home / "classes"
        (classes / "conf").mkdir(parents=True)
        (classes / "conf" / "logback_tools.xml").write_text("<configuration/>", encoding="utf-8")
        sources = ("Recorded.java", "Sender.java", "Admin.java")
        java, _ = compiled(VERSION, classes, *sources)
        first, *rest = clients(java)
        self._java = [first, "-Dtrace=true", *rest]
        self.apache = Usual(self.home / "apache", jvm=JVM)
        with self.apache:
            Cluster(self.apache.nameserver).wait(2)
            with recording(str(self.apache.nameserver), self.home / "recorded") as (
                _,
                self.nameserver,
            ):
                self.admin = Told("admin", self.home, java, main="Admin")
                self.sender = Told("sender", self.home, self._java, self.nameserver, main="Sender")
                try:
                    yield
                    self.sender.leave()
                finally:
                    for program in (*self.programs, self.sender, self.admin):
                        program.kill()
            self.apache.stop_all()

    def topic(self, group: str) -> str:
        """A topic of a group, on both brokers."""
        name = f"Of{group}"
        queues = ("-r", QUEUES, "-w", QUEUES)
        self.administer("updateTopic", "-c", "DefaultCluster", "-t", name, *queues)
        return name

    def administer(self, *words: object) -> list[str]:
        """A command of mqadmin's, past the recorder."""
        with self._sending:
            return self.admin.do(*words, "-n", self.apache.nameserver)

    def sends(self, group: str, number: int = FEW, rate: int = RATE) -> None:
        with self._sending:
            assert "failed 0" in self.sender.do("send", f"Of{group}", number, rate)

    def transacts(self, group: str, number: int, times: int) -> None:
        """So many transactions, each committed so often."""
        with self._sending:
            assert "failed 0" in self.sender.do("transact", f"Of{group}", number, times)

    def joins(
        self, group: str, expression: str = "*", how: str = "concurrently", instance: str = "-"
    ) -> Program:
        self._numbers[group] += 1
        words = (self.nameserver, group, f"Of{group}", expression, how, instance)
        name = f"{group}-{self._numbers[group]}"
        program = Program(name, self.home, self._java, *words, main="Recorded")
        self.programs.append(program)
        program.wait_for("started")
        return program

    def until(self, number: int, *members: Program) -> None:
        """So many messages were consumed, each counted once."""

        def is_got() -> bool:
            got = {line for one in members for line in one.said if line.startswith("got ")}
            return len(got) >= number

        if not eventually(is_got, WAIT_S):
            raise TimeoutError([len(one.said) for one in members])


def committed(member: Program, topic: str) -> int:
    """Of how many queues of a topic a member has committed an offset, as its log tells."""
    line = re.compile(rf"updateConsumeOffsetToBroker (MessageQueue \[topic={topic},.*?\])")
    logs = (log.read_text(encoding="utf-8") for log in member.logs.rglob("*.log"))
    return len({queue for log in logs for queue in line.findall(log)})


# What happens.


def clean(play: Play, messages: int) -> None:
    play.topic("Clean")
    members = [play.joins("Clean") for _ in range(4)]
    play.sends("Clean", messages)
    play.until(messages, *members)
    for member in members:
        member.leave()


def joins_and_leaves(play: Play) -> None:
    play.topic("Turn")
    play.sends("Turn")
    one = play.joins("Turn")
    play.until(FEW, one)
    two = play.joins("Turn")
    play.sends("Turn", rate=100)
    play.until(2 * FEW, one, two)
    one.leave()
    play.sends("Turn", rate=100)
    play.until(3 * FEW, one, two)
    two.leave()


def killed(play: Play) -> None:
    """With kill -9, one of two members; the other takes over what it had not committed."""
    play.topic("Killed")
    one, two = play.joins("Killed"), play.joins("Killed")
    play.sends("Killed", rate=100)
    one.kill()
    play.sends("Killed", rate=100)
    play.until(2 * FEW, one, two)
    two.leave()


def reset(play: Play) -> None:
    """To the beginning, by a tool, while a member is there: it gets everything again."""
    play.topic("Reset")
    play.sends("Reset")
    one = play.joins("Reset")
    play.until(FEW, one)
    assert eventually(lambda: committed(one, "OfReset") == 2 * QUEUES, WAIT_S)
    play.administer("resetOffsetByTime", "-g", "Reset", "-t", "OfReset", "-s", 0)
    again = eventually(lambda: sum(s.startswith("got ") for s in one.said) >= 2 * FEW, WAIT_S)
    assert again, len(one.said)
    one.leave()


def twins(play: Play) -> None:
    """Two members of one id: both take the same half, and nobody the other one."""
    play.topic("Twins")
    one, two = (play.joins("Twins", instance="same") for _ in range(2))
    play.sends("Twins")
    play.until(FEW // 3, one, two)
    for each in (one, two):
        each.leave()


def of_two_minds(play: Play) -> None:
    """Two members of one group that subscribe to different tags: about a quarter of what is sent
    comes to whom it is for."""
    play.topic("Tags")
    one, two = play.joins("Tags", "a"), play.joins("Tags", "b")
    play.sends("Tags", rate=100)
    play.until(FEW // 8, one, two)
    for each in (one, two):
        each.leave()


def frozen(play: Play) -> None:
    """One of two members that consume in order stands still for longer than its broker waits."""
    play.topic("Frozen")
    one, two = play.joins("Frozen", how="orderly"), play.joins("Frozen", how="orderly")
    play.sends("Frozen", rate=100)
    play.until(FEW, one, two)
    one.signal(signal.SIGSTOP)
    play.sends("Frozen", rate=100)
    time.sleep(FROZEN_S)
    one.signal(signal.SIGCONT)
    play.until(2 * FEW, one, two)
    for each in (one, two):
        each.leave()


def committed_twice(play: Play) -> None:
    """Each of some transactions."""
    play.topic("Doubled")
    one = play.joins("Doubled")
    play.transacts("Doubled", FEW // 10, times=2)
    wanted = 2 * (FEW // 10)
    assert eventually(lambda: sum(s.startswith("got ") for s in one.said) >= wanted, WAIT_S)
    one.leave()


def popped(play: Play) -> None:
    """The broker gives queues out, and members pop."""
    play.topic("Popped")
    mode = ("-t", "OfPopped", "-g", "Popped", "-m", "POP", "-q", 1)
    play.administer("setConsumeMode", "-c", "DefaultCluster", *mode)
    one, two = (play.joins("Popped", how="popping") for _ in range(2))
    play.sends("Popped", rate=100)
    play.until(FEW, one, two)
    for each in (one, two):
        each.leave()


def to_all(play: Play) -> None:
    """Two members, each of which gets everything."""
    play.topic("Broad")
    one, two = (play.joins("Broad", how="broadcasting", instance=name) for name in ("one", "two"))
    play.sends("Broad")
    for each in (one, two):
        play.until(FEW, each)
        each.leave()


def broker_killed(play: Play) -> None:
    """With kill -9, one of two, and started again."""
    play.topic("Struck")
    one, two = play.joins("Struck"), play.joins("Struck")
    play.sends("Struck")
    play.until(FEW, one, two)
    play.apache.kill()
    play.apache.start()
    play.sends("Struck", rate=100)
    play.until(2 * FEW, one, two)
    for each in (one, two):
        each.leave()


SCENES: Final[tuple[Callable[[Play], None], ...]] = (
    joins_and_leaves, killed, reset, twins, of_two_minds, frozen, committed_twice, popped,
    to_all,
)  # fmt: skip


def incidents(play: Play, _: int) -> None:
    """All at once, and after them the one that strikes all."""
    with ThreadPoolExecutor(len(SCENES)) as pool:
        played = {pool.submit(scene, play): scene.__name__ for scene in SCENES}
        for scene in as_completed(played):
            scene.result()
            print(f"{played[scene]}: played", flush=True)
    broker_killed(play)


# What is told of it.

# Of a clean run: members come one after the other and go so, and their group rebalances.
_CAME_AND_WENT: Final = {
    ("permitted", "no owner"),
    ("permitted", "two owners"),
    ("permitted", "repeated"),
    ("permitted", "went back"),
}
_IN_STORES: Final = {("open", "unclosed segments")}
UNTOLD: Final = "no source here tells"
ONLY: Final = {
    "recorder": _CAME_AND_WENT,
    "stores": _IN_STORES,
    "logs": _CAME_AND_WENT,
    "all": _CAME_AND_WENT | _IN_STORES,
}
Said = tuple[str, str, str, str]  # of a scene: a judgement, a check, and why


def _said(scene: str, check: Check, outcome: str) -> Said:
    said = check.outcomes[outcome]
    return scene, said.judgement.value, check.name, said.why


# What is to be told of what happened to whom, whatever the moment was, by those who can.
_REBALANCED: Final = {_said(scene, NO_OWNER, "passing") for scene in ("Turn", "Killed", "Struck")}
_BY_RECORDER: Final = _REBALANCED | {
    _said("Reset", REPEATED, "sought"),
    _said("Reset", WENT_BACK, "handed over"),
    _said("Twins", EQUAL_IDS, "shared"),
    _said("Tags", LOST, "mixed"),
    _said("Frozen", TAKEN_AWAY, "overlocked"),
    _said("Doubled", REPEATED, "committed again"),
}
_BY_STORES: Final = {_said("Doubled", REPEATED, "committed again")}
_BY_LOGS: Final = _REBALANCED | {
    _said("Reset", WENT_BACK, "handed over"),
    _said("Twins", EQUAL_IDS, "shared"),
    _said("Frozen", TWO_OWNERS, "passing"),
}
SURELY: Final = {
    "recorder": _BY_RECORDER,
    "stores": _BY_STORES,
    "logs": _BY_LOGS,
    "all": _BY_RECORDER | _BY_STORES | _BY_LOGS,
}
# What must hold of each message, and the sources that tell all it takes to say so.
WHOLE: Final = "lost"
TELL_IT: Final = ("recorder", "stores", "all")


def sources(home: Path) -> dict[str, list[str]]:
    """Where each lies."""
    stores = [str(home / "stores" / name) for name in ("broker-a", "broker-b")]
    logs, recorded = str(home / "logs"), str(home / "recorded")
    return {
        "recorder": [recorded],
        "stores": stores,
        "logs": [logs],
        "all": [recorded, *stores, logs],
    }


def keep(home: Path) -> None:
    """Copy the stores, and the logs of the brokers to those of the clients."""
    for name in ("broker-a", "broker-b"):
        there = home / "apache" / name
        shutil.copytree(there / "store", home / "stores" / name)
        (home / "logs" / name).mkdir()
        for log in there.rglob("broker.log"):
            shutil.copy(log, home / "logs" / name / "broker.log")


def told(home: Path) -> dict[str, list[CheckReport]]:
    """What the audit says of each source."""
    said, where = {}, sources(home)
    spark = session("local[2]", little=is_little(where["recorder"]))  # what all of them are about
    for name, paths in where.items():
        audited = audit(spark, paths, examples=EXAMPLES, one_clock=True)
        said[name] = [*audited.report.checks]
        for one in audited.report.unread:
            print(name, "unread", one)
    return said


def by_scene(checks: Sequence[CheckReport]) -> Counter[Said]:
    """How often what was said of each scene's group or topic."""
    found: Counter[Said] = Counter()
    for check in checks:
        for finding in check.findings:
            for place in finding.examples or (finding.first,):
                of = str(place.get("consumer_group") or place.get("topic") or "-")
                scene = of.removeprefix("Of").partition(" ")[0]
                found[scene, finding.judgement.value, check.name, finding.why] += 1
    return found


def _is_as_it_should_be(source: str, said: Said, is_clean: bool) -> bool:
    _, judgement, name, why = said
    if (judgement, name) in ONLY[source] or said in SURELY[source]:
        return True
    if Judgement(judgement) in (Judgement.VIOLATED, Judgement.PERMITTED):
        return False
    # What is left open is told as nothing. Where nothing happened only what a source cannot tell
    # may be, which it says.
    return UNTOLD in why or not is_clean


def departures(source: str, checks: Sequence[CheckReport], messages: int | None) -> Iterator[str]:
    """What is said by a source and should not be, or is not said: of a clean run of so many
    messages, else of all incidents."""
    for said, number in sorted(by_scene(checks).items()):
        scene, judgement, name, why = said
        if not _is_as_it_should_be(source, said, is_clean=bool(messages)):
            yield f"{source}: {scene}: {number} {judgement} | {name}: {why}"
    if messages and source in TELL_IT:
        held = sum(check.held for check in checks if check.name == WHOLE)
        if held < messages:
            yield f"{source}: {WHOLE}: {held} held of {messages}"
    if not messages:
        for one in sorted(SURELY[source] - by_scene(checks).keys()):
            yield f"{source}: not told: {' | '.join(one)}"
    if not any(check.examined for check in checks):
        yield f"{source}: nothing was judged"


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("clean", "incidents", "judge"))
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--keep", type=Path, help="where the run is kept, or was")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mqspec-", ignore_cleanup_errors=True) as folder:
        home = args.keep or Path(folder)
        if args.what != "judge":
            home.mkdir(parents=True, exist_ok=True)
            play = Play(home)
            with play.going_on():
                {"clean": clean, "incidents": incidents}[args.what](play, args.messages)
            keep(home)
        return judge(home, args.messages if args.what == "clean" else None)


def judge(home: Path, messages: int | None) -> int:
    """Print what each source tells of a run. The exit code."""
    wrong: list[str] = []
    for name, checks in told(home).items():
        print("==", name)
        for (scene, *what), number in sorted(by_scene(checks).items()):
            print(f"{scene:10} {number:6} {' | '.join(what)}")
        wrong += departures(name, checks, messages)
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
