---- MODULE MC_RecoveryTwice ----
(* Recovery, twice in a row. *)
EXTENDS Recovery
====
