--------------------------- MODULE MC_NoAnswerLost --------------------------
(***************************************************************************)
(* The assumption under which a message that is sent back is there once:   *)
(* each request is answered, and each answer arrives.                      *)
(***************************************************************************)
EXTENDS Retry
=============================================================================
