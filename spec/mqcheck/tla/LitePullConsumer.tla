--------------------------- MODULE LitePullConsumer ---------------------------
(***************************************************************************)
(* A lite-pull consumer pulls a queue ahead, gives its messages to a user  *)
(* who polls for them, and reports how far that is: each 5 s, as the user  *)
(* polls again, or when the user says so.  Whether the user is done with   *)
(* what it polled, the consumer does not know.  Twin of                    *)
(* mqspec/core/lite_pull_consumer.py and mqspec/core/offset_commit.py.     *)
(*                                                                         *)
(* Modelled: one queue, which one member of a group holds at a time; pulls *)
(* whose answer comes when their process queue is gone; users that wait    *)
(* until they are done, or hand messages to threads of their own, seek,    *)
(* and crash.                                                              *)
(*                                                                         *)
(* A message that is polled leaves the process queue at once, whatever     *)
(* becomes of it: in OffsetCommit it stays until its listener is done.     *)
(*                                                                         *)
(* Left out: two members that hold the queue at once, commits that are     *)
(* lost or overtake each other, and brokers that crash (OffsetCommit); a   *)
(* queue that lost its end; flow control; queues that are paused.          *)
(*                                                                         *)
(* Not in the core, being the user, the network and the environment: late, *)
(* work, maxOffset, moves, crashes, seeks; SendMessage, Ask, DropAnswer,   *)
(* TakeAnswer, Finish, CrashMember. Ghosts: begun, skipped, expected,      *)
(* polled, done, passed, repeated.                                         *)
(***************************************************************************)
EXTENDS Naturals

CONSTANTS
    Members,
    MaxMessages,       \* the messages of the queue are 0..MaxMessages-1
    SentBefore,        \* how many of them are there before the group starts
    FromLast,          \* whether a member begins at the end where nothing is stored
    MaxMoves,          \* how often the queue is taken from a member that runs
    MaxCrashes,
    MaxSeeks,
    Waits,             \* TRUE: a user is done with what it polled before it polls, commits or
                       \* seeks again; FALSE: it has threads of its own
    Commits,           \* what is reported: "polled", or "done", which the user says itself
    LeavesCommitted,   \* TRUE: the queue is taken when all that was polled is done and reported
    ReportsBegin,      \* TRUE: where a member begins is to be reported, as if polled up to there
    Defect,            \* "none" in the protocol as it is
    None               \* no process queue, no offset

VARIABLES
    processQueueTable, \* member -> its process queue, or None
    consumeOffset,     \* member -> the offset behind what was polled last, or None
    offsetStore,       \* member -> progress to report, or None
    offsetTable,       \* what the broker has stored, or None
    late,              \* member -> the offsets of pulls whose process queue is gone
    work,              \* member -> what its user polled and is not done with
    maxOffset,         \* how many messages the queue has
    moves,
    crashes,
    seeks,
    \* ghosts
    begun,             \* where the group began, or None
    skipped,           \* what lies before where members began at the end
    expected,          \* member -> what is to be polled next, or None
    polled,            \* what was polled
    done,              \* what a user was done with
    passed,            \* what a user passed over
    repeated           \* what was polled after a user was done with it

ghosts == <<begun, skipped, expected, polled, done, passed, repeated>>
vars == <<processQueueTable, consumeOffset, offsetStore, offsetTable, late, work, maxOffset,
          moves, crashes, seeks, ghosts>>

Offsets == 0 .. MaxMessages - 1
Progress == 0 .. MaxMessages
ProcessQueue == [nextOffset : Progress, msgTreeMap : SUBSET Offsets, isAsked : BOOLEAN]
Holds(m) == processQueueTable[m] # None
Below(offset) == {o \in Offsets : o < offset}
Minimum(S) == CHOOSE x \in S : \A y \in S : x <= y
Empty(offset) == [nextOffset |-> offset, msgTreeMap |-> {}, isAsked |-> FALSE]

TypeOK ==
    /\ \A m \in Members :
        /\ Holds(m) => processQueueTable[m] \in ProcessQueue
        /\ consumeOffset[m] = None \/ consumeOffset[m] \in Progress
        /\ offsetStore[m] = None \/ offsetStore[m] \in Progress
        /\ expected[m] = None \/ expected[m] \in Progress
    /\ offsetTable = None \/ offsetTable \in Progress
    /\ late \in [Members -> SUBSET Offsets]
    /\ work \in [Members -> SUBSET Offsets]
    /\ maxOffset \in Progress
    /\ moves \in 0 .. MaxMoves
    /\ crashes \in 0 .. MaxCrashes
    /\ seeks \in 0 .. MaxSeeks
    /\ begun = None \/ begun \in Progress
    /\ skipped \subseteq Offsets
    /\ polled \subseteq Offsets
    /\ done \subseteq polled
    /\ passed \subseteq Offsets
    /\ repeated \subseteq polled

