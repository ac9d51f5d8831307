----------------------------- MODULE OffsetCommit -----------------------------
(***************************************************************************)
(* How far a group has come on its queues, and what becomes of the         *)
(* messages.  Twin of mqspec/core/offset_commit.py.                        *)
(*                                                                         *)
(* A member pulls messages of a queue into a process queue, consumes them  *)
(* in any order, and reports the smallest one that is not finished, in     *)
(* one-way requests that are lost or arrive in any order.  The broker      *)
(* keeps what it heard last in memory and writes it to a file.  A queue    *)
(* that is taken away takes its process queue along: what is consumed of   *)
(* it afterwards is not reported.                                          *)
(*                                                                         *)
(* Modelled: queues that change hands, also to two members at once,        *)
(* whatever rebalancing does; members and brokers that crash; all bounded. *)
(*                                                                         *)
(* Taken for granted, because Rebalance shows it: a queue without an owner *)
(* gets one.  Left out: messages that fail (Retry), messages that expire   *)
(* unread (Retention), tags, flow control; resets, what the broker refuses *)
(* (an unknown topic or group); the time between asking for the stored     *)
(* offset and starting from it; the progress that rides on a pull, which   *)
(* is one more PersistAll; a process queue that is set back in place.      *)
(* Where none is set back, the progress of a process queue never falls:    *)
(* that ProcessConsumeResult compares it with what the member has is then  *)
(* needed by no property. A stop of a member interrupts its listeners:     *)
(* what they were at is consumed, or fails (Retry), or stays unfinished,   *)
(* as where the member crashes.                                            *)
(*                                                                         *)
(* Not in the core, being the environment: offsetFile, network, orphans,   *)
(* crashed, moves, brokerCrashes, maxOffset; SendMessage, LoseCommit,      *)
(* CrashMember; and FinishOrphan, which is ProcessConsumeResult of a       *)
(* process queue that was dropped.  Ghosts: begun, consumed.               *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Members,           \* the members of the group
    Queues,            \* the queues of the topic
    MaxOffset,         \* the messages of each queue are 0..MaxOffset-1
    SentBefore,        \* how many of them are there before the group starts
    FromLast,          \* whether a group begins at the end where nothing is stored
    MaxMoves,          \* how often a queue is taken from a member that runs
    MaxMemberCrashes,
    MaxBrokerCrashes,
    MaxInFlight,       \* commits on their way at once; one more is lost
    Handover,          \* "overlapping": a member may start while another holds the queue;
                       \* "dropping": it was dropped before; "clean": and with nothing in
                       \* work, and all of it stored
    None               \* no process queue, no offset

VARIABLES
    processQueueTable, \* member -> queue -> its process queue, or None
    offsetStore,       \* member -> queue -> progress to report, or None
    offsetTable,       \* queue -> what the broker has in memory, or None
    offsetFile,        \* queue -> what the broker's file holds, or None
    network,           \* commits on their way
    orphans,           \* messages in work whose process queue was dropped
    crashed,           \* the members that are gone
    moves,             \* how many moves there have been
    brokerCrashes,     \* how many there have been
    maxOffset,         \* queue -> how many messages it has
    begun,             \* queue -> where the group began on it, or None
    consumed           \* queue -> offset -> how often it was consumed; 2 is more than once

vars == <<processQueueTable, offsetStore, offsetTable, offsetFile, network, orphans,
          crashed, moves, brokerCrashes, maxOffset, begun, consumed>>

Offsets == 0..MaxOffset-1
Progress == 0..MaxOffset
ProcessQueue == [nextOffset : Progress, msgTreeMap : SUBSET Offsets]
Commits == [member : Members, queue : Queues, offset : Progress]
Holds(m, q) == processQueueTable[m][q] # None
Running == Members \ crashed
Minimum(set) == CHOOSE x \in set : \A y \in set : x <= y

TypeOK ==
    /\ \A m \in Members, q \in Queues :
        /\ Holds(m, q) => processQueueTable[m][q] \in ProcessQueue
        /\ offsetStore[m][q] = None \/ offsetStore[m][q] \in Progress
    /\ \A q \in Queues :
        /\ offsetTable[q] = None \/ offsetTable[q] \in Progress
        /\ offsetFile[q] = None \/ offsetFile[q] \in Progress
    /\ network \subseteq Commits
    /\ orphans \subseteq [member : Members, queue : Queues, offset : Offsets]
    /\ crashed \subseteq Members
    /\ moves \in 0..MaxMoves
    /\ brokerCrashes \in 0..MaxBrokerCrashes
    /\ maxOffset \in [Queues -> Progress]
    /\ \A q \in Queues : begun[q] = None \/ begun[q] \in Progress
    /\ consumed \in [Queues -> [Offsets -> 0..2]]

Init ==
    /\ processQueueTable = [m \in Members |-> [q \in Queues |-> None]]
    /\ offsetStore = [m \in Members |-> [q \in Queues |-> None]]
    /\ offsetTable = [q \in Queues |-> None]
    /\ offsetFile = [q \in Queues |-> None]
    /\ network = {}
    /\ orphans = {}
    /\ crashed = {}
    /\ moves = 0
    /\ brokerCrashes = 0
    /\ maxOffset = [q \in Queues |-> SentBefore]
    /\ begun = [q \in Queues |-> None]
    /\ consumed = [q \in Queues |-> [o \in Offsets |-> 0]]

-----------------------------------------------------------------------------
(***************************************************************************)
(* A message is sent.                                                      *)
(***************************************************************************)
SendMessage(q) ==
    /\ maxOffset[q] < MaxOffset
    /\ maxOffset' = [maxOffset EXCEPT ![q] = @ + 1]
    /\ UNCHANGED <<processQueueTable, offsetStore, offsetTable, offsetFile, network, orphans,
                   crashed, moves, brokerCrashes, begun, consumed>>

(***************************************************************************)
(* A member starts on a queue, at the offset that the broker has stored;   *)
(* where there is none at the beginning or, as the group's policy says, at *)
(* the end.  Somebody else may hold it still: that is one of the moves.    *)
(***************************************************************************)
AddMessageQueue(m, q) ==
    LET stored == offsetTable[q]
        start  == IF stored # None THEN stored ELSE IF FromLast THEN maxOffset[q] ELSE 0
    IN  /\ m \in Running
        /\ ~Holds(m, q)
        /\ IF \E n \in Running : Holds(n, q)
           THEN Handover = "overlapping" /\ moves < MaxMoves /\ moves' = moves + 1
           ELSE UNCHANGED moves
        /\ processQueueTable' = [processQueueTable EXCEPT
            ![m][q] = [nextOffset |-> start, msgTreeMap |-> {}]]
        /\ offsetStore' = [offsetStore EXCEPT ![m][q] = stored]
        /\ begun' = [begun EXCEPT ![q] = IF @ = None THEN start ELSE @]
        /\ UNCHANGED <<offsetTable, offsetFile, network, orphans, crashed, brokerCrashes,
                       maxOffset, consumed>>

(***************************************************************************)
(* The next message enters the process queue.                              *)
(***************************************************************************)
PullMessage(m, q) ==
    LET next == processQueueTable[m][q].nextOffset
    IN  /\ m \in Running
        /\ Holds(m, q)
        /\ next < maxOffset[q]
        /\ processQueueTable' = [processQueueTable EXCEPT
            ![m][q].nextOffset = next + 1, ![m][q].msgTreeMap = @ \cup {next}]
        /\ UNCHANGED <<offsetStore, offsetTable, offsetFile, network, orphans,
                       crashed, moves, brokerCrashes, maxOffset, begun, consumed>>

