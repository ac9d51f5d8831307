"""The theorems about protocols, and what the names of their modules stand for."""

from __future__ import annotations

from mqprove.inductive import Invariance, Protocol
from mqprove.tla_values import Element, Map, Number, Optional, Record, SeqOf, SetOf, Truth, Word

MEMBER = Element("Members")

LOCK = Protocol(
    module="LockInductive",
    of="Lock",
    sets=("Members",),
    tokens=("NoLock",),
    constants={
        "MaxLiveTime": Number(),
        "BeliefTime": Number(),
        "ListenTime": Number(),
        "ForceTime": Number(),
        "Forced": Truth(),
        "MaxCrashes": Number(),
        "MaxRestarts": Number(),
    },
    variables={
        "mqLockTable": Optional("NoLock", Record({"clientId": MEMBER, "age": Number()})),
        "belief": Map(MEMBER, Number()),
        "listening": Map(MEMBER, Number()),
        "crashed": SetOf(MEMBER),
        "restarts": Number(),
    },
)

QUEUE = Element("Queues")

OFFSET_COMMIT = Protocol(
    module="OffsetCommitInductive",
    of="OffsetCommit",
    sets=("Members", "Queues"),
    tokens=("None",),
    constants={
        "MaxOffset": Number(),
        "SentBefore": Number(),
        "FromLast": Truth(),
        "MaxMoves": Number(),
        "MaxMemberCrashes": Number(),
        "MaxBrokerCrashes": Number(),
        "MaxInFlight": Number(),
        "Handover": Word(),
    },
    variables={
        "processQueueTable": Map(
            MEMBER,
            Map(
                QUEUE,
                Optional("None", Record({"nextOffset": Number(), "msgTreeMap": SetOf(Number())})),
            ),
        ),
        "offsetStore": Map(MEMBER, Map(QUEUE, Optional("None", Number()))),
        "offsetTable": Map(QUEUE, Optional("None", Number())),
        "offsetFile": Map(QUEUE, Optional("None", Number())),
        "network": SetOf(Record({"member": MEMBER, "queue": QUEUE, "offset": Number()})),
        "orphans": SetOf(Record({"member": MEMBER, "queue": QUEUE, "offset": Number()})),
        "crashed": SetOf(MEMBER),
        "moves": Number(),
        "brokerCrashes": Number(),
        "maxOffset": Map(QUEUE, Number()),
        "begun": Map(QUEUE, Optional("None", Number())),
        "consumed": Map(QUEUE, Map(Number(), Number())),
    },
)

CONSUMER = Element("Consumers")

LONG_POLLING = Protocol(
    module="LongPollingInductive",
    of="LongPolling",
    sets=("Consumers",),
    tokens=(),
    constants={
        "MaxMessages": Number(),
        "SuspendTimeout": Number(),
        "CheckInterval": Number(),
        "ClientTimeout": Number(),
        "LooksAgain": Truth(),
        "Defect": Word(),
    },
    variables={
        "queue": SeqOf(Word()),
        "maxOffset": Number(),
        "arrived": Number(),
        "reading": SetOf(CONSUMER),
        "pullRequestTable": SetOf(CONSUMER),
        "pullFromThisOffset": Map(CONSUMER, Number()),
        "waited": Map(CONSUMER, Number()),
        "sinceCheck": Number(),
        "heldAt": Map(CONSUMER, Number()),
        "answers": SetOf(
            Record(
                {
                    "to": CONSUMER,
                    "code": Number(),
                    "by": Word(("read", "arrival", "check")),
                    "waited": Number(),
                }
            )
        ),
    },
)

