--------------------------- MODULE MC_BrokerForgets -------------------------
(***************************************************************************)
(* A broker that starts again and knows nobody, until each member's next   *)
(* heartbeat comes to it: its lists are too short meanwhile.  Notices on   *)
(* their way arrive all the same.                                          *)
(***************************************************************************)
EXTENDS MC_Rebalance

Restart(b) ==
    /\ G!Perturb
    /\ consumerTable' = [consumerTable EXCEPT ![b] = {}]
    /\ UNCHANGED <<notices, status, memberVars>>

RestartNext == Next \/ \E b \in Brokers : Restart(b)

RestartSpec == Init /\ [][RestartNext]_vars /\ Fairness
=============================================================================
