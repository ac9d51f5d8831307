---- MODULE MC_PopProgressOne ----
(* Pop, whose one message is consumed in the end. *)
EXTENDS Pop
====
