-------------------------------- MODULE Lock --------------------------------
(***************************************************************************)
(* The lock on one queue that a group consumes in order.  Twin of          *)
(* mqspec/core/lock.py.                                                    *)
(*                                                                         *)
(* The broker grants the lock to one member at a time, and takes it back   *)
(* from a member that has been silent for longer than MaxLiveTime.  A      *)
(* member believes that it holds the lock for BeliefTime after it was      *)
(* granted, and starts its listener only then; but a listener that works   *)
(* is never interrupted, and nothing asks for the lock when it matters.    *)
(*                                                                         *)
(* Modelled: members that ask, give up and crash at any moment; a broker   *)
(* that starts again and has forgotten the lock; a member that gives up    *)
(* while its listener works (Forced), as the real one does when its last   *)
(* grant is more than ForceTime ago.  Time passes in steps of 10 s: the    *)
(* real figures are MaxLiveTime 6, BeliefTime 3, ForceTime 2.              *)
(*                                                                         *)
(* Left out: other queues, whose locks are independent; several brokers, a *)
(* queue being on one; the delay of an answer, at most 1 s, by which a     *)
(* member's belief begins after the broker's grant; answers that are lost. *)
(* Clocks that drift are in MC_LockDrift, unlocks that are on their way in *)
(* MC_LockLateUnlock.                                                      *)
(*                                                                         *)
(* Not in the core, being the members and the environment: belief,         *)
(* listening, crashed, restarts; StartListening, StopListening, Tick,      *)
(* Crash, Restart.                                                         *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS
    Members,        \* the members of the group
    MaxLiveTime,    \* how long the broker keeps a lock that is not renewed
    BeliefTime,     \* how long a member believes in a lock after it was granted
    ListenTime,     \* how long a listener works at most
    ForceTime,      \* how long after the last grant a queue is given up by force
    Forced,         \* whether a queue may be given up while its listener works
    MaxCrashes,     \* how many members may crash
    MaxRestarts,    \* how often the broker may start again
    NoLock          \* nobody holds the lock

VARIABLES
    mqLockTable,    \* NoLock, or who holds the lock and how long ago it was granted
    belief,         \* member -> how long ago it was granted, as far as it knows
    listening,      \* member -> how long its listener has worked, Idle if it does not
    crashed,        \* the members that are gone
    restarts        \* how often the broker started again

vars == <<mqLockTable, belief, listening, crashed, restarts>>

Idle == -1
None == BeliefTime + 1    \* a belief that is over, or never was
Expired == MaxLiveTime + 1

Listening == {m \in Members : listening[m] # Idle}
Believing == {m \in Members : belief[m] <= BeliefTime}
Holds(m) == mqLockTable # NoLock /\ mqLockTable.clientId = m

TypeOK ==
    /\ mqLockTable \in {NoLock} \cup [clientId : Members, age : 0..Expired]
    /\ belief \in [Members -> 0..None]
    /\ listening \in [Members -> {Idle} \cup 0..ListenTime]
    /\ crashed \subseteq Members
    /\ restarts \in 0..MaxRestarts

Init ==
    /\ mqLockTable = NoLock
    /\ belief = [m \in Members |-> None]
    /\ listening = [m \in Members |-> Idle]
    /\ crashed = {}
    /\ restarts = 0

-----------------------------------------------------------------------------
(***************************************************************************)
(* A member asks for the lock, for the first time or to renew it.  The     *)
(* broker grants it if nobody holds it, the member itself does, or who     *)
(* does has been silent for too long.  Whoever is refused knows that it    *)
(* does not hold it.                                                       *)
(***************************************************************************)
TryLockBatch(m) ==
    /\ m \notin crashed
    /\ LET granted == \/ mqLockTable = NoLock
                      \/ Holds(m)
                      \/ mqLockTable.age > MaxLiveTime
       IN  /\ mqLockTable' = IF granted THEN [clientId |-> m, age |-> 0] ELSE mqLockTable
           /\ belief' = [belief EXCEPT ![m] = IF granted THEN 0 ELSE None]
    /\ UNCHANGED <<listening, crashed, restarts>>

(***************************************************************************)
(* A member gives the queue up, and the lock if it holds it: when its      *)
(* listener does not work, or by force.                                    *)
(***************************************************************************)
UnlockBatch(m) ==
    /\ m \notin crashed
    /\ belief[m] # None
    /\ listening[m] = Idle \/ (Forced /\ belief[m] > ForceTime)
    /\ mqLockTable' = IF Holds(m) THEN NoLock ELSE mqLockTable
    /\ belief' = [belief EXCEPT ![m] = None]
    /\ UNCHANGED <<listening, crashed, restarts>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The listener of a member that believes in its lock starts; it ends      *)
(* whenever it wants, but for ListenTime.                                  *)
(***************************************************************************)
StartListening(m) ==
    /\ m \in Believing
    /\ listening[m] = Idle
    /\ listening' = [listening EXCEPT ![m] = 0]
    /\ UNCHANGED <<mqLockTable, belief, crashed, restarts>>

StopListening(m) ==
    /\ listening[m] # Idle
    /\ listening' = [listening EXCEPT ![m] = Idle]
    /\ UNCHANGED <<mqLockTable, belief, crashed, restarts>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Ten seconds pass.                                                       *)