(***************************************************************************)
(* A message is finished.  Progress is the smallest one that is not, or    *)
(* the next one to pull, and never goes back.                              *)
(***************************************************************************)
ProcessConsumeResult(m, q, o) ==
    LET rest     == processQueueTable[m][q].msgTreeMap \ {o}
        progress == IF rest = {} THEN processQueueTable[m][q].nextOffset ELSE Minimum(rest)
        old      == offsetStore[m][q]
    IN  /\ m \in Running
        /\ Holds(m, q)
        /\ o \in processQueueTable[m][q].msgTreeMap
        /\ processQueueTable' = [processQueueTable EXCEPT ![m][q].msgTreeMap = rest]
        /\ offsetStore' = [offsetStore EXCEPT
            ![m][q] = IF old # None /\ progress < old THEN old ELSE progress]
        /\ consumed' = [consumed EXCEPT ![q][o] = IF @ = 0 THEN 1 ELSE 2]
        /\ UNCHANGED <<offsetTable, offsetFile, network, orphans,
                       crashed, moves, brokerCrashes, maxOffset, begun>>

(***************************************************************************)
(* A message is finished, and its process queue was dropped meanwhile.     *)
(***************************************************************************)
FinishOrphan(m, q, o) ==
    /\ m \in Running
    /\ [member |-> m, queue |-> q, offset |-> o] \in orphans
    /\ orphans' = orphans \ {[member |-> m, queue |-> q, offset |-> o]}
    /\ consumed' = [consumed EXCEPT ![q][o] = IF @ = 0 THEN 1 ELSE 2]
    /\ UNCHANGED <<processQueueTable, offsetStore, offsetTable, offsetFile, network,
                   crashed, moves, brokerCrashes, maxOffset, begun>>

