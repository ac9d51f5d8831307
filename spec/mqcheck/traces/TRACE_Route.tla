----------------------------- MODULE TRACE_Route -----------------------------
(***************************************************************************)
(* What a nameserver had in its routes of one broker, as steps of Route.   *)
(*                                                                         *)
(* | action           | process    | x                | y                |  *)
(* | Tell             | nobody     | process, its id, |                  |  *)
(* |                  |            | its topics       |                  |  *)
(* | RegisterBroker   | nameserver | process          | the routes after |  *)
(* | RefuseBroker     | nameserver | process          | the routes after |  *)
(* | UnregisterBroker | nameserver | process          | the routes after |  *)
(* | PickTopicRoute   | nameserver | topic            | the processes    |  *)
(* | DeleteTopic      | nameserver | topic            |                  |  *)
(* | Restart          | nameserver |                  |                  |  *)
(*                                                                         *)
(* A process is an address.  The routes after a step are the addresses by  *)
(* broker id, from 0 on, "nobody" where an id is free, and the number of   *)
(* the broker's topics.  PickTopicRoute is what somebody who asked was     *)
(* told: the processes of the broker, none where the topic has no route    *)
(* that leads to it.                                                       *)
(*                                                                         *)
(* Tell is what a process is about to say of itself: its role, and topics; *)
(* a report of one topic has this one only.  It may be any.                *)
(*                                                                         *)
(* Steps of the reference that Route leaves out: DeleteTopic, by an        *)
(* administrator, and PickTopicRoute.  RefuseBroker is a CreateTopic of a  *)
(* broker that has no master in the routes (NAMESRV-005).                  *)
(*                                                                         *)
(* Hidden: running and network.  A process that is gone unregistered, lost *)
(* its connection, or was silent: nothing tells which, and all are         *)
(* ScanNotActiveBroker.  The versions of topics, and how many queues a     *)
(* topic has.                                                              *)
(* Left out, and refused where a trace has it: states of brokers, by which *)
(* an older registration is ignored; acting masters; topics that are put   *)
(* into the routes by an administrator, or deleted by a registration.      *)
(***************************************************************************)
EXTENDS Route, Sequences, Trace

X == Event[4]
Y == Event[5]

TraceIds == 0 .. TraceMaxId

TInit == Init /\ TraceInit

-----------------------------------------------------------------------------
Tells ==
    /\ role' = [role EXCEPT ![X[1]] = X[2]]
    /\ topics' = {X[i] : i \in 3 .. Len(X)}
    /\ UNCHANGED <<brokerAddrTable, brokerLiveTable, topicQueueTable, running, network, ghostVars,
                   perturbations>>

(***************************************************************************)
(* A first registration of one topic alone.  Who had another id has lost   *)
(* it then.                                                                *)
(***************************************************************************)
IsOneOfAll(p) == brokerAddrTable[role[p]] = None /\ Cardinality(topics) = 1

RefuseBroker(p) ==
    /\ IsOneOfAll(p)
    /\ brokerAddrTable' = Without(brokerAddrTable, p)
    /\ Part(p)
    /\ UNCHANGED <<brokerLiveTable, topicQueueTable, running, role, topics, network, perturbations>>

DeleteTopic(t) ==
    /\ t \in topicQueueTable
    /\ topicQueueTable' = topicQueueTable \ {t}
    /\ UNCHANGED <<brokerAddrTable, brokerLiveTable, running, role, topics, network, ghostVars,
                   perturbations>>

AddressTold(i) == IF i + 1 < Len(Y) /\ Y[i + 1] # "nobody" THEN Y[i + 1] ELSE None

RoutesAfter ==
    /\ \A i \in Ids : brokerAddrTable'[i] = AddressTold(i)
    /\ Cardinality(topicQueueTable') = Y[Len(Y)]

PickTopicRoute(t) ==
    IF t \in topicQueueTable THEN {brokerAddrTable[i] : i \in Ids} \ {None} ELSE {}

Step ==
    CASE Action = "Tell" -> Tells
      [] Action = "RegisterBroker" -> ~IsOneOfAll(X) /\ RegisterBroker(X) /\ RoutesAfter
      [] Action = "RefuseBroker" -> RefuseBroker(X) /\ RoutesAfter
      [] Action = "UnregisterBroker" -> ScanNotActiveBroker(X) /\ RoutesAfter
      [] Action = "PickTopicRoute" ->
            {Y[i] : i \in DOMAIN Y} = PickTopicRoute(X) /\ UNCHANGED vars
      [] Action = "DeleteTopic" -> DeleteTopic(X)
      [] Action = "Restart" -> Restart
      [] OTHER -> FALSE

ReadStep == ReadEvent /\ Step

TNext == ReadStep \/ (EditTrace /\ UNCHANGED vars)

(***************************************************************************)
(* A trace determines every step.                                          *)
(***************************************************************************)
TView == traceVars

Shown ==
    [brokerAddrTable |-> brokerAddrTable, topicQueueTable |-> topicQueueTable, role |-> role,
     topics |-> topics]

TellAll == Tell(TRUE, ENABLED ReadStep, Shown)
==============================================================================
