----------------------------- MODULE MC_LockSeeded -----------------------------
(***************************************************************************)
(* What public reports tell of the locks of queues that are consumed in    *)
(* order: each is Lock with one of its two requests handled otherwise by   *)
(* the member.  The catalogue of defects says where each comes from.       *)
(***************************************************************************)
EXTENDS Lock

Granted(m) == mqLockTable = NoLock \/ Holds(m) \/ mqLockTable.age > MaxLiveTime

Asked(m, newBelief) ==
    /\ m \notin crashed
    /\ mqLockTable' = IF Granted(m) THEN [clientId |-> m, age |-> 0] ELSE mqLockTable
    /\ belief' = [belief EXCEPT ![m] = newBelief]
    /\ UNCHANGED <<listening, crashed, restarts>>

(***************************************************************************)
(* In place of TryLockBatch: the member has no process queue yet in which  *)
(* to note its first grant, and notes that of the renewal, 20 s later.     *)
(***************************************************************************)
RenewalAge == 2

NoteRenewalOnly(m) ==
    /\ Holds(m) => mqLockTable.age >= RenewalAge
    /\ Asked(m, IF Holds(m) THEN 0 ELSE None)

(***************************************************************************)
(* Or it notes the first grant only, and no renewal makes its belief last. *)
(***************************************************************************)
NoteFirstOnly(m) == Asked(m, IF Holds(m) THEN belief[m] ELSE IF Granted(m) THEN 0 ELSE None)

(***************************************************************************)
(* In place of UnlockBatch: a member that gives the queue up tells nobody. *)
(***************************************************************************)
GiveUpSilently(m) ==
    /\ m \notin crashed
    /\ belief[m] # None
    /\ listening[m] = Idle
    /\ belief' = [belief EXCEPT ![m] = None]
    /\ UNCHANGED <<mqLockTable, listening, crashed, restarts>>
=============================================================================
