------------------------ MODULE TransactionInductive ------------------------
(***************************************************************************)
(* What is true of Transaction in every state, for any number of           *)
(* transactions, halves, checks, failures and kills.                       *)
(***************************************************************************)
EXTENDS Transaction

(***************************************************************************)
(* What is published was committed, and its end was accepted: so what was  *)
(* rolled back is never published.                                         *)
(***************************************************************************)
Counted == \A t \in Transactions : topic[t] >= 0

Seen == Counted /\ OnlyCommittedIsSeen

SeenWhenEnded == Counted /\ OnlyEndedIsSeen

RolledBackIsNeverSeen ==
    [][\A t \in Transactions : outcome[t] = "rollback" =>
            topic'[t] = 0 /\ outcome'[t] = "rollback"]_transactionVars

(***************************************************************************)
(* Whose end was accepted has decided before.                              *)
(***************************************************************************)
AcceptedIsDecided == \A t \in accepted : outcome[t] /= "undecided"

AcceptedIsSeen == Counted /\ AcceptedIsDecided /\ CommittedIsSeen

(***************************************************************************)
(* Offsets are within their queues, and those on the disk are no later.    *)
(***************************************************************************)
OffsetsAreWithin ==
    /\ 0 <= halfOffset /\ halfOffset <= Len(halfQueue)
    /\ 0 <= opOffset /\ opOffset <= Len(opQueue)
    /\ 0 <= disk.half /\ disk.half <= halfOffset
    /\ 0 <= disk.op /\ disk.op <= opOffset

OpsAreKept == OffsetsAreWithin /\ OpMessagesAreKept

(***************************************************************************)
(* What is noted as ended is a half whose end was accepted: so a half that *)
(* is passed over is none without an end.                                  *)
(***************************************************************************)
Bounds == ~NotesFailedCommits

IsEnded(o) == 0 <= o /\ o < Len(halfQueue) /\ Half(o).transaction \in accepted

NotedIsEnded ==
    /\ \A o \in opBatch : IsEnded(o)
    /\ \A i \in DOMAIN opQueue : \A o \in opQueue[i] : IsEnded(o)

Remembered == OffsetsAreWithin /\ NotedIsEnded /\ NoHalfIsForgotten

(***************************************************************************)
(* And what is parked was checked so often.                                *)
(***************************************************************************)
Parked == OffsetsAreWithin /\ ParkedWasChecked
=============================================================================
