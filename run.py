#!/usr/bin/env python3
"""Set up everything below this checkout, then run one of its jobs.

    python3 run.py verify        check, prove, conform and audit; ends with the evidence matrix
    python3 run.py test          the linters, the type checker and the tests
    python3 run.py bench         speed, beside Apache RocketMQ and alone, and of the models
    python3 run.py docs          build the design reference into build/docs
    python3 run.py setup         only set up
    python3 run.py mqspec ...    the mqspec command, set up first

Needs Python 3.11 or later and nothing else; a set-up that was cut off is begun anew.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "set-up"  # written last: where it is missing, nothing in .venv is trusted
SUPPORTED = {("Linux", "x86_64"), ("Darwin", "arm64")}

JOBS = {
    "setup": [],
    "verify": [["-m", "mqspec.cli", "verify"]],
    "mqspec": [["-m", "mqspec.cli"]],
    "bench": [["tests/bench/bench.py"]],
    "docs": [["-m", "sphinx", "-W", "-q", "-b", "html", "docs", "build/docs"]],
    "test": [
        ["-m", "ruff", "format", "--check", "--quiet", "."],
        ["-m", "ruff", "check", "--quiet", "."],
        ["-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-logo"],
        ["-m", "mypy"],
        ["-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"],
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
    for command in JOBS[job]:
        done = subprocess.run([PYTHON, *command, *arguments], cwd=ROOT)
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
    """Bring .venv to the state that the lock and pyproject.toml ask for."""
    wanted = state()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    if not (STAMP.exists() and STAMP.read_text().split()[0] == wanted.split()[0]):
        say("an environment in .venv (a few minutes, some 500 MB)")
        shutil.rmtree(VENV, ignore_errors=True)
        run(sys.executable, "-m", "venv", VENV)
        pip("install", "--use-pep517", "--require-hashes", "-r", "requirements.lock")
    STAMP.unlink(missing_ok=True)
    pip("install", "--no-deps", "--no-build-isolation", "--no-index", "-e", ".")
    say("Java's jars: TLC, a compiler, Apache RocketMQ")
    run(PYTHON, "-m", "mqspec.toolchain")
    STAMP.write_text(wanted)


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
