-------------------------------- MODULE Route --------------------------------
(***************************************************************************)
(* Which processes of a broker, and which of its topics, are in the routes *)
(* of one nameserver.  Twin of mqspec/core/route.py.                       *)
(*                                                                         *)
(* A process registers with its broker id every 30 s, the master with its  *)
(* topics; and with one topic alone when that is made.  It leaves the      *)
(* routes when it says so, and when it was silent for too long.  The       *)
(* nameserver keeps all of it in memory.                                   *)
(*                                                                         *)
(* Modelled: one broker with a master and a slave; processes that stop,    *)
(* die, are late, or take the other's place; requests to unregister that   *)
(* come late; a nameserver that starts again; all bounded by               *)
(* MaxPerturbations.  A process that comes back is another one.            *)
(*                                                                         *)
(* Left out: several brokers and nameservers, which do not meet; states of *)
(* brokers, by which an older registration is ignored; acting masters;     *)
(* permissions; administrators; a report of one topic that is lost.        *)
(*                                                                         *)
(* Not in the core, being the environment: running, role, topics, network, *)
(* perturbations; CreateTopic, Switch, Shutdown, Die, Restart; and         *)
(* ScanNotActiveBroker, which is expired_brokers and UnregisterBroker.     *)
(* Ghosts: heardOf, heardAs.                                               *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Processes,         \* of one broker
    Master,            \* the one that has broker id 0 at the beginning
    Topics,            \* that the broker may come to have
    InitialTopics,     \* that it has at the beginning
    MaxPerturbations,  \* how many stops, deaths, late scans, switches and restarts
    None               \* nobody, nothing

VARIABLES
    brokerAddrTable,   \* broker id -> the process that the routes have, or None
    brokerLiveTable,   \* process -> the version of the topics that it registered, or None
    topicQueueTable,   \* the topics that have a route
    running,           \* the processes that are there
    role,              \* process -> the broker id that it has
    topics,            \* the broker's topics, which its processes share
    network,           \* requests to unregister that are on their way
    heardOf,           \* broker id -> the process that registered with it last, or None
    heardAs,           \* process -> the broker id of its last registration; None once it is gone
    perturbations      \* how many there have been

ghostVars == <<heardOf, heardAs>>
vars == <<brokerAddrTable, brokerLiveTable, topicQueueTable, running, role, topics, network,
          ghostVars, perturbations>>

Ids == {0, 1}
Version == Cardinality(topics)

Perturb ==
    /\ perturbations < MaxPerturbations
    /\ perturbations' = perturbations + 1

Nobody == [i \in Ids |-> None]
Without(table, p) == [i \in Ids |-> IF table[i] = p THEN None ELSE table[i]]
With(table, i, p) == [Without(table, p) EXCEPT ![i] = p]

Hear(p) ==
    /\ heardOf' = [heardOf EXCEPT ![role[p]] = p]
    /\ heardAs' = [heardAs EXCEPT ![p] = role[p]]
Part(p) ==
    /\ heardAs' = [heardAs EXCEPT ![p] = None]
    /\ UNCHANGED heardOf

Init ==
    /\ brokerAddrTable = Nobody
    /\ brokerLiveTable = [p \in Processes |-> None]
    /\ topicQueueTable = {}
    /\ running = Processes
    /\ role = [p \in Processes |-> IF p = Master THEN 0 ELSE 1]
    /\ topics = InitialTopics
    /\ network = {}
    /\ heardOf = Nobody
    /\ heardAs = [p \in Processes |-> None]
    /\ perturbations = 0

-----------------------------------------------------------------------------
(***************************************************************************)
(* What a master's registration makes of the topics: those that it has and *)
(* the routes do not are added, whatever its version is.                   *)
(***************************************************************************)
Registered(p) == topicQueueTable \cup topics

(***************************************************************************)
(* A report of one topic, while the routes have no master.  It would pass  *)
(* for all that the broker has, and is refused (NAMESRV-005); a slave that *)
(* became the master has lost its former id with it.                       *)
(***************************************************************************)
TakesOneAsAll == FALSE

RegisterBroker(p) ==
    /\ p \in running
    /\ brokerAddrTable' = With(brokerAddrTable, role[p], p)
    /\ brokerLiveTable' = [brokerLiveTable EXCEPT ![p] = Version]
    /\ topicQueueTable' = IF role[p] = 0 THEN Registered(p) ELSE topicQueueTable
    /\ Hear(p)
    /\ UNCHANGED <<running, role, topics, network, perturbations>>

(***************************************************************************)
(* The master's broker gets a topic, and tells of this one alone, which    *)
(* also takes the place of a master that is gone.                          *)
(***************************************************************************)
CreateTopic(p, t) ==
    /\ p \in running /\ role[p] = 0
    /\ t \notin topics
    /\ topics' = topics \cup {t}
    /\ IF brokerAddrTable[0] # None \/ TakesOneAsAll
       THEN /\ brokerAddrTable' = With(brokerAddrTable, 0, p)
            /\ brokerLiveTable' = [brokerLiveTable EXCEPT ![p] = Cardinality(topics')]
            /\ topicQueueTable' = topicQueueTable \cup {t}
            /\ Hear(p)
       ELSE /\ brokerAddrTable' = Without(brokerAddrTable, p)
            /\ Part(p)
            /\ UNCHANGED <<brokerLiveTable, topicQueueTable>>
    /\ UNCHANGED <<running, role, network, perturbations>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A process goes out of the routes, by its address; with the last one     *)
(* all topics go.                                                          *)
(***************************************************************************)
Remove(p, table) ==
    /\ brokerAddrTable' = table
    /\ brokerLiveTable' = [brokerLiveTable EXCEPT ![p] = None]
    /\ topicQueueTable' = IF table = Nobody THEN {} ELSE topicQueueTable

(***************************************************************************)
(* A request to unregister arrives.                                        *)
(***************************************************************************)
UnregisterBroker(m) ==
    /\ m \in network
    /\ network' = network \ {m}
    /\ Remove(m.process, Without(brokerAddrTable, m.process))
    /\ Part(m.process)
    /\ UNCHANGED <<running, role, topics, perturbations>>

(***************************************************************************)
(* A process was not heard of for 120 s: it is dead, or late, which is a   *)
(* perturbation.                                                           *)
(***************************************************************************)
IsSilent(p) ==
    /\ brokerLiveTable[p] # None
    /\ IF p \in running THEN Perturb ELSE UNCHANGED perturbations

ScanNotActiveBroker(p) ==
    /\ IsSilent(p)
    /\ Remove(p, Without(brokerAddrTable, p))
    /\ Part(p)
    /\ UNCHANGED <<running, role, topics, network>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A process stops as it should, or dies; another takes the master's place *)
(* once that is gone; the nameserver starts again.                         *)
(***************************************************************************)
Request(p) == [process |-> p, brokerId |-> role[p]]

Shutdown(p) ==
    /\ Perturb
    /\ p \in running
    /\ running' = running \ {p}
    /\ network' = network \cup {Request(p)}
    /\ UNCHANGED <<brokerAddrTable, brokerLiveTable, topicQueueTable, role, topics, ghostVars>>

Die(p) ==
    /\ Perturb
    /\ p \in running
    /\ running' = running \ {p}
    /\ UNCHANGED <<brokerAddrTable, brokerLiveTable, topicQueueTable, role, topics, network,
                   ghostVars>>

Switch(p) ==
    /\ Perturb
    /\ p \in running /\ role[p] # 0
    /\ \A q \in running : role[q] # 0
    /\ role' = [role EXCEPT ![p] = 0]
    /\ UNCHANGED <<brokerAddrTable, brokerLiveTable, topicQueueTable, running, topics, network,
                   ghostVars>>

Restart ==
    /\ Perturb
    /\ brokerAddrTable' = Nobody
    /\ brokerLiveTable' = [p \in Processes |-> None]
    /\ topicQueueTable' = {}
    /\ heardOf' = Nobody
    /\ heardAs' = [p \in Processes |-> None]
    /\ UNCHANGED <<running, role, topics, network>>

-----------------------------------------------------------------------------
Requests == [process : Processes, brokerId : Ids]

Next ==
    \/ \E p \in Processes :
        \/ RegisterBroker(p) \/ ScanNotActiveBroker(p)
        \/ Shutdown(p) \/ Die(p) \/ Switch(p)
    \/ \E p \in Processes, t \in Topics : CreateTopic(p, t)
    \/ \E m \in Requests : UnregisterBroker(m)
    \/ Restart

(***************************************************************************)
(* Who runs registers again and again; who does not is noticed.            *)
(***************************************************************************)
Fairness ==
    /\ \A p \in Processes :
        /\ WF_vars(RegisterBroker(p))
        /\ WF_vars(p \notin running /\ ScanNotActiveBroker(p))
    /\ WF_vars(\E m \in Requests : UnregisterBroker(m))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
TypeOK ==
    /\ brokerAddrTable \in [Ids -> Processes \cup {None}]
    /\ brokerLiveTable \in [Processes -> {None} \cup 0..Cardinality(Topics)]
    /\ topicQueueTable \subseteq topics
    /\ running \subseteq Processes
    /\ role \in [Processes -> Ids]
    /\ topics \subseteq Topics
    /\ network \subseteq Requests
    /\ heardOf \in [Ids -> Processes \cup {None}]
    /\ heardAs \in [Processes -> Ids \cup {None}]
    /\ perturbations \in 0..MaxPerturbations

(***************************************************************************)
(* NAMESRV-001, NAMESRV-015.  Who registered last with a broker id, and    *)
(* with no other since, and is not gone, is in the routes.                 *)
(***************************************************************************)
IsThere(i, p) == heardOf[i] = p /\ heardAs[p] = i

RegisteredIsListed ==
    \A i \in Ids, p \in Processes : IsThere(i, p) => brokerAddrTable[i] = p

(***************************************************************************)
(* NAMESRV-009, NAMESRV-020, NAMESRV-028.  Nobody else is, and once all    *)
(* are gone there are no topics.                                           *)
(***************************************************************************)
GoneIsNotListed ==
    /\ \A i \in Ids, p \in Processes : brokerAddrTable[i] = p => IsThere(i, p)
    /\ (\A p \in Processes : brokerLiveTable[p] = None) => topicQueueTable = {}

(***************************************************************************)
(* NAMESRV-027.  While a process is in the routes the topics stay.         *)
(***************************************************************************)
TopicsStay == [][brokerAddrTable' # Nobody => topicQueueTable \subseteq topicQueueTable']_vars

(***************************************************************************)
(* NAMESRV-001.  In the end the routes have who runs, and nobody else; and *)
(* all topics, while there is a master.                                    *)
(***************************************************************************)
RoutesConverge ==
    <>[](\A i \in Ids : IF \E p \in running : role[p] = i
                        THEN brokerAddrTable[i] \in running
                        ELSE brokerAddrTable[i] = None)

TopicsConverge == <>[]((\E p \in running : role[p] = 0) => topicQueueTable = topics)

(***************************************************************************)
(* Broken, to show that the model is not empty: a request to unregister    *)
(* comes when another has the place.                                       *)
(***************************************************************************)
NeverLate == \A m \in network : brokerAddrTable[m.brokerId] \in {m.process, None}
=============================================================================
