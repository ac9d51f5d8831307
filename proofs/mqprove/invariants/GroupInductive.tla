--------------------------- MODULE GroupInductive ---------------------------
(***************************************************************************)
(* What is true of each step of Group, for any number of brokers, members  *)
(* and changes, where notices are sent.                                    *)
(***************************************************************************)
EXTENDS Group

Bounds == Notices # "none"
=============================================================================
