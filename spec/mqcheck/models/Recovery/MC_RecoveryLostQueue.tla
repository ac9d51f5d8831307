---- MODULE MC_RecoveryLostQueue ----
(* Recovery of a store that lost a ConsumeQueue. *)
EXTENDS Recovery
====
