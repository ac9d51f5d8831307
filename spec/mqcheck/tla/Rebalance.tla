------------------------------ MODULE Rebalance ------------------------------
(***************************************************************************)
(* How the members of a group, each alone, come by the queues of a topic.  *)
(* Twin of mqspec/core/rebalance.py.                                       *)
(*                                                                         *)
(* A member reads the list of members from any one broker, computes its    *)
(* slice of the queues from it, and changes what it holds to that slice.   *)
(* Nobody tells the others.  It does so when a notice wakes it, and every  *)
(* 20 s without one.                                                       *)
(*                                                                         *)
(* Modelled: all of Group; lists that are out of date when they are used,  *)
(* because reading and using one are two steps; notices that come between  *)
(* the two; members that have the same id, another strategy or another     *)
(* view of the queues (the seeded models).                                 *)
(*                                                                         *)
(* Left out: what happens to messages and offsets (OffsetCommit); time:    *)
(* the timer may fire at any moment, so that what holds here holds for any *)
(* figures; the orderly locks (Lock). A broker that starts again and knows *)
(* nobody is in MC_BrokerForgets.                                          *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Brokers, Members, InitialMembers, MaxPerturbations, Notices,  \* see Group
    MqAll,             \* member -> the queues, as numbers, that its route shows
    ClientId,          \* member -> its id, as a number, since ids are sorted
    Strategy,          \* member -> "AVG" or "AVG_BY_CIRCLE"
    Timer,             \* whether there is the 20 s timer
    KeepsNotice,       \* whether a notice that comes during a rebalance is kept
    WaitForRelease,    \* whether a member waits until nobody else holds a queue
    NoList             \* cidAll of a member that is not rebalancing

VARIABLES
    consumerTable, notices, status, perturbations,  \* see Group
    processQueueTable, \* member -> the queues that it holds
    hasNotified,       \* member -> whether it is to rebalance at once
    cidAll             \* member -> the list that it read and has not used yet

G == INSTANCE Group

brokerVars == <<consumerTable, notices, status, perturbations>>
memberVars == <<processQueueTable, hasNotified, cidAll>>
vars == <<brokerVars, memberVars>>

Running == G!Running
Queues == UNION {MqAll[m] : m \in Members}
Owners(q) == {m \in Running : q \in processQueueTable[m]}

-----------------------------------------------------------------------------
(***************************************************************************)
(* The slice that member m computes of the queues from the list cids,      *)
(* which has a place for each channel.  Its index is that of the first     *)
(* place with its id.                                                      *)
(***************************************************************************)
Position(q, queues) == Cardinality({r \in queues : r < q})
Index(m, cids) == Cardinality({c \in cids : ClientId[c] < ClientId[m]})
Min(x, y) == IF x < y THEN x ELSE y

Averagely(m, queues, cids) ==
    LET n      == Cardinality(cids)
        share  == Cardinality(queues) \div n
        rest   == Cardinality(queues) % n
        i      == Index(m, cids)
        start  == share * i + Min(i, rest)
        stop   == start + share + (IF i < rest THEN 1 ELSE 0)
    IN  {q \in queues : start <= Position(q, queues) /\ Position(q, queues) < stop}

ByCircle(m, queues, cids) ==
    {q \in queues : Position(q, queues) % Cardinality(cids) = Index(m, cids)}

Allocate(m, queues, cids) ==
    IF \A c \in cids : ClientId[c] # ClientId[m] THEN {}
    ELSE IF Strategy[m] = "AVG" THEN Averagely(m, queues, cids)
    ELSE ByCircle(m, queues, cids)

-----------------------------------------------------------------------------
TypeOK ==
    /\ G!GroupTypeOK
    /\ processQueueTable \in [Members -> SUBSET Queues]
    /\ hasNotified \in [Members -> BOOLEAN]
    /\ \A m \in Members : cidAll[m] = NoList \/ cidAll[m] \subseteq Members

Init ==
    /\ G!GroupInit
    /\ processQueueTable =
        [m \in Members |->
            IF m \in InitialMembers THEN Allocate(m, MqAll[m], InitialMembers) ELSE {}]
    /\ hasNotified = [m \in Members |-> FALSE]
    /\ cidAll = [m \in Members |-> NoList]

(***************************************************************************)
(* A process that starts wakes its rebalancing; one that stops holds       *)
(* nothing any more.                                                       *)
(***************************************************************************)
HoldNothing(m) ==
    /\ processQueueTable' = [processQueueTable EXCEPT ![m] = {}]
    /\ hasNotified' = [hasNotified EXCEPT ![m] = FALSE]
    /\ cidAll' = [cidAll EXCEPT ![m] = NoList]

Join(m) ==
    /\ G!Join(m)
    /\ hasNotified' = [hasNotified EXCEPT ![m] = TRUE]
    /\ UNCHANGED <<processQueueTable, cidAll>>

Leave(m) == G!Leave(m) /\ HoldNothing(m)

Crash(m) == G!Crash(m) /\ HoldNothing(m)

(***************************************************************************)
(* What brokers do does not touch the members until a notice arrives.      *)
(***************************************************************************)
RegisterConsumer(m, b) == G!RegisterConsumer(m, b) /\ UNCHANGED memberVars
UnregisterConsumer(m, b) == G!UnregisterConsumer(m, b) /\ UNCHANGED memberVars
CloseChannel(m, b) == G!CloseChannel(m, b) /\ UNCHANGED memberVars
ScanNotActiveChannel(m, b) == G!ScanNotActiveChannel(m, b) /\ UNCHANGED memberVars
LoseNotice(m) == G!LoseNotice(m) /\ UNCHANGED memberVars

(***************************************************************************)
(* A notice arrives, whether the member is rebalancing just now or not.    *)
(***************************************************************************)
NotifyConsumerIdsChanged(m) ==
    /\ m \in notices
    /\ notices' = notices \ {m}
    /\ hasNotified' = [hasNotified EXCEPT
        ![m] = @ \/ (status[m] = "in" /\ (KeepsNotice \/ cidAll[m] = NoList))]
    /\ UNCHANGED <<consumerTable, status, perturbations, processQueueTable, cidAll>>

