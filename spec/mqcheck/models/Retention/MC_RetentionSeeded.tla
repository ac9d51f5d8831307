-------------------------- MODULE MC_RetentionSeeded --------------------------
(***************************************************************************)
(* Retention beside a group, as Apache 5.3.3 does it where an operator     *)
(* asks for expired queues to be cleaned (request 306): a queue whose      *)
(* records are all gone is forgotten, and begins again at offset 0.  The   *)
(* group's progress is not.                                                *)
(***************************************************************************)
EXTENDS MC_RetentionUnread

IsEmptied(queue) == consumeQueue[queue].min = consumeQueue[queue].max

CleanExpiredConsumeQueue ==
    /\ \E queue \in Queues : IsEmptied(queue) /\ consumeQueue[queue].max > 0
    /\ consumeQueue' =
        [queue \in Queues |->
            IF IsEmptied(queue) THEN [min |-> 0, max |-> 0] ELSE consumeQueue[queue]]
    /\ UNCHANGED <<log, commitLog, old, used, isDiskFull, cut, offsets, wronged, groupVars>>

ForgetsSpec ==
    UnreadInit /\ [][UnreadNext \/ CleanExpiredConsumeQueue]_<<retentionVars, groupVars>>
===============================================================================
