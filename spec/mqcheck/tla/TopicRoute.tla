------------------------------ MODULE TopicRoute ------------------------------
(***************************************************************************)
(* A topic has queues that are written and queues that are read.  An       *)
(* administrator changes how many at the broker, which registers them with *)
(* the nameserver, from where members and producers learn of them, each at *)
(* a time of its own.  Meanwhile they go by routes that are out of date.   *)
(* What Rebalance leaves out.  Twin of mqspec/core/metadata.py,            *)
(* mqspec/core/route.py, mqspec/core/rebalance.py and                      *)
(* mqspec/core/offset_commit.py.                                           *)
(*                                                                         *)
(* Modelled: numbers of queues that grow and shrink, together or apart;    *)
(* the nameserver's route and that of each client; a group whose members   *)
(* stay, each of which divides the queues that it knows of averagely; what *)
(* is stored in each queue, and how far the group has come there.          *)
(*                                                                         *)
(* Left out: several brokers; permissions, which take all queues away at   *)
(* once; changes of membership, and lists that differ (Rebalance);         *)
(* progress that is not stored at once (OffsetCommit).                     *)
(*                                                                         *)
(* Not in the core, being the environment: topicConfig, routeData,         *)
(* memberRoute, producerRoute, maxOffset, consumed, changes;               *)
(* UpdateMemberRoute, UpdateProducerRoute, SendMessage.                    *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS
    Members,         \* 1 .. n, in the order of their ids
    MaxQueues,
    MaxMessages,     \* how many messages producers send
    MaxChanges,      \* how often the numbers are changed
    DrainsFirst,     \* TRUE: queues that are read are taken away only when nobody writes to them
                     \* and all was read, and none is ever written that is not read
    \* Defects, FALSE in the protocol as it is:
    RoutesOnce,      \* a member learns of its route at its start only
    ReadsWritten     \* a member takes the queues that are written for those that are read

VARIABLES
    topicConfig,       \* the broker's numbers of queues
    routeData,         \* the nameserver's
    memberRoute,       \* member -> what it knows
    producerRoute,     \* what producers know
    processQueueTable, \* member -> the queues that it holds
    maxOffset,         \* queue -> how many messages it has
    consumed,          \* queue -> how many of them the group has consumed
    changes

routes == <<topicConfig, routeData, memberRoute, producerRoute>>
vars == <<routes, processQueueTable, maxOffset, consumed, changes>>

A == INSTANCE Allocation WITH
        MaxMembers <- 0, Strategies <- {}, Defect <- "none",
        cid <- 0, view <- 0, config <- 0, due <- 0, owned <- 0, before <- 0

Queues == 0 .. MaxQueues - 1
Numbers == [read : 1 .. MaxQueues, write : 1 .. MaxQueues]
Max(x, y) == IF x > y THEN x ELSE y

TypeOK ==
    /\ topicConfig \in Numbers
    /\ routeData \in Numbers
    /\ memberRoute \in [Members -> Numbers]
    /\ producerRoute \in Numbers
    /\ processQueueTable \in [Members -> SUBSET Queues]
    /\ maxOffset \in [Queues -> 0 .. MaxMessages]
    /\ \A q \in Queues : consumed[q] \in 0 .. maxOffset[q]
    /\ changes \in 0 .. MaxChanges

(***************************************************************************)
(* A member's slice of the queues that are read, as far as it knows.       *)
(***************************************************************************)
SubscribeQueues(m) ==
    0 .. (IF ReadsWritten THEN memberRoute[m].write ELSE memberRoute[m].read) - 1

Allocate(m) ==
    A!AverageSlice(Cardinality(SubscribeQueues(m)), Cardinality(Members), m - 1)

Init ==
    /\ topicConfig \in {n \in Numbers : n.read = n.write}
    /\ routeData = topicConfig
    /\ memberRoute = [m \in Members |-> topicConfig]
    /\ producerRoute = topicConfig
    /\ processQueueTable = [m \in Members |-> Allocate(m)]
    /\ maxOffset = [q \in Queues |-> 0]
    /\ consumed = [q \in Queues |-> 0]
    /\ changes = 0

-----------------------------------------------------------------------------
(***************************************************************************)
(* An administrator changes the numbers.  One who drains first waits until *)
(* nobody writes to what is to be taken away, and all of it was read.      *)
(***************************************************************************)
Known == {topicConfig, routeData, producerRoute}

IsDrained(numbers) ==
    /\ numbers.write <= numbers.read
    /\ \A known \in Known : known.write <= numbers.read
    /\ \A q \in Queues : q >= numbers.read => consumed[q] = maxOffset[q]

UpdateTopic(numbers) ==
    /\ changes < MaxChanges
    /\ numbers # topicConfig
    /\ DrainsFirst => IsDrained(numbers)
    /\ topicConfig' = numbers
    /\ changes' = changes + 1
    /\ UNCHANGED <<routeData, memberRoute, producerRoute, processQueueTable, maxOffset, consumed>>

(***************************************************************************)
(* The broker registers, and clients ask every 30 s.                       *)
(***************************************************************************)
RegisterBroker ==
    /\ routeData' = topicConfig
    /\ UNCHANGED <<topicConfig, memberRoute, producerRoute, processQueueTable, maxOffset, consumed,
                   changes>>

UpdateMemberRoute(m) ==
    /\ ~RoutesOnce
    /\ memberRoute' = [memberRoute EXCEPT ![m] = routeData]
    /\ UNCHANGED <<topicConfig, routeData, producerRoute, processQueueTable, maxOffset, consumed,
                   changes>>

UpdateProducerRoute ==
    /\ producerRoute' = routeData
    /\ UNCHANGED <<topicConfig, routeData, memberRoute, processQueueTable, maxOffset, consumed,
                   changes>>

(***************************************************************************)
(* A member rebalances, over the queues that it knows of.                  *)
(***************************************************************************)
RebalanceByTopic(m) ==
    /\ processQueueTable' = [processQueueTable EXCEPT ![m] = Allocate(m)]
    /\ UNCHANGED <<routes, maxOffset, consumed, changes>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A producer sends to a queue that is written, as far as it knows.  The   *)
(* broker takes it for any queue that it has.                              *)
(***************************************************************************)
Stored ==
    LET Sum[q \in Queues] == maxOffset[q] + (IF q = 0 THEN 0 ELSE Sum[q - 1])
    IN  Sum[MaxQueues - 1]

SendMessage(q) ==
    /\ Stored < MaxMessages
    /\ q < producerRoute.write
    /\ q < Max(topicConfig.read, topicConfig.write)
    /\ maxOffset' = [maxOffset EXCEPT ![q] = @ + 1]
    /\ UNCHANGED <<routes, processQueueTable, consumed, changes>>

(***************************************************************************)
(* A member pulls from a queue that it holds.  The broker refuses pulls of *)
(* queues that are not read.                                               *)
(***************************************************************************)
PullMessage(m, q) ==
    /\ q \in processQueueTable[m]
    /\ q < topicConfig.read
    /\ consumed[q] < maxOffset[q]
    /\ consumed' = [consumed EXCEPT ![q] = @ + 1]
    /\ UNCHANGED <<routes, processQueueTable, maxOffset, changes>>

Next ==
    \/ \E numbers \in Numbers : UpdateTopic(numbers)
    \/ RegisterBroker
    \/ UpdateProducerRoute
    \/ \E m \in Members :
          \/ UpdateMemberRoute(m)
          \/ RebalanceByTopic(m)
          \/ \E q \in Queues : PullMessage(m, q)
    \/ \E q \in Queues : SendMessage(q)

\* Between two changes each of these steps changes something only finitely often, so that each is
\* taken if always one of them is.
Fairness ==
    WF_vars(\/ RegisterBroker
            \/ UpdateProducerRoute
            \/ \E m \in Members :
                  \/ UpdateMemberRoute(m)
                  \/ RebalanceByTopic(m)
                  \/ \E q \in Queues : PullMessage(m, q))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
Owners(q) == {m \in Members : q \in processQueueTable[m]}

(***************************************************************************)
(* After the last change every queue that is read comes to have one owner  *)
(* (REBAL-007).                                                            *)
(***************************************************************************)
RoutesConverge ==
    <>[](\A q \in Queues : Cardinality(Owners(q)) = IF q < topicConfig.read THEN 1 ELSE 0)

(***************************************************************************)
(* Everything that is stored is consumed: where queues are drained before  *)
(* they are taken away (REBAL-008), and not without (REBAL-009).           *)
(***************************************************************************)
EverythingIsRead == <>[](consumed = maxOffset)

(***************************************************************************)
(* Often believed: in a group whose members stay no queue has two owners   *)
(* (REBAL-010).                                                            *)
(***************************************************************************)
ExclusiveOwner == \A q \in Queues : Cardinality(Owners(q)) <= 1

(***************************************************************************)
(* Witnesses, to be violated: a message lies in a queue that is not read;  *)
(* a message lies in a queue that is not written any more, and is read.    *)
(***************************************************************************)
NeverOutOfReach == \A q \in Queues : q >= topicConfig.read => consumed[q] = maxOffset[q]

NeverDrains ==
    \A q \in topicConfig.write .. topicConfig.read - 1 : consumed[q] = maxOffset[q]
===============================================================================
