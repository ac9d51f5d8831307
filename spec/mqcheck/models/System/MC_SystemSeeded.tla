---------------------------- MODULE MC_SystemSeeded ----------------------------
(***************************************************************************)
(* Ways in which a group falls short of what System promises, each with    *)
(* one operator of it changed.                                             *)
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

(***************************************************************************)
(* In place of Start: a member starts at the beginning, whatever is        *)
(* stored.                                                                 *)
(***************************************************************************)
Beginning(q) == 0
================================================================================
