---------------------------- MODULE MC_DelaySeeded ----------------------------
(***************************************************************************)
(* What public reports tell of delay levels: each is Delay with one step   *)
(* more, at a start that no kill went before.  It is bounded by            *)
(* MaxFailures.  The catalogue of defects says where each comes from.      *)
(***************************************************************************)
EXTENDS Delay

Start(table) ==
    /\ failures < MaxFailures
    /\ failures' = failures + 1
    /\ offsetTable' = table
    /\ UNCHANGED <<queue, now, delivered, crashes>>

Fairness ==
    /\ WF_delayVars(Tick)
    /\ \A level \in Delays : WF_delayVars(Deliver(level))

(***************************************************************************)
(* A broker that stops as it should does not write its offsets.            *)
(***************************************************************************)
StopUnwritten == Start(disk) /\ UNCHANGED disk

StopsUnwritten == DelayInit /\ [][DelayNext \/ StopUnwritten]_delayVars /\ Fairness

(***************************************************************************)
(* A broker loads slowly, and writes its empty table before it has loaded. *)
(***************************************************************************)
Empty == [level \in Delays |-> 0]

WriteBeforeLoad == Start(Empty) /\ disk' = Empty

WritesBeforeLoad == DelayInit /\ [][DelayNext \/ WriteBeforeLoad]_delayVars /\ Fairness

(***************************************************************************)
(* A level's offset lies behind the end of its queue, whose messages were  *)
(* lost, and nobody corrects it.                                           *)
(***************************************************************************)
LoadBehindEnd(level) ==
    /\ Len(queue[level]) < MaxMessages
    /\ Start([offsetTable EXCEPT ![level] = MaxMessages])
    /\ UNCHANGED disk

KeepsOffsetBehindEnd ==
    DelayInit /\ [][DelayNext \/ \E level \in Delays : LoadBehindEnd(level)]_delayVars /\ Fairness
=============================================================================
