-------------------- MODULE MC_SystemStoreBeforeRelease -------------------
(*************************************************************************)
(* The smallest change under which nothing is repeated because the last  *)
(* commit of an owner is late, or lost.                                  *)
(*************************************************************************)
EXTENDS System
===========================================================================
