---- MODULE MC_PopChangeLate ----
(* Pop, with a change that may be late. *)
EXTENDS Pop
====
