---- MODULE MC_RecoverySyncFlush ----
(* Recovery under the assumptions of its ideals. *)
EXTENDS Recovery
====
