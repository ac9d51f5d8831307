---- MODULE MC_PopProgress ----
(* Pop, whose messages are all consumed in the end.  *)
EXTENDS Pop
====
