---- MODULE MC_OffsetCommitTwo ----
(* OffsetCommit, of two messages. *)
EXTENDS OffsetCommit
====
