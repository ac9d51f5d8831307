"""A disk that remembers what was synced, and the states that a crash of the machine leaves.

Until a file is synced, each of its pages may be on disk as it was after any of the writes
since the last sync, whatever the others are; a page may be torn between its sectors, and the
file may be as long as it was. Until a directory is synced, each name that was made, changed
or removed in it may be so on disk or not. POSIX promises no more, and file systems keep more.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from store_images import Image

from mqspec.store.files import Disk

if TYPE_CHECKING:
    from mqspec.fast.index_run import Heads, Numbers

PAGE = mmap.PAGESIZE
SECTOR = 512


class Fate(Protocol):
    """What a crash leaves: an index into `count` states, the first on disk for sure, the last
    what a reader saw. Asked for each page that was not synced, or each sector of it where the
    page is torn, and each name."""

    def page(self, path: str, count: int) -> int:
        """Of a page or a sector, or of the file's length."""

    def is_torn(self, path: str) -> bool:
        """Whether sectors of the page are asked for one by one."""

    def name(self, path: str) -> bool:
        """Whether the change of a name is on disk."""


@dataclass
class File:
    """A file's content after each write since the last sync; the first one is on disk."""

    versions: list[bytes] = field(default_factory=lambda: [b""])

    def write(self, at: int, data: bytes, length: int) -> None:
        """Write, and make the file `length` bytes long."""
        new = bytearray(self.versions[-1][:length].ljust(length, b"\0"))
        new[at : at + len(data)] = data
        if new != self.versions[-1]:
            self.versions.append(bytes(new))

    def sync(self, begin: int = 0, end: int | None = None) -> None:
        """Of a part of the file: its pages, and its length."""
        last = self.versions[-1]
        span = slice(begin, len(last) if end is None else min(end, len(last)))
        for i, old in enumerate(self.versions):
            new = bytearray(old[: len(last)].ljust(len(last), b"\0"))
            new[span] = last[span]
            self.versions[i] = bytes(new)
        if all(version == last for version in self.versions):
            self.versions = [last]

    def left(self, path: str, fate: Fate) -> bytes:
        """The content that a crash leaves."""
        if len(self.versions) == 1:
            return self.versions[0]
        length = max(map(len, self.versions))
        whole = [version.ljust(length, b"\0") for version in self.versions]
        left = bytearray()
        for page in range(0, length, PAGE):
            step = SECTOR if fate.is_torn(path) else PAGE
            for at in range(page, min(page + PAGE, length), step):
                states = list(dict.fromkeys(version[at : at + step] for version in whole))
                left += states[fate.page(path, len(states)) if len(states) > 1 else 0]
        lengths = sorted({len(version) for version in self.versions})
        return bytes(left[: lengths[fate.page(path, len(lengths))] if len(lengths) > 1 else None])


class _Mapped(mmap.mmap):
    """A mapped file that tells what is written to it."""

    written: Callable[[int, bytes], None]

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.written(key.start or 0, value)


