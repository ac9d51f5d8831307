---- MODULE MC_NoticesOnce ----
(* Rebalance by notices alone, after one change of membership. *)
EXTENDS MC_Notices
====
