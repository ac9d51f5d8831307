------------------------------ MODULE MC_EndsOnce ------------------------------
(***************************************************************************)
(* The smallest change under which a transaction is published once: an op  *)
(* record before the reply, and an end that looks for it.                  *)
(*                                                                         *)
(* In place of EndTransaction: the message and its op record are appended  *)
(* as one, and an end of a half whose transaction has an op record, of     *)
(* whichever copy, is answered with success and publishes nothing.         *)
(***************************************************************************)
EXTENDS Transaction

IsEnded(t) == \E i \in DOMAIN opQueue : \E o \in opQueue[i] : Half(o).transaction = t

EndOnce ==
    \E o \in Halves :
        LET t == Half(o).transaction
        IN  /\ MayEnd(o)
            /\ Sent(o)
            /\ topic' = [topic EXCEPT ![t] =
                    IF outcome[t] = "commit" /\ ~IsEnded(t) THEN @ + 1 ELSE @]
            /\ opQueue' = Append(opQueue, {o})
            /\ accepted' = accepted \cup {t}
            /\ UNCHANGED <<halfQueue, halfOffset, opOffset, opBatch, disk, parked, outcome,
                           crashes, failures>>
================================================================================
