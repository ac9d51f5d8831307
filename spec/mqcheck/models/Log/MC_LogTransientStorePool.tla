---- MODULE MC_LogTransientStorePool ----
(* Log with a transient store pool. *)
EXTENDS Log
====
