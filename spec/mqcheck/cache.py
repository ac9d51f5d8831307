"""What TLC said, kept by the content of everything that it depends on.

The key is made of the modules, the configuration and the jar of TLC, so that an entry cannot
be out of date; what is kept is TLC's own output, which is read and compared again each time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mqspec import toolchain

_NAME = re.compile(rb"\w+")


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of results; made when the first is kept."""

    folder: Path

    def get(self, key: str) -> tuple[int, str] | None:
        """The exit code and the output that were kept, None where none were."""
        try:
            code, _, output = (self.folder / key).read_text(encoding="utf-8").partition("\n")
            return int(code), output
        except (FileNotFoundError, ValueError):
            return None

    def keep(self, key: str, code: int, output: str) -> None:
        """Keep a result; a reader sees it whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{key}.part"
        part.write_text(f"{code}\n{output}", encoding="utf-8")
        part.replace(self.folder / key)


def key_of(module: Path, config: str, library: Sequence[Path], options: Sequence[str]) -> str:
    """What a run of TLC depends on, as one name."""
    digest = hashlib.sha256(_digest(toolchain.tlc_jar()).encode())
    words = (module.stem, config, *options)
    for part in (*(word.encode() for word in words), *_texts(module, library)):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _texts(module: Path, library: Sequence[Path]) -> Iterator[bytes]:
    """The module, and every one that it names, and so on: more than it extends, never less."""
    # Of two modules of one name, TLC takes the one in the folder that is named first.
    nearest_last = [path for folder in reversed(library) for path in folder.glob("*.tla")]
    known = {path.stem: path for path in nearest_last}
    known |= {path.stem: path for path in sorted(module.parent.glob("*.tla"))}
    waiting, seen = [module.stem], {module.stem}
    while waiting:
        text = known[waiting.pop()].read_bytes()
        yield text
        named = {word.decode(errors="replace") for word in _NAME.findall(text)} & known.keys()
        waiting += sorted(named - seen)
        seen |= named


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
