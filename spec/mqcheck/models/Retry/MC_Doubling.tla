------------------------------ MODULE MC_Doubling ------------------------------
(***************************************************************************)
(* Incident A, with a listener that always fails: how many copies of one   *)
(* message there come to be.                                               *)
(*                                                                         *)
(* Two members of one client id own the queues of the topic and of the     *)
(* retry topic both.  Each gets every copy, fails on it and sends it back; *)
(* the broker stores what is sent back as one copy more, tried once more,  *)
(* and gives up what was tried MaxReconsumeTimes.                          *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Members,            \* the members of the one id
    MaxReconsumeTimes,
    DeadLetters         \* the copies that come to be in the dead-letter topic

VARIABLES
    copies,   \* times tried -> how many copies were stored that were tried so often
    failed    \* member -> times tried -> how many of them it has failed on

vars == <<copies, failed>>

Times == 0..MaxReconsumeTimes
Dead == MaxReconsumeTimes + 1

Init ==
    /\ copies = [n \in Times \cup {Dead} |-> IF n = 0 THEN 1 ELSE 0]
    /\ failed = [m \in Members |-> [n \in Times |-> 0]]

ConsumerSendMsgBack(m, n) ==
    /\ failed[m][n] < copies[n]
    /\ failed' = [failed EXCEPT ![m][n] = @ + 1]
    /\ copies' = [copies EXCEPT ![n + 1] = @ + 1]

Next == \E m \in Members, n \in Times : ConsumerSendMsgBack(m, n)

Spec == Init /\ [][Next]_vars /\ WF_vars(Next)

-----------------------------------------------------------------------------
TypeOK ==
    /\ copies \in [Times \cup {Dead} -> Nat]
    /\ failed \in [Members -> [Times -> Nat]]

(***************************************************************************)
(* Each try multiplies the copies by the number of members.                *)
(***************************************************************************)
Multiplied == \A n \in Times : copies[n] <= Cardinality(Members) ^ n

AllAreGivenUp ==
    <>[](/\ copies[Dead] = DeadLetters
         /\ \A n \in Times : copies[n] = Cardinality(Members) ^ n)
===============================================================================