INVARIANCES: tuple[Invariance, ...] = (
    Invariance(
        "lock-one-belief",
        ("LOCK-021",),
        "Two members never both believe in the lock, while the broker does not start again.",
        LOCK,
        claim="OneBelief",
        invariant="BeliefInductive",
        bounds="BeliefBounds",
        never=("Restart",),
    ),
    Invariance(
        "lock-one-listener",
        ("LOCK-009",),
        "One listener at most works, if none works for longer than the lock outlives the belief.",
        LOCK,
        claim="OneListener",
        invariant="ListenerInductive",
        bounds="ListenerBounds",
        never=("Restart",),
    ),
    Invariance(
        "lock-holder-believes",
        ("LOCK-010",),
        "Who runs and holds a lock that is fresh believes in it, also where brokers start again.",
        LOCK,
        claim="HolderBelieves",
        invariant="HolderInductive",
        bounds="HolderBounds",
    ),
    Invariance(
        "lock-taken-from-the-silent",
        ("LOCK-004",),
        "No lock goes to another member before its holder was silent for longer than it lives.",
        LOCK,
        claim="TakenFromTheSilentOnly",
    ),
    Invariance(
        "offset-committed-is-consumed",
        ("OFFSET-002",),
        "All below a committed offset has been consumed: of groups that begin at offset 0.",
        OFFSET_COMMIT,
        claim="CommittedIsConsumed",
        invariant="Inductive",
        bounds="Bounds",
    ),
    Invariance(
        "offset-nothing-skipped",
        ("OFFSET-001",),
        "No owner pulls past what is neither consumed nor its own: of groups that begin at 0.",
        OFFSET_COMMIT,
        claim="NothingSkipped",
        invariant="Inductive",
        bounds="Bounds",
    ),
    Invariance(
        "offset-repeats-in-window",
        ("OFFSET-005",),
        "A process queue begins at what is stored, and goes on from there.",
        OFFSET_COMMIT,
        claim="RepeatsInWindow",
    ),
    Invariance(
        "offset-position-never-goes-back",
        ("OFFSET-005",),
        "From there each message enters it once: the next to pull never goes back.",
        OFFSET_COMMIT,
        claim="PositionNeverGoesBack",
    ),
    Invariance(
        "offset-own-progress-never-goes-back",
        ("OFFSET-003",),
        "While a member keeps a queue its progress never goes back.",
        OFFSET_COMMIT,
        claim="OwnProgressNeverGoesBack",
        invariant="OwnInductive",
        bounds="OwnBounds",
    ),
    Invariance(
        "offset-commits-own-progress",
        ("OFFSET-003",),
        "What a member commits is its progress.",
        OFFSET_COMMIT,
        claim="CommitsOwnProgress",
    ),
    Invariance(
        "offset-dropped-never-commits",
        ("OFFSET-006",),
        "A new commit comes from a member that held the queue.",
        OFFSET_COMMIT,
        claim="DroppedNeverCommits",
    ),
    Invariance(
        "offset-only-commits-are-stored",
        ("OFFSET-022",),
        "What a broker has stored is changed by a commit of that queue, or a start.",
        OFFSET_COMMIT,
        claim="OnlyCommitsAreStored",
    ),
    Invariance(
        "polling-arrivals-wake",
        ("PULL-008", "PULL-011"),
        "A pull that is held when a message that it wants arrives is not held any more.",
        LONG_POLLING,
        claim="ArrivalsWake",
        invariant="Arriving",
        bounds="Bounds",
    ),
    Invariance(
        "polling-nothing-left-at-a-look",
        ("PULL-010",),
        "After a look at the held pulls none is held for which there is a message.",
        LONG_POLLING,
        claim="NothingIsLeftAtALook",
        bounds="Bounds",
    ),
    Invariance(
        "polling-others-wake-nobody",
        ("PULL-010",),
        "A message that a pull does not want does not end it by its arrival.",
        LONG_POLLING,
        claim="OthersWakeNobody",
        invariant="Answering",
        bounds="Bounds",
    ),
    Invariance(
        "polling-nothing-too-early",
        ("PULL-009",),
        "A pull is answered that there is nothing only when its time is up.",
        LONG_POLLING,
        claim="NothingTooEarly",
        invariant="Answering",
        bounds="Bounds",
    ),
    Invariance(
        "polling-held-no-longer",
        ("PULL-009",),
        "No pull is held for longer than its time and the time between two looks.",
        LONG_POLLING,
        claim="HeldNoLonger",
        invariant="Holding",
        bounds="Bounds",
    ),
    Invariance(
        "polling-client-still-waits",
        ("PULL-015",),
        "A held pull's client still waits, if it waits for longer than that.",
        LONG_POLLING,
        claim="ClientStillWaits",
        invariant="Holding",
        bounds="WaitingBounds",
    ),
)
