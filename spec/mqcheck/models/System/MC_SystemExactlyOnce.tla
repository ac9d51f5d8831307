----------------------- MODULE MC_SystemExactlyOnce -----------------------
(*************************************************************************)
(* Four changes of the protocol together, under which nothing is         *)
(* repeated and nothing is skipped, whoever dies.                        *)
(*************************************************************************)
EXTENDS System
===========================================================================
