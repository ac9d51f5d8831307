-------------------------- MODULE MC_RollingChange --------------------------
(***************************************************************************)
(* A group whose members change what they want one after the other, as     *)
(* when a new version of a program is rolled out.                          *)
(***************************************************************************)
EXTENDS MC_Subscription
=============================================================================
