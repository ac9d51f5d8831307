"""The checks of a history, a table: what is looked for, under which rule, and what it means."""

from __future__ import annotations

from typing import Final

from mqaudit.check import Check, Outcome
from mqaudit.report import Judgement

HELD, PERMITTED, VIOLATED, UNDECIDABLE, OPEN = Judgement

# How long after its last change a group may take to settle: a member that dies in silence is
# dropped by its broker within 120 s and a scan of 10 s, and missed by the others' next
# rebalance, every 20 s (ClientHousekeepingService.java, RebalanceService.java, 5.3.3).
SETTLED_NS: Final = 150 * 10**9

# All columns that name a place, in the order of first and last; and those of each kind of check.
PLACE: Final = (
    "run", "process", "seq", "consumer_group", "topic", "broker", "queue_id", "queue_offset",
    "client_id", "value", "message",
)  # fmt: skip
_HOLD: Final = (
    "run", "process", "seq", "consumer_group", "topic", "broker", "queue_id",
)  # fmt: skip
_COMMIT: Final = (*_HOLD, "client_id", "value")
_MESSAGE: Final = (*_HOLD, "queue_offset", "client_id", "message")

LOST: Final = Check(
    name="lost",
    about="messages that the group committed past and never handled",
    promise="OFFSET-001",
    places=(*_HOLD, "queue_offset", "message"),
    outcomes={
        "handled": Outcome(HELD, "handled"),
        "unwanted": Outcome(HELD, "its tag is not subscribed"),
        "before": Outcome(HELD, "before the offset at which the group began"),
        "lost": Outcome(
            VIOLATED, "committed past, and never handled", known_as=("damaged-offsets",)
        ),
        "replaced": Outcome(
            PERMITTED,
            "its broker crashed, and its offset was given away",
            rule="RECOV-015",
            known_as=("abnormal-exit",),
        ),
        "mixed": Outcome(PERMITTED, "its tag is not subscribed by every member", rule="SUBS-016"),
        "start": Outcome(UNDECIDABLE, "below the first offset seen; where the group began is not"),
        "incomplete": Outcome(UNDECIDABLE, "a member or a part of the run was not recorded"),
        "unsaid": Outcome(UNDECIDABLE, "its receiver does not record what it has finished"),
        "given back": Outcome(UNDECIDABLE, "given back, and never recorded to have come again"),
        "given away": Outcome(
            UNDECIDABLE, "its broker crashed, and its offset was given away, in no known order"
        ),
        "anew": Outcome(UNDECIDABLE, "its offset was given away when its queue began again"),
        "passed": Outcome(UNDECIDABLE, "passed by a reset, or as an owner went on elsewhere"),
        "elsewhere": Outcome(UNDECIDABLE, "received only by a client that owned nothing"),
        "unconfirmed": Outcome(UNDECIDABLE, "passed only by commits that were not answered"),
        "open": Outcome(OPEN, "the recording ended before it was due"),
    },
)

REPEATED: Final = Check(
    name="repeated",
    about="messages that a group received more than once",
    promise="OFFSET-005",
    ideal="OFFSET-004",
    places=_MESSAGE,
    outcomes={
        "once": Outcome(HELD, "received for the first time"),
        "again": Outcome(
            VIOLATED, "received again by a member that had kept the queue", known_as=()
        ),
        "stale": Outcome(
            VIOLATED,
            "received again though progress past it had been answered",
            known_as=("damaged-offsets", "fail-over"),
        ),
        "below": Outcome(
            VIOLATED,
            "received again from below the offset where its owner began",
            known_as=("damaged-offsets", "fail-over"),
        ),
        "stored again": Outcome(
            VIOLATED, "stored twice, and sent once", known_as=("delayed-messages", "transactions")
        ),
        "window": Outcome(
            PERMITTED,
            "received again, as progress past it was not known",
            known_as=("progress-lost", "release-spikes", "abnormal-exit"),
        ),
        "sought": Outcome(PERMITTED, "received again, as its owner went on elsewhere"),
        "sent again": Outcome(
            PERMITTED,
            "stored twice, as its producer tried again",
            rule="SEND-025",
            known_as=("publishing",),
        ),
        "committed again": Outcome(
            PERMITTED,
            "stored twice, as its transaction was committed twice",
            rule="TX-017",
            known_as=("transactions",),
        ),
        "given back again": Outcome(
            PERMITTED,
            "stored twice, as it was given back to be retried",
            rule="RETRY-013",
            known_as=("expired-messages",),
        ),
        "unordered": Outcome(UNDECIDABLE, "progress past it was answered to another recorder"),
        "put back": Outcome(UNDECIDABLE, "another recorder's commit may have put progress back"),
        "sender": Outcome(UNDECIDABLE, "stored twice, and its producer was not recorded"),
        "crash": Outcome(
            UNDECIDABLE, "stored twice, and a broker crashed: it may have been delayed"
        ),
    },
)

