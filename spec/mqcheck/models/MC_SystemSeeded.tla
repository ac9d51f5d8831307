---------------------------- MODULE MC_SystemSeeded ----------------------------
(***************************************************************************)
(* Two ways in which a group falls short of Delivery, each with one        *)
(* operator of System changed.                                             *)
(***************************************************************************)
EXTENDS System

(***************************************************************************)
(* In place of Reported: a member that lets go of a queue reports what it  *)
(* has pulled, finished or not.                                            *)
(***************************************************************************)
Pulled(m, q) == processQueueTable[m][q].nextOffset

(***************************************************************************)
(* In place of Listed: who died stays on the broker's list.                *)
(***************************************************************************)
RunningOrDead == Running \cup {m \in Members : status[m] = "crashed"}
================================================================================
