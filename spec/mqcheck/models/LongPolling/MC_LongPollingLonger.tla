------------------------ MODULE MC_LongPollingLonger ------------------------
(***************************************************************************)
(* As MC_LongPolling, with a second message: one that comes while another  *)
(* is told of, and one that comes behind a message that nobody wants.      *)
(***************************************************************************)
EXTENDS LongPolling
=============================================================================
