-------------------------- MODULE MC_LockLateUnlock --------------------------
(***************************************************************************)
(* The lock where an unlock is on its way for a while.  A member sends it  *)
(* one-way, so that it waits for nothing before it asks for the lock       *)
(* again, and the broker's threads may serve the later request first: then *)
(* the unlock takes away what was granted after it, and nobody knows.      *)
(***************************************************************************)
EXTENDS Lock

CONSTANTS
    m1, m2,
    Overtaken   \* whether an unlock may be served after a later lock of its member

VARIABLE
    unlocking   \* the members of whom an unlock is on its way

lateVars == <<vars, unlocking>>

LateInit == Init /\ unlocking = {}

LateTypeOK == TypeOK /\ unlocking \in SUBSET Members

(***************************************************************************)
(* A member gives the queue up, as in UnlockBatch; the broker hears of it. *)
(***************************************************************************)
GiveUp(m) ==
    /\ m \notin crashed
    /\ belief[m] # None
    /\ listening[m] = Idle \/ (Forced /\ belief[m] > ForceTime)
    /\ belief' = [belief EXCEPT ![m] = None]
    /\ unlocking' = unlocking \cup {m}
    /\ UNCHANGED <<mqLockTable, listening, crashed, restarts>>

Unlock(m) ==
    /\ m \in unlocking
    /\ unlocking' = unlocking \ {m}
    /\ mqLockTable' = IF Holds(m) THEN NoLock ELSE mqLockTable
    /\ UNCHANGED <<belief, listening, crashed, restarts>>

LateNext ==
    \/ \E m \in Members :
        \/ GiveUp(m)
        \/ Unlock(m)
        \/ /\ Overtaken \/ m \notin unlocking
           /\ TryLockBatch(m)
           /\ UNCHANGED unlocking
        \/ /\ \/ StartListening(m)
              \/ StopListening(m)
              \/ Crash(m)
           /\ UNCHANGED unlocking
    \/ Tick /\ UNCHANGED unlocking

LateSpec == LateInit /\ [][LateNext]_lateVars

(***************************************************************************)
(* While the lock is fresh at the broker, its holder believes in it, or    *)
(* has given it up and is about to be heard (LOCK-010).                    *)
(***************************************************************************)
HolderBelievesOrUnlocks ==
    \A m \in Members \ crashed :
        Holds(m) /\ mqLockTable.age <= BeliefTime => m \in Believing \cup unlocking
==============================================================================
