-------------------------- MODULE MC_RetentionUnread --------------------------
(***************************************************************************)
(* Retention beside a group that reads the queues: a broker does not ask   *)
(* how far a group is before it deletes.                                   *)
(***************************************************************************)
EXTENDS Retention

VARIABLE nextOffset   \* queue -> where the group reads next

(***************************************************************************)
(* The group gets the next message of a queue.  Where it is gone the       *)
(* broker says where the queue begins now, and the group goes on there.    *)
(***************************************************************************)
PullMessage(queue) ==
    /\ nextOffset[queue] < consumeQueue[queue].max
    /\ nextOffset' =
        [nextOffset EXCEPT ![queue] =
            IF @ < consumeQueue[queue].min THEN consumeQueue[queue].min ELSE @ + 1]
    /\ UNCHANGED retentionVars

(***************************************************************************)
(* What the store does while the group stays where it is.                  *)
(***************************************************************************)
StorePuts(queue) == PutMessage(queue) /\ UNCHANGED nextOffset
SegmentGrowsOld(start) == GrowOld(start) /\ UNCHANGED nextOffset
DiskIsUsed(ratio) == UseDisk(ratio) /\ UNCHANGED nextOffset
StoreDecides(isTimeUp) == CleanCommitLog(isTimeUp) /\ UNCHANGED nextOffset
SegmentsGo == DeleteExpiredFile /\ UNCHANGED nextOffset

UnreadInit == RetentionInit /\ nextOffset = [queue \in Queues |-> 0]

UnreadNext ==
    \/ \E queue \in Queues : StorePuts(queue)
    \/ \E start \in Closed : SegmentGrowsOld(start)
    \/ \E ratio \in Ratios : DiskIsUsed(ratio)
    \/ \E isTimeUp \in BOOLEAN : StoreDecides(isTimeUp)
    \/ SegmentsGo
    \/ \E queue \in Queues : PullMessage(queue)

UnreadSpec == UnreadInit /\ [][UnreadNext]_<<retentionVars, nextOffset>>

(***************************************************************************)
(* Nothing goes that the group has not read.  Never promised (CLEAN-006).  *)
(***************************************************************************)
NothingUnreadGoes ==
    \A queue \in Queues : consumeQueue[queue].min <= nextOffset[queue]

UnreadTypeOK == nextOffset \in [Queues -> 0 .. MaxRecords]
===============================================================================