(***************************************************************************)
(* A rebalance begins: broker b, any one, is asked for its list.           *)
(***************************************************************************)
DoRebalance(m, b) ==
    /\ status[m] = "in"
    /\ cidAll[m] = NoList
    /\ hasNotified[m] \/ Timer
    /\ hasNotified' = [hasNotified EXCEPT ![m] = FALSE]
    /\ cidAll' = [cidAll EXCEPT ![m] = consumerTable[b]]
    /\ UNCHANGED <<brokerVars, processQueueTable>>

(***************************************************************************)
(* The list is used, however old it is by now, with the queues that the    *)
(* member's route shows.  A broker that knows no member answers with an    *)
(* error, and then nothing changes.                                        *)
(***************************************************************************)
RebalanceByTopic(m, queues) ==
    LET held  == processQueueTable[m]
        taken == Allocate(m, queues, cidAll[m])
        free  == {q \in Queues : Owners(q) \subseteq {m}}
    IN  /\ cidAll[m] # NoList
        /\ cidAll' = [cidAll EXCEPT ![m] = NoList]
        /\ processQueueTable' = [processQueueTable EXCEPT ![m] =
            IF cidAll[m] = {} THEN held
            ELSE IF WaitForRelease THEN taken \cap free
            ELSE taken]
        /\ UNCHANGED <<brokerVars, hasNotified>>

-----------------------------------------------------------------------------
Next ==
    \/ \E m \in Members, b \in Brokers :
        \/ RegisterConsumer(m, b)
        \/ UnregisterConsumer(m, b)
        \/ CloseChannel(m, b)
        \/ ScanNotActiveChannel(m, b)
        \/ DoRebalance(m, b)
    \/ \E m \in Members :
        \/ Join(m) \/ Leave(m) \/ Crash(m)
        \/ LoseNotice(m)
        \/ NotifyConsumerIdsChanged(m)
        \/ RebalanceByTopic(m, MqAll[m])

(***************************************************************************)
(* Brokers notice, notices arrive or are lost, and each member goes on     *)
(* rebalancing.  Notices are finitely many, since changes of tables are,   *)
(* so that one condition does for all of them.                             *)
(***************************************************************************)
Fairness ==
    /\ WF_vars(G!BrokersNotice /\ UNCHANGED memberVars)
    /\ WF_vars(\E m \in Members : NotifyConsumerIdsChanged(m))
    /\ \A m \in Members :
        /\ WF_vars(\E b \in Brokers : DoRebalance(m, b))
        /\ WF_vars(RebalanceByTopic(m, MqAll[m]))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* REBAL-001.  Perturbations are bounded, so that in every behaviour there *)
(* is a last one: after it every queue comes to have one owner.            *)
(***************************************************************************)
Converges == <>[](Running # {} => \A q \in Queues : Cardinality(Owners(q)) = 1)

(***************************************************************************)
(* OFFSET-007, as far as rebalancing matters to it: no queue is left alone *)
(* for ever.  OffsetCommit takes this for granted, and shows the rest.     *)
(***************************************************************************)
EveryQueueServed == \A q \in Queues : []<>(Running # {} => Owners(q) # {})

ListsConverge == G!ListsConverge

(***************************************************************************)
(* Ideals: REBAL-002 and REBAL-003.                                        *)
(***************************************************************************)
ExclusiveOwner == \A q \in Queues : Cardinality(Owners(q)) <= 1
NeverUnowned == \A q \in Queues : Owners(q) # {}

(***************************************************************************)
(* Where each member holds what it computes from the right list, they      *)
(* hold, also when changes went before, and nothing moves.  That members   *)
(* come to hold it by rebalancing: MC_RebalancedSince (REBAL-003,          *)
(* REBAL-010).                                                             *)
(***************************************************************************)
ListsAreRight ==
    /\ \A b \in Brokers : consumerTable[b] = Running
    /\ \A m \in Running : cidAll[m] \in {NoList, Running}

Balanced ==
    /\ ListsAreRight
    /\ \A m \in Running : processQueueTable[m] = Allocate(m, MqAll[m], Running)

BalancedIsOwnedOnce == Running # {} /\ Balanced => ExclusiveOwner /\ NeverUnowned

StaysBalanced == [][Balanced /\ ListsAreRight' /\ Running' = Running => Balanced']_vars

(***************************************************************************)
(* Broken, to show that the models are not empty: a member does use a list *)
(* that no broker would give any more; members do rebalance.               *)
(***************************************************************************)
ListsAreFresh ==
    \A m \in Members : cidAll[m] = NoList \/ \E b \in Brokers : cidAll[m] = consumerTable[b]
NeverRebalances == \A m \in Members : cidAll[m] = NoList
=============================================================================