OUT_OF_ORDER: Final = Check(
    name="out of order",
    about="messages received after a later one of their queue",
    promise="PULL-001",
    places=_MESSAGE,
    outcomes={
        "in order": Outcome(HELD, "after all earlier ones"),
        "behind": Outcome(VIOLATED, "received after a later message of its queue"),
    },
)

NEVER_DELIVERED: Final = Check(
    name="committed, never delivered",
    about="commits past messages that were not delivered, or not finished",
    promise="OFFSET-002",
    places=_COMMIT,
    outcomes={
        "delivered": Outcome(HELD, "everything below was delivered"),
        "unfinished": Outcome(VIOLATED, "past a message that its owner had not finished"),
        "skipped": Outcome(VIOLATED, "past a stored message that had not been delivered"),
        "beyond": Outcome(VIOLATED, "beyond everything that had been delivered"),
        "doubtful": Outcome(
            UNDECIDABLE, "past a stored message that may have been delivered, or left out"
        ),
        "incomplete": Outcome(UNDECIDABLE, "a member or a part of the run was not recorded"),
        "filtered": Outcome(UNDECIDABLE, "the group filters, and what was left out is not known"),
        "unordered": Outcome(UNDECIDABLE, "delivered to another recorder, in no known order"),
        "start": Outcome(
            UNDECIDABLE, "nothing was delivered before, and where the group began is not known"
        ),
    },
)

WENT_BACK: Final = Check(
    name="went back",
    about="commits lower than an earlier one of the same group and queue",
    promise="OFFSET-003",
    ideal="OFFSET-008",
    places=_COMMIT,
    outcomes={
        "forward": Outcome(HELD, "at least what was committed before"),
        "back": Outcome(VIOLATED, "lower than its owner had committed before"),
        "overtaken": Outcome(
            PERMITTED,
            "lower than what another thread of its owner sent just before it",
            known_as=("progress-lost",),
        ),
        "handed over": Outcome(
            PERMITTED,
            "lower than before it was handed over, or before a seek",
            known_as=("progress-lost",),
        ),
        "unordered": Outcome(
            UNDECIDABLE, "lower than another recorder's, in no known order", "OFFSET-008"
        ),
    },
)

TWO_OWNERS: Final = Check(
    name="two owners",
    about="queues that more than one member owned at once",
    promise="REBAL-001",
    ideal="REBAL-002",
    places=_HOLD,
    outcomes={
        "one": Outcome(HELD, "one owner until the next change of the group"),
        "apart": Outcome(HELD, "one owner after the other"),
        "settled": Outcome(
            VIOLATED,
            "several owners long after the last change of the group",
            known_as=("same-client-id", "different-inputs"),
        ),
        "passing": Outcome(
            PERMITTED,
            "several owners while the group rebalanced",
            known_as=("when-it-rebalances", "release-spikes"),
        ),
        "one id": Outcome(
            PERMITTED,
            "several owners of one client id, who all take its queues",
            rule="ALLOC-014",
            known_as=("same-client-id",),
        ),
        "lasting": Outcome(
            UNDECIDABLE, "several owners, and two recorders: for how long is not known", "REBAL-001"
        ),
        "unshared": Outcome(
            UNDECIDABLE, "several owners, not known to have all subscribed", "REBAL-001"
        ),
        "unordered": Outcome(UNDECIDABLE, "owners recorded by two processes, in no known order"),
    },
)

