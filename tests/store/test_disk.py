"""What the real Disk promises to be on disk, and what it makes of a system that does less."""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, TypeAlias

import pytest

from mqspec.store import files
from mqspec.store.config_file import ConfigFile
from mqspec.store.files import DISK

PAGE = mmap.ALLOCATIONGRANULARITY
Content: TypeAlias = bytes | frozenset[str]  # of a file, or the names in a directory


class Synced(NamedTuple):
    """A file, or a directory, as it was when the system was asked to sync it."""

    inode: int
    content: Content


class Syncs(list[Synced]):
    """What is synced, in this order."""

    def of(self, path: Path) -> list[Content]:
        """Of a file that is there: what it held, sync by sync."""
        inode = path.stat().st_ino
        return [synced.content for synced in self if synced.inode == inode]


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    """By the system's own calls, which are made too."""
    found = Syncs()

    def noting(call: Callable[[int], None]) -> Callable[[int], None]:
        def sync(descriptor: int) -> None:
            status = os.fstat(descriptor)
            if (Path("/dev/fd") / str(descriptor)).is_dir():
                found.append(Synced(status.st_ino, frozenset(os.listdir(descriptor))))
            else:
                found.append(Synced(status.st_ino, os.pread(descriptor, status.st_size, 0)))
            call(descriptor)

        return sync

    assert files._sync in (os.fsync, getattr(os, "fdatasync", None))
    monkeypatch.setattr(files, "_sync", noting(files._sync))
    monkeypatch.setattr(os, "fsync", noting(os.fsync))
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"old content, which is long")
    return path


def test_a_sync_of_a_mapped_file_comes_after_what_was_written(path: Path, syncs: Syncs) -> None:
    mapped = DISK.map(path, path.stat().st_size)
    mapped[:3] = b"new"
    DISK.sync(path, mapped, 0, 3)
    assert syncs.of(path) == [b"new content, which is long"]
    mapped.close()


def test_where_a_sync_of_the_file_does_not_take_its_mapped_pages_they_are_flushed_first(
    tmp_path: Path, syncs: Syncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[int, int, int]] = []

    class Noted(mmap.mmap):
        def flush(self, offset: int = 0, size: int = -1) -> None:
            flushed.append((offset, size, len(syncs)))

    path = tmp_path / "file"
    path.write_bytes(bytes(2 * PAGE))
    with path.open("rb+") as file:
        mapped = Noted(file.fileno(), 2 * PAGE)
    for platform, expected in (("linux", []), ("darwin", [(PAGE, 7, 0)])):
        syncs.clear()
        monkeypatch.setattr(sys, "platform", platform)
        DISK.sync(path, mapped, PAGE, 7)
        assert flushed == expected
        assert len(syncs.of(path)) == 1
    mapped.close()


@pytest.mark.parametrize("data", [b"new", b"", b"new content, which is longer than the old"])
def test_what_is_written_is_on_disk_and_nothing_behind_it(
    path: Path, syncs: Syncs, data: bytes
) -> None:
    DISK.write(path, data)
    assert syncs.of(path) == [data]
    assert path.read_bytes() == data


def test_what_is_written_is_on_disk_also_in_a_new_file(tmp_path: Path, syncs: Syncs) -> None:
    DISK.write(tmp_path / "new", b"data")
    assert syncs.of(tmp_path / "new") == [b"data"]


def test_what_is_cleared_is_on_disk_and_its_file_keeps_its_size(path: Path, syncs: Syncs) -> None:
    DISK.clear(path, 3)
    assert syncs.of(path) == [b"old".ljust(26, b"\0")]
    assert path.read_bytes() == b"old".ljust(26, b"\0")


def test_a_sync_of_a_directory_is_one_of_its_names(tmp_path: Path, syncs: Syncs) -> None:
    (tmp_path / "file").touch()
    DISK.sync_directory(tmp_path)
    assert syncs.of(tmp_path) == [frozenset({"file"})]


def test_a_config_file_has_its_name_once_its_content_is_on_disk(
    tmp_path: Path, syncs: Syncs
) -> None:
    directory = tmp_path / "config"
    file = ConfigFile(directory / "a.json")
    for names in ({"a.json"}, {"a.json", "a.json.bak"}):
        file.persist({"names": len(names)})
        content, directory_then = syncs[-2:]
        assert content == (file.path.stat().st_ino, file.path.read_bytes())
        assert directory_then == (directory.stat().st_ino, frozenset(names))


def test_what_the_system_writes_in_pieces_is_written_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, sizes = os.pwrite, []

    def some(descriptor: int, data: bytes, at: int) -> int:
        sizes.append(pwrite(descriptor, data[:4], at))
        return sizes[-1]

    monkeypatch.setattr(os, "pwrite", some)
    descriptor = DISK.open(path)
    DISK.write_at(descriptor, 4, b"new content")
    os.close(descriptor)
    assert path.read_bytes() == b"old new contentich is long"
    assert sizes == [4, 4, 3]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_where_a_file_system_gives_no_room_beforehand_it_is_done_without(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", _failing(number), raising=False)
    DISK.allocate(path, 0, 1)


def test_where_there_is_no_room_it_is_told_beforehand(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", _failing(errno.ENOSPC), raising=False)
    with pytest.raises(OSError, match="No space"):
        DISK.allocate(path, 0, 1)


def _failing(number: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("free", "available", "percent"),
    [
        (1000, 1000, 0),
        (999, 999, 1),
        (250, 250, 75),
        (249, 249, 76),
        (250, 0, 100),  # the rest is the superuser's
        (500, 125, 80),
        (0, 0, 100),
    ],
)
def test_how_much_of_a_disk_is_used_is_rounded_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, available: int, percent: int
) -> None:
    disk = SimpleNamespace(f_blocks=1000, f_bfree=free, f_bavail=available)
    monkeypatch.setattr(os, "statvfs", {tmp_path: disk}.__getitem__)
    assert DISK.used_percent(tmp_path) == percent
