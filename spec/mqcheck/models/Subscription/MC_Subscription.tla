--------------------------- MODULE MC_Subscription --------------------------
(***************************************************************************)
(* What a configuration cannot hold: sequences and functions.              *)
(***************************************************************************)
EXTENDS Subscription

CONSTANTS c1, c2

OneOfEach == <<"Aa", "BB", "C">>

\* Scenario B: the members of a group want different tags.
Different == [m \in Members |-> IF m = c1 THEN {"Aa"} ELSE {"C"}]
Equal == [m \in Members |-> {"Aa", "C"}]
\* A member that changes its mind.
First == [m \in Members |-> {"Aa"}]
=============================================================================
