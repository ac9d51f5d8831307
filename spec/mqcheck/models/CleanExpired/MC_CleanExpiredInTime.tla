------------------------ MODULE MC_CleanExpiredInTime -----------------------
(***************************************************************************)
(* The assumption under which each message is consumed once: a listener    *)
(* that is out of time does not succeed any more.                          *)
(***************************************************************************)
EXTENDS CleanExpired
=============================================================================
