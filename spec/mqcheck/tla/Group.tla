-------------------------------- MODULE Group --------------------------------
(***************************************************************************)
(* Membership of one consumer group, as its brokers see it.  Twin of       *)
(* mqspec/core/group.py.                                                   *)
(*                                                                         *)
(* Every broker keeps a table of its own of the members that it heard of.  *)
(* A change is told to the members that are in that broker's table, by a   *)
(* one-way notice.  Brokers never compare their tables.                    *)
(*                                                                         *)
(* Modelled: several brokers; joins, graceful leaves, crashes and broken   *)
(* connections, all bounded by MaxPerturbations; recovery, which is not    *)
(* bounded; notices that are late or lost; channels that expire without a  *)
(* notice.  A member that comes back is another member, since it has       *)
(* another connection and, by default, another client id.                  *)
(*                                                                         *)
(* Notices "none" is for where the members rebalance at any moment anyway: *)
(* then a notice only makes them do what they may do without it, so that   *)
(* leaving all notices out loses no behaviour of who holds what.           *)
(*                                                                         *)
(* Left out: subscriptions and message models, which change only who is    *)
(* notified when; heartbeats that refresh a member that is known; time: a  *)
(* channel expires, and a heartbeat comes, at any moment. A broker that    *)
(* starts again, and knows nobody before the next heartbeats, is in        *)
(* MC_BrokerForgets, of Rebalance.                                         *)
(*                                                                         *)
(* Not in the core, being the environment: notices, status, perturbations; *)
(* Join, Leave, Crash, LoseNotice.                                         *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Brokers,           \* the brokers of the topic
    Members,           \* whoever may ever be a member
    InitialMembers,    \* who is a member at the beginning, known to all brokers
    MaxPerturbations,  \* how many joins, leaves, crashes and broken connections
    Notices            \* "reliable", "lossy", or "none"

VARIABLES
    consumerTable,     \* broker -> the members that it knows, by their channels
    notices,           \* the members to whom a notice is on its way
    status,            \* member -> "out", "in", "left" or "crashed"
    perturbations      \* how many there have been

groupVars == <<consumerTable, notices, status, perturbations>>

Running == {m \in Members : status[m] = "in"}

GroupTypeOK ==
    /\ consumerTable \in [Brokers -> SUBSET Members]
    /\ notices \subseteq Members
    /\ status \in [Members -> {"out", "in", "left", "crashed"}]
    /\ perturbations \in 0..MaxPerturbations

GroupInit ==
    /\ consumerTable = [b \in Brokers |-> InitialMembers]
    /\ notices = {}
    /\ status = [m \in Members |-> IF m \in InitialMembers THEN "in" ELSE "out"]
    /\ perturbations = 0

Perturb ==
    /\ perturbations < MaxPerturbations
    /\ perturbations' = perturbations + 1

-----------------------------------------------------------------------------
(***************************************************************************)
(* A process starts, stops as it should, or dies.                          *)
(***************************************************************************)
Join(m) ==
    /\ Perturb
    /\ status[m] = "out"
    /\ status' = [status EXCEPT ![m] = "in"]
    /\ UNCHANGED <<consumerTable, notices>>

Leave(m) ==
    /\ Perturb
    /\ status[m] = "in"
    /\ status' = [status EXCEPT ![m] = "left"]
    /\ UNCHANGED <<consumerTable, notices>>

Crash(m) ==
    /\ Perturb
    /\ status[m] = "in"
    /\ status' = [status EXCEPT ![m] = "crashed"]
    /\ UNCHANGED <<consumerTable, notices>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A broker's table changes, and everyone who is in it then is notified.   *)
(***************************************************************************)
Change(b, members) ==
    /\ consumerTable' = [consumerTable EXCEPT ![b] = members]
    /\ notices' = IF Notices = "none" THEN {} ELSE notices \cup members

(***************************************************************************)
(* A heartbeat from a channel that is new to the broker.  The newcomer is  *)
(* notified too.                                                           *)
(***************************************************************************)
RegisterConsumer(m, b) ==
    /\ status[m] = "in"
    /\ m \notin consumerTable[b]
    /\ Change(b, consumerTable[b] \cup {m})
    /\ UNCHANGED <<status, perturbations>>

(***************************************************************************)
(* A member that leaves as it should says so to each broker.               *)
(***************************************************************************)
UnregisterConsumer(m, b) ==
    /\ status[m] = "left"
    /\ m \in consumerTable[b]
    /\ Change(b, consumerTable[b] \ {m})
    /\ UNCHANGED <<status, perturbations>>

(***************************************************************************)
(* A connection ends: its process died, or, which is a perturbation, it    *)
(* broke, and the next heartbeat comes over another one.                   *)
(***************************************************************************)
CloseChannel(m, b) ==
    /\ m \in consumerTable[b]
    /\ \/ status[m] = "crashed" /\ UNCHANGED perturbations
       \/ status[m] = "in" /\ Perturb
    /\ Change(b, consumerTable[b] \ {m})
    /\ UNCHANGED status

(***************************************************************************)
(* The broker did not see the connection end, and removes the member after *)
(* 120 s without a heartbeat.  Nobody is notified.                         *)
(***************************************************************************)
ScanNotActiveChannel(m, b) ==
    /\ Notices # "reliable"
    /\ status[m] = "crashed"
    /\ m \in consumerTable[b]
    /\ consumerTable' = [consumerTable EXCEPT ![b] = @ \ {m}]
    /\ UNCHANGED <<notices, status, perturbations>>

(***************************************************************************)
(* A notice does not arrive.                                               *)
(***************************************************************************)
LoseNotice(m) ==
    /\ Notices = "lossy"
    /\ m \in notices
    /\ notices' = notices \ {m}
    /\ UNCHANGED <<consumerTable, status, perturbations>>

-----------------------------------------------------------------------------
GroupNext ==
    \/ \E m \in Members :
        Join(m) \/ Leave(m) \/ Crash(m) \/ LoseNotice(m)
    \/ \E m \in Members, b \in Brokers :
        \/ RegisterConsumer(m, b)
        \/ UnregisterConsumer(m, b)
        \/ CloseChannel(m, b)
        \/ ScanNotActiveChannel(m, b)

(***************************************************************************)
(* Heartbeats come, requests arrive, and connections of the dead end or    *)
(* expire.  Each of these steps is taken once for each cause, so that it   *)
(* is enough to ask that one of them is taken while any can be.            *)
(***************************************************************************)
BrokersNotice ==
    \E m \in Members, b \in Brokers :
        \/ RegisterConsumer(m, b)
        \/ UnregisterConsumer(m, b)
        \/ status[m] = "crashed" /\ (CloseChannel(m, b) \/ ScanNotActiveChannel(m, b))

GroupSpec == GroupInit /\ [][GroupNext]_groupVars /\ WF_groupVars(BrokersNotice)

-----------------------------------------------------------------------------
(***************************************************************************)
(* GROUP-011, GROUP-006: in the end all brokers have the same list, and it *)
(* is right.                                                               *)
(***************************************************************************)
ListsConverge == <>[](\A b \in Brokers : consumerTable[b] = Running)

(***************************************************************************)
(* GROUP-003, GROUP-005: who is in a broker's table when a member came, or *)
(* when one left that had not died, is told so.                            *)
(***************************************************************************)
IsTold(b) == consumerTable'[b] \subseteq notices'

ComingIsTold ==
    [][\A b \in Brokers : consumerTable'[b] \subseteq consumerTable[b] \/ IsTold(b)]_groupVars

LeavingIsTold ==
    [][\A b \in Brokers : \A m \in consumerTable[b] \ consumerTable'[b] :
           status[m] = "crashed" \/ IsTold(b)]_groupVars

(***************************************************************************)
(* Broken, to show that the model is not empty: brokers do differ, and not *)
(* only in who is dead.                                                    *)
(***************************************************************************)
ListsAgree ==
    \A b, c \in Brokers : consumerTable[b] \cap Running = consumerTable[c] \cap Running
=============================================================================