(***************************************************************************)
(* Every 5 s a member reports its progress on each queue that it holds.    *)
(* Commits beyond MaxInFlight are lost, as any may be.                     *)
(***************************************************************************)
Commit(m, q) == [member |-> m, queue |-> q, offset |-> offsetStore[m][q]]

Send(commits) ==
    network' = IF Cardinality(network \cup commits) <= MaxInFlight
               THEN network \cup commits ELSE network

PersistAll(m) ==
    LET reported == {q \in Queues : Holds(m, q) /\ offsetStore[m][q] # None}
    IN  /\ m \in Running
        /\ reported # {}
        /\ Send({Commit(m, q) : q \in reported})
        /\ UNCHANGED <<processQueueTable, offsetStore, offsetTable, offsetFile, orphans,
                       crashed, moves, brokerCrashes, maxOffset, begun, consumed>>

(***************************************************************************)
(* A queue is taken away: dropped, and reported for the last time.  What   *)
(* is in work goes on, and has nobody to report it.                        *)
(***************************************************************************)
RemoveUnnecessaryMessageQueue(m, q) ==
    LET tree == processQueueTable[m][q].msgTreeMap
    IN  /\ m \in Running
        /\ Holds(m, q)
        /\ moves < MaxMoves
        /\ moves' = moves + 1
        /\ Handover = "clean" =>
            /\ tree = {}
            /\ offsetTable[q] = processQueueTable[m][q].nextOffset
            /\ network = {}
        /\ processQueueTable' = [processQueueTable EXCEPT ![m][q] = None]
        /\ offsetStore' = [offsetStore EXCEPT ![m][q] = None]
        /\ Send(IF offsetStore[m][q] = None \/ Handover = "clean" THEN {} ELSE {Commit(m, q)})
        /\ orphans' = orphans \cup {[member |-> m, queue |-> q, offset |-> o] : o \in tree}
        /\ UNCHANGED <<offsetTable, offsetFile, crashed, brokerCrashes, maxOffset,
                       begun, consumed>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A commit arrives, and is stored whatever it says.                       *)
(***************************************************************************)
UpdateConsumerOffset(commit) ==
    /\ commit \in network
    /\ Handover = "clean" => \A other \in network : other.offset >= commit.offset
    /\ network' = network \ {commit}
    /\ offsetTable' = [offsetTable EXCEPT ![commit.queue] = commit.offset]
    /\ UNCHANGED <<processQueueTable, offsetStore, offsetFile, orphans,
                   crashed, moves, brokerCrashes, maxOffset, begun, consumed>>

(***************************************************************************)
(* A commit does not arrive.                                               *)
(***************************************************************************)
LoseCommit(commit) ==
    /\ commit \in network
    /\ network' = network \ {commit}
    /\ UNCHANGED <<processQueueTable, offsetStore, offsetTable, offsetFile, orphans,
                   crashed, moves, brokerCrashes, maxOffset, begun, consumed>>

(***************************************************************************)
(* Every 5 s the broker writes its table to the file.  That matters only   *)
(* to a crash that is still to come.                                       *)
(***************************************************************************)
Persist ==
    /\ brokerCrashes < MaxBrokerCrashes
    /\ offsetFile # offsetTable
    /\ offsetFile' = offsetTable
    /\ UNCHANGED <<processQueueTable, offsetStore, offsetTable, network, orphans,
                   crashed, moves, brokerCrashes, maxOffset, begun, consumed>>

