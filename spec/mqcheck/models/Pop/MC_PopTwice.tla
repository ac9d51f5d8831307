----------------------------- MODULE MC_PopTwice ----------------------------
(***************************************************************************)
(* Two crashes, of which the second may meet what the first one left.  In  *)
(* place of TimesUp: nothing comes again, or there are too many states for *)
(* a check of a minute.  MC_PopChange and MC_PopReviveCrash have that,     *)
(* with one crash.                                                         *)
(***************************************************************************)
EXTENDS Pop

NoTimeIsUp == \E time \in {} : TimeUp(time)
=============================================================================
