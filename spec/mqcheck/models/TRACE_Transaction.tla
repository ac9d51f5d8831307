--------------------------- MODULE TRACE_Transaction ---------------------------
(***************************************************************************)
(* What a broker did with its half messages, as steps of Transaction.      *)
(*                                                                         *)
(* | action              | process | x                 | y                 |*)
(* | Prepare             | broker  | the half          |                   |*)
(* | Decide              | nobody  | transaction, end  |                   |*)
(* | EndTransaction      | broker  | the half          | the end           |*)
(* | BatchSendOpMessage  | broker  | op messages after |                   |*)
(* | Check               | broker  | the half          | what became of it |*)
(* | EndOfChecks         | broker  | halfOffset        | opOffset          |*)
(* | Persist, MayPersist | broker  | halfOffset        | opOffset          |*)
(* | Kill                | broker  | halfOffset after  | opOffset after    |*)
(*                                                                         *)
(* A half is named by its queue offset, a transaction by that of its first *)
(* half.  An end is 1, a commit, or 0; of a half that was looked at became *)
(* 0: nothing, 1: it was appended again and asked about, 2: it was parked. *)
(* Check is of one half, EndOfChecks of the whole round.                   *)
(*                                                                         *)
(* A step of the reference that Transaction leaves out: EndOfChecks also   *)
(* finds op messages done that name halves which were looked at before.    *)
(* Kill is any start but the first.  A broker that was killed while it     *)
(* wrote its offsets may have written them, or not: MayPersist.            *)
(*                                                                         *)
(* Hidden: commits whose message is not stored (FailToPublish); check-backs*)
(* that are lost, or that nobody was there for (LoseCheck); when a         *)
(* transaction was decided: before the first end of it, at the latest.     *)
(* Left out, and refused where a trace has it: halves with an immunity of  *)
(* their own that are appended again; another end than the first.          *)
(***************************************************************************)
EXTENDS Transaction, Trace

X == Event[4]
Y == Event[5]

TraceTransactions == 0 .. TraceHalves - 1

(***************************************************************************)
(* In place of Halves and Prepared, so that a step costs no more in a long *)
(* trace: an end is of the half that the event names, and a transaction    *)
(* has the name of its first half.                                         *)
(***************************************************************************)
TheHalf == {X} \cap (0 .. Len(halfQueue) - 1)
FirstHalves == {o \in 0 .. Len(halfQueue) - 1 : Half(o).transaction = o}

TInit == TransactionInit /\ TraceInit

-----------------------------------------------------------------------------
End(number) == IF number = 1 THEN "commit" ELSE "rollback"

EndOf(o, end) ==
    /\ o \in Halves
    /\ outcome[Half(o).transaction] = end
    /\ EndTransaction
    /\ Sent(o)
    /\ opBatch' = opBatch \cup {o}

Became ==
    IF Len(halfQueue') > Len(halfQueue) THEN 1 ELSE IF halfOffset \in Ended THEN 0 ELSE 2

EndOfChecks ==
    /\ opOffset' = DoneBefore(halfOffset)
    /\ UNCHANGED <<halfQueue, opQueue, halfOffset, opBatch, disk, topic, parked, asked, outcome,
                   sentEnds, accepted, crashes, failures>>

Step ==
    CASE Action = "Prepare" -> X = Len(halfQueue) /\ Prepare(X)
      [] Action = "Decide" -> Decide(X[1]) /\ outcome'[X[1]] = End(X[2])
      [] Action = "EndTransaction" -> EndOf(X, End(Y))
      [] Action = "BatchSendOpMessage" -> BatchSendOpMessage /\ Len(opQueue') = X
      [] Action = "Check" -> X = halfOffset /\ Check /\ Y = Became
      [] Action = "EndOfChecks" -> X = halfOffset /\ EndOfChecks /\ opOffset' = Y
      [] Action = "Persist" -> Persist /\ disk' = [half |-> X, op |-> Y]
      [] Action = "MayPersist" ->
            (Persist \/ UNCHANGED transactionVars) /\ X = halfOffset /\ Y = opOffset
      [] Action = "Kill" -> Kill /\ halfOffset' = X /\ opOffset' = Y
      [] OTHER -> FALSE

ReadStep == ReadEvent /\ Step

TNext == ReadStep \/ (EditTrace /\ UNCHANGED transactionVars)

(***************************************************************************)
(* What a trace does not determine: whether a Persist was done.            *)
(***************************************************************************)
TView == <<traceVars, disk>>

Shown ==
    [halves |-> [o \in halfOffset .. Len(halfQueue) - 1 |-> Half(o)], halfOffset |-> halfOffset,
     opOffset |-> opOffset, ended |-> Ended, asked |-> asked, disk |-> disk]

TellAll == Tell(TRUE, ENABLED ReadStep, Shown)
================================================================================
