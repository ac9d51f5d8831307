----------------------------- MODULE MC_ManyTopics ----------------------------
(***************************************************************************)
(* What the members of a group have of all its topics together.  Each      *)
(* topic is divided by itself, averagely or by circle, and its remainder   *)
(* goes to the first members: over many topics these add up.               *)
(***************************************************************************)
EXTENDS Allocation

CONSTANTS
    Topics,        \* how many topics there are
    QueuesOfEach,  \* how many queues each of them has
    Group,         \* how many members the group has
    FirstHas,      \* queues of the first member, of all topics
    LastHas,       \* and of the last one
    MaxTopics,     \* for what holds of any topics: how many of them
    MaxEach        \* and how many queues they have

\* What the member at a place has of topics with these numbers of queues.
Total(sizes, member, members) ==
    LET Of(t) == Cardinality(Averagely(member, Numbers(sizes[t]), Numbers(members)))
        Sum[t \in 0..Len(sizes)] == IF t = 0 THEN 0 ELSE Sum[t - 1] + Of(t)
    IN  Sum[Len(sizes)]

AnyTopics == UNION {[1..n -> 1..MaxEach] : n \in 1..MaxTopics}

(***************************************************************************)
(* Issue 1945, as a figure.                                                *)
(***************************************************************************)
RemaindersPileUp ==
    LET equal == [t \in 1..Topics |-> QueuesOfEach]
    IN  /\ Total(equal, 1, Group) = FirstHas
        /\ Total(equal, Group, Group) = LastHas

(***************************************************************************)
(* ALLOC-004: a member has no fewer queues than a later one, and one more  *)
(* of each topic at most.                                                  *)
(***************************************************************************)
PilesAreBounded ==
    \A sizes \in AnyTopics : \A first, last \in 1..Group :
        first < last =>
            LET more == Total(sizes, first, Group) - Total(sizes, last, Group)
            IN  0 <= more /\ more <= Len(sizes)

(***************************************************************************)
(* Often believed (ALLOC-023): over all topics members differ by one queue *)
(* at most; and the assumption under which they do not differ at all.      *)
(***************************************************************************)
BalancedOverTopics ==
    \A sizes \in AnyTopics : Total(sizes, 1, Group) - Total(sizes, Group, Group) <= 1

BalancedIfMultiples ==
    \A sizes \in AnyTopics :
        (\A t \in DOMAIN sizes : sizes[t] % Group = 0) =>
            Total(sizes, 1, Group) = Total(sizes, Group, Group)
===============================================================================