Init ==
    /\ processQueueTable = [m \in Members |-> None]
    /\ consumeOffset = [m \in Members |-> None]
    /\ offsetStore = [m \in Members |-> None]
    /\ offsetTable = None
    /\ late = [m \in Members |-> {}]
    /\ work = [m \in Members |-> {}]
    /\ maxOffset = SentBefore
    /\ moves = 0
    /\ crashes = 0
    /\ seeks = 0
    /\ begun = None
    /\ skipped = {}
    /\ expected = [m \in Members |-> None]
    /\ polled = {}
    /\ done = {}
    /\ passed = {}
    /\ repeated = {}

-----------------------------------------------------------------------------
(***************************************************************************)
(* A message is sent.                                                      *)
(***************************************************************************)
SendMessage ==
    /\ maxOffset < MaxMessages
    /\ maxOffset' = maxOffset + 1
    /\ UNCHANGED <<processQueueTable, consumeOffset, offsetStore, offsetTable, late, work,
                   moves, crashes, seeks, ghosts>>

(***************************************************************************)
(* A member starts on the queue, at the offset that the broker has stored; *)
(* where there is none at the first message or, as the group's policy      *)
(* says, at the end.  Where it starts it will not report before its user   *)
(* has polled a message.                                                   *)
(***************************************************************************)
AddMessageQueue(m) ==
    LET start == IF offsetTable # None THEN offsetTable ELSE IF FromLast THEN maxOffset ELSE 0
    IN  /\ \A n \in Members : ~Holds(n)
        /\ processQueueTable' = [processQueueTable EXCEPT ![m] = Empty(start)]
        /\ offsetStore' = [offsetStore EXCEPT ![m] = IF ReportsBegin THEN start ELSE offsetTable]
        /\ begun' = IF begun = None THEN start ELSE begun
        /\ skipped' = IF offsetTable = None THEN skipped \cup Below(start) ELSE skipped
        /\ expected' = [expected EXCEPT ![m] = start]
        /\ UNCHANGED <<consumeOffset, offsetTable, late, work, maxOffset, moves, crashes,
                       seeks, polled, done, passed, repeated>>

(***************************************************************************)
(* A pull goes out, one at a time, and its answer brings the next message. *)
(***************************************************************************)
Ask(m) ==
    /\ Holds(m)
    /\ ~processQueueTable[m].isAsked
    /\ processQueueTable[m].nextOffset < maxOffset
    /\ processQueueTable' = [processQueueTable EXCEPT ![m].isAsked = TRUE]
    /\ IF Defect = "CommitsWhatIsPulled"
       THEN consumeOffset' = [consumeOffset EXCEPT ![m] = processQueueTable[m].nextOffset]
       ELSE UNCHANGED consumeOffset
    /\ UNCHANGED <<offsetStore, offsetTable, late, work, maxOffset, moves, crashes, seeks,
                   ghosts>>

PullMessage(m) ==
    LET o == processQueueTable[m].nextOffset
    IN  /\ Holds(m)
        /\ processQueueTable[m].isAsked
        /\ processQueueTable' = [processQueueTable EXCEPT
            ![m].nextOffset = o + 1, ![m].msgTreeMap = @ \cup {o}, ![m].isAsked = FALSE]
        /\ UNCHANGED <<consumeOffset, offsetStore, offsetTable, late, work, maxOffset,
                       moves, crashes, seeks, ghosts>>

(***************************************************************************)
(* An answer comes to a process queue that is gone, and is dropped.  With  *)
(* the defect LatePullMovesPosition the next pull goes on behind it.       *)
(***************************************************************************)
DropAnswer(m, o) ==
    /\ Defect # "LatePullMovesPosition"
    /\ o \in late[m]
    /\ late' = [late EXCEPT ![m] = @ \ {o}]
    /\ UNCHANGED <<processQueueTable, consumeOffset, offsetStore, offsetTable, work,
                   maxOffset, moves, crashes, seeks, ghosts>>

