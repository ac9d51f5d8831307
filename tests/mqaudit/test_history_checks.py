"""Histories made by hand: each anomaly is found exactly, and nothing more.

Every case is a run of its own, and one audit judges them all: what it finds in a run must be
what the case expects, so that each case is also the others' clean history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from handmade import Recorder
from pyspark.sql import SparkSession

from mqaudit import AuditReport, audit, stages
from mqaudit.check import Check
from mqaudit.history_checks import (
    BEFORE_SENT,
    DELAYED,
    EQUAL_IDS,
    GIVEN_TWICE,
    HISTORY_CHECKS,
    LEFT_OUT,
    LOCK_KEPT,
    LOCKED_TWICE,
    LOST,
    NEVER_DELIVERED,
    NO_OWNER,
    OUT_OF_ORDER,
    REFUSED,
    REPEATED,
    ROLLED_BACK,
    TAKEN_AWAY,
    TWO_OWNERS,
    UNSUBSCRIBED,
    VIEWS,
    WENT_BACK,
)
from mqaudit.report import Judgement
from mqrules import Event, EvidenceKind, Kind, Verdict, incidents, rules
from mqrules.schema import encode

Expected: TypeAlias = tuple[Check, str, Event]
Case: TypeAlias = Callable[[Recorder], list[Expected]]

SETTLED_S = 200


def consumed(r: Recorder, *offsets: int, start: int | None = 0) -> list[Event]:
    """Three messages, and a member that receives some of them."""
    sent = [r.send(offset) for offset in range(3)]
    r.own("a", start)
    for offset in offsets:
        r.receive("a", offset)
    return sent


def clean(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    for offset in range(3):
        r.at("ack", "a", queue_offset=offset, message_key=f"0-{offset}")
    r.commit("a", 3)
    return []


def lost(r: Recorder) -> list[Expected]:
    sent = consumed(r, 0, 2)
    commit = r.commit("a", 3)
    return [(LOST, "lost", sent[1]), (NEVER_DELIVERED, "skipped", commit)]


def commit_past_a_gap(r: Recorder) -> list[Expected]:
    """What it received is finished, and a message between was never received."""
    sent = consumed(r, 0, 2)
    for offset in (0, 2):
        r.at("ack", "a", queue_offset=offset, message_key=f"0-{offset}")
    r.commit("a", 1)
    commit = r.commit("a", 3)
    return [(LOST, "lost", sent[1]), (NEVER_DELIVERED, "skipped", commit)]


def received_after_the_commit_past_it(r: Recorder) -> list[Expected]:
    consumed(r, 0, 2)
    commit = r.commit("a", 3)
    r.member("crash", "a")
    r.own("b", 1)
    r.receive("b", 1)
    r.commit("b", 2)
    back = r.events[-1]
    return [(NEVER_DELIVERED, "skipped", commit), (WENT_BACK, "handed over", back)]


def a_gap_of_another_owner(r: Recorder) -> list[Expected]:
    """Who begins behind a gap, or is handed what another received, commits past none."""
    sent = consumed(r, 0)
    r.member("leave", "a")
    r.own("b", 2)
    r.receive("b", 2)
    r.commit("b", 3)
    return [(LOST, "lost", sent[1])]


def a_gap_where_a_beginning_is_not_told(r: Recorder) -> list[Expected]:
    r.send(0)
    r.send(1)
    r.own("a", None)
    r.receive("a", 0)
    r.receive("a", 1)
    r.member("leave", "a")
    sent = r.send(2)
    r.send(3)
    r.own("b", None)
    r.receive("b", 3)
    commit = r.commit("b", 4)
    return [(LOST, "lost", sent), (NEVER_DELIVERED, "doubtful", commit)]


def a_gap_that_came_to_a_later_owner(r: Recorder) -> list[Expected]:
    """Where its owner began is not told: the message may have been before that."""
    for offset in range(2):
        r.send(offset)
    r.own("a", None)
    r.receive("a", 1)
    commit = r.commit("a", 2)
    r.member("crash", "a")
    r.own("b", 0)
    r.receive("b", 0)
    return [(NEVER_DELIVERED, "doubtful", commit)]


def given_back_and_gone(r: Recorder) -> list[Expected]:
    """Its copy may wait still, or have gone to the dead letters: neither is recorded."""
    sent = r.send(0)
    r.own("a", 0)
    r.receive("a", 0)
    r.at("ack", "a", queue_offset=0, message_key="0-0", outcome="failed")
    r.now_s += 100_000
    r.commit("a", 1)
    return [(LOST, "given back", sent)]


def skipped_and_read_by_a_tool(r: Recorder) -> list[Expected]:
    sent = consumed(r, 0, 2)
    commit = r.commit("a", 3)
    r.receive("tool", 1)
    return [(LOST, "elsewhere", sent[1]), (NEVER_DELIVERED, "skipped", commit)]


def lost_by_the_broker_s_word(r: Recorder) -> list[Expected]:
    sent = consumed(r, 0, 2)
    r.at("revoke", "a")
    r.own("a", 3)
    return [(LOST, "lost", sent[1]), (NO_OWNER, "unshared", r.events[-3])]


def received_but_not_consumed(r: Recorder) -> list[Expected]:
    sent = consumed(r, 0, 1, 2)
    for offset in (0, 2):
        r.at("ack", "a", queue_offset=offset, message_key=f"0-{offset}")
    commit = r.commit("a", 3)
    return [(LOST, "lost", sent[1]), (NEVER_DELIVERED, "unfinished", commit)]


def consumed_after_the_commit(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    commit = r.commit("a", 2)
    for offset in range(3):
        r.at("ack", "a", queue_offset=offset, message_key=f"0-{offset}")
    return [(NEVER_DELIVERED, "unfinished", commit)]


def not_due_yet(r: Recorder) -> list[Expected]:
    sent = consumed(r, 0)
    r.commit("a", 1)
    return [(LOST, "open", event) for event in sent[1:]]


def passed_by_a_commit_without_answer(r: Recorder) -> list[Expected]:
    sent = consumed(r, 0, 2)
    commit = r.commit("a", 3, outcome="unknown")
    return [(LOST, "unconfirmed", sent[1]), (NEVER_DELIVERED, "skipped", commit)]


def passed_by_a_commit_that_a_tool_saw(r: Recorder) -> list[Expected]:
    """The broker told whoever asked how far the group had come."""
    sent = consumed(r, 0, 2)
    commit = r.commit("a", 3, outcome="unknown")
    r.at("query_offset", "tool", value=3)
    return [(LOST, "lost", sent[1]), (NEVER_DELIVERED, "skipped", commit)]


def passed_by_a_commit_that_its_broker_had_read(r: Recorder) -> list[Expected]:
    """It came before what the broker answered, about another queue, over the same connection."""
    sent = consumed(r, 0, 2)
    commit = r.commit("a", 3, outcome="unknown")
    r.own("a", 0, 1)
    return [
        (LOST, "lost", sent[1]),
        (NEVER_DELIVERED, "skipped", commit),
        (NO_OWNER, "unshared", r.events[6]),
    ]


def passed_by_a_commit_before_a_connection_ended(r: Recorder) -> list[Expected]:
    """What was answered later came over another one."""
    sent = consumed(r, 0, 2)
    commit = r.commit("a", 3, outcome="unknown")
    r.member("leave", "a")
    r.own("a", 0, 1)
    return [
        (LOST, "unconfirmed", sent[1]),
        (NEVER_DELIVERED, "skipped", commit),
        # One queue while it has the other.
        (NO_OWNER, "unshared", r.events[6]),
        (NO_OWNER, "unshared", r.events[12]),
    ]


def passed_by_a_commit_before_its_broker_started_again(r: Recorder) -> list[Expected]:
    sent = consumed(r, 0, 2)
    commit = r.commit("a", 3, outcome="unknown")
    r.write("crash", peer="b")
    r.write("restart", peer="b")
    r.commit("a", 1)
    back = r.events[-1]
    return [
        (LOST, "unconfirmed", sent[1]),
        (NEVER_DELIVERED, "skipped", commit),
        (WENT_BACK, "back", back),
    ]


def passed_by_a_commit_behind_which_the_next_owner_began(r: Recorder) -> list[Expected]:
    """Nobody recorded where it was told to begin; it got the last message only."""
    sent = consumed(r, 0)
    commit = r.commit("a", 2, outcome="unknown")
    r.member("crash", "a")
    r.at("assign", "b")
    r.receive("b", 2)
    return [(LOST, "lost", sent[1]), (NEVER_DELIVERED, "skipped", commit)]


def committed_after_it_was_taken_away(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    r.commit("a", 2)
    revoked = r.at("revoke", "a")
    late = r.commit("a", 3)
    r.member("leave", "a")
    return [(TAKEN_AWAY, "late", late), (NO_OWNER, "unshared", revoked)]


def delivered_against_its_own_subscription(r: Recorder) -> list[Expected]:
    """Another member wants it; the one that got it does not."""
    r.at("subscribe", "a", tag="A")
    r.at("subscribe", "b", tag="B || C")
    r.send(0, tag="B")
    r.send(1, tag="A")
    r.send(2)
    r.own("a", 0)
    wrong = r.receive("a", 0)
    r.receive("a", 1)
    untagged = r.receive("a", 2)
    r.commit("a", 3)
    return [(UNSUBSCRIBED, "unwanted", wrong), (UNSUBSCRIBED, "untagged", untagged)]


def delivered_by_an_expression(r: Recorder) -> list[Expected]:
    r.at("subscribe", "a", tag="colour = 'red'")
    r.send(0, tag="B")
    r.own("a", 0)
    return [(UNSUBSCRIBED, "expression", r.receive("a", 0))]


def locks(r: Recorder) -> list[Expected]:
    """Renewed, unlocked, expired, refused, forgotten by a broker that crashed: one at a time."""
    for client in "aab":
        r.at("lock", client, outcome="failed" if client == "b" else "ok")
    r.at("unlock", "a", outcome="unknown")
    r.at("lock", "b")
    r.now_s += 60
    r.at("lock", "a")
    r.write("crash", peer="b")
    forgotten = r.at("lock", "b")
    return [(LOCKED_TWICE, "forgotten", forgotten)]


def locked_by_two(r: Recorder) -> list[Expected]:
    r.at("lock", "a")
    r.at("unlock", "b")  # which is not its to unlock
    second = r.at("lock", "b")
    r.now_s += 40
    return [(LOCKED_TWICE, "held", second), (LOCKED_TWICE, "old", r.at("lock", "a"))]


def a_lock_that_outlived_its_holders_silence(r: Recorder) -> list[Expected]:
    """It awakes, commits for a queue that was granted to another, and is granted it again."""
    r.own("a", 0)
    r.at("lock", "a")
    r.commit("a", 0)
    r.now_s += 60
    r.at("lock", "b")
    late = r.commit("a", 0)
    r.at("unlock", "b", outcome="unknown")
    r.at("lock", "a")
    r.commit("a", 0)
    return [(TAKEN_AWAY, "overlocked", late)]


def a_lock_that_was_given_up(r: Recorder) -> list[Expected]:
    """A last commit may come behind the unlock; locks of other queues and refusals are nothing."""
    r.own("a", 0)
    r.at("lock", "a")
    r.at("lock", "b", outcome="failed")
    r.at("lock", "b", 1)
    r.commit("a", 0)
    r.at("unlock", "a", outcome="unknown")
    r.at("lock", "b")
    r.commit("a", 0)
    return []


def a_lock_that_is_stuck(r: Recorder) -> list[Expected]:
    """Its holder is gone; for 60 s another one does not get it, and then it should."""
    r.at("lock", "a")
    r.member("crash", "a")
    r.now_s += 40
    r.at("lock", "b", outcome="failed")
    r.now_s += 30
    stuck = r.at("lock", "b", outcome="failed")
    r.at("unlock", "a", outcome="unknown")
    again = r.at("lock", "b", outcome="failed")
    r.at("lock", "b")
    return [(LOCK_KEPT, "stuck", stuck), (LOCK_KEPT, "stuck", again)]


def a_lock_that_nobody_is_seen_to_hold(r: Recorder) -> list[Expected]:
    first = r.at("lock", "a", outcome="failed")
    r.at("lock", "a")
    own = r.at("lock", "a", outcome="failed")
    r.write("crash", peer="b")
    after = r.at("lock", "b", outcome="failed")
    return [(LOCK_KEPT, "unknown", event) for event in (first, own, after)]


def delivered_though_refused(r: Recorder) -> list[Expected]:
    for outcome in ("invoked", "invoked", "failed"):
        r.write("send", outcome, topic="T", message_key="k")
    r.own("a", 0)
    refused = r.receive("a", 0, message_key="k")
    r.commit("a", 1)
    return [(REFUSED, "refused", refused)]


def delivered_though_refused_at_first(r: Recorder) -> list[Expected]:
    """It was sent again, and nobody knows what came of that."""
    for outcome in ("invoked", "failed", "invoked"):
        r.write("send", outcome, topic="T", message_key="k")
    r.own("a", 0)
    refused = r.receive("a", 0, message_key="k")
    r.commit("a", 1)
    return [(REFUSED, "open", refused)]


def transactions(r: Recorder) -> list[Expected]:
    """A half has no place; its commit may be answered, and a refused end is none."""
    for number, ends in enumerate((("publish",), ("rollback", "publish"), ("rollback",))):
        r.write("send", "unknown", topic="T", message_key=f"0-{number}")
        for kind in ends:
            r.write(kind, "unknown", message_key=f"0-{number}")
    r.write("rollback", "failed", message_key="0-0")
    r.own("a", 0)
    _, both, rolled_back = (r.receive("a", number) for number in range(3))
    return [(ROLLED_BACK, "both", both), (ROLLED_BACK, "rolled back", rolled_back)]


def committed_twice(r: Recorder) -> list[Expected]:
    r.write("send", "invoked", topic="T", message_key="k")
    r.write("send", "unknown", topic="T", message_key="k")
    for _ in range(2):
        r.write("publish", "unknown", message_key="k")
    r.own("a", 0)
    r.receive("a", 0, message_key="k")
    return [(REPEATED, "committed again", r.receive("a", 1, message_key="k"))]


def delayed(r: Recorder) -> list[Expected]:
    """In time, and for a second time after a rebalance; early; late; never; refused."""
    for key, delay_s in (("now", 1), ("early", 900), ("late", 100), ("never", 10)):
        for outcome in ("invoked", "ok"):
            r.write("send", outcome, topic="T", message_key=key, value=delay_s * 1000)
    never = r.events[6]
    for outcome in ("invoked", "failed"):
        r.write("send", outcome, topic="T", message_key="refused", value=1000)
    r.own("a", 0)
    r.receive("a", 0, message_key="now", value=1000)
    early = r.receive("a", 1, message_key="early", value=900_000)
    r.now_s += SETTLED_S
    late = r.receive("a", 2, message_key="late", value=100_000)
    r.commit("a", 3)
    r.receive("a", 3, message_key="plain")
    return [(DELAYED, "early", early), (DELAYED, "late", late), (DELAYED, "never", never)]


def began_nobody_knows_where(r: Recorder) -> list[Expected]:
    sent = consumed(r, 1, 2, start=None)
    commit = r.commit("a", 3)
    return [(LOST, "start", sent[0]), (NEVER_DELIVERED, "doubtful", commit)]


def sent_before_a_later_owner_began(r: Recorder) -> list[Expected]:
    """With nothing stored each owner may begin at the end: what came between is missed."""
    r.own("a", None)
    missed = [r.send(offset) for offset in range(2)]
    r.at("revoke", "a")
    r.member("leave", "a")
    r.at("query_offset", "b", value=2)
    r.at("assign", "b")
    r.send(2)
    r.receive("b", 2)
    r.commit("b", 3)
    passing = (NO_OWNER, "unshared", r.events[6])
    return [*((LOST, "start", event) for event in missed), passing]


def sent_below_a_beginning_and_after_it(r: Recorder) -> list[Expected]:
    """As in a topic that was made anew: where the group began says nothing of it."""
    r.own("a", 3)
    missed = r.send(0)
    r.receive("a", 3, message_key="other")
    r.commit("a", 4)
    return [(LOST, "start", missed)]


def began_later(r: Recorder) -> list[Expected]:
    consumed(r, 1, 2, start=1)
    r.commit("a", 3)
    return []


def tags(r: Recorder) -> list[Expected]:
    r.at("subscribe", "a", tag="A || B")
    r.send(0, tag="C")
    missed = r.send(1, tag="B")
    r.send(2, tag="A")
    r.own("a", 0)
    r.receive("a", 2)
    commit = r.commit("a", 3)
    return [(LOST, "lost", missed), (NEVER_DELIVERED, "skipped", commit)]


def left_out_by_a_filter(r: Recorder) -> list[Expected]:
    r.at("subscribe", "a", tag="A")
    r.send(0, tag="A")
    r.send(1, tag="C")
    r.own("a", 0)
    r.receive("a", 0)
    return [(NEVER_DELIVERED, "filtered", r.commit("a", 2))]


def wanted_by_some_members_only(r: Recorder) -> list[Expected]:
    """Incident B: its queue belonged to a member that wants another tag."""
    r.at("subscribe", "a", tag="A")
    r.at("subscribe", "b", tag="B")
    r.send(0, tag="A")
    missed = r.send(1, tag="B")
    r.own("a", 0)
    r.receive("a", 0)
    commit = r.commit("a", 2)
    return [(LOST, "mixed", missed), (NEVER_DELIVERED, "filtered", commit)]


def wanted_by_another_member(r: Recorder) -> list[Expected]:
    """The same, and a message behind it that its owner wants."""
    r.at("subscribe", "a", tag="A")
    r.at("subscribe", "b", tag="B")
    missed = r.send(0, tag="B")
    r.send(1, tag="A")
    r.own("a", 0)
    r.receive("a", 1)
    commit = r.commit("a", 2)
    return [(LOST, "mixed", missed), (NEVER_DELIVERED, "doubtful", commit)]


def without_a_tag(r: Recorder) -> list[Expected]:
    """Who wants a tag does not want a message that has none."""
    r.at("subscribe", "a", tag="A")
    r.send(0)
    r.send(1, tag="A")
    r.own("a", 0)
    r.receive("a", 1)
    r.commit("a", 2)
    return []


def received_by_one_that_says_no_more(r: Recorder) -> list[Expected]:
    """One member records what it has finished, another does not."""
    unsaid = r.send(0)
    r.send(1)
    r.own("a", 0)
    r.receive("a", 0)
    r.commit("a", 1)
    r.member("leave", "a")
    r.own("b", 1)
    r.receive("b", 1)
    r.at("ack", "b", queue_offset=1, message_key="0-1")
    r.commit("b", 2)
    return [(LOST, "unsaid", unsaid)]


def passed_by_a_reset(r: Recorder) -> list[Expected]:
    sent = consumed(r, 0)
    r.commit("a", 1)
    r.member("leave", "a")
    r.commit("tool", 3)
    r.own("b", 3)
    return [(LOST, "passed", event) for event in sent[1:]]


def topic_made_anew(r: Recorder) -> list[Expected]:
    """A member keeps the queue meanwhile; what it has not received goes with the old topic."""
    former = [r.send(n, key=f"old-{n}", store_epoch=0) for n in range(2)]
    r.own("a", 0)
    r.receive("a", 0, message_key="old-0", store_epoch=0)
    r.commit("a", 1)
    for offset in range(2):
        r.send(offset, key=f"new-{offset}", store_epoch=1)
        r.receive("a", offset, message_key=f"new-{offset}", store_epoch=1)
    r.commit("a", 2)
    return [(LOST, "anew", former[1])]


def without_keys(r: Recorder) -> list[Expected]:
    """A message is its place then; that a store lives for the first time need not be said."""
    r.write("send", store_epoch=0, **r.place(0, 0))
    r.own("a", 0)
    r.at("receive", "a", queue_offset=0)
    r.commit("a", 1)
    return []


def offset_given_away_after_a_crash(r: Recorder) -> list[Expected]:
    gone = r.send(0, key="gone")
    r.write("crash", peer="b")
    r.write("restart", peer="b")
    new = r.send(0, key="new")
    r.own("a", 0)
    r.receive("a", 0, message_key="new")
    r.commit("a", 1)
    return [(LOST, "replaced", gone), (GIVEN_TWICE, "given away", new)]


def offset_given_away_to_one_that_was_missed(r: Recorder) -> list[Expected]:
    """The group had come past the offset when the crash took its first message."""
    r.send(0, key="old")
    r.own("a", 0)
    r.receive("a", 0, message_key="old")
    r.commit("a", 1)
    r.write("crash", peer="b")
    r.write("restart", peer="b")
    missed = r.send(0, key="new")
    return [(LOST, "replaced", missed), (GIVEN_TWICE, "given away", missed)]


def offset_given_away_without_a_crash(r: Recorder) -> list[Expected]:
    """A crash that comes later is no excuse."""
    gone = r.send(0, key="gone")
    new = r.send(0, key="new")
    r.own("a", 0)
    r.receive("a", 0, message_key="new")
    r.commit("a", 1)
    r.write("crash", peer="b")
    r.write("restart", peer="b")
    return [(LOST, "lost", gone), (GIVEN_TWICE, "twice", new)]


def one_offset_for_two(r: Recorder) -> list[Expected]:
    """Both are there, and the group gets both: no broker may do that."""
    r.send(0, key="one")
    other = r.send(0, key="other")
    r.own("a", 0)
    for key in ("one", "other"):
        r.receive("a", 0, message_key=key)
    r.commit("a", 1)
    return [(GIVEN_TWICE, "twice", other)]


def another_one_came_than_was_stored(r: Recorder) -> list[Expected]:
    """Nobody ever sent it; what was stored there never came."""
    sent = r.send(0)
    r.own("a", 0)
    phantom = r.receive("a", 0, message_key="phantom")
    r.commit("a", 1)
    return [(GIVEN_TWICE, "twice", phantom), (LOST, "lost", sent)]


def came_in_each_other_s_place(r: Recorder) -> list[Expected]:
    """Two messages of one queue; the group gets both."""
    for offset in range(2):
        r.send(offset, key=f"k{offset}")
    r.own("a", 0)
    came = [r.receive("a", offset, message_key=f"k{1 - offset}") for offset in range(2)]
    r.commit("a", 2)
    return [(GIVEN_TWICE, "twice", event) for event in came]


def an_offset_left_out(r: Recorder) -> list[Expected]:
    """Nothing is stored between, and who read all of it got nothing there."""
    r.own("a", 0)
    for offset in (0, 1, 3):
        sent = r.send(offset)
        r.receive("a", offset)
    r.commit("a", 4)
    return [(LEFT_OUT, "passed", sent)]


def several_offsets_left_out(r: Recorder) -> list[Expected]:
    """Its reader began between."""
    r.send(5)
    sent = r.send(9)
    r.own("a", 6)
    r.receive("a", 9)
    return [(LEFT_OUT, "passed", sent)]


def an_offset_of_another_sender(r: Recorder) -> list[Expected]:
    """What came from between was stored, though nobody recorded that."""
    r.send(0)
    r.send(2)
    r.own("a", 0)
    for offset in range(3):
        r.receive("a", offset)
    return []


def an_offset_that_nobody_read(r: Recorder) -> list[Expected]:
    """Another producer may have it. Who begins behind it tells nothing."""
    r.send(0)
    sent = r.send(2)
    r.own("a", 2)
    r.receive("a", 2)
    return [(LEFT_OUT, "unseen", sent)]


def an_offset_that_a_filter_may_have_passed(r: Recorder) -> list[Expected]:
    r.send(0, tag="red")
    sent = r.send(2, tag="red")
    r.member("subscribe", "a", topic="T", tag="red")
    r.own("a", 0)
    r.receive("a", 0)
    r.receive("a", 2)
    return [(LEFT_OUT, "unseen", sent)]


def received_before_it_was_sent(r: Recorder) -> list[Expected]:
    r.own("a", 0)
    early = r.receive("a", 0)
    r.send(0)
    r.commit("a", 1)
    return [(BEFORE_SENT, "before", early)]


def received_before_its_sender_heard_of_it(r: Recorder) -> list[Expected]:
    r.own("a", 0)
    r.write("send", "invoked", topic="T", message_key="0-0")
    r.receive("a", 0)
    r.write("send", message_key="0-0", **r.place(0, 0))
    return []


def member_not_recorded(r: Recorder) -> list[Expected]:
    r.member("join", "ghost")
    sent = consumed(r, 0, 2)
    commit = r.commit("a", 5)
    return [
        (LOST, "incomplete", sent[1]),
        (NEVER_DELIVERED, "incomplete", commit),
        # The ghost is a member from the first event on, and may own the queue.
        (NO_OWNER, "incomplete", r.events[0]),
    ]


def row_missing(r: Recorder) -> list[Expected]:
    sent = consumed(r, 0, 2)
    commit = r.commit("a", 3)
    del r.events[0]
    return [(LOST, "incomplete", sent[1]), (NEVER_DELIVERED, "incomplete", commit)]


def asked_before_it_was_assigned(r: Recorder) -> list[Expected]:
    """As the reference's own members record it: what is lost is told from what was before."""
    sent = [r.send(offset) for offset in range(4)]
    r.at("query_offset", "a", value=1)
    r.at("assign", "a")
    r.receive("a", 2)
    r.receive("a", 3)
    commit = r.commit("a", 4)
    return [(LOST, "lost", sent[1]), (NEVER_DELIVERED, "skipped", commit)]


