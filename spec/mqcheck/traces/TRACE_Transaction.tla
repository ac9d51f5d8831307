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
(* | Forget              | nobody  |                   |                   |*)
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
(* Forget takes halves away that no check, no end and no kill comes back   *)
(* to, and with them their transactions and op messages, so that a state   *)
(* does not grow with the trace.  The halves that are left close up: what  *)
(* Transaction knows as o is Name(o) to the trace.                         *)
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

VARIABLES
    early,     \* the names of the halves before disk.half that are left, in order
    forgotten  \* how many halves and op messages are gone

namesVars == <<early, forgotten>>

\* TraceHalves: how many halves are appended from one Forget to the next, at most.
TraceTransactions == 0 .. TraceHalves - 1

Name(o) == IF o < Len(early) THEN early[o + 1] ELSE o + forgotten.half

OpName(i) == i + forgotten.op

(***************************************************************************)
(* The half of a name, in a set; it is empty where there is none, or none  *)
(* that is left.                                                           *)
(***************************************************************************)
Named(name) ==
    {o \in {i - 1 : i \in DOMAIN early} : early[o + 1] = name}
        \cup ({name - forgotten.half} \cap (Len(early) .. Len(halfQueue) - 1))

(***************************************************************************)
(* In place of Halves and Prepared, so that a step costs no more where     *)
(* there are many: an end is of the half that the event names, and a       *)
(* transaction has the name of its first half.                             *)
(***************************************************************************)
TheHalf == Named(X)
TheTransaction ==
    {Half(o).transaction : o \in Named(IF Action = "Decide" THEN X[1] ELSE X)}

TInit ==
    /\ TransactionInit
    /\ TraceInit
    /\ early = <<>>
    /\ forgotten = [half |-> 0, op |-> 0]

-----------------------------------------------------------------------------
End(number) == IF number = 1 THEN "commit" ELSE "rollback"

EndOf(end) ==
    /\ \A o \in Halves : outcome[Half(o).transaction] = end
    /\ EndTransaction

Became ==
    IF Len(halfQueue') > Len(halfQueue) THEN 1 ELSE IF halfOffset \in Ended THEN 0 ELSE 2

EndOfChecks ==
    /\ opOffset' = DoneBefore(halfOffset)
    /\ UNCHANGED <<halfQueue, opQueue, halfOffset, opBatch, disk, topic, parked, asked, outcome,
                   sentEnds, accepted, crashes, failures>>

(***************************************************************************)
(* A kill takes halfOffset back to disk.half, and opOffset to disk.op.  Of *)
(* the halves before, those count that may still be ended, and those whose *)
(* end is in no op message yet.                                            *)
(***************************************************************************)
IsLeft(o) == o \in opBatch \/ o \in asked \/ (Half(o).times = 0 /\ o \notin sentEnds)

(***************************************************************************)
(* left: those of them, in order; named: the transactions of all that stay.*)
(***************************************************************************)
CloseUp(left, named) ==
    LET by        == disk.half - Len(left)
        Late(os)  == {o - by : o \in {p \in os : p >= disk.half}}
        Moved(os) == Late(os) \cup {i - 1 : i \in {j \in DOMAIN left : left[j] \in os}}
        nextOne   == Name(Len(halfQueue))
        known     == named \cup (nextOne .. nextOne + TraceHalves - 1)
    IN  /\ early' = [i \in DOMAIN left |-> Name(left[i])]
        /\ forgotten' = [half |-> forgotten.half + by, op |-> OpName(disk.op)]
        /\ halfQueue' = [i \in DOMAIN left |-> Half(left[i])]
                            \o SubSeq(halfQueue, disk.half + 1, Len(halfQueue))
        /\ opQueue' = [i \in 1 .. Len(opQueue) - disk.op |-> Late(opQueue[i + disk.op])]
        /\ halfOffset' = halfOffset - by
        /\ opOffset' = opOffset - disk.op
        /\ disk' = [half |-> Len(left), op |-> 0]
        /\ opBatch' = Moved(opBatch)
        /\ asked' = Moved(asked)
        /\ sentEnds' = Moved(sentEnds)
        /\ outcome' = [t \in known |-> IF t < nextOne THEN outcome[t] ELSE "undecided"]
        /\ topic' = [t \in known |-> IF t < nextOne THEN topic[t] ELSE 0]
        /\ parked' = {}    \* no action reads these two
        /\ accepted' = {}
        /\ UNCHANGED <<crashes, failures>>

\* Each \E is of one: TLC computes it once, and what LET names wherever it is named.
Forget ==
    \E left \in {SelectSeq([i \in 1 .. disk.half |-> i - 1], IsLeft)} :
        \E stay \in {{left[i] : i \in DOMAIN left} \cup (disk.half .. Len(halfQueue) - 1)} :
            \E named \in {{Half(o).transaction : o \in stay}} : CloseUp(left, named)

Step ==
    CASE Action = "Prepare" -> X = Name(Len(halfQueue)) /\ Prepare(X)
      [] Action = "Decide" -> Decide(X[1]) /\ outcome'[X[1]] = End(X[2])
      [] Action = "EndTransaction" -> EndOf(End(Y))
      [] Action = "BatchSendOpMessage" -> BatchSendOpMessage /\ OpName(Len(opQueue')) = X
      [] Action = "Check" -> X = Name(halfOffset) /\ Check /\ Y = Became
      [] Action = "EndOfChecks" ->
            X = Name(halfOffset) /\ EndOfChecks /\ OpName(opOffset') = Y
      [] Action = "Persist" -> Persist /\ X = Name(halfOffset) /\ Y = OpName(opOffset)
      [] Action = "MayPersist" ->
            /\ Persist \/ UNCHANGED transactionVars
            /\ X = Name(halfOffset)
            /\ Y = OpName(opOffset)
      [] Action = "Kill" -> Kill /\ Name(halfOffset') = X /\ OpName(opOffset') = Y
      [] OTHER -> FALSE

ReadStep ==
    /\ ReadEvent
    /\ IF Action = "Forget" THEN Forget ELSE Step /\ UNCHANGED namesVars

TNext == ReadStep \/ (EditTrace /\ UNCHANGED <<transactionVars, namesVars>>)

(***************************************************************************)
(* What a trace does not determine: whether a Persist was done.            *)
(***************************************************************************)
Disk == [half |-> Name(disk.half), op |-> OpName(disk.op)]

TView == <<traceVars, Disk>>

Names(os) == {Name(o) : o \in os}

Shown ==
    [halves |-> [name \in Names(halfOffset .. Len(halfQueue) - 1) |->
                    Half(CHOOSE o \in Named(name) : TRUE)],
     halfOffset |-> Name(halfOffset), opOffset |-> OpName(opOffset), ended |-> Names(Ended),
     asked |-> Names(asked), disk |-> Disk]

\* Forget always is: TLC need not look.
CanStep == Action = "Forget" \/ ENABLED ReadStep

TellAll == Tell(TRUE, CanStep, Shown)
================================================================================
