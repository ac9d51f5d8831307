----------------------------- MODULE MC_FromLast -----------------------------
(***************************************************************************)
(* CONSUME_FROM_LAST_OFFSET on a queue that no longer has its message 0 in *)
(* memory: an owner that goes before its first commit is stored takes the  *)
(* group's beginning along, and the next one begins at the end.            *)
(***************************************************************************)
EXTENDS OffsetCommit
=============================================================================
