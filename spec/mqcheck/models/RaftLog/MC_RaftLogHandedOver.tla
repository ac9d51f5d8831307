------------------------- MODULE MC_RaftLogHandedOver -----------------------
(***************************************************************************)
(* Leadership goes only to a node that has nothing but what was committed  *)
(* in its term: a leader that is to be replaced takes no more messages and *)
(* waits until all that it has is committed, and none crashes before.      *)
(***************************************************************************)
EXTENDS RaftLog

IsAnswered(n) ==
    \A i \in 1 .. End(n) : [index |-> i, term |-> ledger[n][i], by |-> ledger[n][i]] \in committed

OnlyAnswered ==
    \A n \in Nodes : role[n] # "leader" /\ role'[n] = "leader" => IsAnswered(n)
=============================================================================
