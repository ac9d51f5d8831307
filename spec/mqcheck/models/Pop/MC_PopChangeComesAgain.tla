---- MODULE MC_PopChangeComesAgain ----
(* Pop, with a changed message that comes again. *)
EXTENDS Pop
====
