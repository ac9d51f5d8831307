-------------------------------- MODULE MC_Span --------------------------------
(***************************************************************************)
(* Incident E: how many messages that a member has finished are repeated   *)
(* at most when it is killed, though all it could report has arrived.      *)
(*                                                                         *)
(* It pulls on, Batch at a time, while the messages of its process queue   *)
(* lie no further apart than Span, and finishes them in any order.  What   *)
(* it can report is the smallest that is not finished.                     *)
(*                                                                         *)
(* The process queue holds what is not finished.  So one message that is   *)
(* stuck does not hold pulls back: once all others are finished it is      *)
(* alone, and the span is 0.  CountsToNext is the change under which it    *)
(* does.                                                                   *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Messages,      \* how many there are
    Span,          \* consumeConcurrentlyMaxSpan, 2000
    Batch,         \* pullBatchSize, 32
    CountsToNext,  \* whether the span reaches to the next message to pull
    Repeats        \* what would come of them

VARIABLES
    nextOffset,  \* the next to pull
    msgTreeMap   \* what was pulled and is not finished

vars == <<nextOffset, msgTreeMap>>

Least == CHOOSE o \in msgTreeMap : \A p \in msgTreeMap : o <= p
Most == CHOOSE o \in msgTreeMap : \A p \in msgTreeMap : o >= p

Progress == IF msgTreeMap = {} THEN nextOffset ELSE Least
Finished == {o \in 0..nextOffset - 1 : o \notin msgTreeMap}

Init == nextOffset = 0 /\ msgTreeMap = {}

PullMessage(n) ==
    /\ msgTreeMap # {} => (IF CountsToNext THEN nextOffset ELSE Most) - Least <= Span
    /\ nextOffset + n <= Messages
    /\ nextOffset' = nextOffset + n
    /\ msgTreeMap' = msgTreeMap \cup nextOffset..nextOffset + n - 1

ProcessConsumeResult(o) ==
    /\ o \in msgTreeMap
    /\ msgTreeMap' = msgTreeMap \ {o}
    /\ UNCHANGED nextOffset

Next ==
    \/ \E n \in 1..Batch : PullMessage(n)
    \/ \E o \in 0..Messages - 1 : ProcessConsumeResult(o)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
TypeOK ==
    /\ nextOffset \in 0..Messages
    /\ msgTreeMap \subseteq 0..nextOffset - 1

Repeated == {o \in Finished : o >= Progress}

(***************************************************************************)
(* OFFSET-024.                                                             *)
(***************************************************************************)
RepeatsAreBounded == Cardinality(Repeated) <= Repeats

(***************************************************************************)
(* Broken, to show that the figure is reached.                             *)
(***************************************************************************)
FewerRepeats == Cardinality(Repeated) < Repeats
===============================================================================
