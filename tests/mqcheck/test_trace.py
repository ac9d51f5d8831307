"""What the reference did over TCP, as steps of the modules; and that nothing else passes."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import recorded_broker
import recorded_pop
from recorded import record
from rich.console import Console

from mqcheck.traces.check import check_traces
from mqcheck.traces.edits import edits_of
from mqcheck.traces.offset_commit import offset_commit_traces
from mqcheck.traces.rebalance import rebalance_traces
from mqcheck.traces.report import DECIDED, IN_PART, PROJECTIONS, check_trace_file
from mqcheck.traces.trace import (
    NO_PROCESS,
    Constant,
    Event,
    Line,
    Trace,
    hidden,
    numbered,
    read_lines,
)
from mqcheck.traces.wire import is_recording, wire_lines
from mqrules import EvidenceKind, UserError, read_evidence, rules

DATA = Path(__file__).parent / "data"
GROUPS = DATA / "groups.jsonl"
BROKER = DATA / "broker.jsonl"
POP = DATA / "pop.jsonl"
RECORDINGS = {  # the others are of GROUPS
    "Delay": BROKER,
    "Pop": POP,
    "Route": BROKER,
    "Transaction": BROKER,
}
FRAMES = DATA / "apache-5.3.3-frames.jsonl"  # of two Java clients and a broker, by a proxy
CONSOLE = Console(quiet=True)


def actions(traces: list[Trace]) -> Counter[str]:
    return Counter(event.action for trace in traces for event in trace.events)


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[Trace]]:
    lines = {file: read_lines(file) for file in (GROUPS, BROKER, POP)}
    return {
        module: list(project(lines[RECORDINGS.get(module, GROUPS)]))
        for module, project in PROJECTIONS.items()
    }


# What each module's traces must have, for their acceptance to say something.
SEEN = {
    "Delay": {"ScheduleMessage", "Deliver", "Persist", "Load"},
    "Group": {"RegisterConsumer", "CloseChannel", "ConsumerIdList", "Restart"},
    "Lock": {"TryLockBatch", "UnlockBatch", "Elapse", "Restart"},
    "Log": {"AppendMessage", "Dispatch", "DispatchBlank", "Flush"},
    "OffsetCommit": {"Load", "Persist", "CrashMember", "RemoveUnnecessaryMessageQueue"},
    "Route": {"RegisterBroker", "RefuseBroker", "UnregisterBroker", "PickTopicRoute", "Restart"},
    "Transaction": {"Prepare", "EndTransaction", "BatchSendOpMessage", "Check", "Persist", "Kill"},
    "Pop": {
        *("PopMessage", "AckMessage", "ChangeInvisibleTime", "ConsumeReviveMessage"),
        *("Revive", "Persist", "Restart"),
    },
    "Rebalance": {"NotifyConsumerIdsChanged", "DoRebalance", "RebalanceByTopic", "Crash"},
}
# What else a trace may not determine: who got a lock that nobody asks for afterwards; offsets
# that no broker starts with, and nobody pops from.
OPEN = {
    ("TryLockBatch", "x altered"),
    ("Pass", "x altered"),
    ("Persist", "y altered"),
    ("RebalanceInPart", "x altered"),
    ("RefuseBroker", "x altered"),
    ("UpdateRoute", "x altered"),
}


def test_members_and_a_broker_that_are_killed_do_what_the_modules_allow(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    asyncio.run(record(file, tmp_path / "store", messages=24))
    lines = read_lines(file)
    for module in PROJECTIONS.keys() - RECORDINGS:
        traces = list(PROJECTIONS[module](lines))
        assert SEEN[module] - {"UnlockBatch"} <= actions(traces).keys()
        assert not check_traces(traces).refusals


@pytest.mark.parametrize(
    ("record", "recording"), [(recorded_broker.record, BROKER), (recorded_pop.record, POP)]
)
def test_a_broker_that_is_killed_does_what_the_modules_allow(
    tmp_path: Path, record: Callable[[Path, Path], Awaitable[None]], recording: Path
) -> None:
    file = tmp_path / "trace.jsonl"

    async def run() -> None:
        await record(file, tmp_path / "store")

    asyncio.run(run())
    lines = read_lines(file)
    for module in (module for module, of in RECORDINGS.items() if of == recording):
        traces = list(PROJECTIONS[module](lines))
        assert SEEN[module] <= actions(traces).keys()
        assert not check_traces(traces).refusals


@pytest.mark.parametrize("module", PROJECTIONS)
def test_what_is_left_out_swapped_or_altered_is_refused(
    recorded: dict[str, list[Trace]], module: str
) -> None:
    traces = recorded[module]
    assert SEEN[module] <= actions(traces).keys()
    edits = edits_of(traces)
    checked = check_traces(traces, edits)
    assert not checked.refusals
    assert len(checked.survivors) <= 0.05 * len(edits)
    for edit in checked.survivors:  # the last that its process told: it may have stopped before
        event, *rest = traces[edit.trace].events[edit.at :]
        is_last = all(later.process != event.process for later in rest)
        assert (edit.kind == "left out" and is_last) or (event.action, edit.kind) in OPEN


@pytest.mark.parametrize("module", PROJECTIONS)
def test_an_event_is_one_state_more(recorded: dict[str, list[Trace]], module: str) -> None:
    traces = recorded[module]
    states = sum(len(trace.events) + 1 for trace in traces)
    assert check_traces(traces).states == states  # so the cost grows with the length, no faster


@pytest.mark.parametrize("module", ["Transaction", "Pop"])
def test_what_is_forgotten_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    project = PROJECTIONS[module]
    lines = read_lines(RECORDINGS[module])

    def survivors(events: int) -> list[tuple[str, Event]]:
        """Of edits, where something is forgotten after so many events."""
        monkeypatch.setattr(f"{project.__module__}._FORGET_EVERY", events)
        traces = list(project(lines))
        checked = check_traces(traces, edits_of(traces), is_numbered=False)
        assert not checked.refusals
        return [(e.kind, traces[e.trace].events[e.at]) for e in checked.survivors]

    never = survivors(1000)
    assert never
    assert survivors(1) == never


# A behaviour, a step that may follow, and one that is against a rule.
_A_AND_B = (
    hidden("Join", 0, "a"),
    Event("RegisterConsumer", "broker", "a", 1),
    hidden("NoticesAreGone", 0),
    hidden("Join", 0, "b"),
)
_A_LOCKS = Event("TryLockBatch", "broker", "a", 1)
_B_LOCKS, _B_IS_REFUSED = (Event("TryLockBatch", "broker", "b", granted) for granted in (1, 0))
_FIRST = Event("AppendMessage", "broker", ("T/0", 1), 100)
_A_CONSUMES = (
    Event("AddMessageQueue", "a", 0, 0),
    Event("PullMessage", "a", 1),
    Event("ProcessConsumeResult", "a", 0, 1),
)
_TWO_WAIT = (
    Event("ScheduleMessage", "broker", 1, 1000),
    Event("ScheduleMessage", "broker", 2, 1000),
)
_A_REBALANCES = (
    Event("Join", "a"),
    Event("RegisterConsumer", "broker", "a"),
    Event("UpdateRoute", "a", (0, 1, 2)),
)
_A_AND_B_REBALANCE = (
    *_A_REBALANCES,
    Event("Join", "b"),
    Event("RegisterConsumer", "broker", "b"),
    Event("DoRebalance", "a", "broker", ("a", "b")),
)
_POPPED = Event("PopMessage", "broker", ("topic", 2), 1)
_CHECK_POINT = ("topic", 1, 1)
AGAINST = {
    "POP-001": (
        (_POPPED, Event("ConsumeReviveMessage", "broker", 2)),
        Event("AckMessage", "broker", _CHECK_POINT, 1),
        Event("Revive", "broker", _CHECK_POINT, (1, 2)),
    ),
    "POP-002": (
        (_POPPED, Event("Persist", "broker", (2, 0), 0)),
        Event("Restart", "broker", (2, 0), 0),
        Event("Restart", "broker", (2, 0), 1),
    ),
    "POP-003": (
        (
            _POPPED,
            Event("AckMessage", "broker", _CHECK_POINT, 1),
            hidden("TimeUp", 0, 1),
            Event("ConsumeReviveMessage", "broker", 1),
        ),
        Event("Revive", "broker", _CHECK_POINT, (2,)),
        Event("Revive", "broker", _CHECK_POINT, (1, 2)),
    ),
    "POP-014": (
        (_POPPED,),
        Event("Persist", "broker", (2, 0), 0),
        Event("Persist", "broker", (0, 0), 0),
    ),
    "ALLOC-016": (
        _A_AND_B_REBALANCE,
        Event("RebalanceByTopic", "a", (0, 1)),
        Event("RebalanceByTopic", "a", (0, 2)),
    ),
    "GROUP-054": (
        (*_A_REBALANCES, Event("NotifyConsumerIdsChanged", "a")),
        Event("Wakeup", "a"),
        Event("NotifyConsumerIdsChanged", "a"),
    ),
    "DELAY-002": (
        (*_TWO_WAIT, hidden("Elapse", 0, 999)),
        Event("ScheduleMessage", "broker", 3, 1999),
        Event("Deliver", "broker", 1),
    ),
    "DELAY-004": (
        (*_TWO_WAIT, hidden("Elapse", 0, 1000)),
        Event("Deliver", "broker", 1),
        Event("Deliver", "broker", 2),
    ),
    "GROUP-001": (
        _A_AND_B,
        Event("ConsumerIdList", "broker", ("a",)),
        Event("ConsumerIdList", "broker", ()),
    ),
    "GROUP-003": (
        _A_AND_B,
        Event("RegisterConsumer", "broker", "b", 2),
        Event("RegisterConsumer", "broker", "b", 1),
    ),
    "GROUP-005": (
        (*_A_AND_B, Event("RegisterConsumer", "broker", "b", 2), hidden("NoticesAreGone", 0)),
        Event("CloseChannel", "broker", "a", 1),
        Event("CloseChannel", "broker", "a", 0),
    ),
    "LOCK-001": ((_A_LOCKS, hidden("Elapse", 0, 60_000)), _B_IS_REFUSED, _B_LOCKS),
    "LOCK-004": ((_A_LOCKS, hidden("Elapse", 0, 60_001)), _B_LOCKS, _B_IS_REFUSED),
    "LOCK-008": ((_A_LOCKS, Event("Restart", "broker")), _B_LOCKS, _B_IS_REFUSED),
    "LOG-001": (
        (_FIRST,),
        Event("AppendMessage", "broker", ("T/0", 2), 200),
        Event("AppendMessage", "broker", ("T/0", 2), 50),
    ),
    "LOG-002": (
        (_FIRST,),
        Event("AppendMessage", "broker", ("T/0", 2), 200),
        Event("AppendMessage", "broker", ("T/0", 3), 200),
    ),
    "LOG-003": (
        (_FIRST,),
        Event("Dispatch", "broker", ("T/0", 1), 100),
        Event("Dispatch", "broker", ("T/0", 2), 100),
    ),
    "OFFSET-003": (
        (
            *_A_CONSUMES,
            Event("PersistAll", "a", 1),
            Event("UpdateConsumerOffset", "broker", 1, "a"),
        ),
        Event("PullMessage", "a", 2),
        Event("PersistAll", "a", 0),
    ),
    "OFFSET-010": (
        (*_A_CONSUMES, Event("PersistAll", "a", 1)),
        Event("UpdateConsumerOffset", "broker", 1, "a"),
        Event("UpdateConsumerOffset", "broker", 0, "a"),
    ),
}
_HALF = Event("Prepare", "broker", 0)


def registers(address: str, broker_id: int, *routes: int | str) -> tuple[Event, Event]:
    """A process registers the topics T and U, and what the routes are then."""
    tell = hidden("Tell", 0, (address, broker_id, "T", "U"))
    return tell, Event("RegisterBroker", "nameserver", address, routes)


AGAINST |= {
    "NAMESRV-005": (
        (hidden("Tell", 0, ("a", 0, "T")),),
        Event("RefuseBroker", "nameserver", "a", (0,)),
        Event("RegisterBroker", "nameserver", "a", ("a", 1)),
    ),
    "NAMESRV-009": (
        (*registers("a", 0, "a", 2), Event("UnregisterBroker", "nameserver", "a", (0,))),
        Event("PickTopicRoute", "nameserver", "T", ()),
        Event("PickTopicRoute", "nameserver", "T", ("a",)),
    ),
    "NAMESRV-015": (
        (*registers("a", 0, "a", 2), registers("b", 0)[0]),
        Event("RegisterBroker", "nameserver", "b", ("b", 2)),
        Event("RegisterBroker", "nameserver", "b", ("a", 2)),
    ),
    "NAMESRV-027": (
        (*registers("a", 0, "a", 2), *registers("b", 1, "a", "b", 2)),
        Event("UnregisterBroker", "nameserver", "a", ("nobody", "b", 2)),
        Event("UnregisterBroker", "nameserver", "a", ("nobody", "b", 0)),
    ),
    "NAMESRV-028": (
        (*registers("a", 1, "nobody", "a", 0), registers("a", 0)[0]),
        Event("RegisterBroker", "nameserver", "a", ("a", 2)),
        Event("RegisterBroker", "nameserver", "a", ("a", "a", 2)),
    ),
    "TX-008": (
        (_HALF, Event("Check", "broker", 0, 1)),
        Event("Check", "broker", 1, 2),
        Event("Check", "broker", 1, 1),
    ),
    "TX-013": (
        (_HALF, Event("Kill", "broker", 0, 0)),
        Event("Check", "broker", 0, 1),
        Event("Check", "broker", 0, 0),
    ),
    "TX-014": (
        (_HALF, hidden("Decide", 0, (0, 0)), Event("EndTransaction", "broker", 0, 0)),
        Event("Check", "broker", 0, 0),
        Event("Check", "broker", 0, 1),
    ),
}
# What is there before, and the constants.
BEGINNINGS: dict[str, tuple[tuple[Any, ...], dict[str, Constant]]] = {
    "Delay": ((1000, 0, 0), {"TraceMaxMessages": 3}),
    "Group": ((), {}),
    "Lock": ((), {"TraceMaxLiveTime": 60_000}),
    "Log": ((0, 0, 0, (), ()), {"TraceSegmentSize": 4096}),
    "OffsetCommit": ((2, 0), {"TraceFromLast": False, "TraceMaxOffset": 2}),
    "Route": ((), {"TraceMaxId": 1}),
    "Transaction": ((), {"TraceMaxChecks": 1, "TraceHalves": 3}),
    "Pop": ((), {"TraceMessages": 3}),
    "Rebalance": (
        (),
        {"TraceClientId": {"a": 0, "b": 1}, "TraceStrategy": {"a": "AVG", "b": "AVG"}},
    ),
}


@pytest.mark.parametrize("module", DECIDED)
def test_a_step_against_a_rule_that_traces_decide_is_refused(module: str) -> None:
    before, constants = BEGINNINGS[module]
    members = frozenset({"T/0"} if module == "Log" else {"a", "b"})

    def trace(rule: str, *events: Event) -> Trace:
        return Trace(module, rule, numbered(events), before, members, constants)

    cases = {rule: AGAINST[rule] for rule in DECIDED[module]}
    allowed = [trace(rule, *events, last) for rule, (events, last, _) in cases.items()]
    against = [trace(rule, *events, last) for rule, (events, _, last) in cases.items()]
    refusals = check_traces([*allowed, *against]).refusals
    assert [refusal.trace for refusal in refusals] == against
    assert [refusal.event for refusal in refusals] == [trace.events[-1] for trace in against]


def test_what_repeats_no_acknowledgement_is_refused() -> None:
    before, constants = BEGINNINGS["Pop"]
    first = (_POPPED, Event("AckMessage", "broker", _CHECK_POINT, 1))
    again, of_nothing = (Event("AckAgain", "broker", _CHECK_POINT, place) for place in (1, 3))
    allowed, against = (
        Trace("Pop", "", numbered((*first, last)), before, frozenset(), constants)
        for last in (again, of_nothing)
    )
    assert [refusal.trace for refusal in check_traces([allowed, against]).refusals] == [against]


def test_also_without_their_numbers_most_edits_are_refused(
    recorded: dict[str, list[Trace]],
) -> None:
    traces = recorded["OffsetCommit"][:2]
    edits = edits_of(traces)
    survivors = Counter(e.kind for e in check_traces(traces, edits, is_numbered=False).survivors)
    # Steps that do not depend on each other may be swapped, and done by either of two members.
    assert survivors.keys() <= {"left out", "swapped", "process altered"}
    assert survivors.total() < 0.1 * len(edits)


def test_a_queue_that_is_given_up_during_a_rebalance_makes_it_one_in_part() -> None:
    first, second = ({"topic": "T", "broker_name": "b", "queue_id": i} for i in range(2))
    table = {"channel_info_table": [["c", {"client_id": "a"}]]}
    view = {"mq_all": [first, second], "cid_all": ["a"]}
    taken = {"dropped": False}
    own: list[dict[str, Any]] = [
        {"module": "Rebalance", "reads": [["strategy", None, "AVG"]]},
        {"module": "Rebalance", "changes": [["has_notified", None, False]]},
        {"module": "Rebalance", "reads": [["view", "T", view]]},
        {"module": "OffsetCommit", "changes": [["process_queue_table", first, taken]]},
        {"module": "OffsetCommit", "changes": [["process_queue_table", second, taken]]},
        {"module": "OffsetCommit", "changes": [["process_queue_table", first]]},
        {"module": "Rebalance", "changes": [["balanced", None, True]]},
    ]
    heard = Line("b", 0, "b", "Group", changes=[["consumer_table", "G", table]])
    told = Line("b", 1, "b", "Group", reads=[["consumer_table", "G", ["a"]]])

    def last(lines: list[dict[str, Any]]) -> Event:
        of_member = [Line("m", seq, "G/a", **line) for seq, line in enumerate(lines)]
        (trace,) = rebalance_traces([of_member[0], heard, of_member[1], told, *of_member[2:]])
        assert not check_traces([trace]).refusals
        return trace.events[-1]

    assert last(own)[:3] == ("RebalanceInPart", "G/a", (1,))
    assert last([*own[:5], own[6]])[:3] == ("RebalanceByTopic", "G/a", (0, 1))


def altered(lines: list[Line], where: int, old: str, new: str) -> list[Line]:
    """The lines, one of them with other changes."""
    text = json.dumps(lines[where].changes)
    assert old in text
    changed = msgspec.structs.replace(lines[where], changes=json.loads(text.replace(old, new)))
    return [*lines[:where], changed, *lines[where + 1 :]]


def test_a_refusal_names_the_event_and_the_state_before_it() -> None:
    lines = read_lines(GROUPS)
    stored = [
        place
        for place, line in enumerate(lines)
        if line.process == "broker-a" and any(c[0] == "offset_table" and c[1] for c in line.changes)
    ]
    where = stored[len(stored) // 2]
    offset = lines[where].changes[0][2]
    traces = offset_commit_traces(altered(lines, where, f", {offset}]", f", {offset + 100}]"))
    (refusal,) = check_traces(traces).refusals
    assert refusal.event == refusal.trace.events[refusal.length - 1]
    assert refusal.event is not None
    wanted = Event("UpdateConsumerOffset", "broker-a", offset + 100, NO_PROCESS, where + 1)
    assert refusal.event._replace(number=0) == wanted
    assert (NO_PROCESS, offset + 100) not in refusal.state["network"]


def test_a_refusal_is_shown_with_the_events_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = GROUPS.read_text(encoding="utf-8").splitlines(keepends=True)
    place = max(i for i, row in enumerate(rows) if '"next_offset":2,' in row)
    rows[place] = rows[place].replace('"next_offset":2,', '"next_offset":99,')
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(rows[: place + 1]), encoding="utf-8")
    assert check_trace_file(file, Console(width=120)) == 1
    said = capsys.readouterr().out
    assert "OffsetCommit: 1 refused of 10 traces" in said
    assert f"to line {place + 1} of the file" in said
    assert "processQueueTable" in said


# Apache


@pytest.fixture
def frames() -> list[dict[str, Any]]:
    rows = FRAMES.read_text(encoding="utf-8").splitlines()
    return [json.loads(row) for row in rows]


def traces_of(frames: Sequence[Mapping[str, Any]], file: Path) -> list[Trace]:
    file.write_text("".join(f"{json.dumps(frame)}\n" for frame in frames), encoding="utf-8")
    assert is_recording(file)
    return offset_commit_traces(wire_lines(file))


def test_what_apache_and_its_clients_do_is_allowed(
    frames: list[dict[str, Any]], tmp_path: Path
) -> None:
    traces = traces_of(frames, tmp_path / "frames.jsonl")
    seen = actions(traces)
    assert {"AddMessageQueue", "PullMessage", "PersistAll", "UpdateConsumerOffset"} <= seen.keys()
    checked = check_traces(traces, edits_of(traces))
    assert not checked.refusals
    assert {edit.kind for edit in checked.survivors} <= {"left out"}


def test_a_commit_beyond_what_was_pulled_is_refused(
    frames: list[dict[str, Any]], tmp_path: Path
) -> None:
    commits = [frame["header"] for frame in frames if frame["header"]["code"] == 15]
    commits[-1]["extFields"]["commitOffset"] = "1000"
    (refusal,) = check_traces(traces_of(frames, tmp_path / "frames.jsonl")).refusals
    assert refusal.event is not None
    assert (refusal.event.action, refusal.event.x) == ("CorrectTagsOffset", 1000)


def test_another_offset_than_was_committed_is_refused(
    frames: list[dict[str, Any]], tmp_path: Path
) -> None:
    asked = {frame["header"]["opaque"] for frame in frames if frame["header"]["code"] == 14}
    answers = [frame["header"] for frame in frames if frame["dir"] == "s2c"]
    told = [a for a in answers if a["opaque"] in asked and "offset" in a.get("extFields", {})]
    told[-1]["extFields"]["offset"] = "1"
    (refusal,) = check_traces(traces_of(frames, tmp_path / "frames.jsonl")).refusals
    assert refusal.event is not None
    assert (refusal.event.action, refusal.event.y) == ("AddMessageQueue", 1)


def test_a_recording_of_something_else_gets_one_line(tmp_path: Path) -> None:
    file = tmp_path / "frames.jsonl"
    file.write_text('{"srv":"broker","conn":1,"dir":"c2s","header":7}\n', encoding="utf-8")
    with pytest.raises(UserError, match="not a frame"):
        check_trace_file(file, CONSOLE)


_QUEUE = {"topic": "T", "consumerGroup": "G", "queueId": "0"}


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"code": 11, "opaque": 1}, "the header has no queueOffset"),
        ({"code": 15, "opaque": 1, "extFields": {**_QUEUE, "commitOffset": "no"}}, "'no'"),
    ],
)
def test_a_frame_without_its_fields_gets_one_line(
    tmp_path: Path, header: dict[str, Any], why: str
) -> None:
    file = tmp_path / "frames.jsonl"
    frame = {"srv": "broker", "conn": 1, "dir": "c2s"}
    rows = [{**frame, "header": {"code": 105, "opaque": 0}}, {**frame, "header": header}]
    with pytest.raises(UserError, match=rf":2: .*{why}"):
        traces_of(rows, file)


def test_what_a_trace_decides_in_part_is_said(tmp_path: Path) -> None:
    file = tmp_path / "evidence.jsonl"
    assert check_trace_file(GROUPS, CONSOLE, evidence=file) == 0
    in_part = {record.rule: record.detail.get("in part") for record in read_evidence(file)}
    assert in_part["GROUP-001"]
    assert in_part["GROUP-005"] is None
    assert in_part == {rule: IN_PART.get(rule) for rule in in_part}
    assert {rule for of_module in DECIDED.values() for rule in of_module} >= IN_PART.keys()


def test_of_a_rule_without_a_case_there_is_no_evidence(tmp_path: Path) -> None:
    rows = GROUPS.read_text(encoding="utf-8").splitlines(keepends=True)
    killed = max(i for i, row in enumerate(rows) if '"segment_size"' in row)  # the second start
    file, evidence = tmp_path / "trace.jsonl", tmp_path / "evidence.jsonl"
    file.write_text("".join(rows[:killed]), encoding="utf-8")
    assert check_trace_file(file, CONSOLE, evidence=evidence) == 0
    cases = {record.rule: record.detail["cases"] for record in read_evidence(evidence)}
    assert cases["LOCK-001"]
    assert "LOCK-008" not in cases  # what a broker forgets when it starts again


def test_what_is_accepted_is_sampled_evidence(tmp_path: Path) -> None:
    file = tmp_path / "evidence.jsonl"
    assert check_trace_file(FRAMES, CONSOLE, evidence=file) == 0
    records = read_evidence(file)
    assert {record.rule for record in records} == set(DECIDED["OffsetCommit"])
    assert {record.kind for record in records} == {EvidenceKind.SAMPLED}
    assert {record.target for record in records} == {FRAMES.name}
    assert rules().keys() >= {rule for of_module in DECIDED.values() for rule in of_module}


# Files


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "there is nothing in it"),
        ('{"a":1}\n', "not a line of a trace"),
        ("no json\n", "not a line of a trace"),
        ('{"writer":"w","seq":0,"process":"b","module":"Log"}\n{"wri', "the line has no end"),
        ('{"writer":"w","seq":1,"process":"b","module":"Log"}\n', "line 0 of w is missing"),
        ('{"writer":"w","seq":0,"process":"b","module":"Log"}\n', "no member of a group is in it"),
    ],
)
def test_a_file_that_is_no_trace_gets_one_line(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=why):
        check_trace_file(file, CONSOLE)
