------------------------- MODULE RebalanceInductive -------------------------
(***************************************************************************)
(* What is true of Rebalance in every state, for any number of brokers,    *)
(* members, queues and changes.                                            *)
(***************************************************************************)
EXTENDS MC_RebalancedSince, Integers

(***************************************************************************)
(* What ALLOC-001 rests on: ids are unique, and all members have the same  *)
(* queues and the same strategy.                                           *)
(***************************************************************************)
InputsAreEqual ==
    \A m, n \in Members : MqAll[m] = MqAll[n] /\ Strategy[m] = Strategy[n]

IdsAreUnique == \A m, n \in Members : ClientId[m] = ClientId[n] => m = n

Bounds == ~WaitForRelease

EqualBounds == Bounds /\ InputsAreEqual /\ IdsAreUnique

(***************************************************************************)
(* Who has used the right list, since the lists changed, holds its slice.  *)
(***************************************************************************)
HoldsItsSlice(m) == processQueueTable[m] = Allocate(m, MqAll[m], Running)

OnlyTheRunningRebalance == \A m \in Members : status[m] # "in" => cidAll[m] = NoList

Since == rebalanced \subseteq Running /\ \A m \in rebalanced : HoldsItsSlice(m)

Moving == Since /\ OnlyTheRunningRebalance

(***************************************************************************)
(* So each queue has one owner at most, as soon as all have.  That each    *)
(* has one is for as many members and queues as the models have.           *)
(***************************************************************************)
PositionsAreEqual ==
    \A m, n \in Members : \A q \in MqAll[m] : Position(q, MqAll[m]) = Position(q, MqAll[n])

NumbersAreEqual ==
    \A m, n \in Members : Cardinality(MqAll[m]) = Cardinality(MqAll[n])

IndexesDiffer ==
    \A m, n \in Running : m # n => Index(m, Running) # Index(n, Running)

SharesAreNatural ==
    \A m \in Running : Cardinality(MqAll[m]) \div Cardinality(Running) >= 0

SharesFollow ==
    \A share \in Nat : \A i, j \in Int : i < j => share * i + share <= share * j

SlicesLieApart ==
    /\ PositionsAreEqual
    /\ NumbersAreEqual
    /\ IndexesDiffer
    /\ SharesAreNatural
    /\ SharesFollow

RebalancedIsOwnedOnceAtMost == AllHaveRebalanced => ExclusiveOwner
=============================================================================
