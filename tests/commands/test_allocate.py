"""`mqspec allocate`: the figures of scenarios A and C, its three forms, and bad input."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from mqspec.cli import main


def allocated(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["allocate", "--json", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def totals(state: dict[str, Any]) -> list[int]:
    return [member["total"] for member in state["members"]]


@pytest.mark.parametrize(
    ("queues", "members", "expected"),
    [
        ("8", "2", [4, 4]),
        ("7", "2", [4, 3]),
        ("12", "5", [3, 3, 2, 2, 2]),
        ("13", "5", [3, 3, 3, 2, 2]),
    ],
)
def test_the_figures_of_scenario_a(
    capsys: pytest.CaptureFixture[str], queues: str, members: str, expected: list[int]
) -> None:
    assert totals(allocated(capsys, "--queues", queues, "--members", members)) == expected


@pytest.mark.parametrize(("strategy", "between"), [("AVG", 2), ("CONSISTENT_HASH", 0)])
def test_what_a_leaving_moves(
    capsys: pytest.CaptureFixture[str], strategy: str, between: int
) -> None:
    found = allocated(
        capsys, "--queues", "24", "--members", "4", "--leave", "2", "--strategy", strategy
    )
    moved = found["moves"]
    leavers = [move for move in moved if move["before"] == ["c2"]]
    assert len(leavers) == totals(found["before"])[1]
    assert len(moved) - len(leavers) == between


@pytest.mark.parametrize(
    ("strategy", "moved", "between"), [("AVG", 80, 32), ("CONSISTENT_HASH", 48, 0)]
)
def test_a_release_moves_queues_at_each_restart(
    capsys: pytest.CaptureFixture[str], strategy: str, moved: int, between: int
) -> None:
    """Each of 24 queues goes away and comes back; averagely moves others' queues beside them."""
    options = ("--queues", "24", "--members", "4", "--release", "--strategy", strategy)
    found = allocated(capsys, *options)
    assert found["moved"] == moved == 2 * 24 + between
    assert [step["what"] for step in found["steps"][:3]] == ["before", "c1 leaves", "c1 is back"]
    assert [totals(step) for step in found["steps"][::2]] == [totals(found["steps"][0])] * 5
    for before, after in zip(found["steps"], found["steps"][1:], strict=False):
        assert after["moved"] == sum(
            before_owners != after_owners
            for before_owners, after_owners in zip(owned(before), owned(after), strict=True)
        )


def owned(state: dict[str, Any]) -> list[list[str]]:
    """The owners of each of 24 queues."""
    owners: list[list[str]] = [[] for _ in range(24)]
    for member in state["members"]:
        for queue in member["queues"]:
            owners[queue["queue_id"]].append(member["id"])
    return owners


def test_remainders_pile_up_on_the_first_members(capsys: pytest.CaptureFixture[str]) -> None:
    topics = [option for i in range(5) for option in ("--topic", f"T{i}:6")]
    assert totals(allocated(capsys, *topics, "--members", "4")) == [10, 10, 5, 5]


def test_one_id_twice(capsys: pytest.CaptureFixture[str]) -> None:
    found = allocated(capsys, "--queues", "12", "--members", "5", "--duplicate-id", "3")
    assert [queue["queue_id"] for queue in found["nobodys"]] == [6, 7]
    assert [queue["queue_id"] for queue in found["shared"]] == [3, 4, 5]


def test_a_member_that_the_others_do_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    found = allocated(capsys, "--queues", "12", "--members", "4", "--unseen", "4")
    assert totals(found) == [4, 4, 4, 3]
    assert len(found["shared"]) == 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--strategy AVG_BY_CIRCLE --queues 10 --members 4", [3, 3, 2, 2]),
        ("--strategy CONSISTENT_HASH --virtual-nodes 0", [0, 0]),
        ("--strategy MACHINE_ROOM --rooms r1 --brokers r1@a,r2@b --queues 5", [3, 2]),
        (
            "--strategy MACHINE_ROOM_NEARBY-AVG --brokers r1@a,r2@b,r3@c --queues 4"
            " --members r1@x,r2@y",
            [6, 6],
        ),
        ("--strategy CONFIG --config c1=0-3 --config c2=3-5,7", [4, 4]),
    ],
)
def test_every_strategy(
    capsys: pytest.CaptureFixture[str], options: str, expected: list[int]
) -> None:
    assert totals(allocated(capsys, *options.split())) == expected


