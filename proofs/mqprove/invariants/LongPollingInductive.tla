------------------------ MODULE LongPollingInductive ------------------------
(***************************************************************************)
(* What is true of LongPolling in every state, for any number of consumers *)
(* and messages, without a defect.                                         *)
(***************************************************************************)
EXTENDS LongPolling

Bounds == Defect = "none" /\ SuspendTimeout >= 0 /\ CheckInterval >= 0

(***************************************************************************)
(* Held pulls were told of no more than readers see, and those of no more  *)
(* than is there.                                                          *)
(***************************************************************************)
InOrder ==
    /\ 0 <= arrived /\ arrived <= maxOffset /\ maxOffset <= Len(queue)
    /\ \A c \in Consumers : 0 <= pullFromThisOffset[c]

Arriving == InOrder /\ ArrivalsWake

Answering == InOrder /\ NothingTooEarly /\ OthersWakeNobody

(***************************************************************************)
(* A pull that is due is answered at the next look: so none is held longer *)
(* than its time, and the time since the last one.                         *)
(***************************************************************************)
Holding ==
    /\ 0 <= sinceCheck /\ sinceCheck <= CheckInterval
    /\ \A c \in Consumers :
        /\ c \in pullRequestTable => waited[c] <= SuspendTimeout + sinceCheck
        /\ c \notin pullRequestTable => waited[c] = 0

WaitingBounds == Bounds /\ ClientTimeout > Longest

(***************************************************************************)
(* After a look no pull is held for which there is something.              *)
(***************************************************************************)
NothingIsLeftAtALook ==
    [][sinceCheck' < sinceCheck =>
        \A c \in pullRequestTable' : maxOffset' <= pullFromThisOffset'[c]]_vars
=============================================================================
