--------------------------- MODULE MC_LockTouches ---------------------------
(***************************************************************************)
(* A renewal in two steps, as 5.3.3 has it: it looks whether the member    *)
(* holds the lock, and touches the entry then, both outside the lock of    *)
(* the table.  Whoever holds the entry when it is touched: the member      *)
(* takes it for its own.  Not more than 10 s pass between the two, since   *)
(* it waits 1 s for an answer.                                             *)
(***************************************************************************)
EXTENDS Lock

CONSTANTS
    m1, m2,
    LooksUntil   \* how long after its last grant a member may still renew

VARIABLE
    looked       \* member -> "no", "now", or "before" the last ten seconds passed

touchVars == <<vars, looked>>

TouchInit == Init /\ looked = [m \in Members |-> "no"]

TouchTypeOK == TypeOK /\ looked \in [Members -> {"no", "now", "before"}]

Look(m) ==
    /\ m \notin crashed
    /\ looked[m] = "no"
    /\ Holds(m)
    /\ mqLockTable.age <= LooksUntil
    /\ looked' = [looked EXCEPT ![m] = "now"]
    /\ UNCHANGED vars

Touch(m) ==
    /\ looked[m] # "no"
    /\ m \notin crashed
    /\ looked' = [looked EXCEPT ![m] = "no"]
    /\ mqLockTable' = IF mqLockTable = NoLock THEN NoLock ELSE [mqLockTable EXCEPT !.age = 0]
    /\ belief' = [belief EXCEPT ![m] = 0]
    /\ UNCHANGED <<listening, crashed, restarts>>

TouchNext ==
    \/ \E m \in Members :
        \/ Look(m)
        \/ Touch(m)
        \/ /\ looked[m] = "no"
           /\ Holds(m) => mqLockTable.age > MaxLiveTime
           /\ TryLockBatch(m)
           /\ UNCHANGED looked
        \/ /\ looked[m] = "no"
           /\ UnlockBatch(m)
           /\ UNCHANGED looked
        \/ /\ \/ StartListening(m)
              \/ StopListening(m)
              \/ Crash(m)
           /\ UNCHANGED looked
    \/ /\ \A m \in Members \ crashed : looked[m] # "before"
       /\ looked' = [m \in Members |-> IF looked[m] = "now" THEN "before" ELSE looked[m]]
       /\ Tick

TouchSpec == TouchInit /\ [][TouchNext]_touchVars
=============================================================================
