#!/usr/bin/env python3
"""Set up everything below this checkout, then run one of its jobs.

    python3 run.py verify        check, prove, conform and audit; ends with the evidence matrix
    python3 run.py test          the linters, the type checker and the tests
    python3 run.py test tests/core -k lock      these tests alone; pytest's own arguments
    python3 run.py bench         speed, beside Apache RocketMQ and alone, and of the models
    python3 run.py mutants       a sample of mutants of what decides, and whether anything notices
    python3 run.py nightly       all that takes too long for every change, within three hours
    python3 run.py docs          build the book into build/docs, the Chinese one into its zh
    python3 run.py pdf           the built book as one PDF, and the Chinese one; needs Chromium
    python3 run.py setup         only set up
    python3 run.py mqspec ...    the mqspec command, set up first

Needs Python 3.11 or later and nothing else. Of several of that version on the PATH the best built
is taken; a set-up that was cut off is begun anew.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / ".mqspec" / "set-up.lock"  # held by who sets up
STAMP = VENV / "set-up"  # written last: where it is missing, nothing in .venv is trusted

# What a Python says of itself: its version, its path, and the seconds that some work takes it.
PROBE = """
import ensurepip, sys, time, venv
def seconds():
    start = time.perf_counter()
    seen = {}
    for i in range(10_000):
        name = b"%d" % i
        seen[name] = len(name) + (i & 255)
        name.startswith(b"1") and seen.get(name[:3])
    return time.perf_counter() - start
print(*sys.version_info[:2], min(seconds() for _ in range(9)), sys.executable)
"""
DO_NOT_KEEP_COMPILED = "PYTHONDONTWRITEBYTECODE"
SUPPORTED = {("Linux", "x86_64"), ("Darwin", "arm64")}

BOOK = ["-m", "sphinx", "-W", "-q", "-j", "2", "-b", "html"]

# The commands of each job. Arguments are for the last of them, and then it runs alone: who names
# some tests does not wait for the linters.
JOBS = {
    "setup": [],
    "verify": [["-m", "mqspec.cli", "verify"]],
    "mqspec": [["-m", "mqspec.cli"]],
    "bench": [["tests/bench/bench.py"]],
    "mutants": [["tests/mutants/mutants.py"]],
    "nightly": [["tests/nightly/nightly.py"]],
    "docs": [
        [*BOOK, "-D", "language=zh_CN", "docs", "build/docs/zh"],
        [*BOOK, "docs", "build/docs"],
        ["docs/_ext/mqdocs/links.py", "build/docs"],
    ],
    "pdf": [["docs/_ext/mqdocs/pdf.py", "build/docs/mqspec.pdf", "build/docs/zh/mqspec.pdf"]],
    "test": [
        ["-m", "ruff", "format", "--check", "--quiet", "."],
        ["-m", "ruff", "check", "--quiet", "."],
        ["-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-logo"],
        ["-m", "mypy"],
        [
            "-m",
            "pytest",
            "-q",
            "-n",
            "4",
            "--dist",
            "loadfile",
            "--durations",
            "30",
        ],  # on two cores: many wait
    ],
}


def main() -> int:
    job, *arguments = sys.argv[1:] or ["--help"]
    if job not in JOBS:
        print(__doc__)
        return 0 if job in ("-h", "--help") else 2
    if problem := unsupported():
        print(f"run.py: {problem}", file=sys.stderr)
        return 2
    try:
        set_up()
    except subprocess.CalledProcessError as error:
        tried = " ".join(map(str, error.cmd[1:4]))
        print(f"run.py: set-up failed in '{tried}', see above; run again", file=sys.stderr)
        return 2
    commands = JOBS[job][-1:] if arguments else JOBS[job]
    # Tests start hundreds of Pythons: what one has compiled, the next need not compile again.
    environment = {name: os.environ[name] for name in os.environ if name != DO_NOT_KEEP_COMPILED}
    for command in commands:
        done = subprocess.run([PYTHON, *command, *arguments], cwd=ROOT, env=environment)
        if done.returncode:
            return done.returncode
    return 0


def unsupported() -> str:
    """Why this machine will not do; empty where it will."""
    machine = (platform.system(), platform.machine())
    if machine not in SUPPORTED:
        return f"{' '.join(machine)} is not supported: Linux x86-64 and macOS arm64 are"
    if sys.version_info < (3, 11):
        return f"Python 3.11 or later is needed, this is {platform.python_version()}"
    return ""


def set_up() -> None:
    """Bring .venv to the state that the lock and pyproject.toml ask for. One at a time: another
    that begins meanwhile would remove what this one has so far."""
    wanted = state()
    if is_set_up(wanted):
        return
    import fcntl  # not where run.py says that it is not supported

    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_set_up(wanted):
            install(wanted)


def is_set_up(wanted: str) -> bool:
    return STAMP.exists() and STAMP.read_text() == wanted


def install(wanted: str) -> None:
    if not (STAMP.exists() and STAMP.read_text().split()[0] == wanted.split()[0]):
        say("an environment in .venv (a few minutes, some 500 MB)")
        shutil.rmtree(VENV, ignore_errors=True)
        run(best_built(), "-m", "venv", VENV)
        pip("install", "--use-pep517", "--require-hashes", "-r", "requirements.lock")
    STAMP.unlink(missing_ok=True)
    pip("install", "--no-deps", "--no-build-isolation", "--no-index", "-e", ".")
    say("Java's jars: TLC, a compiler, Apache RocketMQ")
    run(PYTHON, "-m", "mqspec.toolchain")
    STAMP.write_text(wanted)


def best_built() -> str:
    """This Python, or another of its version on the PATH that does the same work much faster.

    One that was compiled without profile-guided optimization, as pyenv does where it is not
    told to, takes 1.2 times as long for all that is done here.
    """
    names = ("python3", f"python3.{sys.version_info[1]}")
    found = [shutil.which(name, path=path) for path in os.get_exec_path() for name in names]
    pythons = [sys.executable, *dict.fromkeys(map(os.path.realpath, filter(None, found)))]
    taken: dict[str, float] = {}
    for python, seconds in filter(None, map(probe, pythons * 3)):  # in turn: machines are noisy
        taken[python] = min(seconds, taken.get(python, seconds))
    best = min(taken, key=taken.__getitem__, default=sys.executable)
    if best == sys.executable or taken[best] > 0.9 * taken.get(sys.executable, math.inf):
        return sys.executable
    say(f"with {best}, which is better built than {sys.executable}")
    return best


def probe(python: str) -> tuple[str, float] | None:
    """A Python's path and the seconds that it takes; none where it cannot serve."""
    try:
        done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=20)
        major, minor, seconds, path = done.stdout.rstrip("\n").split(" ", 3)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    same = (int(major), int(minor)) == sys.version_info[:2]
    return (path, float(seconds)) if same else None


def state() -> str:
    """What the environment depends on, the costly part first."""
    lock = digest("requirements.lock") + f"-{sys.version_info[0]}.{sys.version_info[1]}"
    return f"{lock} {digest('pyproject.toml', 'reference/mqspec/toolchain/jars.toml')}"


def digest(*names: str) -> str:
    return hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in names)).hexdigest()


def pip(*arguments: str) -> None:
    run(PYTHON, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments)


def run(*command: object) -> None:
    # A virtual environment of the caller's must not leak into ours.
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    subprocess.run(command, cwd=ROOT, env=env, check=True)


def say(what: str) -> None:
    print(f"set-up: {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
