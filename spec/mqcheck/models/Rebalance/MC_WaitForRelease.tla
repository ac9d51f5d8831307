-------------------------- MODULE MC_WaitForRelease ---------------------------
(*****************************************************************************)
(* The change of protocol under which no queue has two owners: a member      *)
(* starts on a queue only when nobody else holds it.                         *)
(*****************************************************************************)
EXTENDS MC_Rebalance
===============================================================================
