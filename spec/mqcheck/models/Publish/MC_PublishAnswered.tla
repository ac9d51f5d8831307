------------------------- MODULE MC_PublishAnswered -------------------------
(***************************************************************************)
(* The assumption under which a message is stored once, and one whose send *)
(* fails is not: each try is answered, and what is stored is not sent      *)
(* again.                                                                  *)
(***************************************************************************)
EXTENDS MC_Publish
=============================================================================
