---- MODULE MC_RecoveryLostQueueSyncFlush ----
(* Recovery of a store that lost a ConsumeQueue, and nothing else. *)
EXTENDS Recovery
====
