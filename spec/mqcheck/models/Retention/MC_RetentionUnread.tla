-------------------------- MODULE MC_RetentionUnread --------------------------
(***************************************************************************)
(* Retention beside a group that reads the queues: a broker does not ask   *)
(* how far a group is before it deletes.                                   *)
(***************************************************************************)
EXTENDS Retention

VARIABLES
    nextOffset,  \* queue -> where the group reads next
    got          \* the positions of the records that it got

groupVars == <<nextOffset, got>>

(***************************************************************************)
(* The record of a queue that is there at an offset, of several the last.  *)
(***************************************************************************)
RecordAt(queue, offset) ==
    Greatest({i \in commitLog.min + 1 .. commitLog.max : log[i] = queue /\ offsets[i] = offset})

(***************************************************************************)
(* The group gets the next message of a queue.  Where it is gone the       *)
(* broker says where the queue begins now, and where the queue ends before *)
(* it the broker says where, and the group goes on there.                  *)
(***************************************************************************)
PullMessage(queue) ==
    LET next == nextOffset[queue]
        span == consumeQueue[queue]
    IN  /\ next /= span.max
        /\ IF span.min <= next /\ next < span.max
           THEN /\ nextOffset' = [nextOffset EXCEPT ![queue] = next + 1]
                /\ got' = got \cup {RecordAt(queue, next)}
           ELSE /\ nextOffset' =
                    [nextOffset EXCEPT ![queue] = IF next < span.min THEN span.min ELSE span.max]
                /\ got' = got
        /\ UNCHANGED retentionVars

(***************************************************************************)
(* What the store does while the group stays where it is.                  *)
(***************************************************************************)
StorePuts(queue) == PutMessage(queue) /\ UNCHANGED groupVars
SegmentGrowsOld(start) == GrowOld(start) /\ UNCHANGED groupVars
DiskIsUsed(ratio) == UseDisk(ratio) /\ UNCHANGED groupVars
StoreDecides(isTimeUp) == CleanCommitLog(isTimeUp) /\ UNCHANGED groupVars
SegmentsGo == DeleteExpiredFile /\ UNCHANGED groupVars

UnreadInit ==
    RetentionInit /\ nextOffset = [queue \in Queues |-> 0] /\ got = {}

UnreadNext ==
    \/ \E queue \in Queues : StorePuts(queue)
    \/ \E start \in Closed : SegmentGrowsOld(start)
    \/ \E ratio \in Ratios : DiskIsUsed(ratio)
    \/ \E isTimeUp \in BOOLEAN : StoreDecides(isTimeUp)
    \/ SegmentsGo
    \/ \E queue \in Queues : PullMessage(queue)

UnreadSpec == UnreadInit /\ [][UnreadNext]_<<retentionVars, groupVars>>

(***************************************************************************)
(* Nothing goes that the group has not read.  Never promised (CLEAN-006).  *)
(***************************************************************************)
NothingUnreadGoes ==
    \A queue \in Queues : consumeQueue[queue].min <= nextOffset[queue]

(***************************************************************************)
(* What is there, and lies before the place to which the group has come,   *)
(* it got: it passes over nothing (CLEAN-007).                             *)
(***************************************************************************)
NothingIsPassedOver ==
    \A i \in commitLog.min + 1 .. commitLog.max :
        offsets[i] < nextOffset[log[i]] => i \in got

UnreadTypeOK ==
    /\ nextOffset \in [Queues -> 0 .. MaxRecords]
    /\ got \subseteq 1 .. MaxRecords
===============================================================================
