----------------------------- MODULE MC_Rebalance -----------------------------
(***************************************************************************)
(* What a configuration cannot hold: functions.                            *)
(***************************************************************************)
EXTENDS Rebalance

CONSTANTS m1, m2, m3

UniqueIds == [m \in Members |-> IF m = m1 THEN 1 ELSE IF m = m2 THEN 2 ELSE 3]
OneId == [m \in Members |-> 1]

AllAveragely == [m \in Members |-> "AVG"]
MixedStrategies == [m \in Members |-> IF m = m1 THEN "AVG" ELSE "AVG_BY_CIRCLE"]

AllQueues == [m \in Members |-> 0..2]
MixedRoutes == [m \in Members |-> IF m = m1 THEN 0..2 ELSE 0..1]
=============================================================================
