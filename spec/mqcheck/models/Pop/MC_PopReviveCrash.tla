---- MODULE MC_PopReviveCrash ----
(* Pop, with a message that comes again and a crash. *)
EXTENDS Pop
====
