------------------------------- MODULE MC_Moves -------------------------------
(***************************************************************************)
(* Incident C: how many queues of a topic change their owner when a member *)
(* leaves or joins, by strategy.  The figures of the configuration are     *)
(* what comes of the strategies of Allocation.                             *)
(***************************************************************************)
EXTENDS Allocation

CONSTANTS
    Topic,             \* how many queues there are
    Group,             \* how many members
    LeaverHas,         \* the queues of one that leaves: so many must move
    FirstJoinerHas,    \* or of one that joins
    LastJoinerHas,
    AvgOuterLeaves,    \* averagely, when the first or the last one leaves
    AvgInnerLeaves,    \* when any other leaves
    AvgFirstJoins,     \* when one joins whose id is the first
    AvgLastJoins,      \* or the last
    CircleLeaves,      \* averagely by circle, whoever leaves
    CircleFirstJoins,
    CircleLastJoins

But(n, gone) == SelectSeq(Numbers(n), LAMBDA id : id # gone)

\* The queues that stay with their owner, of a group of ids, when it is another one.
Kept(Strategy(_, _, _), ids, others) ==
    LET queues == Numbers(Topic)
    IN  UNION {Strategy(c, queues, ids) \cap Strategy(c, queues, others) :
                    c \in Range(ids) \cap Range(others)}

Leaves(Strategy(_, _, _), gone) ==
    Topic - Cardinality(Kept(Strategy, Numbers(Group), But(Group, gone)))

Joins(Strategy(_, _, _), new) ==
    Topic - Cardinality(Kept(Strategy, But(Group + 1, new), Numbers(Group + 1)))

(***************************************************************************)
(* What must move, whatever the strategy.                                  *)
(***************************************************************************)
Has(Strategy(_, _, _), c, members) ==
    Cardinality(Strategy(c, Numbers(Topic), Numbers(members)))

MustMove(Strategy(_, _, _)) ==
    /\ \A gone \in 1..Group : Has(Strategy, gone, Group) = LeaverHas
    /\ Has(Strategy, 1, Group + 1) = FirstJoinerHas
    /\ Has(Strategy, Group + 1, Group + 1) = LastJoinerHas

SlicesMustMove == MustMove(Averagely) /\ MustMove(AveragelyByCircle)

(***************************************************************************)
(* ALLOC-015, and what it is of other changes and by circle.               *)
(***************************************************************************)
AveragelyMoves ==
    /\ \A gone \in {1, Group} : Leaves(Averagely, gone) = AvgOuterLeaves
    /\ \A gone \in 2..Group - 1 : Leaves(Averagely, gone) = AvgInnerLeaves
    /\ Joins(Averagely, 1) = AvgFirstJoins
    /\ Joins(Averagely, Group + 1) = AvgLastJoins

CircleMoves ==
    /\ \A gone \in 1..Group : Leaves(AveragelyByCircle, gone) = CircleLeaves
    /\ Joins(AveragelyByCircle, 1) = CircleFirstJoins
    /\ Joins(AveragelyByCircle, Group + 1) = CircleLastJoins
===============================================================================
