------------------------------ MODULE Retention ------------------------------
(***************************************************************************)
(* Old segments of the CommitLog go, and what refers to their records      *)
(* follows.  Twin of mqspec/core/retention.py.                             *)
(*                                                                         *)
(* Modelled: records of some queues in segments of one size, segments that *)
(* grow old in any order, a disk that fills and empties, rounds of         *)
(* cleaning, and puts that are refused while the disk is full.             *)
(*                                                                         *)
(* Left out: crashes between the removal of two files, which tests of      *)
(* crash states have; the ten files of a round at most; the index; what    *)
(* is not dispatched yet, which stays.                                     *)
(*                                                                         *)
(* Not in the core, being the environment: log, old, used, PutMessage,     *)
(* GrowOld, UseDisk; cut, which is where a round's segments end.           *)
(* Ghosts: offsets, wronged.                                               *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Queues,
    SegmentRecords,  \* how many records a segment holds
    MaxRecords,
    \* A defect, FALSE in the protocol as it is:
    LooksForOld      \* all before the last old segment goes, not all before the first young one

VARIABLES
    log,           \* the queue of each record that was ever put
    commitLog,     \* the records that are there: those behind min, up to max
    consumeQueue,  \* by queue: the offsets of its records that are there, min included
    old,           \* the starts of segments that were not written for fileReservedTime
    used,          \* how much of the disk is
    isDiskFull,    \* puts are refused
    cut,           \* what a round of cleaning decided: the log is to begin there
    offsets,       \* the queue offset that each record was given
    wronged        \* segments that a round took, and need not have gone

retentionVars ==
    <<log, commitLog, consumeQueue, old, used, isDiskFull, cut, offsets, wronged>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Up to 75, 85 and 90 percent, and above.                                 *)
(***************************************************************************)
Ratios == {"normal", "max used", "clean forcibly", "warning level"}
IsAtOnce == used \in {"clean forcibly", "warning level"}

LastStart ==
    IF commitLog.max = 0 THEN 0
    ELSE ((commitLog.max - 1) \div SegmentRecords) * SegmentRecords

Segments == {n * SegmentRecords : n \in 0 .. (LastStart \div SegmentRecords)}
Closed == {start \in Segments : commitLog.min <= start /\ start < LastStart}

(***************************************************************************)
(* Where the log may begin: before all that is to stay, and before the     *)
(* last segment in any case.                                               *)
(***************************************************************************)
Cuts ==
    {start \in Segments \cup {LastStart + SegmentRecords} :
        /\ commitLog.min <= start
        /\ start <= LastStart
        /\ LET gone == {s \in Closed : s < start}
           IN  IF LooksForOld THEN start = commitLog.min \/ start - SegmentRecords \in old
               ELSE IsAtOnce \/ gone \subseteq old}

Greatest(set) == CHOOSE n \in set : \A m \in set : m <= n

(***************************************************************************)
(* The offsets of a queue's records that lie behind a position.            *)
(***************************************************************************)
OffsetsFrom(queue, position) ==
    {offsets[i] : i \in {j \in position + 1 .. commitLog.max : log[j] = queue}}

-----------------------------------------------------------------------------
RetentionInit ==
    /\ log = <<>>
    /\ commitLog = [min |-> 0, max |-> 0]
    /\ consumeQueue = [queue \in Queues |-> [min |-> 0, max |-> 0]]
    /\ old = {}
    /\ used = "normal"
    /\ isDiskFull = FALSE
    /\ cut = 0
    /\ offsets = <<>>
    /\ wronged = {}

PutMessage(queue) ==
    /\ ~isDiskFull
    /\ Len(log) < MaxRecords
    /\ log' = Append(log, queue)
    /\ offsets' = Append(offsets, consumeQueue[queue].max)
    /\ commitLog' = [commitLog EXCEPT !.max = @ + 1]
    /\ consumeQueue' = [consumeQueue EXCEPT ![queue].max = @ + 1]
    /\ UNCHANGED <<old, used, isDiskFull, cut, wronged>>

(***************************************************************************)
(* A segment was not written for so long.  One that came from a copy may   *)
(* be older than those before it.                                          *)
(***************************************************************************)
GrowOld(start) ==
    /\ start \in Closed \ old
    /\ old' = old \cup {start}
    /\ UNCHANGED <<log, commitLog, consumeQueue, used, isDiskFull, cut, offsets, wronged>>

UseDisk(ratio) ==
    /\ used /= ratio
    /\ used' = ratio
    /\ UNCHANGED <<log, commitLog, consumeQueue, old, isDiskFull, cut, offsets, wronged>>

(***************************************************************************)
(* A round of cleaning decides.  In the hour of deleteWhen, in the rounds  *)
(* that an operator asked for, and whenever the disk is used above         *)
(* diskMaxUsedSpaceRatio, old segments go; above                           *)
(* diskSpaceCleanForciblyRatio all but the last one.                       *)
(***************************************************************************)
CleanCommitLog(isTimeUp) ==
    /\ cut = commitLog.min
    /\ isDiskFull' = (used = "warning level" \/ (IsAtOnce /\ isDiskFull))
    /\ cut' = IF isTimeUp \/ used /= "normal" THEN Greatest(Cuts) ELSE cut
    /\ wronged' = wronged \cup
            IF IsAtOnce THEN {} ELSE {start \in Segments : start < cut' /\ start >= cut} \ old
    /\ UNCHANGED <<log, commitLog, consumeQueue, old, used, offsets>>

(***************************************************************************)
(* The segments go.  Each queue begins with its first record that is still *)
(* there; one without any keeps its maximum as its minimum.                *)
(***************************************************************************)
DeleteExpiredFile ==
    /\ cut > commitLog.min
    /\ commitLog' = [commitLog EXCEPT !.min = cut]
    /\ consumeQueue' =
        [queue \in Queues |->
            LET left == OffsetsFrom(queue, cut)
                max  == consumeQueue[queue].max
            IN  [min |-> max - Cardinality(left), max |-> max]]
    /\ UNCHANGED <<log, old, used, isDiskFull, cut, offsets, wronged>>

RetentionNext ==
    \/ \E queue \in Queues : PutMessage(queue)
    \/ \E start \in Closed : GrowOld(start)
    \/ \E ratio \in Ratios : UseDisk(ratio)
    \/ \E isTimeUp \in BOOLEAN : CleanCommitLog(isTimeUp)
    \/ DeleteExpiredFile

RetentionSpec ==
    /\ RetentionInit /\ [][RetentionNext]_retentionVars
    /\ WF_retentionVars(CleanCommitLog(FALSE))
    /\ WF_retentionVars(DeleteExpiredFile)

-----------------------------------------------------------------------------
RetentionTypeOK ==
    /\ log \in Seq(Queues)
    /\ commitLog \in [min : 0 .. MaxRecords, max : 0 .. MaxRecords]
    /\ consumeQueue \in [Queues -> [min : 0 .. MaxRecords, max : 0 .. MaxRecords]]
    /\ old \subseteq Segments
    /\ used \in Ratios
    /\ isDiskFull \in BOOLEAN
    /\ cut \in Segments
    /\ offsets \in Seq(0 .. MaxRecords)
    /\ wronged \subseteq Segments

(***************************************************************************)
(* What is young goes only when the disk is used above                     *)
(* diskSpaceCleanForciblyRatio, and the last segment never (CLEAN-001).    *)
(***************************************************************************)
NothingYoungGoes == wronged = {}
LastSegmentStays == commitLog.min <= LastStart

(***************************************************************************)
(* A queue has the records that are in the log, all and no others          *)
(* (CLEAN-003).                                                            *)
(***************************************************************************)
QueuesBeginInTheLog ==
    \A queue \in Queues :
        OffsetsFrom(queue, commitLog.min) =
            consumeQueue[queue].min .. consumeQueue[queue].max - 1

(***************************************************************************)
(* Queue offsets go on, also in a queue without records (CLEAN-004).       *)
(***************************************************************************)
OffsetsGoOn ==
    \A i \in DOMAIN log : offsets[i] = Cardinality({j \in 1 .. i - 1 : log[j] = log[i]})

(***************************************************************************)
(* What turns puts off and on (CLEAN-005).                                 *)
(***************************************************************************)
FullDiskIsLeftAlone ==
    [][ /\ isDiskFull => log' = log
        /\ isDiskFull' /\ ~isDiskFull => used = "warning level"
        /\ isDiskFull /\ ~isDiskFull' => ~IsAtOnce ]_retentionVars

(***************************************************************************)
(* And that they do turn, as FullDiskIsLeftAlone says only when they may:  *)
(* where the disk stays used above diskSpaceWarningLevelRatio puts end,    *)
(* and where it stays used to diskSpaceCleanForciblyRatio or less they go  *)
(* on (CLEAN-005).                                                         *)
(***************************************************************************)
FullDiskEndsPuts == <>[](used = "warning level") => <>[]isDiskFull
RoomLetsPutsGoOn == <>[](~IsAtOnce) => <>[]~isDiskFull

(***************************************************************************)
(* In the end no old segment is the first one, but for the last: where     *)
(* hours of deleteWhen come, and where the disk stays used above           *)
(* diskMaxUsedSpaceRatio (CLEAN-002).                                      *)
(***************************************************************************)
OldSegmentsGo ==
    WF_retentionVars(CleanCommitLog(TRUE)) \/ <>[](used /= "normal")
        => <>[](commitLog.min \notin old \/ commitLog.min = LastStart)

(***************************************************************************)
(* A witness, to be violated: a queue that had records has none.           *)
(***************************************************************************)
NeverEmptied ==
    \A queue \in Queues :
        consumeQueue[queue].max > 0 => consumeQueue[queue].min < consumeQueue[queue].max
==============================================================================
