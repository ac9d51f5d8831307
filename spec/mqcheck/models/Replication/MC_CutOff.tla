------------------------------ MODULE MC_CutOff -----------------------------
(***************************************************************************)
(* A master that is cut off from its slaves, and runs on, while one of     *)
(* them is made master: for a while there are two, and producers send to   *)
(* either.  The old one hears of no slave any more, so that it answers     *)
(* only what it need not wait for.  It comes back as a slave, with all     *)
(* that its log has.  Groups that read from it are left out.               *)
(***************************************************************************)
EXTENDS Replication

VARIABLE
    cut    \* the masters that are cut off

cutVars == <<vars, cut>>

CutInit == Init /\ cut = {}

CutTypeOK == TypeOK /\ cut \subseteq Brokers \ running

(***************************************************************************)
(* Those that still wait at the old master are answered that their time is *)
(* up.                                                                     *)
(***************************************************************************)
CutOff(s) ==
    /\ failOvers < MaxFailOvers
    /\ {master, s} \subseteq running
    /\ s # master
    /\ failOvers' = failOvers + 1
    /\ master' = s
    /\ running' = running \ {master}
    /\ replaced' = replaced \cup {master}
    /\ cut' = cut \cup {master}
    /\ connectionList' = {}
    /\ waiting' = {}
    /\ UNCHANGED <<commitLog, acknowledged, messages, damaged, crashes, groupVars>>

AppendToCut(b) ==
    /\ b \in cut
    /\ messages < MaxMessages
    /\ messages' = messages + 1
    /\ commitLog' = [commitLog EXCEPT ![b] = Append(@, messages + 1)]
    /\ acknowledged' = IF InSyncReplicas = 1 THEN acknowledged \cup {messages + 1}
                       ELSE acknowledged
    /\ UNCHANGED <<connectionList, waiting, cut, groupVars, brokerVars>>

(***************************************************************************)
(* It is found, stopped, and started again as a slave.                     *)
(***************************************************************************)
Find(b) == b \in cut /\ cut' = cut \ {b} /\ UNCHANGED vars

CutNext ==
    \/ \E s \in Brokers : CutOff(s)
    \/ \E b \in Brokers : AppendToCut(b) \/ Find(b)
    \/ Next /\ UNCHANGED cut /\ running' \cap cut = {}

CutSpec == CutInit /\ [][CutNext]_cutVars

-----------------------------------------------------------------------------
(***************************************************************************)
(* A witness, to be violated: the new master's log and the old one's go    *)
(* apart.                                                                  *)
(***************************************************************************)
NeverApart ==
    \A b \in cut : IsPrefix(commitLog[b], commitLog[master])
                    \/ IsPrefix(commitLog[master], commitLog[b])
=============================================================================