def began_at_the_end(r: Recorder) -> list[Expected]:
    r.at("query_offset", "a", value=3)
    r.at("assign", "a")
    r.commit("a", 3)
    return []


def began_at_an_end_that_is_not_told(r: Recorder) -> list[Expected]:
    r.own("a", None)
    return [(NEVER_DELIVERED, "start", r.commit("a", 3))]


def commit_beyond(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    return [(NEVER_DELIVERED, "beyond", r.commit("a", 4))]


def commit_went_back(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    r.commit("a", 3)
    return [(WENT_BACK, "back", r.commit("a", 2))]


def a_commit_of_another_thread(r: Recorder) -> list[Expected]:
    """A pull carries what it had read before the timer sent more; the next ones are further."""
    consumed(r, 0, 1, 2)
    r.commit("a", 2)
    first = r.at("commit", "a", value=1, queue_offset=3)
    r.commit("a", 2)
    r.commit("a", 3)
    return [
        (WENT_BACK, "overtaken", first),
        (WENT_BACK, "overtaken", r.at("commit", "a", value=2, queue_offset=3)),
    ]


def a_pull_that_lags_behind(r: Recorder) -> list[Expected]:
    """What it carries was overtaken once; nobody holds it back for longer."""
    consumed(r, 0, 1, 2)
    r.commit("a", 1)
    r.commit("a", 3)
    once = r.at("commit", "a", value=1, queue_offset=3)
    r.commit("a", 3)
    again = r.at("commit", "a", value=1, queue_offset=3)
    return [(WENT_BACK, "overtaken", once), (WENT_BACK, "back", again)]


def a_timer_that_pulls_overtake(r: Recorder) -> list[Expected]:
    """It sends what it had read after its last one, and never less than was sent before that."""
    consumed(r, 0, 1, 2)
    r.commit("a", 1)
    for offset in (2, 3):
        r.at("commit", "a", value=offset, queue_offset=3)
    overtaken = r.commit("a", 2)
    r.at("commit", "a", value=3, queue_offset=3)
    return [(WENT_BACK, "overtaken", overtaken), (WENT_BACK, "back", r.commit("a", 2))]


def a_pull_two_commits_behind(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    for offset in (1, 2, 3):
        r.commit("a", offset)
    return [(WENT_BACK, "back", r.at("commit", "a", value=1, queue_offset=3))]


def pulls_of_one_thread_go_back(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    r.at("commit", "a", value=3, queue_offset=3)
    return [(WENT_BACK, "back", r.at("commit", "a", value=2, queue_offset=3))]


def raw_client(r: Recorder) -> list[Expected]:
    """A tool that was never assigned the queue may read and commit what it likes."""
    consumed(r, 0, 1, 2)
    r.commit("a", 3)
    for offset in (2, 0, 2):
        r.receive("tool", offset)
    r.commit("tool", 9)
    r.commit("tool", 1)
    return []


def repeated_after_a_crash(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    r.commit("a", 1)
    r.member("crash", "a")
    r.own("b", 1)
    repeats = [r.receive("b", 1), r.receive("b", 2)]
    r.commit("b", 3)
    return [(REPEATED, "window", event) for event in repeats]


def repeated_though_committed(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    r.commit("a", 3)
    r.member("leave", "a")
    r.own("b", 2)
    return [(REPEATED, "stale", r.receive("b", 2))]


def repeated_to_one_that_asked_first(r: Recorder) -> list[Expected]:
    """What the broker told it to begin at is no excuse for what the broker had answered before."""
    consumed(r, 0, 1, 2)
    r.commit("a", 3)
    r.member("leave", "a")
    r.at("query_offset", "b", value=2)
    r.at("assign", "b")
    return [(REPEATED, "stale", r.receive("b", 2))]


def owned_twice_by_one_that_asks_first(r: Recorder) -> list[Expected]:
    """Where it began the second time says nothing of the first."""
    consumed(r, 0)
    r.member("crash", "a")
    r.at("query_offset", "b", value=0)
    r.at("assign", "b")
    repeat, *_ = [r.receive("b", offset) for offset in range(3)]
    r.commit("b", 3)
    revoked = r.at("revoke", "b")
    r.at("query_offset", "b", value=3)
    r.at("assign", "b")
    return [(REPEATED, "window", repeat), (NO_OWNER, "unshared", revoked)]


def repeated_as_the_broker_lost_its_progress(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    r.commit("a", 3)
    r.write("crash", peer="b")
    r.member("leave", "a")
    r.own("b", 2)
    return [(REPEATED, "window", r.receive("b", 2))]


def repeated_after_a_late_one_way_commit(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    r.commit("a", 2, outcome="unknown")
    r.commit("a", 3)
    r.member("leave", "a")
    r.own("b", 2)
    repeat = r.receive("b", 2)
    back = r.commit("b", 2)
    return [(REPEATED, "window", repeat), (WENT_BACK, "handed over", back)]


def repeated_from_below_the_start(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    r.member("crash", "a")
    r.own("b", 2)
    return [(REPEATED, "below", r.receive("b", 1))]


def repeated_to_its_owner(r: Recorder) -> list[Expected]:
    consumed(r, 0, 1, 2)
    repeat = r.receive("a", 1)
    r.commit("a", 3)
    return [(REPEATED, "again", repeat)]


def sent_again(r: Recorder) -> list[Expected]:
    r.write("send", "invoked", topic="T", message_key="k")
    r.write("send", "unknown", topic="T", message_key="k")
    r.send(1, key="k")
    r.own("a", 0)
    r.receive("a", 0, message_key="k")
    repeat = r.receive("a", 1, message_key="k")
    r.commit("a", 2)
    return [(REPEATED, "sent again", repeat)]


def stored_again(r: Recorder) -> list[Expected]:
    r.send(0, key="k")
    r.own("a", 0)
    r.receive("a", 0, message_key="k")
    repeat = r.receive("a", 1, message_key="k")
    r.commit("a", 2)
    return [(REPEATED, "stored again", repeat)]


def stored_again_by_a_broker_that_crashed(r: Recorder) -> list[Expected]:
    """As a delayed message is, which the history does not tell from another (DELAY-008)."""
    r.send(0, key="k")
    r.own("a", 0)
    r.receive("a", 0, message_key="k")
    r.write("crash", peer="b")
    r.write("restart", peer="b")
    repeat = r.receive("a", 1, message_key="k")
    r.commit("a", 2)
    return [(REPEATED, "crash", repeat)]


def sender_not_recorded(r: Recorder) -> list[Expected]:
    r.own("a", 0)
    r.receive("a", 0, message_key="k")
    return [(REPEATED, "sender", r.receive("a", 1, message_key="k"))]


def retried(r: Recorder) -> list[Expected]:
    """A message that was given back and comes again from the retry topic is no repeat."""
    r.send(0)
    r.own("a", 0)
    r.receive("a", 0)
    r.at("ack", "a", queue_offset=0, message_key="0-0", outcome="failed")
    r.commit("a", 1)
    retry = {"topic": "%RETRY%G", "queue_offset": 0, "message_key": "0-0"}
    r.at("assign", "a", topic="%RETRY%G")
    r.at("receive", "a", attempt=1, **retry)
    r.at("ack", "a", **retry)
    # The retry queue is known from its first owner on, and the group is older.
    return [(NO_OWNER, "unshared", r.events[2])]


def retried_in_place(r: Recorder) -> list[Expected]:
    """In order a message that failed is tried again where it is; who counts the tries, says so."""
    consumed(r, 0, 1, 2)
    r.at("ack", "a", queue_offset=2, message_key="0-2", outcome="failed")
    r.receive("a", 2)
    r.at("ack", "a", queue_offset=2, message_key="0-2")
    again = r.receive("a", 2)
    for offset in range(2):
        r.at("ack", "a", queue_offset=offset, message_key=f"0-{offset}")
    r.commit("a", 3)
    return [(REPEATED, "again", again)]


def given_back_by_two(r: Recorder) -> list[Expected]:
    """A message that was repeated fails twice, and has a copy for each."""
    r.send(0)
    for client in "ab":
        r.own(client, 0)
        repeat = r.receive(client, 0)
        r.at("ack", client, queue_offset=0, message_key="0-0", outcome="failed")
        r.member("leave" if client == "a" else "join", client)
    retry = {"topic": "%RETRY%G", "message_key": "0-0"}
    r.at("assign", "b", **retry)
    r.at("receive", "b", queue_offset=0, **retry)
    second = r.at("receive", "b", queue_offset=1, **retry)
    # The retry queue is known from its first owner on, and the group is older.
    gaps = [(NO_OWNER, "unshared", r.events[number]) for number in (2, 7)]
    open_yet = (LOST, "open", r.events[1])
    return [open_yet, (REPEATED, "window", repeat), (REPEATED, "given back again", second), *gaps]


def out_of_order(r: Recorder) -> list[Expected]:
    consumed(r, 0, 2)
    behind = r.receive("a", 1)
    r.commit("a", 3)
    return [(OUT_OF_ORDER, "behind", behind)]


def two_owners(r: Recorder) -> list[Expected]:
    r.own("a", 0)
    second = r.at("assign", "b")
    r.at("revoke", "a")
    return [(TWO_OWNERS, "passing", second)]


def two_owners_for_good(r: Recorder) -> list[Expected]:
    r.at("subscribe", "a")
    r.at("subscribe", "b")
    r.own("a", 0)
    second = r.at("assign", "b")
    r.now_s += SETTLED_S
    r.at("query_offset", "b", value=0)
    return [(TWO_OWNERS, "settled", second)]


def one_queue_assigned_to_two(r: Recorder) -> list[Expected]:
    """Who subscribed to nothing may have been given the queue by its user."""
    r.own("a", 0)
    second = r.at("assign", "b")
    r.now_s += SETTLED_S
    r.at("query_offset", "b", value=0)
    return [(TWO_OWNERS, "unshared", second)]


def no_owner(r: Recorder) -> list[Expected]:
    r.at("subscribe", "a")
    r.own("a", 0)
    revoked = r.at("revoke", "a")
    r.own("a", 0)
    return [(NO_OWNER, "passing", revoked)]


def no_owner_of_a_retry_queue(r: Recorder) -> list[Expected]:
    """Whoever subscribes to anything is to share the retry topic as well."""
    r.at("subscribe", "a")
    r.at("assign", "a", topic="%RETRY%G")
    revoked = r.at("revoke", "a", topic="%RETRY%G")
    r.at("assign", "a", topic="%RETRY%G")
    return [(NO_OWNER, "passing", revoked)]


def no_owner_for_good(r: Recorder) -> list[Expected]:
    """Incident A: the queue of the second position belongs to nobody."""
    r.at("subscribe", "a")
    r.send(0, queue=1)
    r.own("a", 0)
    r.now_s += SETTLED_S
    r.at("query_offset", "a", value=0)
    return [(NO_OWNER, "settled", r.events[3])]


def left_with_a_backlog(r: Recorder) -> list[Expected]:
    """It was consumed for a while; another group has read it, which counts for nothing."""
    r.at("subscribe", "a")
    for offset in range(6):
        r.send(offset, queue=1)
    where: dict[str, Any] = {"topic": "T", "broker": "b", "queue_id": 1, "client_id": "tool"}
    r.write("commit", group="another", value=6, **where)
    r.own("a", 0, 1)
    for offset in range(2):
        r.receive("a", offset, 1)
    r.commit("a", 2, 1)
    revoked = r.at("revoke", "a", 1)
    r.now_s += SETTLED_S
    r.at("query_offset", "a", value=0)
    return [
        (NO_OWNER, "settled", revoked),
        *((LOST, "open", r.events[2 * n + 2]) for n in range(2, 6)),
    ]


def one_of_two_queues_assigned(r: Recorder) -> list[Expected]:
    """A user that gives a member one queue has not promised an owner to the other."""
    r.send(0, queue=1)
    r.own("a", 0)
    r.now_s += SETTLED_S
    r.at("query_offset", "a", value=0)
    return [(NO_OWNER, "unshared", r.events[2])]


def two_of_one_id(r: Recorder) -> list[Expected]:
    """Incident A: both take the queue of the first position, and nobody that of the second."""
    r.at("subscribe", "a")
    r.at("subscribe", "a #2")
    r.send(0, queue=1)
    r.own("a", 0)
    joined = r.at("assign", "a #2")
    r.now_s += SETTLED_S
    r.commit("a", 0)
    return [
        (EQUAL_IDS, "shared", joined),
        (TWO_OWNERS, "one id", joined),
        (NO_OWNER, "passing", r.events[4]),
        (NO_OWNER, "one id", joined),
    ]


def more_without_an_owner_than_one_id_leaves(r: Recorder) -> list[Expected]:
    """Of two queues one falls to the second position, and is left; not both."""
    r.at("subscribe", "a")
    r.at("subscribe", "a #2")
    r.send(0, queue=1)
    r.own("a", 0)
    joined = r.at("assign", "a #2")
    r.now_s += SETTLED_S
    r.commit("a", 0)
    r.at("revoke", "a")
    revoked = r.at("revoke", "a #2")
    r.now_s += SETTLED_S
    r.send(1, queue=1)
    return [
        (EQUAL_IDS, "shared", joined),
        (TWO_OWNERS, "one id", joined),
        (NO_OWNER, "passing", r.events[4]),
        (NO_OWNER, "one id", joined),
        (NO_OWNER, "beyond ids", revoked),
    ]


def one_id_after_a_lost_connection(r: Recorder) -> list[Expected]:
    """Nothing comes over the first connection any more: it may be one client's."""
    r.own("a", 0)
    joined = r.member("join", "a #2")
    second = r.at("assign", "a #2")
    r.at("revoke", "a")
    return [(EQUAL_IDS, "at once", joined), (TWO_OWNERS, "passing", second)]


def one_id_after_the_other(r: Recorder) -> list[Expected]:
    """Its rank does not make it a second one, nor do names that end alike."""
    r.own("a", 0)
    r.member("leave", "a")
    r.own("a #2", 0)
    r.member("join", "a #2b")
    r.member("leave", "a #2b")
    return []


def one_id_at_two_queues(r: Recorder) -> list[Expected]:
    r.own("a", 0)
    joined = r.at("assign", "a #2", 1)
    r.commit("a", 0)
    r.at("query_offset", "a #2", 1, value=0)
    return [(EQUAL_IDS, "at once", joined), (NO_OWNER, "unshared", r.events[0])]


def equal_views(r: Recorder) -> list[Expected]:
    """One after the other; who is gone has none, and who comes late has none yet."""
    for client in "ab":
        r.member("join", client)
        r.member("view", client, tag=client, value=1)
    r.now_s += SETTLED_S // 2
    r.member("view", "a", tag="b", value=2)
    r.now_s += SETTLED_S
    r.member("join", "c")
    r.member("view", "c", tag="c", value=3)
    r.member("leave", "c")
    r.now_s += SETTLED_S
    r.member("view", "b", tag="b", value=2)
    return []


def unequal_views(r: Recorder) -> list[Expected]:
    """The broker that one of them asks does not know of the other."""
    for client in "ab":
        r.member("join", client)
    r.member("view", "a", tag="both", value=2)
    told = r.member("view", "b", tag="b alone", value=1)
    r.member("subscribe", "b", topic="T")
    r.now_s += SETTLED_S
    r.member("view", "b", tag="both", value=2)
    r.write("restart", peer="b")
    return [(VIEWS, "settled", told)]


def nobody_there(r: Recorder) -> list[Expected]:
    r.own("a", 0)
    r.member("leave", "a")
    r.now_s += SETTLED_S
    r.own("b", 0)
    return []


def nobody_there_for_the_topic(r: Recorder) -> list[Expected]:
    """The members that stay have subscribed to another topic."""
    r.at("subscribe", "a")
    r.own("a", 0)
    r.at("revoke", "a")
    r.member("leave", "a")
    gap = (NO_OWNER, "passing", r.events[-2])
    other = {"topic": "U"}
    r.at("subscribe", "b", **other)
    r.at("query_offset", "b", value=0, **other)
    r.at("assign", "b", **other)
    r.now_s += SETTLED_S
    r.at("query_offset", "b", value=0, **other)
    return [gap]


def seek(r: Recorder, client: str, offset: int) -> Event:
    """A user has it go on elsewhere: the member tells itself where."""
    return r.at("query_offset", client, peer=client, value=offset)


def sought(r: Recorder) -> list[Expected]:
    """Forward, back, and forward again; nothing of it is amiss, though all of it came twice."""
    for offset in range(4):
        r.send(offset)
    r.at("query_offset", "a", value=0)
    r.at("assign", "a")
    seek(r, "a", 2)
    for offset in (2, 3):
        r.receive("a", offset)
    r.commit("a", 4)
    seek(r, "a", 0)
    r.commit("a", 4)  # what it reports every 5 s, until its user commits again
    _, _, *repeats = [r.receive("a", offset) for offset in range(4)]
    seek(r, "a", 1)
    lower = [r.commit("a", 1)]
    repeats.append(r.receive("a", 1))
    lower.append(r.commit("a", 2))
    return [
        *((REPEATED, "sought", event) for event in repeats),
        *((WENT_BACK, "handed over", event) for event in lower),
    ]


def began_where_no_offset_was_kept(r: Recorder) -> list[Expected]:
    """As a real member begins: told of none, it reads from where it is configured to begin."""
    r.send(0)
    for member in "ab":
        r.at("query_offset", member, value=None)
        r.at("assign", member)
        seek(r, member, 0)
        came = r.receive(member, 0)
        r.member("crash", member)
    return [(REPEATED, "window", came)]


def sought_past_messages(r: Recorder) -> list[Expected]:
    sent = consumed(r, 0)
    seek(r, "a", 2)
    r.receive("a", 2)
    r.commit("a", 3)
    return [(LOST, "passed", sent[1])]


def sought_and_not_committed(r: Recorder) -> list[Expected]:
    """What the member told itself the broker has not stored."""
    sent = consumed(r, 0, 1)
    r.commit("a", 1)
    seek(r, "a", 3)
    r.member("crash", "a")
    r.own("b", 1)
    return [(REPEATED, "window", r.receive("b", 1)), (LOST, "open", sent[2])]


def went_back_after_a_seek(r: Recorder) -> list[Expected]:
    """Once it has come so far again, it may not go back without another seek."""
    consumed(r, 0, 1, 2)
    r.commit("a", 3)
    seek(r, "a", 0)
    r.commit("a", 3)
    repeats = [r.receive("a", offset) for offset in range(3)]
    r.commit("a", 3)
    back = r.commit("a", 2)
    again = r.receive("a", 1)
    return [
        *((REPEATED, "sought", event) for event in repeats),
        (WENT_BACK, "back", back),
        (REPEATED, "again", again),
    ]


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        clean,
        lost,
        commit_past_a_gap,
        received_after_the_commit_past_it,
        a_gap_of_another_owner,
        a_gap_where_a_beginning_is_not_told,
        a_gap_that_came_to_a_later_owner,
        given_back_and_gone,
        skipped_and_read_by_a_tool,
        lost_by_the_broker_s_word,
        received_but_not_consumed,
        consumed_after_the_commit,
        not_due_yet,
        passed_by_a_commit_without_answer,
        passed_by_a_commit_that_a_tool_saw,
        passed_by_a_commit_that_its_broker_had_read,
        passed_by_a_commit_before_a_connection_ended,
        passed_by_a_commit_before_its_broker_started_again,
        passed_by_a_commit_behind_which_the_next_owner_began,
        committed_after_it_was_taken_away,
        delivered_against_its_own_subscription,
        delivered_by_an_expression,
        locks,
        locked_by_two,
        a_lock_that_outlived_its_holders_silence,
        a_lock_that_was_given_up,
        a_lock_that_is_stuck,
        a_lock_that_nobody_is_seen_to_hold,
        delivered_though_refused,
        delivered_though_refused_at_first,
        transactions,
        committed_twice,
        delayed,
        began_nobody_knows_where,
        sent_before_a_later_owner_began,
        sent_below_a_beginning_and_after_it,
        began_later,
        tags,
        left_out_by_a_filter,
        wanted_by_some_members_only,
        wanted_by_another_member,
        without_a_tag,
        received_by_one_that_says_no_more,
        passed_by_a_reset,
        topic_made_anew,
        without_keys,
        offset_given_away_after_a_crash,
        offset_given_away_to_one_that_was_missed,
        offset_given_away_without_a_crash,
        one_offset_for_two,
        another_one_came_than_was_stored,
        came_in_each_other_s_place,
        an_offset_left_out,
        several_offsets_left_out,
        an_offset_of_another_sender,
        an_offset_that_nobody_read,
        an_offset_that_a_filter_may_have_passed,
        received_before_it_was_sent,
        received_before_its_sender_heard_of_it,
        member_not_recorded,
        row_missing,
        asked_before_it_was_assigned,
        began_at_the_end,
        began_at_an_end_that_is_not_told,
        commit_beyond,
        commit_went_back,
        a_commit_of_another_thread,
        a_pull_that_lags_behind,
        a_timer_that_pulls_overtake,
        a_pull_two_commits_behind,
        pulls_of_one_thread_go_back,
        raw_client,
        repeated_after_a_crash,
        repeated_though_committed,
        repeated_to_one_that_asked_first,
        owned_twice_by_one_that_asks_first,
        repeated_as_the_broker_lost_its_progress,
        repeated_after_a_late_one_way_commit,
        repeated_from_below_the_start,
        repeated_to_its_owner,
        sent_again,
        stored_again,
        stored_again_by_a_broker_that_crashed,
        sender_not_recorded,
        retried,
        retried_in_place,
        given_back_by_two,
        out_of_order,
        two_owners,
        two_owners_for_good,
        one_queue_assigned_to_two,
        no_owner,
        no_owner_of_a_retry_queue,
        no_owner_for_good,
        left_with_a_backlog,
        one_of_two_queues_assigned,
        two_of_one_id,
        more_without_an_owner_than_one_id_leaves,
        one_id_after_a_lost_connection,
        one_id_after_the_other,
        one_id_at_two_queues,
        equal_views,
        unequal_views,
        nobody_there,
        nobody_there_for_the_topic,
        sought,
        began_where_no_offset_was_kept,
        sought_past_messages,
        sought_and_not_committed,
        went_back_after_a_seek,
    )
}


def apart(a: Recorder, b: Recorder) -> list[Expected]:
    """Two recorders: the second owner began because the first had left."""
    a.own("a", 0)
    left = a.member("leave", "a")
    b.at("assign", "b", cause=f"{a.process}/{left.seq}")
    return []


def unordered(a: Recorder, b: Recorder) -> list[Expected]:
    held = a.at("assign", "a")
    a.member("leave", "a")
    b.at("assign", "b")
    return [(TWO_OWNERS, "unordered", held)]


def together(a: Recorder, b: Recorder) -> list[Expected]:
    """Each learned that the other owned the queue before it let go."""
    held = a.at("assign", "a")
    second = b.at("assign", "b")
    a.at("query_offset", "a", value=0, cause=f"{b.process}/{second.seq}")
    b.at("query_offset", "b", value=0, cause=f"{a.process}/{held.seq}")
    a.member("leave", "a")
    b.member("leave", "b")
    return [(TWO_OWNERS, "passing", held)]


def together_for_hours(a: Recorder, b: Recorder) -> list[Expected]:
    """Each hears of the other all the time; how long both owned the queue no clock tells."""
    held = a.at("assign", "a")
    last = b.at("assign", "b")
    for _ in range(3):
        a.now_s += SETTLED_S
        b.now_s += SETTLED_S
        heard = a.at("query_offset", "a", value=0, cause=f"{b.process}/{last.seq}")
        last = b.at("query_offset", "b", value=0, cause=f"{a.process}/{heard.seq}")
    return [(TWO_OWNERS, "lasting", held)]


def one_id_at_two_recorders(a: Recorder, b: Recorder) -> list[Expected]:
    """One client that both saw, or two."""
    a.member("join", "a")
    return [(EQUAL_IDS, "elsewhere", b.member("join", "a"))]


def delayed_by_another_clock(a: Recorder, b: Recorder) -> list[Expected]:
    for outcome in ("invoked", "ok"):
        a.write("send", outcome, topic="T", message_key="k", value=900_000)
    b.own("b", 0)
    came = b.receive("b", 0, message_key="k", value=900_000)
    return [(DELAYED, "elsewhere", came), (BEFORE_SENT, "elsewhere", came)]


def a_lock_at_another_recorder(a: Recorder, b: Recorder) -> list[Expected]:
    """Who got it when it had expired may be the other one's."""
    a.at("lock", "a")
    a.now_s += SETTLED_S
    b.at("lock", "b")
    return [(LOCK_KEPT, "unknown", a.at("lock", "c", outcome="failed"))]


def went_back_at_another_recorder(a: Recorder, b: Recorder) -> list[Expected]:
    a.own("a", 0)
    for offset in range(5):
        a.send(offset)
        a.receive("a", offset)
    a.commit("a", 5)
    left = a.member("leave", "a")
    b.at("query_offset", "b", value=3, cause=f"{a.process}/{left.seq}")
    b.at("assign", "b")
    return [(WENT_BACK, "unordered", b.commit("b", 3))]


def given_away_at_another_recorder(a: Recorder, b: Recorder) -> list[Expected]:
    """Whether the crash lies between the two is not told."""
    gone = a.send(0, key="gone")
    b.write("crash", peer="b")
    b.write("restart", peer="b")
    new = a.send(0, key="new")
    a.own("a", 0)
    a.receive("a", 0, message_key="new")
    a.commit("a", 1)
    return [(LOST, "given away", gone), (GIVEN_TWICE, "unordered", new)]


def received_at_another_recorder(a: Recorder, b: Recorder) -> list[Expected]:
    """Whether it was received before the commit is not told."""
    consumed(a, 0, 2)
    commit = a.commit("a", 3)
    left = a.member("leave", "a")
    b.at("query_offset", "b", value=1, cause=f"{a.process}/{left.seq}")
    b.at("assign", "b")
    came = b.receive("b", 1)
    return [(NEVER_DELIVERED, "doubtful", commit), (BEFORE_SENT, "elsewhere", came)]


def repeated_at_another_recorder(a: Recorder, b: Recorder) -> list[Expected]:
    a.send(0)
    a.own("a", 0)
    first = a.receive("a", 0)
    a.member("leave", "a")
    b.at("assign", "b", cause=f"{a.process}/{a.events[-1].seq}")
    again = b.receive("b", 0)
    b.commit("b", 1)
    return [(REPEATED, "unordered", first), (BEFORE_SENT, "elsewhere", again)]


def put_back_by_another_recorder(a: Recorder, b: Recorder) -> list[Expected]:
    """A late commit of the other member, and the queue comes back to the first."""
    a.send(0)
    a.send(1)
    a.own("a", 0)
    for offset in range(2):
        a.receive("a", offset)
    a.commit("a", 2)
    left = a.at("revoke", "a")
    b.at("assign", "b", cause=f"{a.process}/{left.seq}")
    late = b.commit("b", 1)
    back = b.member("leave", "b")
    a.at("assign", "a", cause=f"{b.process}/{back.seq}")
    a.at("query_offset", "a", value=1)
    repeat = a.receive("a", 1)
    return [
        (REPEATED, "put back", repeat),
        (NEVER_DELIVERED, "unordered", late),
        (WENT_BACK, "unordered", late),
        (NO_OWNER, "incomplete", left),
    ]


def committed_for_another_recorder(a: Recorder, b: Recorder) -> list[Expected]:
    a.send(0)
    a.own("a", 0)
    a.receive("a", 0)
    left = a.member("leave", "a")
    b.at("assign", "b", cause=f"{a.process}/{left.seq}")
    return [(NEVER_DELIVERED, "unordered", b.commit("b", 1))]


def sent_after_it_was_received(a: Recorder, b: Recorder) -> list[Expected]:
    """Its sender had heard from the recorder that had seen it come."""
    b.own("b", 0)
    early = b.receive("b", 0)
    heard = f"{b.process}/{early.seq}"
    a.write("send", "invoked", topic="T", message_key="0-0", cause=heard)
    a.write("send", message_key="0-0", **a.place(0, 0))
    return [(BEFORE_SENT, "before", early)]


def sent_in_no_known_order(a: Recorder, b: Recorder) -> list[Expected]:
    """One of two tries was made after it had been received, and the other one perhaps before."""
    b.own("b", 0)
    came = b.receive("b", 0)
    a.write("send", "invoked", topic="T", message_key="0-0")
    heard = f"{b.process}/{came.seq}"
    a.write("send", "invoked", topic="T", message_key="0-0", cause=heard)
    a.write("send", message_key="0-0", **a.place(0, 0))
    return [(BEFORE_SENT, "elsewhere", came)]


PAIRS = {
    case.__name__: case
    for case in (
        apart,
        unordered,
        together,
        together_for_hours,
        one_id_at_two_recorders,
        delayed_by_another_clock,
        a_lock_at_another_recorder,
        went_back_at_another_recorder,
        given_away_at_another_recorder,
        received_at_another_recorder,
        repeated_at_another_recorder,
        put_back_by_another_recorder,
        committed_for_another_recorder,
        sent_after_it_was_received,
        sent_in_no_known_order,
    )
}

Found: TypeAlias = set[tuple[str, str, str, int]]


@pytest.fixture(scope="module")
def judged(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[AuditReport, dict[str, Found]]:
    """One audit of all runs, and what was to be found in each."""
    recorders, expected = [], {}
    for name, case in CASES.items():
        recorder = Recorder(run=name)
        recorders.append(recorder)
        expected[name] = case(recorder)
    for name, pair in PAIRS.items():
        two = (Recorder(run=name, process="a"), Recorder(run=name, process="b"))
        recorders.extend(two)
        expected[name] = pair(*two)
    directory = tmp_path_factory.mktemp("runs")
    for number, recorder in enumerate(recorders):
        recorder.save(directory / f"{number}.jsonl")
    found = {
        run: {(c.name, c.outcomes[o].why, e.process, e.seq) for c, o, e in places}
        for run, places in expected.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        # In several tasks, as if it were much: some see a queue that nobody owned, or nothing.
        patch.setattr(stages, "tasks", lambda events, parallelism: 7)
        return audit(spark, str(directory), examples=1000).report, found


@pytest.mark.parametrize("run", [*CASES, *PAIRS])
def test_a_run_shows_what_went_wrong_in_it_and_nothing_more(
    judged: tuple[AuditReport, dict[str, Found]], run: str
) -> None:
    report, expected = judged
    found = {
        (check.name, finding.why, place["process"], place["seq"])
        for check in report.checks
        for finding in check.findings
        for place in finding.examples
        if place["run"] == run
    }
    assert found == expected[run]


def test_counts_and_first_and_last_places(judged: tuple[AuditReport, dict[str, Found]]) -> None:
    report, expected = judged
    for check in report.checks:
        for finding in check.findings:
            assert finding.count == len(finding.examples)
            assert finding.first == finding.examples[0]
            assert finding.last == finding.examples[-1]
        assert check.examined == check.held + sum(f.count for f in check.findings)
        assert check.held > 0
    total = sum(finding.count for check in report.checks for finding in check.findings)
    assert total == sum(map(len, expected.values()))


def test_what_was_left_of_a_queue_that_nobody_owns(
    judged: tuple[AuditReport, dict[str, Found]],
) -> None:
    report, _ = judged
    left = {
        place["run"]: place.get("value")
        for check in report.checks
        if check.name == NO_OWNER.name
        for finding in check.findings
        if finding.judgement in (Judgement.VIOLATED, Judgement.PERMITTED)
        for place in finding.examples
        if place["queue_id"] == 1
    }
    assert left == {
        "no_owner_for_good": 1,
        "two_of_one_id": 1,
        "more_without_an_owner_than_one_id_leaves": 2,
        "left_with_a_backlog": 4,
    }


def test_every_outcome_was_seen(judged: tuple[AuditReport, dict[str, Found]]) -> None:
    """No row of the tables is there for show."""
    report, _ = judged
    seen = {(c.name, f.why) for c in report.checks for f in c.findings}
    listed = {
        (check.name, outcome.why)
        for check in HISTORY_CHECKS
        for outcome in check.outcomes.values()
        if outcome.judgement != Judgement.HELD
    }
    assert seen == listed


def test_evidence_and_report(judged: tuple[AuditReport, dict[str, Found]]) -> None:
    report, _ = judged
    records = report.evidence()
    assert {record.kind for record in records} == {EvidenceKind.AUDITED}
    for record in records:
        ideal = rules()[record.rule].kind is Kind.IDEAL
        assert record.verdict is (Verdict.REFUTED if ideal else Verdict.VIOLATED)
        assert record.detail["events"] == report.coverage["events"]
    encoded: dict[str, Any] = encode(report)
    assert [check["name"] for check in encoded["checks"]] == [c.name for c in HISTORY_CHECKS]


def test_the_rules_of_the_table_exist() -> None:
    for check in HISTORY_CHECKS:
        assert rules()[check.promise].kind is not Kind.IDEAL
        assert check.ideal is None or rules()[check.ideal].kind is Kind.IDEAL
        for outcome in check.outcomes.values():
            assert outcome.rule is None or outcome.rule in rules()
            assert set(outcome.known_as or ()) <= {one.page for one in incidents().values()}
