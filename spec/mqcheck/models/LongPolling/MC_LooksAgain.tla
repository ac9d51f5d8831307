---------------------------- MODULE MC_LooksAgain ---------------------------
(***************************************************************************)
(* The smallest change under which no wake-up is lost: once a pull is      *)
(* entered among the held ones, the queue is read again.                   *)
(***************************************************************************)
EXTENDS LongPolling
=============================================================================