NO_OWNER: Final = Check(
    name="no owner",
    about="queues that nobody owned though the group had members",
    promise="REBAL-001",
    ideal="REBAL-003",
    places=(*_HOLD, "value"),  # what was left of one that nobody owned until the end
    outcomes={
        "owned": Outcome(HELD, "owned until the next change of the group"),
        "settled": Outcome(
            VIOLATED,
            "no owner long after the last change of the group",
            known_as=("same-client-id", "different-inputs"),
        ),
        "passing": Outcome(
            PERMITTED,
            "no owner while the group rebalanced",
            known_as=("when-it-rebalances", "release-spikes"),
        ),
        "one id": Outcome(
            PERMITTED,
            "no owner, and two members have one client id: what is the second one's is nobody's",
            rule="ALLOC-002",
            known_as=("same-client-id",),
        ),
        "beyond ids": Outcome(
            VIOLATED,
            "no owner, and more of the topic's queues have none than members of one id leave",
            known_as=("same-client-id", "different-inputs"),
        ),
        "incomplete": Outcome(UNDECIDABLE, "an owner may not have been recorded, or elsewhere"),
        "unshared": Outcome(UNDECIDABLE, "no member is known to have subscribed to the topic"),
    },
)

TAKEN_AWAY: Final = Check(
    name="committed after it was taken away",
    about="commits of a member that owned the queue no longer",
    promise="OFFSET-006",
    places=_COMMIT,
    outcomes={
        "owned": Outcome(HELD, "its member owned the queue"),
        "late": Outcome(VIOLATED, "the queue had been taken away from its member"),
        "overlocked": Outcome(
            PERMITTED,
            "another member had been granted its lock meanwhile: nothing fences the first one off",
            rule="LOCK-007",
            known_as=("orderly-locks",),
        ),
    },
)

UNSUBSCRIBED: Final = Check(
    name="not subscribed",
    about="messages that came to a member whose own subscription names other tags",
    promise="SUBS-015",
    places=_MESSAGE,
    outcomes={
        "wanted": Outcome(HELD, "its tag is subscribed"),
        "unwanted": Outcome(
            VIOLATED, "its member never subscribed to its tag", known_as=("different-tags",)
        ),
        "untagged": Outcome(UNDECIDABLE, "no tag of it was recorded"),
        "expression": Outcome(UNDECIDABLE, "subscribed by properties, which are not recorded"),
    },
)

LOCKED_TWICE: Final = Check(
    name="locked twice",
    about="locks that a member got while another one of its group held the queue",
    promise="LOCK-001",
    places=(*_HOLD, "client_id"),
    outcomes={
        "first": Outcome(HELD, "nobody is known to have held it"),
        "renewed": Outcome(HELD, "its holder asked again"),
        "freed": Outcome(HELD, "its holder had unlocked it"),
        "expired": Outcome(HELD, "its holder had not renewed it for 60 s"),
        "held": Outcome(
            VIOLATED, "another member held it, and had not unlocked it", known_as=("orderly-locks",)
        ),
        "forgotten": Outcome(
            PERMITTED,
            "another member held it, and its broker had crashed",
            rule="LOCK-008",
            known_as=("orderly-locks",),
        ),
        "old": Outcome(UNDECIDABLE, "another member got it 30 to 60 s before: it may have expired"),
    },
)

LOCK_KEPT: Final = Check(
    name="lock kept",
    about="locks that a member did not get",
    promise="LOCK-004",
    places=(*_HOLD, "client_id"),
    outcomes={
        "held": Outcome(HELD, "another member had got it less than 60 s before"),
        "stuck": Outcome(VIOLATED, "nobody had got it for longer than a lock lives"),
        "unknown": Outcome(UNDECIDABLE, "who held it was not recorded"),
    },
)

GIVEN_TWICE: Final = Check(
    name="one offset, two messages",
    about="messages stored at an offset that another one of their queue had got, or come from it",
    promise="SEND-002",
    places=(*_HOLD, "queue_offset", "message"),
    outcomes={
        "one": Outcome(HELD, "the first at its offset"),
        "twice": Outcome(VIOLATED, "another message has its offset, and no crash lies between"),
        "given away": Outcome(
            PERMITTED,
            "a crash had taken the other message at its offset",
            rule="RECOV-015",
            known_as=("abnormal-exit",),
        ),
        "unordered": Outcome(
            UNDECIDABLE, "another message has its offset, and a crash is in no known order"
        ),
    },
)

LEFT_OUT: Final = Check(
    name="offsets left out",
    about="stored messages before whose offset their queue has offsets of none",
    promise="SEND-002",
    places=(*_HOLD, "queue_offset", "message"),
    outcomes={
        "next": Outcome(HELD, "follows the one before, or is the first that was seen"),
        "passed": Outcome(
            VIOLATED, "no message has the offsets before it, which a reader of all tags passed"
        ),
        "unseen": Outcome(
            UNDECIDABLE,
            "of the offsets before it no message was seen, and no reader of all tags passed them",
        ),
    },
)

