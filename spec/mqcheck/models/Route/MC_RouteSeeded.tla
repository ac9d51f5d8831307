---------------------------- MODULE MC_RouteSeeded ----------------------------
(***************************************************************************)
(* What public reports tell of routes: each is Route with one step more,   *)
(* or operators changed.  The catalogue of defects says where each comes   *)
(* from.                                                                   *)
(***************************************************************************)
EXTENDS Route

(***************************************************************************)
(* A scan finds a process silent and puts its removal into a queue, where  *)
(* it is carried out without another look.                                 *)
(***************************************************************************)
DecideRemoval(p) ==
    /\ IsSilent(p)
    /\ network' = network \cup {Request(p)}
    /\ Part(p)
    /\ UNCHANGED <<brokerAddrTable, brokerLiveTable, topicQueueTable, running, role, topics>>

CarryOut(m) ==
    /\ m \in network
    /\ network' = network \ {m}
    /\ Remove(m.process, Without(brokerAddrTable, m.process))
    /\ UNCHANGED <<ghostVars, running, role, topics, perturbations>>

RemovesLate ==
    /\ Init
    /\ [][\/ \E p \in Processes :
                RegisterBroker(p) \/ DecideRemoval(p) \/ Die(p) \/ Switch(p)
          \/ \E p \in Processes, t \in Topics : CreateTopic(p, t)
          \/ \E m \in Requests : CarryOut(m)
          \/ Restart]_vars
    /\ \A p \in Processes :
        /\ WF_vars(RegisterBroker(p))
        /\ WF_vars(p \notin running /\ DecideRemoval(p))
    /\ WF_vars(\E m \in Requests : CarryOut(m))

(***************************************************************************)
(* In place of UnregisterBroker: what has the id of the request goes, and  *)
(* whose it is is not asked.                                               *)
(***************************************************************************)
UnregisterById(m) ==
    /\ m \in network
    /\ network' = network \ {m}
    /\ Remove(m.process, [brokerAddrTable EXCEPT ![m.brokerId] = None])
    /\ Part(m.process)
    /\ UNCHANGED <<running, role, topics, perturbations>>

(***************************************************************************)
(* In place of TakesOneAsAll and Registered: a report of one topic counts  *)
(* as a registration, and one that names the same version brings nothing.  *)
(***************************************************************************)
OneIsAll == TRUE

RegisteredIfNew(p) == IF brokerLiveTable[p] = Version THEN topicQueueTable
                      ELSE topicQueueTable \cup topics
=============================================================================
