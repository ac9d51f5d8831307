------------------------------ MODULE MC_Notices ------------------------------
(*****************************************************************************)
(* The assumption under which notices alone make a group converge: none is   *)
(* lost, and no channel expires without one.  It rests on REBAL-004.         *)
(*****************************************************************************)
EXTENDS MC_Rebalance
===============================================================================
