------------------------ MODULE MC_BroadcastingKept -------------------------
(***************************************************************************)
(* Listeners that never fail, and processes that begin at the first        *)
(* message; each has a file of its own, and keeps it.                      *)
(***************************************************************************)
EXTENDS Broadcasting
=============================================================================
