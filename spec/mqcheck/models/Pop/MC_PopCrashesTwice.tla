-------------------------- MODULE MC_PopCrashesTwice --------------------------
(***************************************************************************)
(* Two crashes, and two messages.  In place of Acks: consumers acknowledge *)
(* in the order in which they got the messages, since in any order there   *)
(* are too many states for a check of a minute.                            *)
(***************************************************************************)
EXTENDS Pop

IsBefore(h1, h2) ==
    \/ TimeOf(h1.key) < TimeOf(h2.key)
    \/ TimeOf(h1.key) = TimeOf(h2.key) /\ h1.place < h2.place

AcksInOrder ==
    \E h \in handles : (\A other \in handles \ {h} : IsBefore(h, other)) /\ AckMessage(h)
===============================================================================
