----------------------------- MODULE Replication -----------------------------
(***************************************************************************)
(* The brokers of one name: a master, which stores what producers send,    *)
(* and slaves, which copy its CommitLog and its table of offsets.  A slave *)
(* tells where its log ends, and the master sends what comes after that.   *)
(*                                                                         *)
(* Modelled: the log of each broker; connections, which the master counts  *)
(* for a while after their slave is gone; a put that waits until as many   *)
(* brokers as InSyncReplicas say have it, the master being one, or until   *)
(* its time is up; crashes of all brokers, which may take what a log had   *)
(* in memory only; a slave that an operator makes master, and the old      *)
(* master that comes back as a slave; one group that reads from master and *)
(* slaves, commits its offset, and starts again from it.                   *)
(*                                                                         *)
(* With InSyncReplicas = 1 a put waits for nobody: an ASYNC_MASTER, and in *)
(* 5.3.3 a SYNC_MASTER too as long as inSyncReplicas has its default.      *)
(*                                                                         *)
(* Left out: sizes, so that all logs have their records at the same        *)
(* positions (a slave whose log is not the master's may be sent the rest   *)
(* of a record without its beginning); segments (a slave that has nothing  *)
(* gets the master's last one and what follows, no more); what is on its   *)
(* way in a connection, as a record that did not arrive was not sent, and  *)
(* a report that comes late is one that the master reads late; the table   *)
(* of offsets being lost (OffsetCommit); topics and groups; the switch of  *)
(* roles by a controller.  DLedger is RaftLog's.  A master that is only    *)
(* cut off while its slave is made master is in MC_CutOff.                 *)
(*                                                                         *)
(* No twin in the core: the reference has no replication.                  *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Brokers,
    InSyncReplicas,    \* how many brokers have a message before its put is answered with PUT_OK
    SyncFlush,         \* TRUE: a put waits for the master's disk as well
    MaxMessages,       \* how many messages producers send
    MaxCrashes,        \* how often a broker crashes
    MaxLosses,         \* how many of these crashes take the end of a log
    MaxFailOvers,      \* how often a slave is made master
    OldMasterReturns,  \* TRUE: a master that was replaced comes back with the log that it had
    Consumes,          \* TRUE: there is a group
    ReadsConfirmed,    \* TRUE: a master shows the group only what InSyncReplicas brokers have
    Admits,            \* what slaves the master lets connect: those with "the same log" up to
                       \* their end, those with "an end" not behind its own, or "any"
    \* Defects, FALSE in the protocol as it is:
    CountsConnections, \* each connection counts as a broker
    SlaveCorrectsOffset \* a slave sets a reader that is ahead of its log back to its end

VARIABLES
    master,          \* the broker that is configured as master
    running,         \* the brokers that run
    commitLog,       \* broker -> its messages, in order
    connectionList,  \* the master's connections: what it knows of its slaves
    waiting,         \* messages whose puts wait for slaves
    consumerOffset,  \* broker -> the group's offset in its table
    pullOffset,      \* where the group's member reads next
    \* ghosts
    acknowledged,    \* messages whose puts were answered with PUT_OK
    consumed,        \* message -> how often the group got it
    reached,         \* the largest offset that the group committed anywhere
    messages,        \* how many messages were sent
    damaged,         \* brokers whose log lost its end in a crash
    replaced,        \* brokers that were masters and are not
    crashes,
    failOvers

logVars == <<commitLog, connectionList, waiting, acknowledged, messages>>
groupVars == <<consumerOffset, pullOffset, consumed, reached>>
brokerVars == <<master, running, damaged, replaced, crashes, failOvers>>
vars == <<logVars, groupVars, brokerVars>>

-----------------------------------------------------------------------------
Messages == 1 .. MaxMessages
Slaves == Brokers \ {master}
Range(s) == {s[i] : i \in DOMAIN s}
End(b) == Len(commitLog[b])
IsPrefix(s, t) == Len(s) <= Len(t) /\ SubSeq(t, 1, Len(s)) = s
Max(S) == CHOOSE x \in S : \A y \in S : x >= y
Min(a, b) == IF a < b THEN a ELSE b

\* The end of a connection at the slave's side is open until the slave crashes; the master may not
\* know for some time.
Connection ==
    [slave : Brokers, open : BOOLEAN, slaveAckOffset : 0 .. MaxMessages,
     nextTransferFromWhere : 0 .. MaxMessages]

OpenOf(s) == {c \in connectionList : c.slave = s /\ c.open}

Become(old, new) == connectionList' = (connectionList \ {old}) \cup {new}

Position(m) == CHOOSE i \in DOMAIN commitLog[master] : commitLog[master][i] = m

(***************************************************************************)
(* How many brokers have the master's log up to a position, as far as the  *)
(* master knows; itself is one.                                            *)
(***************************************************************************)
Replicas(position) ==
    LET acks == {c \in connectionList : c.slaveAckOffset >= position}
    IN  1 + Cardinality(IF CountsConnections THEN acks ELSE {c.slave : c \in acks})

Confirmed == Max({p \in 0 .. End(master) : p = 0 \/ Replicas(p) >= InSyncReplicas})

-----------------------------------------------------------------------------
Init ==
    /\ master \in Brokers
    /\ running = Brokers
    /\ commitLog = [b \in Brokers |-> <<>>]
    /\ connectionList = {}
    /\ waiting = {}
    /\ consumerOffset = [b \in Brokers |-> 0]
    /\ pullOffset = 0
    /\ acknowledged = {}
    /\ consumed = [m \in Messages |-> 0]
    /\ reached = 0
    /\ messages = 0
    /\ damaged = {}
    /\ replaced = {}
    /\ crashes = 0
    /\ failOvers = 0

(***************************************************************************)
(* The master stores a message.  Its producer is answered at once, or      *)
(* waits for slaves.  A slave takes no messages.                           *)
(***************************************************************************)
AppendMessage ==
    /\ master \in running
    /\ messages < MaxMessages
    /\ messages' = messages + 1
    /\ commitLog' = [commitLog EXCEPT ![master] = Append(@, messages + 1)]
    /\ IF InSyncReplicas = 1
       THEN acknowledged' = acknowledged \cup {messages + 1} /\ UNCHANGED waiting
       ELSE waiting' = waiting \cup {messages + 1} /\ UNCHANGED acknowledged
    /\ UNCHANGED <<connectionList, groupVars, brokerVars>>

(***************************************************************************)
(* A slave connects to the master and tells where its log ends, which is   *)
(* where the master goes on.  It takes the end for an acknowledgement of   *)
(* all that its own log has before it, which is right where the slave's    *)
(* log is the beginning of its own.  5.3.3 does not look; 4.9.3 to 4.9.8   *)
(* compared the ends.  Neither is enough to keep REPL-001, so that here    *)
(* the logs are compared, as the epochs of controller mode do.             *)
(***************************************************************************)
IsAdmitted(s) ==
    CASE Admits = "any" -> TRUE
      [] Admits = "an end" -> End(s) <= End(master)
      [] Admits = "the same log" -> IsPrefix(commitLog[s], commitLog[master])

ConnectMaster(s) ==
    /\ {s, master} \subseteq running
    /\ s # master
    /\ OpenOf(s) = {}
    /\ IsAdmitted(s)
    /\ connectionList' = connectionList \cup
           {[slave |-> s, open |-> TRUE, slaveAckOffset |-> End(s),
             nextTransferFromWhere |-> End(s)]}
    /\ UNCHANGED <<commitLog, waiting, acknowledged, messages, groupVars, brokerVars>>

(***************************************************************************)
(* The master sends the next record, whether it is on its disk or not, and *)
(* the slave appends it, at its end.                                       *)
(***************************************************************************)
TransferData(c) ==
    /\ c.open
    /\ c.nextTransferFromWhere < End(master)
    /\ commitLog' = [commitLog EXCEPT
           ![c.slave] = Append(@, commitLog[master][c.nextTransferFromWhere + 1])]
    /\ Become(c, [c EXCEPT !.nextTransferFromWhere = @ + 1])
    /\ UNCHANGED <<waiting, acknowledged, messages, groupVars, brokerVars>>

(***************************************************************************)
(* The slave reports where its log ends, in memory.                        *)
(***************************************************************************)
ReportSlaveMaxOffset(c) ==
    /\ c.open
    /\ c.slaveAckOffset # End(c.slave)
    /\ Become(c, [c EXCEPT !.slaveAckOffset = End(c.slave)])
    /\ UNCHANGED <<commitLog, waiting, acknowledged, messages, groupVars, brokerVars>>

(***************************************************************************)
(* The master notices that a slave is gone.                                *)
(***************************************************************************)
RemoveConnection(c) ==
    /\ ~c.open
    /\ connectionList' = connectionList \ {c}
    /\ UNCHANGED <<commitLog, waiting, acknowledged, messages, groupVars, brokerVars>>

(***************************************************************************)
(* A put has waited for slaves: enough of them have its message, and it is *)
(* answered with PUT_OK; or its time is up, and it is answered with        *)
(* FLUSH_SLAVE_TIMEOUT, though the message stays.                          *)
(***************************************************************************)
DoWaitTransfer(m) ==
    /\ m \in waiting
    /\ Replicas(Position(m)) >= InSyncReplicas
    /\ waiting' = waiting \ {m}
    /\ acknowledged' = acknowledged \cup {m}
    /\ UNCHANGED <<commitLog, connectionList, messages, groupVars, brokerVars>>

TransferTimeout(m) ==
    /\ m \in waiting
    /\ waiting' = waiting \ {m}
    /\ UNCHANGED <<commitLog, connectionList, acknowledged, messages, groupVars, brokerVars>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* What a crash may leave of a log: all of it, the process being killed,   *)
(* or what was on the disk.  With synchronous flush that is at least what  *)
(* a master has answered.                                                  *)
(***************************************************************************)
Kept(b) ==
    LET answered == {i \in DOMAIN commitLog[b] : commitLog[b][i] \in acknowledged}
        least == IF SyncFlush /\ b = master /\ answered # {} THEN Max(answered) ELSE 0
    IN  IF Cardinality(damaged) < MaxLosses THEN least .. End(b) ELSE {End(b)}

Crash(b) ==
    /\ crashes < MaxCrashes
    /\ b \in running
    /\ crashes' = crashes + 1
    /\ running' = running \ {b}
    /\ \E kept \in Kept(b) :
           /\ commitLog' = [commitLog EXCEPT ![b] = SubSeq(@, 1, kept)]
           /\ damaged' = IF kept < End(b) THEN damaged \cup {b} ELSE damaged
    /\ IF b = master
       THEN connectionList' = {} /\ waiting' = {}
       ELSE /\ connectionList' = {[c EXCEPT !.open = @ /\ c.slave # b] : c \in connectionList}
            /\ UNCHANGED waiting
    /\ UNCHANGED <<master, replaced, failOvers, acknowledged, messages, groupVars>>

Restart(b) ==
    /\ b \notin running
    /\ b \in replaced => OldMasterReturns
    /\ running' = running \cup {b}
    /\ UNCHANGED <<master, damaged, replaced, crashes, failOvers, logVars, groupVars>>

(***************************************************************************)
(* The master is down, and an operator makes a slave master.               *)
(***************************************************************************)
FailOver(s) ==
    /\ failOvers < MaxFailOvers
    /\ master \notin running
    /\ s \in running
    /\ master' = s
    /\ replaced' = replaced \cup {master}
    /\ failOvers' = failOvers + 1
    /\ UNCHANGED <<running, damaged, crashes, logVars, groupVars>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The member reads from the master, or from a slave where the master is   *)
(* down or, its messages being out of memory, sends the member there.      *)
(***************************************************************************)
ReadEnd(b) == IF ReadsConfirmed /\ b = master THEN Confirmed ELSE End(b)

PullMessage(b) ==
    /\ Consumes
    /\ b \in running
    /\ pullOffset < ReadEnd(b)
    /\ LET m == commitLog[b][pullOffset + 1]
       IN  consumed' = [consumed EXCEPT ![m] = Min(@ + 1, 2)]
    /\ pullOffset' = pullOffset + 1
    /\ UNCHANGED <<consumerOffset, reached, logVars, brokerVars>>

(***************************************************************************)
(* A member that is ahead of the log is set back to its end, by a master.  *)
(* A slave leaves it where it is: it may just be behind.                   *)
(***************************************************************************)
CorrectOffset(b) ==
    /\ Consumes
    /\ b \in running
    /\ b = master \/ SlaveCorrectsOffset
    /\ pullOffset > End(b)
    /\ pullOffset' = End(b)
    /\ UNCHANGED <<consumerOffset, consumed, reached, logVars, brokerVars>>

(***************************************************************************)
(* The member commits to the master, or, while that is down, to a slave;   *)
(* and asks the same of them where it starts.                              *)
(***************************************************************************)
Coordinators == IF master \in running THEN {master} ELSE running

UpdateConsumerOffset(b) ==
    /\ Consumes
    /\ b \in Coordinators
    /\ consumerOffset' = [consumerOffset EXCEPT ![b] = pullOffset]
    /\ reached' = Max({reached, pullOffset})
    /\ UNCHANGED <<pullOffset, consumed, logVars, brokerVars>>

QueryConsumerOffset(b) ==
    /\ Consumes
    /\ crashes > 0    \* of a broker: nothing else makes a member start again here
    /\ b \in Coordinators
    /\ pullOffset' = consumerOffset[b]
    /\ UNCHANGED <<consumerOffset, consumed, reached, logVars, brokerVars>>

(***************************************************************************)
(* A slave copies the master's table over its own, whatever its log has.   *)
(***************************************************************************)
SyncConsumerOffset(s) ==
    /\ Consumes
    /\ {s, master} \subseteq running
    /\ s # master
    /\ consumerOffset' = [consumerOffset EXCEPT ![s] = consumerOffset[master]]
    /\ UNCHANGED <<pullOffset, consumed, reached, logVars, brokerVars>>

-----------------------------------------------------------------------------
Next ==
    \/ AppendMessage
    \/ \E b \in Brokers :
          \/ ConnectMaster(b)
          \/ Crash(b)
          \/ Restart(b)
          \/ FailOver(b)
          \/ PullMessage(b)
          \/ CorrectOffset(b)
          \/ UpdateConsumerOffset(b)
          \/ QueryConsumerOffset(b)
          \/ SyncConsumerOffset(b)
    \/ \E c \in connectionList :
          \/ TransferData(c)
          \/ ReportSlaveMaxOffset(c)
          \/ RemoveConnection(c)
    \/ \E m \in waiting : DoWaitTransfer(m) \/ TransferTimeout(m)

\* Of each slave: it comes back, connects, and is sent what it lacks.
Fairness ==
    \A b \in Brokers :
        /\ WF_vars(Restart(b))
        /\ WF_vars(ConnectMaster(b))
        /\ WF_vars(\E c \in OpenOf(b) : TransferData(c))

Spec == Init /\ [][Next]_vars /\ Fairness

Symmetry == Permutations(Brokers)

-----------------------------------------------------------------------------
TypeOK ==
    /\ master \in Brokers
    /\ running \subseteq Brokers
    /\ \A b \in Brokers : commitLog[b] \in Seq(Messages) /\ End(b) <= MaxMessages
    /\ connectionList \subseteq Connection
    /\ \A c \in connectionList : c.open => c.nextTransferFromWhere = End(c.slave)
    /\ \A b \in Brokers : Cardinality(OpenOf(b)) <= 1
    /\ waiting \subseteq Range(commitLog[master])
    /\ consumerOffset \in [Brokers -> 0 .. MaxMessages]
    /\ pullOffset \in 0 .. MaxMessages
    /\ acknowledged \subseteq Messages
    /\ consumed \in [Messages -> 0 .. 2]
    /\ reached \in 0 .. MaxMessages
    /\ messages \in 0 .. MaxMessages
    /\ damaged \subseteq Brokers /\ Cardinality(damaged) <= MaxLosses
    /\ replaced \subseteq Brokers
    /\ crashes \in 0 .. MaxCrashes
    /\ failOvers \in 0 .. MaxFailOvers

(***************************************************************************)
(* A message whose put was answered with PUT_OK is in the logs of          *)
(* InSyncReplicas brokers, but for those that lost the end of theirs       *)
(* (REPL-001).                                                             *)
(***************************************************************************)
AcknowledgedHasCopies ==
    \A m \in acknowledged :
        Cardinality({b \in Brokers : m \in Range(commitLog[b])} \cup damaged) >= InSyncReplicas

(***************************************************************************)
(* A slave that was made master has what was acknowledged: with two        *)
(* brokers and InSyncReplicas = 2 (REPL-002), and not without (REPL-003).  *)
(***************************************************************************)
FailOverKeepsAcknowledged ==
    failOvers > 0 /\ master \notin damaged => acknowledged \subseteq Range(commitLog[master])

(***************************************************************************)
(* Over a connection whose slave is gone nothing is heard any more.        *)
(***************************************************************************)
GoneIsSilent ==
    [][{c \in connectionList' : ~c.open} \subseteq
           {[c EXCEPT !.open = FALSE] : c \in connectionList}]_vars

(***************************************************************************)
(* A master that was replaced stays out where it does not come back.       *)
(***************************************************************************)
ReplacedStaysOut == failOvers > 0 /\ ~OldMasterReturns => running # Brokers

(***************************************************************************)
(* Often believed: a slave's log is the beginning of its master's          *)
(* (REPL-004), and is as long as that in the end (REPL-005); what was      *)
(* acknowledged outlives a loss of power at both brokers (REPL-006), and   *)
(* is there when the master comes back (REPL-007).                         *)
(***************************************************************************)
SlaveIsPrefix == \A s \in Slaves : IsPrefix(commitLog[s], commitLog[master])

SlaveCatchesUp == <>[](\A s \in Slaves : commitLog[s] = commitLog[master])

AcknowledgedIsKept == acknowledged \subseteq UNION {Range(commitLog[b]) : b \in Brokers}

AcknowledgedIsServed ==
    master \in running /\ failOvers = 0 => acknowledged \subseteq Range(commitLog[master])

(***************************************************************************)
(* The group.  While no broker crashes it gets each message once,          *)
(* whichever broker it reads from (REPL-008), and leaves none out          *)
(* (REPL-009).                                                             *)
(***************************************************************************)
NoRepeat == \A m \in Messages : consumed[m] < 2

NothingSkipped ==
    master \in running =>
        \A i \in 1 .. Min(pullOffset, End(master)) : consumed[commitLog[master][i]] > 0

(***************************************************************************)
(* The group goes back to where a log ends, by who may correct it          *)
(* (REPL-008), or to where it had committed, and no further.               *)
(***************************************************************************)
GoesBackToAnEnd ==
    [][pullOffset' < pullOffset =>
           \/ \E b \in running : (b = master \/ SlaveCorrectsOffset) /\ pullOffset' = End(b)
           \/ \E b \in Coordinators : pullOffset' = consumerOffset[b]]_vars

(***************************************************************************)
(* Often believed of a fail-over: what the group has read is still there   *)
(* (REPL-010), it leaves nothing out (REPL-011), a slave's table is not    *)
(* ahead of its log (REPL-012), and the group's progress does not go back  *)
(* (REPL-013).                                                             *)
(***************************************************************************)
ReadSurvives ==
    master \in running => \A m \in Messages : consumed[m] > 0 => m \in Range(commitLog[master])

OffsetsNotAheadOfLog == \A b \in Brokers : consumerOffset[b] <= End(b)

ProgressIsKept == master \in running => consumerOffset[master] >= reached

(***************************************************************************)
(* Witnesses, to be violated: a put's time is up, and its message is on    *)
(* two brokers; a slave is connected twice; a slave with its log whole     *)
(* takes over what was acknowledged; all slaves are connected at once, and *)
(* acknowledge.                                                            *)
(***************************************************************************)
NeverStoredAfterTimeout ==
    \A m \in Range(commitLog[master]) :
        m \notin waiting \cup acknowledged => \A s \in Slaves : m \notin Range(commitLog[s])

NeverConnectedTwice == \A c, d \in connectionList : c.slave = d.slave => c = d

NeverAcknowledged == crashes = 0 => acknowledged = {}

NeverTakesOver == failOvers = 0 \/ master \in damaged \/ acknowledged = {}
=============================================================================
