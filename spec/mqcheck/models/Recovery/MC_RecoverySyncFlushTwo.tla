---- MODULE MC_RecoverySyncFlushTwo ----
(* Recovery under the assumptions of its ideals, of two messages. *)
EXTENDS Recovery
====