class RecordingDisk(Disk):
    """A disk in one directory, which begins as `image`, all of it synced.

    `moment` is called before each operation: a crash may come there. `room` is called before what
    needs more of the disk, and raises OSError where that is full. `lies` names operations
    that are taken for done and are not: "sync" of mapped files, "sync_directory", and "write"
    and "clear", whose content is synced.
    """

    def __init__(self, root: Path, image: Image, lies: frozenset[str] = frozenset()) -> None:
        self.root = root
        self.moment: Callable[[], None] = lambda: None
        self.room: Callable[[], None] = lambda: None
        self._lies = lies
        self._opened: dict[int, Path] = {}  # by descriptor, also those closed since
        self._durable: dict[str, File | None] = {".": None}  # by path; None: a directory
        self._pending: list[tuple[str, dict[str, File | bool | None]]] = []  # False: removed
        for path, data in image.items():
            self._durable[path] = File([data])
            for parent in Path(path).parents:
                self._durable[str(parent)] = None

    def crash(self, fate: Fate) -> Image:
        """The files that a crash at this moment leaves."""
        names = dict(self._durable)
        for directory, changes in self._pending:
            if fate.name(directory):
                _rename(names, changes)
        return {
            path: file.left(path, fate)
            for path, file in names.items()
            if file and all(str(parent) in names for parent in Path(path).parents)
        }

    def map(self, path: Path, size: int) -> mmap.mmap:
        with path.open("rb+") as file:
            mapped = _Mapped(file.fileno(), size)
        recorded = self._file(path)

        def written(at: int, data: bytes) -> None:
            self.moment()
            recorded.write(at, data, size)

        mapped.written = written
        return mapped

    def write_items(self, mapped: mmap.mmap, begin: int, numbers: Numbers, items: Heads) -> None:
        size = items.itemsize
        for at, item in zip((begin + size * numbers).tolist(), items, strict=True):
            mapped[at : at + size] = item.tobytes()

    def open(self, path: Path) -> int:
        descriptor = super().open(path)
        self._opened[descriptor] = path
        return descriptor

    def write_at(self, descriptor: int, at: int, data: bytes) -> None:
        self.moment()
        file = self._file(self._opened[descriptor])
        file.write(at, data, len(file.versions[-1]))
        super().write_at(descriptor, at, data)

    def sync(self, path: Path, mapped: mmap.mmap, begin: int, size: int) -> None:
        self.moment()
        if "sync" not in self._lies:
            self._file(path).sync(begin, begin + size)

    def allocate(self, path: Path, begin: int, size: int) -> None:
        self.room()

    def used_percent(self, path: Path) -> int:
        return 88  # what is closed may be removed, and puts are not refused

    def create(self, path: Path, size: int) -> mmap.mmap:
        self.room()
        self._change({path: File()})
        self._file(path).write(0, b"", size)
        return super().create(path, size)

    def clear(self, path: Path, begin: int) -> None:
        file = self._file(path)
        length = len(file.versions[-1])
        self.moment()
        file.write(begin, bytes(length - begin), length)
        self.moment()
        if "clear" not in self._lies:
            file.sync()
        super().clear(path, begin)

    def write(self, path: Path, data: bytes) -> None:
        self.room()
        if not path.exists():
            self._change({path: File()})
        self.moment()
        self._file(path).write(0, data, len(data))
        self.moment()
        if "write" not in self._lies:
            self._file(path).sync()
        super().write(path, data)

    def remove(self, path: Path) -> None:
        self._change({path: False})
        super().remove(path)

    def replace(self, path: Path, target: Path) -> None:
        self._change({target: self._file(path), path: False})
        super().replace(path, target)

    def make_directory(self, path: Path) -> list[Path]:
        for each in (*reversed(path.parents), path):
            if self.root in each.parents and not each.exists():
                self._change({each: None})
        return super().make_directory(path)

    def remove_directory(self, path: Path) -> None:
        if path.is_dir() and not any(path.iterdir()):
            self._change({path: False})
        super().remove_directory(path)

    def sync_directory(self, path: Path) -> None:
        self.moment()
        if "sync_directory" in self._lies:
            return
        directory = self._relative(path)
        for changed, changes in self._pending:
            if changed == directory:
                _rename(self._durable, changes)
        self._pending = [change for change in self._pending if change[0] != directory]

    @property
    def _names(self) -> dict[str, File | None]:
        names = dict(self._durable)
        for _, changes in self._pending:
            _rename(names, changes)
        return names

    def _file(self, path: Path) -> File:
        file = self._names[self._relative(path)]
        assert file
        return file

    def _change(self, changes: dict[Path, File | bool | None]) -> None:
        self.moment()
        relative = {self._relative(path): file for path, file in changes.items()}
        self._pending.append((self._relative(next(iter(changes)).parent), relative))

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path != self.root else "."


def _rename(names: dict[str, File | None], changes: dict[str, File | bool | None]) -> None:
    for path, file in changes.items():
        if file is False:
            names.pop(path, None)
        else:
            names[path] = file if isinstance(file, File) else None


@dataclass(frozen=True)
class Kept:
    """Of the files whose path begins with one of these everything is left; of others nothing
    that was not synced. `names` says whether names are."""

    paths: tuple[str, ...]
    names: bool

    def page(self, path: str, count: int) -> int:
        return count - 1 if path.startswith(self.paths) else 0

    def is_torn(self, path: str) -> bool:
        return False

    def name(self, path: str) -> bool:
        return self.names


@dataclass
class Chance:
    """Each page and each name by itself: `lost` of them are not left as they were seen."""

    random: Random
    lost: float
    torn: float

    def page(self, path: str, count: int) -> int:
        return self.random.randrange(count) if self.random.random() < self.lost else count - 1

    def is_torn(self, path: str) -> bool:
        return self.random.random() < self.torn

    def name(self, path: str) -> bool:
        return self.random.random() >= self.lost / 2


EVERYTHING = Kept(("",), names=True)  # as after a kill -9
FATES: tuple[Fate, ...] = (
    EVERYTHING,
    Kept((), names=False),
    Kept((), names=True),
    Kept(("",), names=False),
    Kept(("consumequeue", "index"), names=True),  # ConsumeQueues ahead of the log
    Kept(("commitlog",), names=True),
    Kept(("checkpoint", "config", "abort"), names=True),
)
