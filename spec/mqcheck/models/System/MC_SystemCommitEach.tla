------------------------ MODULE MC_SystemCommitEach -----------------------
(*************************************************************************)
(* The smallest change under which nothing is repeated because a member  *)
(* dies: the consumer's effect and its commit are one transaction, or    *)
(* the effect is idempotent, which is the same to whoever looks.         *)
(*************************************************************************)
EXTENDS System
===========================================================================