(***************************************************************************)
(* The broker is killed, starts, and loads the file.                       *)
(***************************************************************************)
Load ==
    /\ brokerCrashes < MaxBrokerCrashes
    /\ brokerCrashes' = brokerCrashes + 1
    /\ offsetTable' = offsetFile
    /\ UNCHANGED <<processQueueTable, offsetStore, offsetFile, network, orphans,
                   crashed, moves, maxOffset, begun, consumed>>

(***************************************************************************)
(* A member is gone, with all that it had in memory.                       *)
(***************************************************************************)
CrashMember(m) ==
    /\ m \in Running
    /\ Cardinality(crashed) < MaxMemberCrashes
    /\ crashed' = crashed \cup {m}
    /\ processQueueTable' = [processQueueTable EXCEPT ![m] = [q \in Queues |-> None]]
    /\ offsetStore' = [offsetStore EXCEPT ![m] = [q \in Queues |-> None]]
    /\ orphans' = {task \in orphans : task.member # m}
    /\ UNCHANGED <<offsetTable, offsetFile, network, moves, brokerCrashes, maxOffset,
                   begun, consumed>>

-----------------------------------------------------------------------------
Next ==
    \/ \E m \in Members :
        \/ PersistAll(m)
        \/ CrashMember(m)
    \/ \E m \in Members, q \in Queues :
        \/ AddMessageQueue(m, q)
        \/ PullMessage(m, q)
        \/ RemoveUnnecessaryMessageQueue(m, q)
    \/ \E m \in Members, q \in Queues, o \in Offsets :
        \/ ProcessConsumeResult(m, q, o)
        \/ FinishOrphan(m, q, o)
    \/ \E q \in Queues : SendMessage(q)
    \/ \E commit \in Commits :
        \/ UpdateConsumerOffset(commit)
        \/ LoseCommit(commit)
    \/ Persist
    \/ Load

(***************************************************************************)
(* A queue that nobody holds gets an owner (Rebalance, Converges), an      *)
(* owner goes on pulling, and its listener goes on finishing messages.     *)
(* Nothing is asked of commits: for every message to be consumed none of   *)
(* them need ever arrive.  All messages are sent in the end.               *)
(***************************************************************************)
Unowned(q) == \A m \in Running : ~Holds(m, q)

Fairness ==
    \A q \in Queues :
        /\ WF_vars(SendMessage(q))
        /\ WF_vars(Unowned(q) /\ \E m \in Members : AddMessageQueue(m, q))
        /\ \A m \in Members :
            /\ WF_vars(PullMessage(m, q))
            /\ WF_vars(\E o \in Offsets : ProcessConsumeResult(m, q, o))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
Below(offset) == {o \in Offsets : o < offset}

\* Consumed, or from before a group that began at the end began.
Done(q) ==
    {o \in Offsets : consumed[q][o] > 0} \cup (IF begun[q] = None THEN {} ELSE Below(begun[q]))

(***************************************************************************)
(* What is held was begun somewhere, and nobody works who has crashed.     *)
(***************************************************************************)
HeldIsBegun == \A m \in Members, q \in Queues : Holds(m, q) => begun[q] # None

CrashedDoNothing == \A task \in orphans : task.member \in Running

(***************************************************************************)
(* OFFSET-002.  Whatever was committed, and is on its way, in memory or in *)
(* the file, all below it has been consumed.                               *)
(***************************************************************************)
CommittedIsConsumed ==
    /\ \A commit \in network : Below(commit.offset) \subseteq Done(commit.queue)
    /\ \A q \in Queues :
        /\ offsetTable[q] # None => Below(offsetTable[q]) \subseteq Done(q)
        /\ offsetFile[q] # None => Below(offsetFile[q]) \subseteq Done(q)

(***************************************************************************)
(* OFFSET-001.  What an owner will not pull any more is consumed, or it    *)
(* has it.                                                                 *)
(***************************************************************************)
NothingSkipped ==
    \A m \in Running, q \in Queues : Holds(m, q) =>
        Below(processQueueTable[m][q].nextOffset)
            \subseteq Done(q) \cup processQueueTable[m][q].msgTreeMap

