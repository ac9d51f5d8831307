--------------------------- MODULE TRACE_Rebalance ---------------------------
(***************************************************************************)
(* How the members of one group came by the queues of one topic, as steps  *)
(* of Rebalance.                                                           *)
(*                                                                         *)
(* | action                   | process | x          | y       |           *)
(* | Join, Crash              | member  |            |         |           *)
(* | RegisterConsumer         | broker  | member     |         |           *)
(* | CloseChannel             | broker  | member     |         |           *)
(* | ScanNotActiveChannel     | broker  | member     |         |           *)
(* | NotifyAgain, Restart     | broker  |            |         |           *)
(* | NotifyConsumerIdsChanged | member  |            |         |           *)
(* | Wakeup                   | member  |            |         |           *)
(* | DoRebalance              | member  | broker     | members |           *)
(* | UpdateRoute              | member  | all queues |         |           *)
(* | RebalanceByTopic         | member  | its queues |         |           *)
(* | RebalanceInPart          | member  | its queues |         |           *)
(* | Unknowing                | member  |            |         |           *)
(* | Drop                     | member  | a queue    |         |           *)
(*                                                                         *)
(* Queues are numbers, in their order; its queues are those that it holds  *)
(* afterwards.                                                             *)
(*                                                                         *)
(* Steps of the reference that Rebalance leaves out: a member's route      *)
(* changes (UpdateRoute); a queue that a member takes is not started on,   *)
(* since a broker does not lock it or say where to begin, or the member is *)
(* killed before (RebalanceInPart); nobody tells it who is in the group or *)
(* where the topic is (Unknowing); it gives a queue up to begin anew       *)
(* elsewhere (Drop), or wakes itself to try again (Wakeup); several        *)
(* notices are on their way to one member; a member that comes back is the *)
(* one that it was; the heartbeat of one that is gone comes late; and what *)
(* TRACE_Group says.                                                       *)
(*                                                                         *)
(* Hidden: how a member ends, so that Leave is not told from Crash; that   *)
(* members which write no trace join, and are silent before they expire.   *)
(***************************************************************************)
EXTENDS Rebalance, Trace

VARIABLES
    mqAll,  \* member -> the queues that its route shows now
    more    \* member -> how many notices are on their way to it beside the one in notices

traceOnlyVars == <<mqAll, more>>

X == Event[4]
Y == Event[5]

Elements(sequence) == {sequence[i] : i \in DOMAIN sequence}

TInit ==
    /\ Init
    /\ TraceInit
    /\ mqAll = [m \in Members |-> {}]
    /\ more = [m \in Members |-> 0]

-----------------------------------------------------------------------------
(***************************************************************************)
(* What brokers do.                                                        *)
(***************************************************************************)
NotifyAgain(b) ==
    G!Change(b, consumerTable[b]) /\ UNCHANGED <<status, perturbations, memberVars>>

Restart(b) ==
    /\ consumerTable' = [consumerTable EXCEPT ![b] = {}]
    /\ UNCHANGED <<notices, status, perturbations, memberVars>>

RegisterLate(m, b) ==
    /\ status[m] = "crashed"
    /\ m \notin consumerTable[b]
    /\ G!Change(b, consumerTable[b] \cup {m})
    /\ UNCHANGED <<status, perturbations, memberVars>>

Notify ==
    more' = [m \in Members |->
        IF m \in notices \cap consumerTable'[Process] THEN more[m] + 1 ELSE more[m]]

BrokerStep(b) ==
    CASE Action = "RegisterConsumer" ->
            (RegisterConsumer(X, b) \/ RegisterLate(X, b)) /\ Notify
      [] Action = "CloseChannel" -> CloseChannel(X, b) /\ Notify
      [] Action = "NotifyAgain" -> NotifyAgain(b) /\ Notify
      [] Action = "ScanNotActiveChannel" -> ScanNotActiveChannel(X, b) /\ UNCHANGED more
      [] Action = "Restart" -> Restart(b) /\ UNCHANGED more
      [] OTHER -> FALSE

-----------------------------------------------------------------------------
(***************************************************************************)
(* What members do.                                                        *)
(***************************************************************************)
ComeBack(m) ==
    /\ status[m] = "crashed"
    /\ status' = [status EXCEPT ![m] = "in"]
    /\ hasNotified' = [hasNotified EXCEPT ![m] = TRUE]
    /\ UNCHANGED <<consumerTable, notices, perturbations, processQueueTable, cidAll>>

NotifyOneOfMany(m) ==
    /\ more' = [more EXCEPT ![m] = @ - 1]
    /\ hasNotified' = [hasNotified EXCEPT ![m] = TRUE]
    /\ UNCHANGED <<brokerVars, processQueueTable, cidAll>>

Wakeup(m) ==
    /\ m \in Running
    /\ hasNotified' = [hasNotified EXCEPT ![m] = TRUE]
    /\ UNCHANGED <<brokerVars, processQueueTable, cidAll>>

Unknowing(m) ==
    /\ m \in Running
    /\ hasNotified' = [hasNotified EXCEPT ![m] = FALSE]
    /\ UNCHANGED <<brokerVars, processQueueTable, cidAll>>

RebalanceInPart(m) ==
    /\ cidAll[m] # NoList
    /\ Elements(X) \subseteq Allocate(m, mqAll[m], cidAll[m])
    /\ processQueueTable' = [processQueueTable EXCEPT ![m] = Elements(X)]
    /\ cidAll' = [cidAll EXCEPT ![m] = NoList]
    /\ UNCHANGED <<brokerVars, hasNotified>>

Drop(m) ==
    /\ X \in processQueueTable[m]
    /\ processQueueTable' = [processQueueTable EXCEPT ![m] = @ \ {X}]
    /\ UNCHANGED <<brokerVars, hasNotified, cidAll>>

MemberStep(m) ==
    CASE Action = "Join" -> Join(m) \/ ComeBack(m)
      [] Action = "Crash" -> Crash(m)
      [] Action = "Wakeup" -> Wakeup(m)
      [] Action = "Unknowing" -> Unknowing(m)
      [] Action = "DoRebalance" -> DoRebalance(m, X) /\ consumerTable[X] = Elements(Y)
      [] Action = "RebalanceByTopic" ->
            RebalanceByTopic(m, mqAll[m]) /\ processQueueTable'[m] = Elements(X)
      [] Action = "RebalanceInPart" -> RebalanceInPart(m)
      [] Action = "Drop" -> Drop(m)
      [] OTHER -> FALSE

UpdateRoute(m) ==
    /\ m \in Running
    /\ mqAll' = [mqAll EXCEPT ![m] = Elements(X)]
    /\ UNCHANGED <<vars, more>>

Step ==
    CASE Process \notin Members -> BrokerStep(Process) /\ UNCHANGED mqAll
      [] Action = "UpdateRoute" -> UpdateRoute(Process)
      [] Action = "NotifyConsumerIdsChanged" ->
            /\ IF more[Process] > 0 THEN NotifyOneOfMany(Process)
               ELSE NotifyConsumerIdsChanged(Process) /\ UNCHANGED more
            /\ UNCHANGED mqAll
      [] OTHER -> MemberStep(Process) /\ UNCHANGED traceOnlyVars

ReadStep == ReadEvent /\ Step

TNext == ReadStep \/ (EditTrace /\ UNCHANGED <<vars, traceOnlyVars>>)

Shown ==
    [consumerTable |-> [b \in {p \in Brokers : p \notin Members} |-> consumerTable[b]],
     notices |-> notices, status |-> status, processQueueTable |-> processQueueTable,
     hasNotified |-> hasNotified, cidAll |-> cidAll, mqAll |-> mqAll]

TellAll == Tell(TRUE, ENABLED ReadStep, Shown)
=============================================================================