TakeAnswer(m, o) ==
    /\ Defect = "LatePullMovesPosition"
    /\ o \in late[m]
    /\ late' = [late EXCEPT ![m] = @ \ {o}]
    /\ IF Holds(m) /\ ~processQueueTable[m].isAsked
       THEN processQueueTable' = [processQueueTable EXCEPT ![m].nextOffset = o + 1]
       ELSE UNCHANGED processQueueTable
    /\ UNCHANGED <<consumeOffset, offsetStore, offsetTable, work, maxOffset, moves, crashes,
                   seeks, ghosts>>

(***************************************************************************)
(* The next message goes to the user, and leaves the process queue.        *)
(***************************************************************************)
Turn(m) == Waits => work[m] = {}

Poll(m) ==
    LET tree == processQueueTable[m].msgTreeMap
        o    == Minimum(tree)
        rest == tree \ {o}
    IN  /\ Holds(m)
        /\ tree # {}
        /\ Turn(m)
        /\ processQueueTable' = [processQueueTable EXCEPT ![m].msgTreeMap = rest]
        /\ consumeOffset' = [consumeOffset EXCEPT
            ![m] = IF rest = {} THEN processQueueTable[m].nextOffset ELSE Minimum(rest)]
        /\ work' = [work EXCEPT ![m] = @ \cup {o}]
        /\ expected' = [expected EXCEPT ![m] = o + 1]
        /\ polled' = polled \cup {o}
        /\ repeated' = repeated \cup (done \cap {o})
        /\ UNCHANGED <<offsetStore, offsetTable, late, maxOffset, moves, crashes, seeks,
                       begun, skipped, done, passed>>

(***************************************************************************)
(* The user is done with a message.                                        *)
(***************************************************************************)
Finish(m, o) ==
    /\ o \in work[m]
    /\ work' = [work EXCEPT ![m] = @ \ {o}]
    /\ done' = done \cup {o}
    /\ UNCHANGED <<processQueueTable, consumeOffset, offsetStore, offsetTable, late,
                   maxOffset, moves, crashes, seeks, begun, skipped, expected, polled,
                   passed, repeated>>

(***************************************************************************)
(* How far was polled is to be reported: the user says so, or polls again, *)
(* 5 s after the last time.                                                *)
(***************************************************************************)
Commit(m) ==
    /\ Commits = "polled"
    /\ Holds(m)
    /\ consumeOffset[m] # None
    /\ Turn(m)
    /\ offsetStore' = [offsetStore EXCEPT ![m] = consumeOffset[m]]
    /\ UNCHANGED <<processQueueTable, consumeOffset, offsetTable, late, work, maxOffset,
                   moves, crashes, seeks, ghosts>>

(***************************************************************************)
(* The user says itself how far it is: up to what it is not done with.     *)
(***************************************************************************)
CommitOffset(m) ==
    /\ Commits = "done"
    /\ Holds(m)
    /\ consumeOffset[m] # None
    /\ offsetStore' = [offsetStore EXCEPT
        ![m] = IF work[m] = {} THEN consumeOffset[m] ELSE Minimum(work[m])]
    /\ UNCHANGED <<processQueueTable, consumeOffset, offsetTable, late, work, maxOffset,
                   moves, crashes, seeks, ghosts>>

(***************************************************************************)
(* The user goes on elsewhere in the queue.                                *)
(***************************************************************************)
Dropped(m) ==
    late' = [late EXCEPT
        ![m] = IF processQueueTable[m].isAsked
               THEN @ \cup {processQueueTable[m].nextOffset} ELSE @]

Seek(m, o) ==
    /\ Holds(m)
    /\ o <= maxOffset
    /\ seeks < MaxSeeks
    /\ Turn(m)
    /\ seeks' = seeks + 1
    /\ processQueueTable' = [processQueueTable EXCEPT ![m] = Empty(o)]
    /\ consumeOffset' = [consumeOffset EXCEPT ![m] = o]
    /\ Dropped(m)
    /\ expected' = [expected EXCEPT ![m] = o]
    /\ passed' = passed \cup (Below(o) \ Below(expected[m]))
    /\ UNCHANGED <<offsetStore, offsetTable, work, maxOffset, moves, crashes, begun,
                   skipped, polled, done, repeated>>

(***************************************************************************)
(* Every 5 s a member reports its progress.                                *)
(***************************************************************************)
PersistAll(m) ==
    /\ Holds(m)
    /\ offsetStore[m] # None
    /\ offsetTable' = offsetStore[m]
    /\ UNCHANGED <<processQueueTable, consumeOffset, offsetStore, late, work, maxOffset,
                   moves, crashes, seeks, ghosts>>

