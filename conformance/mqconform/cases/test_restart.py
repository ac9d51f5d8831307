"""Restarts: what is still there after a clean stop, a kill -9, and a kill with damaged files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.cases import BUSY_S
from mqconform.connection import eventually
from mqconform.fastjson import loads
from mqconform.scene import Scene, done, shows
from mqconform.stage import Restart

STORED = "test_a_message_is_stored_as_it_was_sent"
COMMITTED = "test_a_committed_offset_is_kept_as_it_is[1-0]"
PERSISTED_S = 15.0 + BUSY_S  # the offsets' file is written every 5 s, first after 10 s

# Position 0, the greatest size, tags code 0: what fills a ConsumeQueue before its first unit.
BLANK_UNIT = bytes.fromhex("00000000000000007fffffff0000000000000000")

ATTRIBUTES = "+message.type=FIFO"
GROUP: dict[str, Any] = {
    "consumeMessageOrderly": True, "retryMaxTimes": 7, "retryQueueNums": 3,
    "consumeBroadcastEnable": False, "whichBrokerWhenConsumeSlowly": 2,
}  # fmt: skip

KINDS = pytest.mark.parametrize("kind", [Restart.CLEAN, Restart.KILL], ids=lambda kind: kind.value)


def survives(scene: Scene, kind: Restart) -> None:
    """Send to two queues, restart, and find all of it again and room for more."""
    topic, group = scene.topic(queues=2), scene.group()
    for n in range(20):
        scene.send(topic, f"message {n}".encode(), queue_id=n % 2, tag="A")
    before = [scene.read_all(topic, group, queue_id) for queue_id in range(2)]
    scene.restart(kind)
    assert [scene.read_all(topic, group, queue_id) for queue_id in range(2)] == before
    assert scene.send(topic, b"more").number("queueOffset") == 10
    assert [record.queue_offset for record in scene.read_all(topic, group)] == list(range(11))


@case("RECOV-014", party="store", claims="restart", after=STORED)
def test_messages_survive_a_clean_restart(scene: Scene) -> None:
    survives(scene, Restart.CLEAN)


@case("RECOV-013", "RECOV-003", "RECOV-004", party="store", claims="restart", after=STORED)
def test_acknowledged_messages_survive_a_kill(scene: Scene) -> None:
    survives(scene, Restart.KILL)


@case("RECOV-050", party="broker", claims="restart")
@KINDS
def test_topics_and_groups_survive(scene: Scene, kind: Restart) -> None:
    topic, group = scene.topic(5, write=3, perm=4), scene.group()
    before = scene.topic_config(topic)
    assert before
    scene.restart(kind)
    assert scene.topic_config(topic) == before
    assert scene.broker.call(requests.commit_offset(group, topic, 1)).code == 0


@case("RECOV-050", party="broker", claims="restart", after="test_attributes_are_altered")
@KINDS
def test_all_that_topics_and_groups_are_set_to_survives(scene: Scene, kind: Restart) -> None:
    topic, group = scene.name("T"), scene.name("G")
    made = requests.create_topic(topic, 5, 3, 4).having(order=True, attributes=ATTRIBUTES)
    done(scene.broker.call(made))
    done(scene.broker.call(requests.create_group(group, **GROUP)))
    before, group_before = scene.topic_config(topic), group_config(scene, group)
    assert before
    assert (before["order"], before["attributes"]) == (True, {"message.type": "FIFO"})
    shows(group_before, GROUP)
    scene.restart(kind)
    assert scene.topic_config(topic) == before
    assert group_config(scene, group) == group_before


def group_config(scene: Scene, group: str) -> dict[str, Any]:
    found: dict[str, Any] = done(scene.broker.call(requests.group_config(group))).json()
    return found


@case("RECOV-051", party="broker", claims="restart", after=COMMITTED)
def test_offsets_survive_a_clean_restart(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    scene.broker.call(requests.commit_offset(group, topic, 42))
    scene.restart(Restart.CLEAN)
    assert scene.committed(group, topic) == 42


@case("OFFSET-016", party="broker", claims="restart store", after=COMMITTED)
def test_offsets_that_were_written_survive_a_kill(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    commit_is_written(scene, group, topic, 41)
    commit_is_written(scene, group, topic, 42)  # right after the file was: the next time is far
    scene.restart(Restart.KILL)
    assert scene.committed(group, topic) == 42


def commit_is_written(scene: Scene, group: str, topic: str, offset: int) -> None:
    scene.broker.call(requests.commit_offset(group, topic, offset))
    assert eventually(lambda: stored(offsets_file(scene), group, topic) == offset, PERSISTED_S)


@case("GROUP-057", party="broker", claims="restart")
@KINDS
def test_members_are_forgotten(scene: Scene, kind: Restart) -> None:
    group = scene.new_group()
    scene.broker.call(requests.heartbeat(scene.client("one"), group))
    assert scene.members(group) == ["one"]
    scene.restart(kind)
    assert scene.members(group) == []


def with_torn_offsets(scene: Scene) -> tuple[str, str]:
    """A group and its topic, committed at 42: after a restart with the file of offsets cut short
    and its backup whole. Cases share the restart and the file: the first that damages it does."""
    topic, group = scene.topic(), scene.group()
    scene.broker.call(requests.commit_offset(group, topic, 42))
    assert eventually(lambda: stored(offsets_file(scene), group, topic) == 42, PERSISTED_S)

    def damage() -> None:
        main = offsets_file(scene)
        if stored(main, group, topic) == 42:
            whole = main.read_bytes()
            backup_file(scene).write_bytes(whole)
            main.write_bytes(whole[: len(whole) // 2])

    scene.restart(Restart.TORN, damage)
    return group, topic


@case("RECOV-020", party="broker", claims="store", after=COMMITTED)
def test_a_file_of_offsets_has_a_backup(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    scene.broker.call(requests.commit_offset(group, topic, 42))
    with scene.apaches():  # how a broker keeps its files whole is its affair
        assert eventually(lambda: stored(backup_file(scene), group, topic) == 42, PERSISTED_S)


@case("RECOV-020", party="broker", claims="restart store", after=COMMITTED)
def test_a_torn_offsets_file_is_replaced_by_its_backup(scene: Scene) -> None:
    group, topic = with_torn_offsets(scene)
    assert scene.committed(group, topic) == 42


@case("RECOV-023", party="broker", claims="restart store", after=COMMITTED)
def test_a_torn_offsets_file_does_not_become_the_backup(scene: Scene) -> None:
    group, topic = with_torn_offsets(scene)
    # From the first write on: were the file torn in it, the backup would be all there is.
    assert eventually(lambda: stored(offsets_file(scene), group, topic) == 42, PERSISTED_S)
    assert stored(backup_file(scene), group, topic) == 42


@case("RECOV-022", party="broker", claims="restart store", after=STORED)
def test_two_torn_offsets_files_keep_no_message_back(scene: Scene) -> None:
    scene.restart(Restart.SETTLED)  # after the cases that damage the log, which is cut off there
    topic, group = scene.topic(), scene.group()
    for n in range(3):
        scene.send(topic, f"message {n}".encode())
    before = scene.read_all(topic, group)
    scene.broker.call(requests.commit_offset(group, topic, 3))
    assert eventually(lambda: stored(offsets_file(scene), group, topic) == 3, PERSISTED_S)

    def damage() -> None:
        for file in (offsets_file(scene), backup_file(scene)):
            file.write_bytes(b'{"offsetTable":{"T@')

    scene.restart(Restart.RUIN, damage)
    assert scene.read_all(topic, group) == before
    assert scene.committed(group, topic) is None


@case("RECOV-001", "RECOV-015", party="store", claims="restart store", after=STORED)
def test_a_torn_record_is_cut_off_and_its_offset_used_again(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    for n in range(3):
        scene.send(topic, f"message {n}".encode())
    *kept, torn = scene.read_all(topic, group)

    scene.restart(Restart.DAMAGE, lambda: tear(scene.store, torn.physical_offset, torn.size))
    assert scene.read_all(topic, group) == kept
    assert scene.send(topic, b"new").number("queueOffset") == 2
    *rest, new = scene.read_all(topic, group)
    assert (rest, new.body) == (kept, b"new")


@case("RECOV-021", party="store", claims="restart store", after=STORED)
def test_blank_units_hide_no_message(scene: Scene) -> None:
    scene.restart(Restart.SETTLED)  # after the cases that damage the log, which is cut off there
    topic, bodies = scene.topic(), [f"message {n}".encode() for n in range(3)]
    for body in bodies:
        scene.send(topic, body)
    assert eventually(lambda: scene.max_offset(topic) == len(bodies))

    def blank() -> None:
        (file,) = (scene.store / "consumequeue" / topic / "0").iterdir()
        with file.open("r+b") as units:
            units.write(BLANK_UNIT * len(bodies))

    scene.restart(Restart.STALL, blank)
    assert [record.body for record in scene.read_all(topic, scene.group())] == bodies


def offsets_file(scene: Scene) -> Path:
    return scene.store / "config" / "consumerOffset.json"


def backup_file(scene: Scene) -> Path:
    return scene.store / "config" / "consumerOffset.json.bak"


def stored(file: Path, group: str, topic: str) -> int | None:
    """The offset of queue 0 in a file; None where there is none, or it is being written."""
    try:
        table = loads(file.read_bytes())["offsetTable"]
    except (OSError, ValueError, KeyError):
        return None
    offset = table.get(f"{topic}@{group}", {}).get("0")
    return offset if isinstance(offset, int) else None


def tear(store: Path, physical_offset: int, size: int) -> None:
    """Leave a quarter of a record, as when only its first page reached the disk."""
    segments = sorted((store / "commitlog").iterdir(), key=lambda path: int(path.name))
    segment = [path for path in segments if int(path.name) <= physical_offset][-1]
    begin = physical_offset - int(segment.name) + size // 4
    with segment.open("r+b") as file:
        file.seek(begin)
        file.write(bytes(size - size // 4))
