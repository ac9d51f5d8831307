---------------------------- MODULE MC_StableGroup ----------------------------
(*****************************************************************************)
(* The assumption under which no queue is ever without an owner: nobody      *)
(* joins or leaves any more, and the members go on rebalancing.              *)
(*****************************************************************************)
EXTENDS MC_Rebalance
===============================================================================
