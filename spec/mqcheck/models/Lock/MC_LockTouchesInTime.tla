------------------------ MODULE MC_LockTouchesInTime ------------------------
(***************************************************************************)
(* The same, of members that renew ten seconds before the lock is free for *)
(* others; those of 5.3.3 do each 20 s, and it is 60 s.                    *)
(***************************************************************************)
EXTENDS MC_LockTouches
=============================================================================