REFUSED: Final = Check(
    name="refused, and delivered",
    about="messages that were delivered though their sends had been refused",
    promise="SEND-023",
    places=_MESSAGE,
    outcomes={
        "sent": Outcome(HELD, "it may have been stored"),
        "refused": Outcome(
            VIOLATED, "its send had been refused, and was not tried again", known_as=("publishing",)
        ),
        "open": Outcome(UNDECIDABLE, "refused, and sent again: what came of that is not known"),
    },
)

BEFORE_SENT: Final = Check(
    name="received before it was sent",
    about="messages that came to a member, and when they were first sent",
    promise="SEND-044",
    places=_MESSAGE,
    outcomes={
        "after": Outcome(HELD, "after its producer had first tried to send it"),
        "before": Outcome(VIOLATED, "before its producer first tried to send it"),
        "elsewhere": Outcome(UNDECIDABLE, "its send was recorded elsewhere, in no known order"),
    },
)

EQUAL_IDS: Final = Check(
    name="equal client ids",
    about="members that joined a group in which another one had their client id",
    promise="ALLOC-001",
    ideal="ALLOC-014",
    places=("run", "process", "seq", "consumer_group", "client_id"),
    outcomes={
        "own": Outcome(HELD, "nobody else had its id"),
        "shared": Outcome(
            PERMITTED,
            "another member had its id, and both worked at one queue",
            known_as=("same-client-id",),
        ),
        "at once": Outcome(
            UNDECIDABLE,
            "another member had its id; that both worked at one queue is not seen",
            rule="ALLOC-014",
            known_as=("same-client-id",),
        ),
        "elsewhere": Outcome(
            UNDECIDABLE,
            "another recorder has a member of its id, in no known order",
            rule="ALLOC-014",
            known_as=("same-client-id",),
        ),
    },
)

ROLLED_BACK: Final = Check(
    name="rolled back, and delivered",
    about="messages that were delivered though their transactions had been rolled back",
    promise="TX-014",
    places=_MESSAGE,
    outcomes={
        "committed": Outcome(HELD, "its transaction was committed, and never rolled back"),
        "rolled back": Outcome(
            VIOLATED, "rolled back, and never committed", known_as=("transactions",)
        ),
        "both": Outcome(
            PERMITTED,
            "rolled back, and committed as well",
            rule="TX-005",
            known_as=("transactions",),
        ),
    },
)

DELAYED: Final = Check(
    name="delayed",
    about="messages that were sent with a delay level, and when they came",
    promise="DELAY-002",
    places=_MESSAGE,
    outcomes={
        "due": Outcome(HELD, "after its delay"),
        "early": Outcome(VIOLATED, "before its delay had passed", known_as=()),
        "late": Outcome(
            PERMITTED,
            "more than 60 s after its delay: how soon is not promised",
            rule="DELAY-003",
            known_as=("delayed-messages",),
        ),
        "elsewhere": Outcome(UNDECIDABLE, "when it was sent was not recorded, or by another clock"),
        "never": Outcome(
            OPEN,
            "it came to nobody while it was recorded; for how long somebody waits is not told",
            rule="DELAY-003",
            known_as=("delayed-messages",),
        ),
    },
)

VIEWS: Final = Check(
    name="unequal views",
    about="lists of its members that a group's members were told, while several had one",
    promise="ALLOC-001",
    places=("run", "process", "seq", "consumer_group"),
    outcomes={
        "equal": Outcome(HELD, "all were told the same"),
        "passing": Outcome(HELD, "some had not been told yet, as the group had changed"),
        "settled": Outcome(
            PERMITTED,
            "different lists long after the last change of the group: nothing is promised then",
            rule="ALLOC-001",
            known_as=("different-inputs",),
        ),
    },
)

HISTORY_CHECKS: Final = (
    LOST,
    REPEATED,
    OUT_OF_ORDER,
    NEVER_DELIVERED,
    WENT_BACK,
    TWO_OWNERS,
    NO_OWNER,
    EQUAL_IDS,
    VIEWS,
    TAKEN_AWAY,
    UNSUBSCRIBED,
    LOCKED_TWICE,
    LOCK_KEPT,
    GIVEN_TWICE,
    LEFT_OUT,
    BEFORE_SENT,
    REFUSED,
    ROLLED_BACK,
    DELAYED,
)
