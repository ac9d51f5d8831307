------------------------- MODULE MC_TransactionSeeded -------------------------
(***************************************************************************)
(* What public reports tell of transactions: each is Transaction with one  *)
(* step more or less, or one operator changed.  The catalogue of defects   *)
(* says where each comes from.                                             *)
(***************************************************************************)
EXTENDS Transaction

(***************************************************************************)
(* In place of Ended: one op message is read, and no more.                 *)
(***************************************************************************)
EndedInFirstOp ==
    opBatch \cup (IF opOffset < Len(opQueue) THEN opQueue[opOffset + 1] ELSE {})

(***************************************************************************)
(* In place of DoneBefore: an op message is done once one of its halves    *)
(* is.                                                                     *)
(***************************************************************************)
DoneWithFirst(offset) ==
    LET NotDone == {i \in DOMAIN opQueue : i > opOffset /\ \A o \in opQueue[i] : o >= offset}
    IN  IF NotDone = {} THEN Len(opQueue)
        ELSE (CHOOSE i \in NotDone : \A j \in NotDone : i <= j) - 1

(***************************************************************************)
(* A round comes while a half is immune.  The half is counted as checked   *)
(* and appended again, and nobody is asked.                                *)
(***************************************************************************)
CountImmune ==
    /\ halfOffset < Len(halfQueue)
    /\ halfOffset \notin Ended
    /\ Half(halfOffset).times < MaxChecks
    /\ halfOffset' = halfOffset + 1
    /\ opOffset' = DoneBefore(halfOffset + 1)
    /\ halfQueue' = Append(halfQueue, Entry(Half(halfOffset).transaction,
                                            Half(halfOffset).times + 1))
    /\ UNCHANGED <<opQueue, opBatch, disk, topic, parked, asked, outcome, sentEnds, accepted,
                   crashes, failures>>

CountsImmune ==
    TransactionInit /\ [][TransactionNext \/ CountImmune]_transactionVars
        /\ WF_transactionVars(Check)

(***************************************************************************)
(* The copy of a half that is checked, or parked, is not stored, and the   *)
(* round goes on behind it.                                                *)
(***************************************************************************)
PassUnstored ==
    /\ halfOffset < Len(halfQueue)
    /\ halfOffset \notin Ended
    /\ failures < MaxFailures
    /\ failures' = failures + 1
    /\ halfOffset' = halfOffset + 1
    /\ opOffset' = DoneBefore(halfOffset + 1)
    /\ UNCHANGED <<halfQueue, opQueue, opBatch, disk, topic, parked, asked, outcome, sentEnds,
                   accepted, crashes>>

PassesUnstored ==
    TransactionInit /\ [][TransactionNext \/ PassUnstored]_transactionVars
        /\ WF_transactionVars(Check)

(***************************************************************************)
(* A half that is stored elsewhere is ended, and its queue offset there is *)
(* noted as that of a half.                                                *)
(***************************************************************************)
EndElsewhere ==
    \E o \in Halves :
        /\ failures < MaxFailures
        /\ failures' = failures + 1
        /\ opBatch' = opBatch \cup {o}
        /\ UNCHANGED <<halfQueue, opQueue, halfOffset, opOffset, disk, topic, parked, asked,
                       outcome, sentEnds, accepted, crashes>>

EndsAnother ==
    TransactionInit /\ [][TransactionNext \/ EndElsewhere]_transactionVars
        /\ WF_transactionVars(Check)

(***************************************************************************)
(* A round ends in an exception at one half, and its offsets are not       *)
(* moved: the next round comes to the same half.                           *)
(***************************************************************************)
CONSTANT Poisoned   \* the transaction of that half

CheckUnlessPoisoned ==
    /\ halfOffset < Len(halfQueue)
    /\ Half(halfOffset).transaction # Poisoned
    /\ Check

RoundsThrow ==
    /\ TransactionInit
    /\ [][\/ \E t \in Transactions : Prepare(t) \/ Decide(t)
          \/ EndTransaction
          \/ FailToPublish
          \/ LoseCheck
          \/ BatchSendOpMessage
          \/ CheckUnlessPoisoned
          \/ Persist
          \/ Kill]_transactionVars
    /\ WF_transactionVars(CheckUnlessPoisoned)
=============================================================================
