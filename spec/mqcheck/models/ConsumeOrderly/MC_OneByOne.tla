---------------------------- MODULE MC_OneByOne -----------------------------
(***************************************************************************)
(* The assumption under which no listener gets a message again that was    *)
(* finished or parked: one message at a time, and owners that let go in    *)
(* good order.                                                             *)
(***************************************************************************)
EXTENDS ConsumeOrderly
=============================================================================
