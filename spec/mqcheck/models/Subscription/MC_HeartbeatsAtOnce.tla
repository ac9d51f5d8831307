------------------------- MODULE MC_HeartbeatsAtOnce ------------------------
(***************************************************************************)
(* Two heartbeats of a group that the broker serves at once, as 5.3.3 does *)
(* it: each compares its version with the one that is kept, and puts its   *)
(* subscription then, with no lock over both.  What is put last is kept,   *)
(* whatever its version; and of two that find nothing the first is kept.   *)
(* A heartbeat is sent again while its member's version is not known.      *)
(***************************************************************************)
EXTENDS MC_Subscription

VARIABLES
    putting,    \* member -> the subscription that it is about to have put, or Nothing
    isFirst     \* member -> whether it found that there was none

putVars == <<vars, putting, isFirst>>

PutInit ==
    /\ Init
    /\ putting = [m \in Members |-> Nothing]
    /\ isFirst = [m \in Members |-> FALSE]

PutTypeOK ==
    /\ TypeOK
    /\ putting \in [Members -> Subscriptions]
    /\ isFirst \in [Members -> BOOLEAN]

-----------------------------------------------------------------------------
Compare(m) ==
    /\ heartbeat[m] # Nothing
    /\ putting[m] = Nothing
    /\ putting' = IF heartbeat[m].version > subscriptionTable.version
                  THEN [putting EXCEPT ![m] = heartbeat[m]]
                  ELSE putting
    /\ isFirst' = [isFirst EXCEPT ![m] = subscriptionTable = Nothing]
    /\ heard' = IF heartbeat[m].version > heard THEN heartbeat[m].version ELSE heard
    /\ heartbeat' = [heartbeat EXCEPT ![m] = Nothing]
    /\ pulled' = <<>>
    /\ UNCHANGED <<subscriptionTable, subscribed, subVersion, owner, nextOffset, moves>>

Put(m) ==
    /\ putting[m] # Nothing
    /\ subscriptionTable' = IF isFirst[m] /\ subscriptionTable # Nothing
                            THEN subscriptionTable ELSE putting[m]
    /\ putting' = [putting EXCEPT ![m] = Nothing]
    /\ isFirst' = [isFirst EXCEPT ![m] = FALSE]
    /\ pulled' = <<>>
    /\ UNCHANGED <<subscribed, subVersion, heartbeat, owner, nextOffset, moves, heard>>

-----------------------------------------------------------------------------
PutNext ==
    \E m \in Members :
        \/ Compare(m)
        \/ Put(m)
        \/ /\ \/ SendHeartbeat(m)
              \/ RenewSubVersion(m)
              \/ CheckPull(m)
              \/ MoveQueue(m)
           /\ UNCHANGED <<putting, isFirst>>

PutFairness ==
    \A m \in Members :
        /\ WF_putVars(SendHeartbeat(m) /\ UNCHANGED <<putting, isFirst>>)
        /\ WF_putVars(Compare(m))
        /\ WF_putVars(Put(m))
        /\ WF_putVars(CheckPull(m) /\ UNCHANGED <<putting, isFirst>>)

PutSpec == PutInit /\ [][PutNext]_putVars /\ PutFairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* Between heartbeats the broker has the greatest version of which it      *)
(* heard (GROUP-009); not where they come at once.                         *)
(***************************************************************************)
NewestIsKeptAtRest == (\A m \in Members : putting[m] = Nothing) => NewestIsKept
=============================================================================
