-------------------------- MODULE MC_AllocationSeeded --------------------------
(***************************************************************************)
(* What public reports tell of strategies: each is Allocation with one of  *)
(* them changed.  The catalogue of defects says where each comes from.     *)
(***************************************************************************)
EXTENDS Allocation

(***************************************************************************)
(* In place of ByMachineRoom: sizes come from the queues that are listed,  *)
(* and slices are cut from all.                                            *)
(***************************************************************************)
CutFromAll(c, queues, cids) ==
    LET near == Cardinality({q \in Range(queues) : q \in config})
        index == FirstPosition(cids, c)
        members == Len(cids)
        share == near \div members
        extra == IF index < near % members THEN {share * members + index} ELSE {}
    IN  {At(queues, p) : p \in (share * index)..(share * (index + 1) - 1) \cup extra}
===============================================================================
