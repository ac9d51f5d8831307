"""`mqspec allocate --sweep`: costs are the core's, strategies are ranked, bad plans refused."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pyspark.sql import SparkSession

from mqaudit.sweep.costs import cost, groups_of
from mqaudit.sweep.ranked import sweep
from mqaudit.sweep.wanted import Case, Wanted, cases, read
from mqrules import UserError
from mqspec import cli
from mqspec.commands import allocate as allocate_command
from mqspec.core.allocation import AVG, AVG_BY_CIRCLE, Strategy, allocate, consistent_hash
from mqspec.core.types import MessageQueue

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "sweep.md"
SMALL = Wanted(strategies=("AVG", "CONSISTENT_HASH"), members=(4,), queues=(16,))


def strategy(name: str, nodes: int) -> Strategy:
    return {s.name: s for s in (AVG, AVG_BY_CIRCLE, consistent_hash(nodes))}[name]


def by_brute_force(case: Case, wanted: Wanted, groups: list[list[str]]) -> dict[str, float]:
    """The figures of a release, queue by queue and member by member, from `allocate` alone."""
    topics = [
        sorted(
            MessageQueue(f"T{t}", f"broker-{b}", q)
            for b in range(wanted.brokers)
            for q in range(case.queues)
        )
        for t in range(case.topics)
    ]
    used = strategy(case.strategy, wanted.virtual_nodes)
    found = dict.fromkeys(("moved", "between", "unowned_s", "repeats"), 0.0)
    most, owners_before = 0, dict[MessageQueue, list[str]]()
    for number, group in enumerate(groups):
        taken = {
            cid: [mq for mqs in topics for mq in allocate(used, "g", cid, mqs, group)]
            for cid in group
        }
        most = max(most, *(len(queues) for queues in taken.values()))
        owners = {mq: [c for c in group if mq in taken[c]] for mqs in topics for mq in mqs}
        for mq, now in owners.items():
            if number == 0:
                continue
            was, left = owners_before[mq], set(groups[number - 1]) - set(group)
            found["unowned_s"] += 0 if now else wanted.step_s
            if was == now:
                continue
            found["moved"] += 1
            found["between"] += not {*was, *now} - ({*groups[number - 1]} & {*group})
            found["unowned_s"] += wanted.handover_s if was and now else 0
            if was:
                found["repeats"] += wanted.rate * wanted.process_s
                if wanted.stop == "killed" and left.issuperset(was):
                    found["repeats"] += wanted.rate * wanted.commit_s / 2
        owners_before = owners
    share = -(-sum(map(len, topics)) // case.members)
    return found | {"spike": most / share}


@pytest.mark.parametrize("seed", range(12))
def test_costs_are_those_of_brute_force_on_the_core(seed: int) -> None:
    chance = random.Random(seed)
    members = chance.randint(2, 6)
    wanted = Wanted(
        strategies=("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"),
        members=(members,),
        queues=(chance.randint(1, 12),),
        topics=(chance.randint(1, 3),),
        releases=("restart", "replace", "surge"),
        at_once=(chance.randint(1, members - 1),),
        brokers=chance.randint(1, 2),
        virtual_nodes=chance.choice([0, 1, 10]),
        stop=chance.choice(["clean", "killed"]),
        step_s=7.0,
        rate=64.0,
        process_s=0.25,
    )
    computed = 0
    for case in cases(wanted):
        groups = [group for _, group in groups_of(case, wanted)]
        expected = by_brute_force(case, wanted, groups)
        one = cost(case, wanted)
        assert {name: getattr(one, name) for name in expected} == pytest.approx(expected), case
        computed += 1
    assert computed == 9


@pytest.mark.parametrize("release", ["restart", "replace", "surge"])
@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_a_release_is_of_all_members_and_leaves_somebody(release: Any, at_once: int) -> None:
    case = Case("AVG", 7, 8, 1, release, at_once)
    groups = [set(group) for _, group in groups_of(case, SMALL)]
    assert len(groups) == 1 + 2 * -(-7 // at_once)
    sizes = {len(group) for group in groups[1::2]}
    assert sizes <= ({7 + at_once, 8} if release == "surge" else {7 - at_once, 6})
    assert {len(group) for group in groups[::2]} == {7}
    gone = set.union(*(a - b for a, b in pairwise(groups)))
    assert gone == groups[0]
    assert groups[-1] == groups[0] if release == "restart" else not groups[-1] & groups[0]


def test_a_release_on_spark_costs_what_it_costs_here(spark: SparkSession) -> None:
    wanted = Wanted(("AVG", "AVG_BY_CIRCLE"), (2, 3, 5), (4, 9), (1, 2), at_once=(1,))
    assert [*sweep(spark, wanted).costs] == [(c, cost(c, wanted)) for c in cases(wanted)]


def test_a_restart_moves_each_queue_twice_with_consistent_hash_and_more_averagely(
    spark: SparkSession,
) -> None:
    """So that averagely is last by what moves; and consistent hash by its spikes."""
    by_moves = sweep(spark, Wanted(("AVG", "CONSISTENT_HASH"), (3, 5, 8), (24,), rank_by="moved"))
    best, last = by_moves.ranking
    assert (best.strategy, best.total.moved, best.best_in) == ("CONSISTENT_HASH", 3 * 2 * 24, 3)
    assert (last.strategy, last.best_in) == ("AVG", 0)
    assert best.total.between == 0 < last.total.between
    by_spike = sweep(spark, Wanted(("CONSISTENT_HASH", "AVG"), (3, 5, 8), (24,), rank_by="spike"))
    assert [one.strategy for one in by_spike.ranking] == ["AVG", "CONSISTENT_HASH"]


def test_a_strategy_that_gives_nothing_to_anybody_is_last(spark: SparkSession) -> None:
    """A ring without points: no queue moves, which must not look like the best."""
    wanted = Wanted(("CONSISTENT_HASH", "AVG_BY_CIRCLE", "AVG"), (3,), (5,), virtual_nodes=0)
    last = sweep(spark, wanted).ranking[-1]
    assert (last.strategy, last.total.moved, last.best_in) == ("CONSISTENT_HASH", 0, 0)
    assert last.total.unowned_s == 5 * 6 * wanted.step_s


def test_a_killed_member_repeats_more_than_one_that_stops(spark: SparkSession) -> None:
    clean = sweep(spark, SMALL).ranking[0].total
    killed = sweep(spark, Wanted(SMALL.strategies, (4,), (16,), stop="killed")).ranking[0].total
    assert clean.repeats < killed.repeats
    assert clean.moved == killed.moved


GOOD = 'strategies = ["AVG", "CONSISTENT_HASH"]\nmembers = [4]\nqueues = [8]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("members = [4\nqueues = [8]", r"plan.toml: not TOML: .*line 2"),
        ("", r"plan.toml: it has no strategies; add strategies = \[...\]"),
        ('strategies = ["AVG", "AVG_BY_CIRCLE"]\nmembers = [2]', "it has no queues; add"),
        (GOOD + "membres = [3]", "plan.toml: membres: no such key; there are strategies, members"),
        (GOOD.replace("[4]", "4"), r"plan.toml: members: Expected `array`, got `int`"),
        (GOOD.replace("[4]", "[4, 1]"), r"plan.toml: members: .*>= 2.*members\[1\]"),
        (GOOD.replace("[4]", "[]"), r"plan.toml: members: .*length >= 1"),
        (GOOD.replace("[8]", '["8"]'), r"plan.toml: queues: Expected `int`, got `str`"),
        (GOOD.replace("[8]", "[8, 8]"), "plan.toml: queues: a value comes twice; leave one out"),
        (GOOD.replace('"AVG", ', ""), r"plan.toml: strategies: .*length >= 2"),
        (
            GOOD.replace('"AVG"', '"AVERAGE"'),
            r"plan.toml: strategies\[0\]: no strategy 'AVERAGE'; there are AVG, AVG_BY_CIRCLE",
        ),
        (GOOD.replace('"AVG"', '"CONFIG"'), r"strategies\[0\]: CONFIG's lists are your own"),
        (GOOD.replace('"AVG"', '"MACHINE_ROOM"'), r"strategies\[0\]: MACHINE_ROOM needs rooms"),
        (
            GOOD.replace('"AVG"', '"MACHINE_ROOM_NEARBY-X"') + 'rooms = ["a"]',
            r"strategies\[0\]: no strategy 'X'",
        ),
        (GOOD + 'rooms = ["a@b"]', "plan.toml: rooms: a room is empty, or has @"),
        (GOOD + 'releases = ["restart", "all"]', r"plan.toml: releases: Invalid enum value 'all'"),
        (GOOD + "at_once = [1, 4]", "plan.toml: at_once: 4 of 4 members: nobody is left; make"),
        (GOOD + "rate = -1", r"plan.toml: rate: Expected `float` >= 0"),
        (GOOD + "step_s = nan", r"plan.toml: step_s: "),
        (GOOD + 'rank_by = "money"', r"plan.toml: rank_by: Invalid enum value 'money'"),
        (GOOD + "brokers = 0", r"plan.toml: brokers: Expected `int` >= 1"),
        (
            GOOD.replace("[8]", "[100000]") + "topics = [2]",
            "plan.toml: queues: .* more than 100000",
        ),
        (GOOD + f"topics = {[*range(1, 400)]}\nat_once = [1, 2, 3]", None),
        (
            GOOD.replace("[8]", str([*range(1, 301)])) + f"topics = {[*range(1, 301)]}",
            "plan.toml: 180000 cases, more than 100000; shorten a list",
        ),
    ],
)
def test_a_bad_plan_is_refused_with_its_place(tmp_path: Path, text: str, said: str | None) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(text)
    if said is None:
        read(plan)
        return
    with pytest.raises(UserError, match=said) as refused:
        read(plan)
    assert str(refused.value).startswith(str(plan))


def test_a_plan_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: No such file or directory; name a file"):
        read(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    with pytest.raises(UserError, match="not TOML"):
        read(tmp_path / "latin.toml")


@pytest.mark.usefixtures("shared_session")
def test_what_the_how_to_shows_is_what_the_command_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    plan, shown = (
        re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("toml", "console")
    )
    assert plan
    assert shown
    asked, _, said = shown[1].partition("\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("plan.toml").write_text(plan[1], encoding="utf-8")

    assert cli.main(asked.removeprefix("$ mqspec ").split()) == 0
    assert capsys.readouterr().out == said
    page = Path("sweep.html").read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?!data:|#)|url\((?!#)|<script|@import', page)
    svgs = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(svgs) == 5
    titles = [
        t.text or "" for svg in svgs for t in ElementTree.fromstring(svg).iter() if "title" in t.tag
    ]
    assert any(t.startswith("CONSISTENT_HASH, surge, 1 at once: ") for t in titles)


@pytest.mark.usefixtures("shared_session")
def test_json_has_each_case_with_its_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(GOOD)
    assert cli.main(["allocate", "--sweep", str(plan), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    wanted = read(plan)
    assert [one["strategy"] for one in said["ranking"]] == ["CONSISTENT_HASH", "AVG"]
    assert [one["moved"] for one in said["cases"]] == [cost(c, wanted).moved for c in cases(wanted)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sweep", "plan.toml", "--queues", "8"], "--sweep: its plan says all of it"),
        (["--html", "page.html"], "--html, --master: of a sweep only; add --sweep PLAN"),
    ],
)
def test_options_that_do_not_go_together(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert cli.main(["allocate", *words]) == 2
    assert said in capsys.readouterr().err


def test_an_installation_from_before_there_were_sweeps_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(allocate_command, "SWEEPS", "mqspec.none")
    assert cli.main(["allocate", "--sweep", "plan.toml"]) == 2
    assert "install it again" in capsys.readouterr().err