(***************************************************************************)
(* The queue is taken away, or the member stops in order: progress is      *)
(* reported for the last time.  What was polled and not committed is not.  *)
(***************************************************************************)
Forget(m) ==
    /\ processQueueTable' = [processQueueTable EXCEPT ![m] = None]
    /\ consumeOffset' = [consumeOffset EXCEPT ![m] = None]
    /\ offsetStore' = [offsetStore EXCEPT ![m] = None]
    /\ expected' = [expected EXCEPT ![m] = None]

RemoveUnnecessaryMessageQueue(m) ==
    /\ Holds(m)
    /\ moves < MaxMoves
    /\ LeavesCommitted =>
        work[m] = {} /\ (consumeOffset[m] = None \/ offsetStore[m] = consumeOffset[m])
    /\ moves' = moves + 1
    /\ offsetTable' = IF offsetStore[m] = None THEN offsetTable ELSE offsetStore[m]
    /\ Forget(m)
    /\ Dropped(m)
    /\ UNCHANGED <<work, maxOffset, crashes, seeks, begun, skipped, polled, done, passed,
                   repeated>>

(***************************************************************************)
(* A member is gone, with all that it and its user had in memory, and is   *)
(* started again.                                                          *)
(***************************************************************************)
CrashMember(m) ==
    /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ Forget(m)
    /\ late' = [late EXCEPT ![m] = {}]
    /\ work' = [work EXCEPT ![m] = {}]
    /\ UNCHANGED <<offsetTable, maxOffset, moves, seeks, begun, skipped, polled, done,
                   passed, repeated>>

-----------------------------------------------------------------------------
Next ==
    \/ SendMessage
    \/ \E m \in Members :
        \/ AddMessageQueue(m)
        \/ Ask(m)
        \/ PullMessage(m)
        \/ Poll(m)
        \/ Commit(m)
        \/ CommitOffset(m)
        \/ PersistAll(m)
        \/ RemoveUnnecessaryMessageQueue(m)
        \/ CrashMember(m)
        \/ \E o \in Offsets :
            \/ DropAnswer(m, o)
            \/ TakeAnswer(m, o)
            \/ Finish(m, o)
        \/ \E o \in Progress : Seek(m, o)

(***************************************************************************)
(* A queue that nobody holds gets an owner (Rebalance, Converges), who     *)
(* pulls it; its user polls, and comes to be done.  Nothing is asked of    *)
(* commits.                                                                *)
(***************************************************************************)
Fairness ==
    /\ WF_vars(SendMessage)
    /\ WF_vars(\E m \in Members : AddMessageQueue(m))
    /\ \A m \in Members :
        /\ WF_vars(Ask(m))
        /\ WF_vars(PullMessage(m))
        /\ WF_vars(Poll(m))
        /\ WF_vars(\E o \in Offsets : Finish(m, o))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
Committed == {offsetTable} \cup {offsetStore[m] : m \in Members}

(***************************************************************************)
(* LITE-001.  Whatever is committed, all below it was polled, but for what *)
(* a user passed over, and what lies before where a member began.          *)
(***************************************************************************)
CommittedIsPolled ==
    \A offset \in Committed \ {None} : Below(offset) \subseteq polled \cup passed \cup skipped

(***************************************************************************)
(* LITE-002, of a user who waits; LITE-003, of any.  A user is done with   *)
(* all that.                                                               *)
(***************************************************************************)
CommittedIsDone ==
    \A offset \in Committed \ {None} : Below(offset) \subseteq done \cup passed \cup skipped

(***************************************************************************)
(* LITE-004.  What is polled is the message behind the one before, or      *)
(* where the member began, or was sent by a seek.                          *)
(***************************************************************************)
PollsFollow ==
    [][\A m \in Members : \A o \in work'[m] \ work[m] : o = expected[m]]_vars

(***************************************************************************)
(* LITE-005.                                                               *)
(***************************************************************************)
EveryMessageDone == <>[](done \cup passed = Offsets)

(***************************************************************************)
(* Ideal: LITE-007.  All before what a member polls next was polled, or    *)
(* lies before where the group began.                                      *)
(***************************************************************************)
NothingMissed ==
    \A m \in Members : Holds(m) =>
        Below(expected[m]) \ Below(begun) \subseteq polled \cup passed

(***************************************************************************)
(* Ideal: LITE-006.                                                        *)
(***************************************************************************)
NoRepeat == repeated = {}

(***************************************************************************)
(* Broken, to show that the model is not empty.                            *)
(***************************************************************************)
NeverAllCommitted == offsetTable # MaxMessages
NeverLate == \A m \in Members : late[m] = {}
===============================================================================
