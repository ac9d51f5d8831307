----------------------- MODULE MC_EqualSubscriptions ------------------------
(***************************************************************************)
(* The assumption under which a group misses no message that it wants: its *)
(* members have the same subscription.                                     *)
(***************************************************************************)
EXTENDS MC_Subscription
=============================================================================
