---- MODULE MC_LogSyncFlush ----
(* Log, with what synchronous flush promises. *)
EXTENDS Log
====
