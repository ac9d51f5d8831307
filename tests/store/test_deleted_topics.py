"""A topic that was deleted: gone at once, and after every kind of start."""

from __future__ import annotations

import shutil
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from unittest.mock import Mock

import pytest
from store_images import SMALL, image_of, keys, message, new_store, write_image

from mqspec.store import MessageStore, PutStatus
from mqspec.store.check import check
from mqspec.store.files import DISK


def deleted_and_made_again(root: Path) -> MessageStore:
    """A store that runs: two old messages of the topic, another topic's, and a new one."""
    store = new_store(root)
    store.open()
    for key in ("old-1", "old-2"):
        store.put(message(key))
    store.put(message("other", queue_id=1))
    store.flush()
    store.delete_topic("T")
    assert store.max_offset("T", 0) == store.max_offset("T", 1) == 0
    assert store.put(message("new")).queue_offset == 0
    return store


def killed(store: MessageStore, copy: Path) -> MessageStore:
    """What starts on the files as they are now."""
    store.reput()
    shutil.copytree(store.root, copy, ignore=shutil.ignore_patterns("lock"))
    started = new_store(copy)
    started.open()
    return started


def test_it_is_gone_at_once(tmp_path: Path) -> None:
    store = deleted_and_made_again(tmp_path / "store")
    assert keys(store) == ["new"]
    queues = store.root / "consumequeue"
    assert [path.name for path in (queues / "T").iterdir()] == ["0"]
    store.delete_topic("T")
    assert list(queues.iterdir()) == []


def test_a_flush_that_was_about_to_flush_it_does_the_others(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    store.open()
    for topic in ("T", "U"):
        store.put(message("key", topic=topic))
    flush = store.flushing()
    store.delete_topic("T")
    assert [queue.is_dirty for queue in store._consume_queues.values()] == [True]
    flush()
    assert [queue.is_dirty for queue in store._consume_queues.values()] == [False]


@pytest.mark.parametrize("lost", [False, True], ids=["queue there", "queue lost"])
def test_it_stays_away_after_a_kill(tmp_path: Path, lost: bool) -> None:
    store = deleted_and_made_again(tmp_path / "store")
    if lost:
        shutil.rmtree(store.root / "consumequeue")
    started = killed(store, tmp_path / "copy")
    assert keys(started) == ["new"]
    assert started.max_offset("T", 1) == 0
    assert started.put(message("newer")).queue_offset == 1


def test_a_topic_that_never_was_is_not_remembered(tmp_path: Path) -> None:
    store = deleted_and_made_again(tmp_path / "store")
    file = store.root / "config" / "deletedTopics.json"
    remembered = file.read_bytes()
    for name in ("nobody's", "../../else", "x" * 300):
        store.delete_topic(name)
    assert file.read_bytes() == remembered
    store.delete_topic("T")
    assert file.read_bytes() != remembered
    remembered = file.read_bytes()
    store.delete_topic("T")  # has no queue any more
    assert file.read_bytes() == remembered
    assert keys(killed(store, tmp_path / "copy")) == []


def test_it_stays_away_after_a_clean_stop(tmp_path: Path) -> None:
    store = deleted_and_made_again(tmp_path / "store")
    store.close()
    again = new_store(tmp_path / "store")
    again.open()
    assert keys(again) == ["new"]
    again.close()


def test_what_waited_for_a_flush_goes_with_it(tmp_path: Path) -> None:
    """With synchronous flush a message may be stored, and not be in its queue yet."""
    store = new_store(tmp_path / "store", replace(SMALL, sync_flush=True))
    store.open()
    store.settle = lambda: PutStatus.PUT_OK  # until the next flush
    store.put(message("old"))
    store.delete_topic("T")
    assert store.put(message("new")).queue_offset == 0
    store.flush()
    assert keys(store) == ["new"]


def test_where_it_cannot_be_remembered_it_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path / "store", replace(SMALL, sync_flush=True))
    store.open()
    store.settle = lambda: PutStatus.PUT_OK  # until the next flush
    store.put(message("old"))
    with monkeypatch.context() as full:
        full.setattr(DISK, "write", Mock(side_effect=OSError(ENOSPC, "No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            store.delete_topic("T")
    store.flush()
    assert keys(store) == ["old"]


def test_what_was_deleted_and_lost_is_not_the_new_topics_place(tmp_path: Path) -> None:
    """A crash may take back the log to before where it ended at a deletion: what is stored there
    later is nobody else's."""
    store = new_store(tmp_path / "store")
    store.open()
    store.put(message("other", topic="U"))
    store.flush()
    on_disk = image_of(store.root)
    for key in ("old-1", "old-2", "old-3"):
        store.put(message(key))
    store.delete_topic("T")
    memory = {name: data for name, data in image_of(store.root).items() if "deleted" in name}
    crashed = new_store(write_image(tmp_path / "crashed", on_disk | memory))
    crashed.open()
    for key in ("new-1", "new-2"):
        crashed.put(message(key))
    crashed.flush()
    shutil.rmtree(crashed.root / "consumequeue" / "T")
    again = killed(crashed, tmp_path / "copy")
    assert keys(again) == ["new-1", "new-2"]
    assert again.max_offset("U", 0) == 1


def test_a_deletion_that_a_crash_interrupted_is_finished(tmp_path: Path) -> None:
    """The memory of it is on disk first, and a queue may be left."""
    store = deleted_and_made_again(tmp_path / "store")
    store.put(message("else", topic="U"))
    store.flush()
    left = image_of(store.root)
    store.delete_topic("T")
    memory = {name: data for name, data in image_of(store.root).items() if "deleted" in name}
    image = write_image(tmp_path / "left", left | memory)
    assert check(image).recovery.dropped == {("T", 0): 1}
    crashed = new_store(image)
    crashed.open()
    assert crashed.max_offset("T", 0) == 0
    assert crashed.put(message("newer")).queue_offset == 0
    assert keys(crashed) == ["newer"]
    assert keys(crashed, topic="U") == ["else"]


def test_without_the_memory_of_it_old_messages_come_back(tmp_path: Path) -> None:
    """What the file is for: the log alone does not tell."""
    store = deleted_and_made_again(tmp_path / "store")
    shutil.rmtree(store.root / "config")
    assert keys(killed(store, tmp_path / "copy")) == ["new", "old-2"]
