-------------------------- MODULE MC_RebalancedSince --------------------------
(***************************************************************************)
(* The assumption of REBAL-003 and REBAL-010 as it stands there: every     *)
(* member has rebalanced since the membership changed last.  In Rebalance  *)
(* BalancedIsOwnedOnce assumes what members come to by that, which says    *)
(* nothing of a rebalance that leaves a member with something else.        *)
(*                                                                         *)
(* Ghosts: rebalanced.                                                     *)
(***************************************************************************)
EXTENDS MC_Rebalance

VARIABLE
    rebalanced  \* members that have used the right list since a broker's list changed last

sinceVars == <<vars, rebalanced>>

Uses(m) == cidAll[m] # NoList /\ cidAll'[m] = NoList

Rebalanced ==
    rebalanced' =
        IF Running' # Running \/ consumerTable' # consumerTable THEN {}
        ELSE {m \in Running : IF Uses(m) THEN cidAll[m] = Running ELSE m \in rebalanced}

SinceInit == Init /\ rebalanced = Running

SinceNext == Next /\ Rebalanced

SinceSpec == SinceInit /\ [][SinceNext]_sinceVars

-----------------------------------------------------------------------------
AllHaveRebalanced == ListsAreRight /\ rebalanced = Running

(***************************************************************************)
(* REBAL-003 and REBAL-010.  Then each queue has one owner, and nothing    *)
(* moves while the members stay.                                           *)
(***************************************************************************)
RebalancedIsOwnedOnce == Running # {} /\ AllHaveRebalanced => ExclusiveOwner /\ NeverUnowned

NothingMoves ==
    [][AllHaveRebalanced /\ Running' = Running /\ ListsAreRight' =>
        processQueueTable' = processQueueTable]_sinceVars

(***************************************************************************)
(* Broken, to show that the model is not empty: all have rebalanced after  *)
(* the last change that there is.                                          *)
(***************************************************************************)
NeverAllAfterChanges ==
    ~(AllHaveRebalanced /\ Running # {} /\ perturbations = MaxPerturbations)
=============================================================================
