------------------- MODULE MC_SystemFinishBeforeRelease -------------------
(*************************************************************************)
(* The smallest change under which nothing is repeated because it was in *)
(* work, or was finished behind something in work, when its queue was    *)
(* taken away.                                                           *)
(*************************************************************************)
EXTENDS System
===========================================================================
