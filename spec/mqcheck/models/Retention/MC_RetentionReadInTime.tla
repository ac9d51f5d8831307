------------------------ MODULE MC_RetentionReadInTime ------------------------
(***************************************************************************)
(* The assumption under which nothing unread goes: a segment does not grow *)
(* old before all up to its end is read, and the disk is never used above  *)
(* diskSpaceCleanForciblyRatio.                                            *)
(***************************************************************************)
EXTENDS MC_RetentionUnread

IsReadTo(position) ==
    \A i \in 1 .. position : offsets[i] < nextOffset[log[i]]

SegmentGrowsOldRead(start) == IsReadTo(start + SegmentRecords) /\ SegmentGrowsOld(start)

ReadInTimeNext ==
    \/ \E queue \in Queues : StorePuts(queue)
    \/ \E start \in Closed : SegmentGrowsOldRead(start)
    \/ \E ratio \in {"normal", "max used"} : DiskIsUsed(ratio)
    \/ \E isTimeUp \in BOOLEAN : StoreDecides(isTimeUp)
    \/ SegmentsGo
    \/ \E queue \in Queues : PullMessage(queue)

ReadInTimeSpec == UnreadInit /\ [][ReadInTimeNext]_<<retentionVars, groupVars>>
===============================================================================
