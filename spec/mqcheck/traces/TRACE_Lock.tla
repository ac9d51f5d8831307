------------------------------ MODULE TRACE_Lock ------------------------------
(***************************************************************************)
(* Who was granted the lock on one queue, as steps of Lock.                *)
(*                                                                         *)
(* | action       | process | x                 | y                     |  *)
(* | Elapse       | nobody  | milliseconds      |                       |  *)
(* | TryLockBatch | broker  | member            | 1: granted 0: refused |  *)
(* | UnlockBatch  | broker  | member            |                       |  *)
(* | Restart      | broker  |                   |                       |  *)
(*                                                                         *)
(* A Tick is a millisecond here, and Elapse many of them at once; its time *)
(* is the broker's, which it notes with each grant and each refusal.       *)
(*                                                                         *)
(* Hidden: what members believe and do (belief, listening, crashed): a     *)
(* belief never ends here, so that any member that was granted the lock    *)
(* once may give it up.                                                    *)
(***************************************************************************)
EXTENDS Lock, Trace

X == Event[4]
Y == Event[5]

TInit == Init /\ TraceInit

-----------------------------------------------------------------------------
After(age, most) == IF age + X < most THEN age + X ELSE most

Elapse ==
    /\ mqLockTable' = IF mqLockTable = NoLock THEN NoLock
                      ELSE [mqLockTable EXCEPT !.age = After(@, Expired)]
    /\ UNCHANGED <<belief, listening, crashed, restarts>>

Step ==
    CASE Action = "Elapse" -> Elapse
      [] Action = "TryLockBatch" ->
            TryLockBatch(X) /\ Y = (IF mqLockTable'.clientId = X THEN 1 ELSE 0)
      [] Action = "UnlockBatch" -> Holds(X) /\ UnlockBatch(X)
      [] Action = "Restart" -> Restart
      [] OTHER -> FALSE

ReadStep == ReadEvent /\ Step

TNext == ReadStep \/ (EditTrace /\ UNCHANGED vars)

Shown == [mqLockTable |-> mqLockTable]

TellAll == Tell(TRUE, ENABLED ReadStep, Shown)
=============================================================================
