------------------------- MODULE MC_OffsetCommitSeeded -------------------------
(***************************************************************************)
(* What public reports tell of progress and of start positions: each is    *)
(* the protocol of OffsetCommit with one step more, or one operator        *)
(* changed.  The catalogue of defects says where each comes from.          *)
(***************************************************************************)
EXTENDS OffsetCommit

Replaced(m, q, start, stored) ==
    /\ processQueueTable' = [processQueueTable EXCEPT
        ![m][q] = [nextOffset |-> start, msgTreeMap |-> {}]]
    /\ offsetStore' = [offsetStore EXCEPT ![m][q] = stored]
    /\ UNCHANGED <<offsetTable, offsetFile, network, orphans, crashed, moves, brokerCrashes,
                   maxOffset, begun, consumed>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The query of the stored offset fails, and the failure is taken for      *)
(* `nothing is stored`: a member starts at the smallest offset.            *)
(***************************************************************************)
StartAtMinimum(m, q) ==
    /\ m \in Running
    /\ \A n \in Running : ~Holds(n, q)
    /\ offsetTable[q] # None
    /\ Replaced(m, q, 0, None)

StartsAtMinimum ==
    Init /\ [][Next \/ \E m \in Members, q \in Queues : StartAtMinimum(m, q)]_vars /\ Fairness

(***************************************************************************)
(* Where a group begins at the end, the end is asked for once more before  *)
(* the first pull, and the later answer counts.                            *)
(***************************************************************************)
ComputeStartAgain(m, q) ==
    /\ m \in Running
    /\ Holds(m, q)
    /\ processQueueTable[m][q] = [nextOffset |-> begun[q], msgTreeMap |-> {}]
    /\ offsetTable[q] = None
    /\ begun[q] < maxOffset[q]
    /\ Replaced(m, q, maxOffset[q], None)

ChoosesStartTwice ==
    Init /\ [][Next \/ \E m \in Members, q \in Queues : ComputeStartAgain(m, q)]_vars /\ Fairness

(***************************************************************************)
(* A store that lost its tail, or a replica that is behind, is asked for   *)
(* what it does not have.  It answers with its smallest offset, and the    *)
(* member makes that its progress.                                         *)
(***************************************************************************)
CorrectToMinimum(m, q) ==
    /\ m \in Running
    /\ Holds(m, q)
    /\ processQueueTable[m][q] = [nextOffset |-> maxOffset[q], msgTreeMap |-> {}]
    /\ offsetStore[m][q] # None
    /\ Replaced(m, q, 0, 0)

CorrectsToMinimum ==
    Init /\ [][Next \/ \E m \in Members, q \in Queues : CorrectToMinimum(m, q)]_vars /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* The first commits of two queues come at once.  Both find that the group *)