(***************************************************************************)
(* OFFSET-005.  A process queue begins at what is stored, and from there   *)
(* each message enters it once: so what is repeated is repeated by another *)
(* process queue, and was not below what was stored when that one began.   *)
(***************************************************************************)
BeginsAtStored(m, q) ==
    ~Holds(m, q) /\ Holds(m, q)' =>
        /\ processQueueTable'[m][q].msgTreeMap = {}
        /\ offsetTable[q] # None => processQueueTable'[m][q].nextOffset = offsetTable[q]

GoesOn(m, q) ==
    Holds(m, q) /\ Holds(m, q)' =>
        LET before == processQueueTable[m][q]
            after  == processQueueTable'[m][q]
        IN  \A o \in after.msgTreeMap \ before.msgTreeMap :
                before.nextOffset <= o /\ o < after.nextOffset

RepeatsInWindow ==
    [][\A m \in Members, q \in Queues : BeginsAtStored(m, q) /\ GoesOn(m, q)]_vars

(***************************************************************************)
(* OFFSET-005.  That each message enters a process queue once needs this   *)
(* as well: where its position went back, what enters it next would be as  *)
(* GoesOn says, and would be there again.                                  *)
(***************************************************************************)
PositionNeverGoesBack ==
    [][\A m \in Members, q \in Queues : Holds(m, q) /\ Holds(m, q)' =>
        processQueueTable[m][q].nextOffset <= processQueueTable'[m][q].nextOffset]_vars

(***************************************************************************)
(* OFFSET-003.  While a member keeps a queue its progress never goes back. *)
(***************************************************************************)
OwnProgressNeverGoesBack ==
    [][\A m \in Members, q \in Queues :
        Holds(m, q) /\ Holds(m, q)' /\ offsetStore[m][q] # None =>
            offsetStore'[m][q] # None /\ offsetStore'[m][q] >= offsetStore[m][q]]_vars

(***************************************************************************)
(* OFFSET-003.  And that progress is what it commits: a table that never   *)
(* goes back says nothing of commits that are made of something else.      *)
(***************************************************************************)
CommitsOwnProgress ==
    [][\A commit \in network' \ network :
        commit.offset = offsetStore[commit.member][commit.queue]]_vars

(***************************************************************************)
(* OFFSET-006.  A new commit comes from a member that held the queue.      *)
(***************************************************************************)
DroppedNeverCommits ==
    [][\A commit \in network' \ network : Holds(commit.member, commit.queue)]_vars

(***************************************************************************)
(* OFFSET-022.  What a broker has stored of a queue is changed by a commit *)
(* of that queue, and by a start that loads the file.                      *)
(***************************************************************************)
OnlyCommitsAreStored ==
    [][\A q \in Queues : offsetTable'[q] # offsetTable[q] =>
        \/ brokerCrashes' # brokerCrashes
        \/ \E commit \in network \ network' :
            commit.queue = q /\ commit.offset = offsetTable'[q]]_vars

(***************************************************************************)
(* Four of these together, so that the graph is walked once.               *)
(***************************************************************************)
OwnersKeepOrder ==
    RepeatsInWindow /\ OwnProgressNeverGoesBack /\ DroppedNeverCommits /\ OnlyCommitsAreStored

(***************************************************************************)
(* OFFSET-007.                                                             *)
(***************************************************************************)
EveryMessageConsumed ==
    Running # {} ~> (Running = {} \/ \A q \in Queues : Done(q) = Offsets)

(***************************************************************************)
(* Ideals: OFFSET-004 and OFFSET-008.                                      *)
(***************************************************************************)
StoredNeverGoesBack ==
    [][\A q \in Queues : offsetTable[q] # None =>
        offsetTable'[q] # None /\ offsetTable'[q] >= offsetTable[q]]_vars

NoRepeat == \A q \in Queues, o \in Offsets : consumed[q][o] <= 1

(***************************************************************************)
(* Broken, to show that the model is not empty: all of a queue does come   *)
(* to be stored, and two members do hold a queue at once.                  *)
(***************************************************************************)
NeverAllCommitted == \A q \in Queues : offsetTable[q] # MaxOffset
NeverTwoOwners == \A q \in Queues : Cardinality({m \in Running : Holds(m, q)}) <= 1
=============================================================================
