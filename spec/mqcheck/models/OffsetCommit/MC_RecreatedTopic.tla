-------------------------- MODULE MC_RecreatedTopic --------------------------
(***************************************************************************)
(* A topic is deleted, and made again, while a group is online.  The       *)
(* broker forgets the group's offsets with the topic; the members do not   *)
(* forget where they are.                                                  *)
(***************************************************************************)
EXTENDS OffsetCommit

VARIABLE recreated   \* whether the topic was made again; it is, once at most

recreatedVars == <<vars, recreated>>

(***************************************************************************)
(* Deleted and made again: what the module says of messages is about those *)
(* of the new topic from here on.  The old ones are all finished, and no   *)
(* commit of theirs is on its way: that would be another matter.           *)
(***************************************************************************)
RecreateTopic ==
    /\ ~recreated
    /\ orphans = {} /\ network = {}
    /\ \A m \in Members, q \in Queues :
        Holds(m, q) => processQueueTable[m][q].msgTreeMap = {}
    /\ recreated' = TRUE
    /\ maxOffset' = [q \in Queues |-> 0]
    /\ offsetTable' = [q \in Queues |-> None]
    /\ offsetFile' = [q \in Queues |-> None]
    /\ begun' = [q \in Queues |-> 0]
    /\ consumed' = [q \in Queues |-> [o \in Offsets |-> 0]]
    /\ UNCHANGED <<processQueueTable, offsetStore, network, orphans, crashed, moves, brokerCrashes>>

(***************************************************************************)
(* A pull from behind the end of a queue is answered with the end, and the *)
(* member goes on there.                                                   *)
(***************************************************************************)
CorrectOffset(m, q) ==
    /\ m \in Running
    /\ Holds(m, q)
    /\ processQueueTable[m][q].nextOffset > maxOffset[q]
    /\ processQueueTable' = [processQueueTable EXCEPT ![m][q].nextOffset = maxOffset[q]]
    /\ offsetStore' = [offsetStore EXCEPT ![m][q] = maxOffset[q]]
    /\ UNCHANGED <<offsetTable, offsetFile, network, orphans, crashed, moves, brokerCrashes,
                   maxOffset, begun, consumed, recreated>>

(***************************************************************************)
(* What goes on meanwhile.                                                 *)
(***************************************************************************)
MessageIsSent(q) == SendMessage(q) /\ UNCHANGED recreated
MemberStarts(m, q) == AddMessageQueue(m, q) /\ UNCHANGED recreated
MemberPulls(m, q) == PullMessage(m, q) /\ UNCHANGED recreated
MemberFinishes(m, q, o) == ProcessConsumeResult(m, q, o) /\ UNCHANGED recreated
MemberReports(m) == PersistAll(m) /\ UNCHANGED recreated
MemberStops(m, q) == RemoveUnnecessaryMessageQueue(m, q) /\ UNCHANGED recreated
BrokerHears(commit) == UpdateConsumerOffset(commit) /\ UNCHANGED recreated

RecreatedInit == Init /\ recreated = FALSE

Meanwhile ==
    \/ \E q \in Queues : MessageIsSent(q)
    \/ \E m \in Members : MemberReports(m)
    \/ \E m \in Members, q \in Queues :
        \/ MemberStarts(m, q)
        \/ MemberPulls(m, q)
        \/ MemberStops(m, q)
    \/ \E m \in Members, q \in Queues, o \in Offsets : MemberFinishes(m, q, o)
    \/ \E commit \in Commits : BrokerHears(commit)

RecreatedNext ==
    \/ Meanwhile
    \/ RecreateTopic
    \/ \E m \in Members, q \in Queues : CorrectOffset(m, q)

RecreatedSpec == RecreatedInit /\ [][RecreatedNext]_recreatedVars

(***************************************************************************)
(* What is there and an owner will not pull any more is consumed, or it    *)
(* has it (OFFSET-059).                                                    *)
(***************************************************************************)
NothingSentIsSkipped ==
    \A m \in Running, q \in Queues : Holds(m, q) =>
        {o \in Below(processQueueTable[m][q].nextOffset) : o < maxOffset[q]}
            \subseteq Done(q) \cup processQueueTable[m][q].msgTreeMap

\* A witness, to be violated: of the new topic all messages are consumed, and committed.
NewTopicNeverCommitted == recreated => \A q \in Queues : offsetTable[q] # MaxOffset
===============================================================================
