---- MODULE MC_RecoveryTwo ----
(* Recovery, of two messages. *)
EXTENDS Recovery
====
