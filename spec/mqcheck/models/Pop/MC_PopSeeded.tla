----------------------------- MODULE MC_PopSeeded -----------------------------
(***************************************************************************)
(* What public reports tell of POP: each is Pop with one step more.  The   *)
(* catalogue of defects says where each comes from.  A step that could be  *)
(* taken for ever is bounded by MaxAbandons.                               *)
(***************************************************************************)
EXTENDS Pop

IsDue(key) == TimeOf(key) \in DOMAIN due /\ scanOffset >= due[TimeOf(key)]

Without(key) == [other \in DOMAIN checkPoints \ {key} |-> checkPoints[other]]

Revived(key, entries) ==
    /\ log' = log \o entries
    /\ checkPoints' = Without(key)
    /\ UNCHANGED <<flushed, offsetTable, disk, scanOffset, handles, late, due, popTime,
                   ackedInTime, poppedAgain, crashes, abandoned, changes, replaced,
                   persists>>

Fairness ==
    /\ WF_popVars(Pops)
    /\ WF_popVars(Acks)
    /\ WF_popVars(TimesUp)
    /\ WF_popVars(ConsumeReviveMessage)
    /\ WF_popVars(Revives)

-----------------------------------------------------------------------------
(***************************************************************************)
(* A store that starts or stops reads nothing at all, which is taken for a *)
(* wrong offset, and 0 is committed.                                       *)
(***************************************************************************)
ReadNothing(q) ==
    /\ offsetTable[q] > 0
    /\ abandoned < MaxAbandons
    /\ abandoned' = abandoned + 1
    /\ offsetTable' = [offsetTable EXCEPT ![q] = 0]
    /\ UNCHANGED <<log, flushed, disk, scanOffset, checkPoints, handles, late, due,
                   popTime, consumed, ackedInTime, poppedAgain, crashes, changes, replaced,
                   persists>>

NothingReadIsZero ==
    PopInit /\ [][PopNext \/ \E q \in Queues : ReadNothing(q)]_popVars /\ Fairness

(***************************************************************************)
(* A message that came while its pop was waiting is younger than the pop,  *)
(* and the revive leaves it out as one of a former life of the topic.      *)
(***************************************************************************)
LeaveOut(key, k) ==
    /\ IsDue(key)
    /\ k \in DOMAIN checkPoints[key]
    /\ Revived(key, Ascending([j \in DOMAIN checkPoints[key] \ {k} |-> checkPoints[key][j]]))
    /\ UNCHANGED consumed

LeavesOut == \E key \in DOMAIN checkPoints, k \in AllMessages : LeaveOut(key, k)

SkipsYounger == PopInit /\ [][PopNext \/ LeavesOut]_popVars /\ Fairness

(***************************************************************************)
(* A revive fails, and what is put back for the next try can never be      *)
(* read.                                                                   *)
(***************************************************************************)
ForgetRevive(key) == IsDue(key) /\ Revived(key, <<>>) /\ UNCHANGED consumed

ForgetsRevives == \E key \in DOMAIN checkPoints : ForgetRevive(key)

ForgetsFailedRevive == PopInit /\ [][PopNext \/ ForgetsRevives]_popVars /\ Fairness

(***************************************************************************)
(* The message of a checkpoint has expired.  A revive that reads from its  *)
(* offset on gets the next one, and brings that again.  What expired is    *)
(* consumed, as far as anybody can still tell.                             *)
(***************************************************************************)
ReviveNext(key) ==
    LET m == Range(checkPoints[key])
    IN  /\ IsDue(key)
        /\ m = {1}
        /\ Revived(key, <<Retry(2)>>)
        /\ consumed' = consumed \cup m

RevivesAnother == \E key \in DOMAIN checkPoints : ReviveNext(key)

RevivesNext == PopInit /\ [][PopNext \/ RevivesAnother]_popVars /\ Fairness

(***************************************************************************)
(* An acknowledgement waits in memory for the others of its checkpoint,    *)
(* and when these are late what is written of it cannot be read.           *)
(***************************************************************************)
AckUnwritten(h) ==
    /\ \E other \in late : other.key = h.key
    /\ TimeOf(h.key) \notin DOMAIN due
    /\ handles' = handles \ {h}
    /\ consumed' = consumed \cup {h.msg}
    /\ ackedInTime' = ackedInTime \cup {h.msg}
    /\ UNCHANGED <<log, flushed, offsetTable, disk, scanOffset, checkPoints, late, due,
                   popTime, poppedAgain, crashes, abandoned, changes, replaced, persists>>

AcksUnwritten == \E h \in handles : AckUnwritten(h)

EarlyAcksUnwritten == PopInit /\ [][PopNext \/ AcksUnwritten]_popVars /\ Fairness
=============================================================================
