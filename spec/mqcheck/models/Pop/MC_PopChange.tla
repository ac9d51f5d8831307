---- MODULE MC_PopChange ----
(* Pop, with a change of an invisible time.  *)
EXTENDS Pop
====