(* has no table, both make one, and the second takes the first one's place.*)
(***************************************************************************)
MakeTwoTables(first, second) ==
    /\ {first, second} \subseteq network
    /\ first.queue # second.queue
    /\ \A q \in Queues : offsetTable[q] = None
    /\ network' = network \ {first, second}
    /\ offsetTable' = [offsetTable EXCEPT ![second.queue] = second.offset]
    /\ UNCHANGED <<processQueueTable, offsetStore, offsetFile, orphans, crashed, moves,
                   brokerCrashes, maxOffset, begun, consumed>>

MakesTwoTables ==
    Init /\ [][Next \/ \E first, second \in Commits : MakeTwoTables(first, second)]_vars /\ Fairness

NeverLost(commit) == FALSE /\ UNCHANGED vars   \* in place of LoseCommit

ArrivedIsStored ==
    [][\A commit \in network \ network' : offsetTable'[commit.queue] = commit.offset]_vars

(***************************************************************************)
(* An admin's query leaves a group out by taking it from a live view.      *)
(***************************************************************************)
QueryAndDelete(q) ==
    /\ offsetTable[q] # None
    /\ offsetTable' = [offsetTable EXCEPT ![q] = None]
    /\ UNCHANGED <<processQueueTable, offsetStore, offsetFile, network, orphans, crashed, moves,
                   brokerCrashes, maxOffset, begun, consumed>>

QueryDeletes ==
    Init /\ [][Next \/ \E q \in Queues : QueryAndDelete(q)]_vars /\ Fairness

(***************************************************************************)
(* The file of offsets was damaged while the broker was down: what it      *)
(* loads is any offset at all.                                             *)
(***************************************************************************)
LoadDamaged(q, o) ==
    /\ brokerCrashes < MaxBrokerCrashes
    /\ brokerCrashes' = brokerCrashes + 1
    /\ offsetTable' = [offsetTable EXCEPT ![q] = o]
    /\ UNCHANGED <<processQueueTable, offsetStore, offsetFile, network, orphans, crashed, moves,
                   maxOffset, begun, consumed>>

FileIsDamaged ==
    /\ Init
    /\ [][Next \/ \E q \in Queues, o \in Progress : LoadDamaged(q, o)]_vars
    /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* Progress is the largest message that is not finished, not the smallest: *)
(* in place of Minimum.                                                    *)
(***************************************************************************)
Largest(set) == CHOOSE x \in set : \A y \in set : x >= y

(***************************************************************************)
(* A message on which the listener failed is not put back.                 *)
(***************************************************************************)
FailAndForget(m, q, o) ==
    LET rest == processQueueTable[m][q].msgTreeMap \ {o}
    IN  /\ m \in Running
        /\ Holds(m, q)
        /\ o \in processQueueTable[m][q].msgTreeMap
        /\ processQueueTable' = [processQueueTable EXCEPT ![m][q].msgTreeMap = rest]
        /\ UNCHANGED <<offsetStore, offsetTable, offsetFile, network, orphans, crashed, moves,
                       brokerCrashes, maxOffset, begun, consumed>>

ForgetsFailed ==
    /\ Init
    /\ [][Next \/ \E m \in Members, q \in Queues, o \in Offsets : FailAndForget(m, q, o)]_vars
    /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* A queue has two pull loops, and the second brings what the first one    *)
(* brought.                                                                *)
(***************************************************************************)
PullAgain(m, q, o) ==
    /\ m \in Running
    /\ Holds(m, q)
    /\ begun[q] <= o /\ o < processQueueTable[m][q].nextOffset
    /\ o \notin processQueueTable[m][q].msgTreeMap
    /\ consumed[q][o] < 2
    /\ processQueueTable' = [processQueueTable EXCEPT ![m][q].msgTreeMap = @ \cup {o}]
    /\ UNCHANGED <<offsetStore, offsetTable, offsetFile, network, orphans, crashed, moves,
                   brokerCrashes, maxOffset, begun, consumed>>

TwoPullLoops ==
    /\ Init
    /\ [][Next \/ \E m \in Members, q \in Queues, o \in Offsets : PullAgain(m, q, o)]_vars
    /\ Fairness

(***************************************************************************)
(* A member keeps a queue whose process queue it has marked dropped:       *)
(* nothing makes it pull again.                                            *)
(***************************************************************************)
StopsPulling ==
    /\ Init
    /\ [][Next]_vars
    /\ \A q \in Queues :
        /\ WF_vars(SendMessage(q))
        /\ WF_vars(Unowned(q) /\ \E m \in Members : AddMessageQueue(m, q))
        /\ \A m \in Members : WF_vars(\E o \in Offsets : ProcessConsumeResult(m, q, o))

-----------------------------------------------------------------------------
(***************************************************************************)
(* What OwnersKeepOrder says beside RepeatsInWindow.                       *)
(***************************************************************************)
ProgressKeepsOrder == OwnProgressNeverGoesBack /\ DroppedNeverCommits
=============================================================================
