----------------------------- MODULE MC_ComeAndGo -----------------------------
(*****************************************************************************)
(* Two members come and go while a third stays.  One goes as it should, and  *)
(* one dies; connections end only with their members, of which there are     *)
(* enough in MC_Rebalance.  In place of Leave, Crash and CloseChannel.       *)
(*****************************************************************************)
EXTENDS MC_Rebalance

LeaveIfFirst(m) == m = m1 /\ G!Leave(m) /\ HoldNothing(m)

CrashIfSecond(m) == m = m2 /\ G!Crash(m) /\ HoldNothing(m)

CloseChannelIfDead(m, b) ==
    status[m] = "crashed" /\ G!CloseChannel(m, b) /\ UNCHANGED memberVars
===============================================================================
