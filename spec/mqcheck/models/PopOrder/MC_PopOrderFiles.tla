--------------------------- MODULE MC_PopOrderFiles -------------------------
(***************************************************************************)
(* Offsets and orders are two files, each written by a task of its own, as *)
(* 5.3.3 does it: the one may be of a moment before the other, either way. *)
(***************************************************************************)
EXTENDS PopOrder

PersistOne(file) ==
    /\ persists < MaxPersists
    /\ crashes < MaxCrashes
    /\ persists' = persists + 1
    /\ disk' = [disk EXCEPT ![file] = IF file = "offsetTable" THEN offsetTable ELSE orderInfo]
    /\ UNCHANGED <<offsetTable, orderInfo, receipts, due, popTime, acked, abandoned, crashes>>

FilesNext ==
    \/ \E attempt \in Attempts, n \in 1 .. MaxBatch : Pop(attempt, n)
    \/ \E attempt \in Attempts : Reenter(attempt)
    \/ Ack
    \/ Abandon
    \/ TimeUp
    \/ \E file \in {"offsetTable", "orderInfo"} : PersistOne(file)
    \/ Crash

FilesSpec ==
    /\ OrderInit
    /\ [][FilesNext]_orderVars
    /\ WF_orderVars(Pops)
    /\ WF_orderVars(Ack)
    /\ WF_orderVars(TimeUp)
=============================================================================
