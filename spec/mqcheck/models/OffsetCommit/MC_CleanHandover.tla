--------------------------- MODULE MC_CleanHandover ---------------------------
(*****************************************************************************)
(* The assumption under which nothing is repeated and nothing stored goes    *)
(* back: a queue changes hands only when all of it that was pulled is        *)
(* finished and stored, and nobody crashes.                                  *)
(*****************************************************************************)
EXTENDS OffsetCommit
===============================================================================