(***************************************************************************)
Older(age, most) == IF age < most THEN age + 1 ELSE most

Tick ==
    /\ \A m \in Listening : listening[m] < ListenTime
    /\ mqLockTable' = IF mqLockTable = NoLock
                      THEN NoLock
                      ELSE [mqLockTable EXCEPT !.age = Older(@, Expired)]
    /\ belief' = [m \in Members |-> Older(belief[m], None)]
    /\ listening' = [m \in Members |-> IF listening[m] = Idle THEN Idle ELSE listening[m] + 1]
    /\ UNCHANGED <<crashed, restarts>>

(***************************************************************************)
(* A member dies without a word; the broker starts again.                  *)
(***************************************************************************)
Crash(m) ==
    /\ m \notin crashed
    /\ Cardinality(crashed) < MaxCrashes
    /\ crashed' = crashed \cup {m}
    /\ belief' = [belief EXCEPT ![m] = None]
    /\ listening' = [listening EXCEPT ![m] = Idle]
    /\ UNCHANGED <<mqLockTable, restarts>>

Restart ==
    /\ restarts < MaxRestarts
    /\ restarts' = restarts + 1
    /\ mqLockTable' = NoLock
    /\ UNCHANGED <<belief, listening, crashed>>

-----------------------------------------------------------------------------
Next ==
    \/ \E m \in Members :
        \/ TryLockBatch(m)
        \/ UnlockBatch(m)
        \/ StartListening(m)
        \/ StopListening(m)
        \/ Crash(m)
    \/ Tick
    \/ Restart

(***************************************************************************)
(* Time goes on, listeners end, and members ask again and again.           *)
(***************************************************************************)
Fairness ==
    /\ WF_vars(Tick)
    /\ \A m \in Members : WF_vars(StopListening(m)) /\ WF_vars(TryLockBatch(m))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* What the lock is for: one member alone works on the queue.              *)
(***************************************************************************)
OneListener == Cardinality(Listening) <= 1

(***************************************************************************)
(* Two members never both believe in the lock.                             *)
(***************************************************************************)
OneBelief == Cardinality(Believing) <= 1

(***************************************************************************)
(* A member takes what it is granted at once, and unlocks what it gives    *)
(* up: while the lock is fresh at the broker, its holder believes in it.   *)
(***************************************************************************)
HolderBelieves ==
    \A m \in Members :
        m \notin crashed /\ Holds(m) /\ mqLockTable.age <= BeliefTime => m \in Believing

(***************************************************************************)
(* The lock of a member that is gone is free again, or somebody else's.    *)
(***************************************************************************)
SilentHolderLosesIt ==
    \A m \in Members : (m \in crashed /\ Holds(m)) ~> ~Holds(m)

(***************************************************************************)
(* But nobody gets a lock that another holds before that one was silent    *)
(* for longer than MaxLiveTime: a broker that granted it to whoever asks   *)
(* would free every lock of those that are gone (LOCK-004).                *)
(***************************************************************************)
TakenFromTheSilentOnly ==
    [][\A m \in Members : ~Holds(m) /\ Holds(m)' /\ mqLockTable # NoLock =>
        mqLockTable.age > MaxLiveTime]_vars
=============================================================================
