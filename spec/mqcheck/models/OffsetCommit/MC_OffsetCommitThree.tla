------------------------- MODULE MC_OffsetCommitThree -------------------------
(***************************************************************************)
(* Two members crash while a third stays, and a queue changes hands.       *)
(* Members are alike, and what is checked is safety: so what differs only  *)
(* in who is who is one state.                                             *)
(***************************************************************************)
EXTENDS OffsetCommit, TLC

AnyOrder == Permutations(Members)
===============================================================================
