--------------------------- MODULE MC_RecoverySeeded ---------------------------
(***************************************************************************)
(* What public reports tell of stores that were stopped: each is Recovery  *)
(* with one operator changed.  The catalogue of defects says where each    *)
(* comes from.                                                             *)
(***************************************************************************)
EXTENDS Recovery

(***************************************************************************)
(* In place of IsSkipped: the end of the log is taken for the position of  *)
(* the dispatcher, and recovery dispatches nothing.                        *)
(***************************************************************************)
EveryRecord(r) == TRUE

(***************************************************************************)
(* The broker's process is killed, and the machine goes on: what is seeded *)
(* is not about what a power cut takes from the log.                       *)
(***************************************************************************)
KillsOnly == phase # "running" => Range(before) \subseteq disk

(***************************************************************************)
(* In place of Trusted: the walk starts in the last segment, however far   *)
(* the checkpoint lags.                                                    *)
(***************************************************************************)
LastSegment == Max(SegmentStarts)

(***************************************************************************)
(* Or after a crash as after a clean stop, where the ConsumeQueues end     *)
(* that came furthest.                                                     *)
(***************************************************************************)
EndOfQueues == Max({s \in SegmentStarts : s <= DispatchedEnd})

(***************************************************************************)
(* In place of Covered: the checkpoint's time is that of the append to a   *)
(* ConsumeQueue, whether that is on disk or not.                           *)
(***************************************************************************)
CoveredInMemory == IF flushedWhere < reputFromOffset THEN flushedWhere ELSE reputFromOffset

(***************************************************************************)
(* In place of Overwritten: of the second message the store writes what it *)
(* does not read as a record.  It is acknowledged all the same.            *)
(***************************************************************************)
Unreadable == 2

WithoutUnreadable(old, new) ==
    {r \in old : \A n \in new : Behind(r) <= n.position \/ Behind(n) <= r.position}
        \cup {n \in new : n.queue = Blank \/ n.message # Unreadable}
===============================================================================
