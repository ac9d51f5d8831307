"""Defects that the catalogue does not know: each is found by a property of its module.

Some are made by hand; the others are what `mqspec check --mutants` makes.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from mqcheck.manifest import TLA, Tier, library, models
from mqcheck.mutants import mutants
from mqcheck.tlc import Exit, run_tlc, violations

_MOST = 5_000


class ByHand(NamedTuple):
    """An edit of a module, and what finds it in a model that has the property."""

    module: str
    old: str
    new: str
    model: str
    property: str
    constants: tuple[tuple[str, str], ...] = ()  # of the model, replaced by smaller ones


BY_HAND = {
    "the largest offset is committed": ByHand(
        "OffsetCommit",
        "ELSE Minimum(rest)",
        "ELSE CHOOSE x \\in rest : \\A y \\in rest : y <= x",
        "MC_LostProgress",
        "CommittedIsConsumed",
        (
            ("MaxOffset = 2", "MaxOffset = 3"),
            ("SentBefore = 2", "SentBefore = 3"),
            ("MaxMoves = 1", "MaxMoves = 0"),
        ),
    ),
    "unlocked before progress is stored": ByHand(
        "ConsumeOrderly",
        'offsetTable\' = IF Defect = "ReleasesFirst" THEN offsetTable ELSE offsetStore',
        "UNCHANGED offsetTable",
        "MC_OneByOne",
        "NoRepeat",
    ),
    "notified before the member is removed": ByHand(
        "Group",
        "    /\\ m \\in consumerTable[b]\n    /\\ Change(b, consumerTable[b] \\ {m})",
        "    /\\ m \\in consumerTable[b]\n"
        "    /\\ \\/ Change(b, consumerTable[b]) /\\ notices' # notices\n"
        "       \\/ consumerTable' = [consumerTable EXCEPT ![b] = @ \\ {m}] /\\ UNCHANGED notices",
        "MC_Notices",
        "Converges",
        (
            ("InitialMembers = { m1 }", "InitialMembers = { m1, m2 }"),
            ("MaxPerturbations = 2", "MaxPerturbations = 1"),
        ),
    ),
    "dispatched before it is appended": ByHand(
        "Log",
        "r \\in Range(commitLog) :\n"
        "        /\\ r.position = reputFromOffset\n        /\\ Behind(r) <= committedWhere",
        "r \\in Range(commitLog) \\cup {Entry(q, topicQueueTable[q], End(commitLog), size, "
        "messages + 1) : q \\in Queues, size \\in Sizes} :\n"
        "        /\\ r.position = reputFromOffset",
        "MC_Log",
        "VisibleIsInFiles",
    ),
    "a leave tells nobody": ByHand(
        "Group",
        "/\\ m \\in consumerTable[b]\n    /\\ Change(b, consumerTable[b] \\ {m})",
        "/\\ m \\in consumerTable[b]\n"
        "    /\\ consumerTable' = [consumerTable EXCEPT ![b] = @ \\ {m}] /\\ UNCHANGED notices",
        "MC_GroupNotices",
        "LeavingIsTold",
    ),
    "a reader that is ahead begins again": ByHand(
        "Replication",
        "/\\ pullOffset' = End(b)\n    /\\ UNCHANGED <<consumerOffset, consumed",
        "/\\ pullOffset' = 0\n    /\\ UNCHANGED <<consumerOffset, consumed",
        "MC_ReplicationCorrects",
        "GoesBackToAnEnd",
    ),
    "a slave that corrects sets its reader to 0": ByHand(
        "Replication",
        "/\\ pullOffset' = End(b)\n    /\\ UNCHANGED <<consumerOffset, consumed",
        "/\\ pullOffset' = IF b = master THEN End(b) ELSE 0\n"
        "    /\\ UNCHANGED <<consumerOffset, consumed",
        "MC_ReplicationReads__SlaveCorrectsOffset",
        "GoesBackToAnEnd",
    ),
}


# What is weaker than an invariant of RaftLog, and the quick model that must break it, and does
# not any more.
WEAKER = (
    (
        "currTerm[m] = currTerm[n] => m = n",
        "currTerm[m] = currTerm[n] => role[m] = role[n]",
        "ElectionSafety",
        "MC_RaftLog__ForgetsVote",
    ),
    (
        "ledger[m][i] = ledger[n][i]\n",
        "ledger[m][i] <= Min(ledger[n][i], 0) + MaxTerm\n",
        "LogMatching",
        "MC_RaftLogTerms__AppendsUncompared",
    ),
    (
        "\\A e \\in committed, n \\in Nodes : Leads(n) /\\ currTerm[n] > e.by => HasEntry(n, e)",
        "\\A e \\in committed, n \\in Nodes : Leads(n) /\\ currTerm[n] = e.by => HasEntry(n, e)",
        "LeaderCompleteness",
        "MC_RaftLogTerms__VotesForAny",
    ),
    (
        "d.index = e.index => d.term = e.term",
        "d.index = e.index => d.by <= e.by \\/ e.by <= d.by",
        "StateMachineSafety",
        "MC_RaftLogTerms__VotesForAny",
    ),
    (
        "committedIndex[n] <= End(n)\n",
        "committedIndex[n] <= Longest\n",
        "CommittedIsInLedger",
        "MC_RaftLogTerms__VotesForAny",
    ),
    (
        "e.term = e.by /\\ Leads(n)",
        "e.term > e.by /\\ Leads(n)",
        "AcknowledgedIsKept",
        "MC_RaftLogTerms__VotesForAny",
    ),
)


# Module, action, what is taken away, and what finds it in which model.
BY_TOOL = (
    (
        "Retry",
        "Deliver",
        "held' = [held EXCEPT ![c] = Copy(m, n)]",
        "MC_NoAnswerLost",
        "NothingLost",
    ),
    ("Lock", "TryLockBatch", "mqLockTable' =", "MC_LongListener", "OneBelief"),
    ("Transaction", "Check", "halfOffset' =", "MC_TransactionEndsFirst", "OpMessagesAreKept"),
    (
        "OffsetCommit",
        "ProcessConsumeResult",
        "IF rest = {}, which is TRUE",
        "MC_LostProgress",
        "NothingSkipped",
    ),
    ("ConsumeOrderly", "TakeMessages", "consumingMsgOrderlyTreeMap =", "MC_OneByOne", "InOrder"),
    ("Log", "AppendMessage", "topicQueueTable' =", "MC_LogSyncFlush", "QueueOffsetsAreDense"),
    ("Delay", "Deliver", "offsetTable' =", "MC_DelayNoKill", "NoRepeat"),
    ("PopOrder", "Pop", "orderInfo' =", "MC_PopOrder", "OneBatchAtATime"),
    ("Publish", "CheckSend", "requests' =", "MC_PublishNotStoreOk", "RefusedIsNotStored"),
    ("Subscription", "RegisterConsumer", "subscriptionTable' =", "MC_Subscription", "NewestIsKept"),
)


@pytest.mark.parametrize("title", BY_HAND)
def test_a_defect_made_by_hand_is_found(title: str, tmp_path: Path) -> None:
    edit = BY_HAND[title]
    text = (TLA / f"{edit.module}.tla").read_text()
    assert text.count(edit.old) == 1
    model = models()[edit.model]
    assert edit.property in model.holds
    config = model.config.text(frozenset({edit.property}))
    for old, new in edit.constants:
        assert old in config
        config = config.replace(old, new)
    verdicts = []
    for number, new in enumerate((edit.old, edit.new)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for path in (TLA / f"{edit.module}.tla", model.module):
            (folder / path.name).write_text(path.read_text().replace(edit.old, new))
        places = (folder, *library())
        verdicts.append(run_tlc(folder / model.module.name, config, title, places).exit)
    is_temporal = edit.property in model.config.temporal
    assert verdicts == [Exit.HOLDS, Exit.LIVENESS if is_temporal else Exit.SAFETY]


@pytest.mark.parametrize(("module", "action", "removed", "name", "invariant"), BY_TOOL)
def test_a_defect_made_by_the_tool_is_found(
    module: str, action: str, removed: str, name: str, invariant: str, tmp_path: Path
) -> None:
    text, model = (TLA / f"{module}.tla").read_text(), models()[name]
    made = (
        m for m in mutants(module, text) if m.action == action and m.removed.startswith(removed)
    )
    (tmp_path / f"{module}.tla").write_text(next(made).text)
    path = tmp_path / model.module.name
    if model.module.stem != module:
        path.write_text(model.module.read_text())
    assert invariant in model.holds
    found = violations(
        path,
        model.config.text(frozenset()),
        name,
        (tmp_path, *library()),
        watch=[invariant],
        most=_MOST,
    )
    assert found == [invariant]


@pytest.mark.parametrize(("old", "new", "invariant", "name"), WEAKER)
def test_an_invariant_of_raftlog_that_was_weakened_is_found(
    old: str, new: str, invariant: str, name: str, tmp_path: Path
) -> None:
    text, model = (TLA / "RaftLog.tla").read_text(), models()[name]
    assert invariant in model.breaks
    assert model.tier is Tier.QUICK
    config = model.config.text(frozenset({invariant}))
    exits = []
    for number, weaker in enumerate((old, new)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / model.module.name).write_bytes(model.module.read_bytes())
        begin, properties = text.split("TypeOK ==", 1)
        assert properties.count(old) == 1
        (folder / "RaftLog.tla").write_text(f"{begin}TypeOK =={properties.replace(old, weaker)}")
        module = folder / model.module.name
        exits.append(run_tlc(module, config, name, (folder, *library())).exit)
    assert exits == [Exit.SAFETY, Exit.HOLDS]