def test_lines_for_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--queues", "2", "--members", "x,z", "--leave", "x", "--join", "y"]
    assert main(["allocate", *options]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "topic\tbroker\tqueue_id\tbefore\tafter",
        "TopicTest\tbroker-a\t0\tx\ty",
        "TopicTest\tbroker-a\t1\tz\tz",
    ]


def test_tables_for_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["allocate", "--queues", "24", "--members", "4", "--leave", "2"]) == 0
    out = capsys.readouterr().out
    assert "8 of 24 queues change their owner, 2 of them between members that stay" in out
    assert "c3 -> c4  TopicTest broker-a 16-17" in out

    assert main(["allocate", "--queues", "24", "--members", "4", "--release"]) == 0
    assert "80 changes of an owner in all, 32 of them between members that stay" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--queues 0", "--queues: '0' is not a number from 1 to 100000"),
        ("--queues x", "--queues: 'x' is not a number"),
        ("--topic T", "--topic: 'T' is not a new NAME:N"),
        ("--topic T:1 --topic T:2", "--topic: 'T:2' is not a new NAME:N"),
        ("--topic T:1 --queues 2", "--queues: not together with --topic"),
        ("--members 0", "--members: '0' is not a number from 1 to 1000"),
        ("--members -1", "--members: '-1' is not a number from 1 to 1000"),
        ("--members a,,b", "--members: 'a,,b': a name is empty"),
        ("--leave 9", "--leave: no member '9'"),
        ("--leave 1 --leave 1", "--leave: c1 leaves twice"),
        ("--leave 1 --leave 2", "--leave: nobody is left"),
        ("--join c1", "--join: 'c1' is empty, or a member already"),
        ("--duplicate-id 1", "--duplicate-id: the first member has none before it"),
        ("--strategy FOO", "--strategy: no strategy 'FOO'; there are AVG,"),
        ("--strategy MACHINE_ROOM", "--strategy: MACHINE_ROOM needs rooms"),
        ("--strategy MACHINE_ROOM_NEARBY-AVG", "broker-a: names no room; write it ROOM@NAME"),
        ("--strategy MACHINE_ROOM_NEARBY-AVG --brokers @b", "Machine room is null for mq"),
        ("--strategy CONFIG --config c9=1", "--config: no member 'c9'"),
        ("--strategy CONFIG --config c1=8", "--config: '8' is not a number from 0 to 7"),
        ("--config c1=1", "--config: not for AVG"),
        ("--release --leave 1", "--release: not together with --leave"),
        ("--release --members 1", "--release: nobody is left while it restarts"),
        ("--strategy CONSISTENT_HASH --virtual-nodes -1", "--virtual-nodes: "),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], options: str, says: str) -> None:
    words = options.replace("--virtual-nodes -1", "--virtual-nodes=-1").split()
    assert main(["allocate", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error


def test_how_many_queues_have_not_one_owner_is_told_by_the_condition(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--topic", "T:12", "--topic", "U:7", "--members", "5", "--duplicate-id", "3")
    found = allocated(capsys, *options)
    assert found["uneven"] == {
        "shared": len(found["shared"]),
        "nobodys": len(found["nobodys"]),
        "most": 2,
    }
    assert len(found["nobodys"]) == 2 + 1
    assert "uneven" not in allocated(capsys, *options, "--strategy", "CONSISTENT_HASH")


def test_a_member_that_the_others_miss_shares_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    found = allocated(capsys, "--queues", "12", "--members", "4", "--unseen", "4")
    assert found["uneven"] == {"shared": len(found["shared"]), "nobodys": 0, "most": 2}
    assert len(found["shared"]) == 3
