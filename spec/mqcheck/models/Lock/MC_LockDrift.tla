----------------------------- MODULE MC_LockDrift -----------------------------
(***************************************************************************)
(* The lock where clocks differ: the broker's and each member's go on by   *)
(* themselves, and come apart by MaxDrift at most, in steps of 10 s.       *)
(***************************************************************************)
EXTENDS Lock

CONSTANTS
    m1, m2,
    MaxDrift   \* how far a member's clock is before or behind the broker's at most

VARIABLE
    drift      \* member -> how far its clock is before the broker's

driftVars == <<vars, drift>>

DriftInit == Init /\ drift = [m \in Members |-> 0]

DriftTypeOK == TypeOK /\ drift \in [Members -> -MaxDrift .. MaxDrift]

(***************************************************************************)
(* Ten seconds pass at the broker; at a member.                            *)
(***************************************************************************)
BrokerTick ==
    /\ \A m \in Members : drift[m] > -MaxDrift
    /\ drift' = [m \in Members |-> drift[m] - 1]
    /\ mqLockTable' = IF mqLockTable = NoLock
                      THEN NoLock
                      ELSE [mqLockTable EXCEPT !.age = Older(@, Expired)]
    /\ UNCHANGED <<belief, listening, crashed, restarts>>

MemberTick(m) ==
    /\ drift[m] < MaxDrift
    /\ listening[m] < ListenTime
    /\ drift' = [drift EXCEPT ![m] = @ + 1]
    /\ belief' = [belief EXCEPT ![m] = Older(@, None)]
    /\ listening' = [listening EXCEPT ![m] = IF @ = Idle THEN Idle ELSE @ + 1]
    /\ UNCHANGED <<mqLockTable, crashed, restarts>>

DriftNext ==
    \/ BrokerTick
    \/ \E m \in Members :
        \/ MemberTick(m)
        \/ /\ \/ TryLockBatch(m)
              \/ UnlockBatch(m)
              \/ StartListening(m)
              \/ StopListening(m)
              \/ Crash(m)
           /\ UNCHANGED drift

DriftSpec == DriftInit /\ [][DriftNext]_driftVars
===============================================================================
