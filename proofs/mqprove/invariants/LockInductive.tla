--------------------------- MODULE LockInductive ---------------------------
(***************************************************************************)
(* What is true of Lock in every state, and of no number of members: each  *)
(* step keeps it, and what Lock promises follows from it.                  *)
(***************************************************************************)
EXTENDS Lock

(***************************************************************************)
(* While the broker does not start again, whoever believes in the lock     *)
(* holds it, and knows its age: half of what the broker keeps it.          *)
(***************************************************************************)
BeliefBounds == BeliefTime >= 0 /\ MaxLiveTime >= BeliefTime /\ MaxRestarts = 0

TimesAreNatural ==
    /\ mqLockTable # NoLock => mqLockTable.age >= 0
    /\ \A m \in Members : belief[m] >= 0 /\ listening[m] >= Idle

BeliefInductive ==
    /\ TimesAreNatural
    /\ restarts >= 0
    /\ \A m \in Members :
        belief[m] <= BeliefTime => Holds(m) /\ mqLockTable.age = belief[m]

(***************************************************************************)
(* And whoever listens holds it, where no queue is given up by force and   *)
(* no listener works for longer than the lock outlives the belief in it.   *)
(***************************************************************************)
ListenerBounds ==
    /\ BeliefBounds
    /\ ~Forced
    /\ ListenTime >= 0
    /\ BeliefTime + ListenTime <= MaxLiveTime

ListenerInductive ==
    /\ BeliefInductive
    /\ \A m \in Listening :
        /\ Holds(m)
        /\ mqLockTable.age <= BeliefTime + listening[m]
        /\ listening[m] <= ListenTime

(***************************************************************************)
(* A holder that runs believes, whatever the broker does.                  *)
(***************************************************************************)
HolderBounds == BeliefTime >= 0 /\ MaxLiveTime >= BeliefTime

HolderInductive ==
    /\ TimesAreNatural
    /\ \A m \in Members \ crashed :
        Holds(m) /\ mqLockTable.age <= BeliefTime => belief[m] <= mqLockTable.age
=============================================================================
