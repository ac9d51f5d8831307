-------------------------------- MODULE System --------------------------------
(***************************************************************************)
(* What a group is promised from end to end: that each message is consumed *)
(* at least once, which repeats and gaps that leaves open, and why each of *)
(* them may be.  Twin of mqspec/core/group.py, mqspec/core/allocation.py,  *)
(* mqspec/core/rebalance.py, mqspec/core/assignment.py,                    *)
(* mqspec/core/offset_commit.py, mqspec/core/log.py                        *)
(* and mqspec/core/recovery.py together.                                   *)
(*                                                                         *)
(* An assignment epoch of a queue is the life of one process queue, from   *)
(* AddMessageQueue until it is dropped or its member dies.  Within an      *)
(* epoch no message comes twice (OFFSET-005).  A message is repeated in    *)
(* another epoch, which began at an offset not beyond it; epoch keeps for  *)
(* each message why that had to be so far back.  A cause can be taken      *)
(* away: by its budget, or by a change of the protocol, which is one of    *)
(* the Remedies.                                                           *)
(*                                                                         *)
(* Modelled: members that come, go and die; assignments that are out of    *)
(* date when they are followed, so that queues have two owners or none;    *)
(* messages in work when their queue is taken away; one-way commits that   *)
(* are late, lost or overtaken; a broker that dies, and starts with the    *)
(* offsets of its file and, where it does not flush before it answers,     *)
(* without any tail of its log; groups that begin at the end.              *)
(*                                                                         *)
(* Left out, each being a module of its own: lists that differ between     *)
(* brokers (Rebalance), the walk of a recovery (Recovery), locks (Lock),   *)
(* messages that fail (Retry), that are sent twice (Publish) and that no   *)
(* subscription matches (Subscription).  Damaged offset files and resets   *)
(* by hand, which may repeat or skip anything. A stop of a member          *)
(* interrupts its listeners: what they were at is consumed, or fails       *)
(* (Retry), or stays unfinished, as where the member crashes.              *)
(*                                                                         *)
(* Not in the core, being the environment: status, assigned, orphans,      *)
(* offsetFile, network, flushed, sent, brokerCrashes; Join, Leave,         *)
(* CrashMember, LoseCommit, SendMessage, FinishOrphan, which is            *)
(* ProcessConsumeResult of a process queue that was dropped.               *)
(* Ghosts: epoch, begun, consumed, lost, gap.                              *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Members,           \* whoever may ever be a member: numbers, in the order of their ids
    InitialMembers,    \* who is there at the beginning
    Stays,             \* who neither leaves nor dies
    Queues,            \* the queues of the topic, as numbers from 0
    MaxMessages,       \* how many are sent to each queue
    SentBefore,        \* how many of them before the group starts
    FromLast,          \* whether a group begins at the end where nothing is stored
    MaxMemberCrashes,
    MaxBrokerCrashes,
    MaxInFlight,       \* commits on their way at once
    Assigner,          \* "member": each computes its own queues; "broker": each asks for them;
                       \* "either": now this, now that
    Remedies,          \* what is changed of the protocol, see below; {} as it is
    None               \* no process queue, no offset, no reason

(***************************************************************************)
(* Each the smallest change that was found to take one cause away.         *)
(***************************************************************************)
ASSUME Remedies \subseteq {
    "WaitForRelease",      \* a member starts on a queue once nobody else holds it
    "FinishBeforeRelease", \* a member lets go of a queue once nothing of it is in work
    "StoreBeforeRelease",  \* a member lets go of a queue once its last commit is answered
    "ReliableCommits",     \* commits arrive
    "LargerCommitOnly",    \* the broker stores no offset smaller than the one before
    "CommitEach",          \* in order, each message consumed and stored as that in one step
    "PersistEach",         \* the broker writes each offset to its file before anybody sees it
    "StoreBeginning",      \* where a group begins on a queue is stored at once
    "SyncFlush"}           \* a message is seen once it is on disk

VARIABLES
    status,            \* member -> "out", "in", "leaving", "left" or "crashed"
    assigned,          \* member -> the queues that it was last told to consume
    processQueueTable, \* member -> queue -> its process queue, or None
    offsetStore,       \* member -> queue -> progress to report, or None
    offsetTable,       \* queue -> what the broker has in memory, or None
    offsetFile,        \* queue -> what the broker's file holds, or None
    network,           \* commits on their way
    orphans,           \* messages in work whose process queue was dropped
    commitLog,         \* queue -> its messages in order
    flushed,           \* queue -> how many of them are surely on disk
    sent,              \* queue -> how many were sent: they are numbered so
    brokerCrashes,     \* how many there have been
    epoch,             \* member -> queue -> what it finished in this epoch, and for each
                       \* message why it may come again in it; or None
    begun,             \* the queues on which the group has begun
    consumed,          \* queue -> the messages that somebody consumed
    lost,              \* queue -> message -> how it was forgotten that it is consumed, or None
    gap                \* queue -> message -> why it may stay unconsumed, or None

memberVars == <<status, assigned>>
workVars == <<processQueueTable, offsetStore, orphans, epoch>>
progressVars == <<offsetTable, offsetFile, network, lost>>
storeVars == <<commitLog, flushed, sent, brokerCrashes>>
vars == <<memberVars, workVars, progressVars, storeVars, begun, consumed, gap>>

A == INSTANCE Allocation WITH
        MaxQueues <- 0, MaxMembers <- 0, Strategies <- {}, Defect <- "none",
        cid <- 0, view <- 0, config <- 0, due <- 0, owned <- 0, before <- 0

-----------------------------------------------------------------------------
Ids == 1..MaxMessages
Progress == 0..MaxMessages
Entries == [offset : Progress, id : Ids]
Commits == [member : Members, queue : Queues, offset : Progress]

RepeatCauses == {
    "TwoOwners", "Handover", "LateCommit", "LostCommit", "MemberCrash", "BrokerCrash",
    "StepBack"}
GapCauses == {"BeforeBeginning", "ForgottenBeginning", "LostTail", "ReusedOffset", "Correction"}

Running == {m \in Members : status[m] \in {"in", "leaving"}}
Holds(m, q) == processQueueTable[m][q] # None
Level(offset) == IF offset = None THEN 0 ELSE offset
Minimum(set) == CHOOSE x \in set : \A y \in set : x <= y
Maximum(set) == CHOOSE x \in set : \A y \in set : x >= y

\* The offset of a message; one that is not in the log is behind all that are.
Position(q, id) ==
    LET places == {p \in DOMAIN commitLog[q] : commitLog[q][p] = id}
    IN  IF places = {} THEN MaxMessages ELSE Minimum(places) - 1

IdsOf(tree) == {e.id : e \in tree}
OffsetsOf(tree) == {e.offset : e \in tree}

-----------------------------------------------------------------------------
TypeOK ==
    /\ status \in [Members -> {"out", "in", "leaving", "left", "crashed"}]
    /\ assigned \in [Members -> SUBSET Queues]
    /\ \A m \in Members, q \in Queues :
        /\ Holds(m, q) => processQueueTable[m][q] \in
            [nextOffset : Progress, msgTreeMap : SUBSET Entries]
        /\ Holds(m, q) => epoch[m][q] \in
            [finished : SUBSET Ids, why : [Ids -> RepeatCauses \cup {None}]]
        /\ epoch[m][q] = None <=> ~Holds(m, q)
        /\ offsetStore[m][q] \in Progress \cup {None}
    /\ \A q \in Queues :
        /\ offsetTable[q] \in Progress \cup {None}
        /\ offsetFile[q] \in Progress \cup {None}
        /\ flushed[q] \in 0..Len(commitLog[q])
        /\ sent[q] \in Progress
        /\ \A p \in DOMAIN commitLog[q] : commitLog[q][p] \in 1..sent[q]
    /\ network \subseteq Commits
    /\ \A e \in orphans :
        e.member \in Running /\ e.queue \in Queues /\ e.id \in Ids
    /\ brokerCrashes \in 0..MaxBrokerCrashes
    /\ begun \subseteq Queues
    /\ consumed \in [Queues -> SUBSET Ids]
    /\ lost \in [Queues -> [Ids -> RepeatCauses \cup {None}]]
    /\ gap \in [Queues -> [Ids -> GapCauses \cup {None}]]

Init ==
    /\ status = [m \in Members |-> IF m \in InitialMembers THEN "in" ELSE "out"]
    /\ assigned = [m \in Members |-> {}]
    /\ processQueueTable = [m \in Members |-> [q \in Queues |-> None]]
    /\ offsetStore = [m \in Members |-> [q \in Queues |-> None]]
    /\ offsetTable = [q \in Queues |-> None]
    /\ offsetFile = [q \in Queues |-> None]
    /\ network = {}
    /\ orphans = {}
    /\ commitLog = [q \in Queues |-> [p \in 1..SentBefore |-> p]]
    /\ flushed = [q \in Queues |-> SentBefore]
    /\ sent = [q \in Queues |-> SentBefore]
    /\ brokerCrashes = 0
    /\ epoch = [m \in Members |-> [q \in Queues |-> None]]
    /\ begun = {}
    /\ consumed = [q \in Queues |-> {}]
    /\ lost = [q \in Queues |-> [id \in Ids |-> None]]
    /\ gap = [q \in Queues |-> [id \in Ids |-> None]]

-----------------------------------------------------------------------------
(***************************************************************************)
(* Members come, go as they should, and die.  One that goes drops its      *)
(* queues first, and then is taken off the list.                           *)
(***************************************************************************)
Join(m) ==
    /\ status[m] = "out"
    /\ status' = [status EXCEPT ![m] = "in"]
    /\ UNCHANGED <<assigned, workVars, progressVars, storeVars, begun, consumed, gap>>

Leave(m) ==
    /\ status[m] = "in"
    /\ m \notin Stays
    /\ status' = [status EXCEPT ![m] = "leaving"]
    /\ assigned' = [assigned EXCEPT ![m] = {}]
    /\ UNCHANGED <<workVars, progressVars, storeVars, begun, consumed, gap>>

UnregisterConsumer(m) ==
    /\ status[m] = "leaving"
    /\ \A q \in Queues : ~Holds(m, q)
    /\ status' = [status EXCEPT ![m] = "left"]
    /\ orphans' = {e \in orphans : e.member # m}
    /\ UNCHANGED <<assigned, processQueueTable, offsetStore, epoch, progressVars, storeVars,
                   begun, consumed, gap>>

(***************************************************************************)
(* Of what it consumed only what is stored is known any more.  Where that  *)
(* went back before, this is the reason already.                           *)
(***************************************************************************)
CrashMember(m) ==
    /\ m \in Running \ Stays
    /\ Cardinality({n \in Members : status[n] = "crashed"}) < MaxMemberCrashes
    /\ status' = [status EXCEPT ![m] = "crashed"]
    /\ assigned' = [assigned EXCEPT ![m] = {}]
    /\ lost' = [q \in Queues |-> [id \in Ids |->
        IF Holds(m, q) /\ id \in epoch[m][q].finished
                       /\ Position(q, id) >= Level(offsetTable[q]) /\ lost[q][id] = None
        THEN "MemberCrash" ELSE lost[q][id]]]
    /\ processQueueTable' = [processQueueTable EXCEPT ![m] = [q \in Queues |-> None]]
    /\ epoch' = [epoch EXCEPT ![m] = [q \in Queues |-> None]]
    /\ offsetStore' = [offsetStore EXCEPT ![m] = [q \in Queues |-> None]]
    /\ orphans' = {e \in orphans : e.member # m}
    /\ UNCHANGED <<offsetTable, offsetFile, network, storeVars, begun, consumed, gap>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The slice of a member, by the list as it is now.  It is followed later, *)
(* in steps of its own, when it may be out of date.                        *)
(***************************************************************************)
Listed == Running

Allocate(m) ==
    LET index == Cardinality({n \in Listed : n < m})
    IN  A!AverageSlice(Cardinality(Queues), Cardinality(Listed), index) \cap Queues

Assign(m) ==
    /\ status[m] = "in"
    /\ assigned[m] # Allocate(m)
    /\ assigned' = [assigned EXCEPT ![m] = Allocate(m)]
    /\ UNCHANGED <<status, workVars, progressVars, storeVars, begun, consumed, gap>>

(***************************************************************************)
(* A member reads the list from the broker, and computes; or it asks the   *)
(* broker, which computes from the same list.                              *)
(***************************************************************************)
RebalanceByTopic(m) == Assigner # "broker" /\ Assign(m)

DoLoadBalance(m) == Assigner # "member" /\ Assign(m)

\* What the file holds once the table is this.
Written(table) == IF "PersistEach" \in Remedies THEN table ELSE offsetFile

(***************************************************************************)
(* What is stored of a queue from now on.  Of what was below and no longer *)
(* is it is forgotten that it is consumed; of what is not below, Otherwise *)
(* says how.                                                               *)
(***************************************************************************)
Store(q, offset, Otherwise(_)) ==
    LET before == Level(offsetTable[q])
        now == IF "LargerCommitOnly" \in Remedies /\ offset < before THEN before ELSE offset
    IN  /\ offsetTable' = [offsetTable EXCEPT ![q] = now]
        /\ offsetFile' = Written(offsetTable')
        /\ lost' = [lost EXCEPT ![q] = [id \in Ids |->
            CASE Position(q, id) < now    -> None
              [] Position(q, id) < before -> "StepBack"
              [] OTHER                    -> Otherwise(id)]]

(***************************************************************************)
(* Where a member starts: at the offset that is stored; where there is     *)
(* none at the beginning or, as the policy says, at the end.               *)
(***************************************************************************)
Start(q) ==
    IF offsetTable[q] # None THEN offsetTable[q]
    ELSE IF FromLast THEN Len(commitLog[q]) ELSE 0

(***************************************************************************)
(* A member starts on a queue that it was told to consume.                 *)
(*                                                                         *)
(* Here an epoch begins, and with it the reasons: why a message from here  *)
(* on may have come, or be coming, to somebody else.                       *)
(***************************************************************************)
AddMessageQueue(m, q) ==
    LET stored == offsetTable[q]
        start  == Start(q)
        others == {n \in Members \ {m} : Holds(n, q)}
        from   == {id \in Ids : Position(q, id) >= start}
        with(n) ==
            LET pq == processQueueTable[n][q]
            IN  {id \in from : id \in epoch[n][q].finished \/ id \in IdsOf(pq.msgTreeMap)
                                \/ Position(q, id) >= pq.nextOffset}
        shared == UNION {with(n) : n \in others}
        inWork == {e.id : e \in {o \in orphans : o.queue = q}} \cap from
        why(id) == CASE id \notin from -> None
                     [] id \in shared  -> "TwoOwners"
                     [] id \in inWork  -> "Handover"
                     [] OTHER          -> lost[q][id]
        marked(old) == [old EXCEPT !.why = [id \in Ids |->
            IF @[id] = None /\ id \in shared \ old.finished THEN "TwoOwners" ELSE @[id]]]
        skipped == {id \in Ids : stored = None /\ Position(q, id) < start} \ consumed[q]
    IN  /\ status[m] = "in"
        /\ q \in assigned[m]
        /\ ~Holds(m, q)
        /\ "WaitForRelease" \in Remedies => others = {}
        /\ processQueueTable' = [processQueueTable EXCEPT
            ![m][q] = [nextOffset |-> start, msgTreeMap |-> {}]]
        /\ epoch' = [n \in Members |-> [epoch[n] EXCEPT ![q] =
            IF n = m THEN [finished |-> {}, why |-> [id \in Ids |-> why(id)]]
            ELSE IF n \in others THEN marked(@) ELSE @]]
        /\ offsetStore' = [offsetStore EXCEPT ![m][q] = stored]
        /\ orphans' = {IF e.queue = q /\ e.id \in inWork /\ e.why = None
                       THEN [e EXCEPT !.why = "Handover"] ELSE e : e \in orphans}
        /\ IF stored = None /\ "StoreBeginning" \in Remedies
           THEN Store(q, start, LAMBDA id : lost[q][id])
           ELSE UNCHANGED <<offsetTable, offsetFile, lost>>
        /\ begun' = begun \cup {q}
        /\ gap' = [gap EXCEPT ![q] = [id \in Ids |->
            IF id \notin skipped \/ @[id] # None THEN @[id]
            ELSE IF q \in begun THEN "ForgottenBeginning" ELSE "BeforeBeginning"]]
        /\ UNCHANGED <<memberVars, network, storeVars, consumed>>

(***************************************************************************)
(* A queue is taken away: dropped, and reported for the last time.  What   *)
(* is in work goes on, and nobody reports it.                              *)
(***************************************************************************)
Commit(m, q) == [member |-> m, queue |-> q, offset |-> offsetStore[m][q]]

Send(commits) ==
    /\ Cardinality(network \cup commits) <= MaxInFlight
    /\ network' = network \cup commits

Reported(m, q) == offsetStore[m][q]

Working(m, q) ==
    {[member |-> m, queue |-> q, id |-> e.id, why |-> epoch[m][q].why[e.id]] :
        e \in processQueueTable[m][q].msgTreeMap}

RemoveUnnecessaryMessageQueue(m, q) ==
    LET pq       == processQueueTable[m][q]
        commit   == [Commit(m, q) EXCEPT !.offset = Reported(m, q)]
        stores   == Remedies \cap {"StoreBeforeRelease", "CommitEach"} # {}
        forgotten(id) == id \in epoch[m][q].finished /\ Position(q, id) >= Level(offsetTable[q])
        unreported(id) == IF forgotten(id) THEN "Handover" ELSE lost[q][id]
    IN  /\ Holds(m, q)
        /\ q \notin assigned[m]
        /\ "FinishBeforeRelease" \in Remedies => pq.msgTreeMap = {}
        /\ processQueueTable' = [processQueueTable EXCEPT ![m][q] = None]
        /\ epoch' = [epoch EXCEPT ![m][q] = None]
        /\ offsetStore' = [offsetStore EXCEPT ![m][q] = None]
        /\ orphans' = orphans \cup Working(m, q)
        /\ CASE commit.offset = None -> UNCHANGED progressVars
             [] commit.offset # None /\ stores ->
                    Store(q, commit.offset, unreported) /\ UNCHANGED network
             [] OTHER ->
                    /\ Send({commit})
                    /\ lost' = [lost EXCEPT ![q] = [id \in Ids |->
                        IF forgotten(id) /\ Position(q, id) < commit.offset
                        THEN "LateCommit" ELSE unreported(id)]]
                    /\ UNCHANGED <<offsetTable, offsetFile>>
        /\ UNCHANGED <<memberVars, storeVars, begun, consumed, gap>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The next message enters the process queue.                              *)
(***************************************************************************)
PullMessage(m, q) ==
    LET pq == processQueueTable[m][q]
    IN  /\ Holds(m, q)
        /\ pq.nextOffset < Len(commitLog[q])
        /\ "FinishBeforeRelease" \in Remedies => q \in assigned[m]
        /\ processQueueTable' = [processQueueTable EXCEPT
            ![m][q].nextOffset = @ + 1,
            ![m][q].msgTreeMap =
                @ \cup {[offset |-> pq.nextOffset, id |-> commitLog[q][pq.nextOffset + 1]]}]
        /\ UNCHANGED <<memberVars, offsetStore, orphans, epoch, progressVars, storeVars,
                       begun, consumed, gap>>

(***************************************************************************)
(* The broker has less than the member knows of, and names its end: the    *)
(* process queue is dropped, and the end is stored, whatever is in work.   *)
(***************************************************************************)
OffsetIllegal(m, q) ==
    /\ Holds(m, q)
    /\ processQueueTable[m][q].nextOffset > Len(commitLog[q])
    /\ "FinishBeforeRelease" \in Remedies => processQueueTable[m][q].msgTreeMap = {}
    /\ processQueueTable' = [processQueueTable EXCEPT ![m][q] = None]
    /\ epoch' = [epoch EXCEPT ![m][q] = None]
    /\ offsetStore' = [offsetStore EXCEPT ![m][q] = None]
    /\ offsetTable' = [offsetTable EXCEPT ![q] = Len(commitLog[q])]
    /\ offsetFile' = Written(offsetTable')
    /\ orphans' = orphans \cup Working(m, q)
    /\ gap' = [gap EXCEPT ![q] = [id \in Ids |->
        IF @[id] = None /\ id \in {work.id : work \in Working(m, q)} \ consumed[q]
        THEN "Correction" ELSE @[id]]]
    /\ UNCHANGED <<memberVars, network, lost, storeVars, begun, consumed>>

(***************************************************************************)
(* A message is finished.  Progress is the smallest one that is not, or    *)
(* the next one to pull, and never goes back.                              *)
(***************************************************************************)
ProcessConsumeResult(m, q, e) ==
    LET pq       == processQueueTable[m][q]
        rest     == pq.msgTreeMap \ {e}
        reached  == IF rest = {} THEN pq.nextOffset ELSE Minimum(OffsetsOf(rest))
        progress == Maximum({Level(offsetStore[m][q]), reached})
        each     == "CommitEach" \in Remedies
    IN  /\ Holds(m, q)
        /\ e \in pq.msgTreeMap
        /\ each => \A o \in rest : e.offset < o.offset
        /\ processQueueTable' = [processQueueTable EXCEPT ![m][q].msgTreeMap = rest]
        /\ epoch' = [epoch EXCEPT
            ![m][q].finished = @ \cup {e.id},
            ![m][q].why[e.id] = None]
        /\ offsetStore' = [offsetStore EXCEPT ![m][q] = progress]
        /\ consumed' = [consumed EXCEPT ![q] = @ \cup {e.id}]
        /\ IF each THEN Store(q, progress, LAMBDA id : lost[q][id])
           ELSE /\ lost' = [lost EXCEPT ![q][e.id] = None]
                /\ UNCHANGED <<offsetTable, offsetFile>>
        /\ UNCHANGED <<memberVars, network, orphans, storeVars, begun, gap>>

FinishOrphan(m, q) ==
    /\ \E e \in orphans :
        /\ e.member = m
        /\ e.queue = q
        /\ orphans' = orphans \ {e}
        /\ consumed' = [consumed EXCEPT ![q] = @ \cup {e.id}]
        /\ lost' = IF Position(q, e.id) < Level(offsetTable[q]) THEN lost
                   ELSE [lost EXCEPT ![q][e.id] = "Handover"]
    /\ UNCHANGED <<memberVars, processQueueTable, offsetStore, epoch, offsetTable,
                   offsetFile, network, storeVars, begun, gap>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Every 5 s a member reports its progress on each queue that it holds.    *)
(***************************************************************************)
PersistAll(m) ==
    LET reported == {q \in Queues : Holds(m, q) /\ offsetStore[m][q] # None}
    IN  /\ "CommitEach" \notin Remedies
        /\ \E q \in reported : offsetStore[m][q] # offsetTable[q]
        /\ Send({Commit(m, q) : q \in reported})
        /\ UNCHANGED <<memberVars, workVars, offsetTable, offsetFile, lost, storeVars,
                       begun, consumed, gap>>

(***************************************************************************)
(* A commit arrives, and is stored whatever it says.                       *)
(***************************************************************************)
UpdateConsumerOffset(commit) ==
    /\ commit \in network
    /\ network' = network \ {commit}
    /\ Store(commit.queue, commit.offset, LAMBDA id : lost[commit.queue][id])
    /\ UNCHANGED <<memberVars, workVars, storeVars, begun, consumed, gap>>

(***************************************************************************)
(* A commit does not arrive.                                               *)
(***************************************************************************)
LoseCommit(commit) ==
    /\ "ReliableCommits" \notin Remedies
    /\ commit \in network
    /\ network' = network \ {commit}
    /\ lost' = [lost EXCEPT ![commit.queue] = [id \in Ids |->
        IF @[id] = "LateCommit" /\ Position(commit.queue, id) < commit.offset
        THEN "LostCommit" ELSE @[id]]]
    /\ UNCHANGED <<memberVars, workVars, offsetTable, offsetFile, storeVars, begun,
                   consumed, gap>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A message is sent.  Where the log was cut, it may get an offset that    *)
(* the group has passed.                                                   *)
(***************************************************************************)
Passed(q, p) ==
    \/ Level(offsetTable[q]) > p
    \/ Level(offsetFile[q]) > p
    \/ \E commit \in network : commit.queue = q /\ commit.offset > p
    \/ \E m \in Members : Holds(m, q) /\ processQueueTable[m][q].nextOffset > p

SendMessage(q) ==
    LET id == sent[q] + 1
    IN  /\ sent[q] < MaxMessages
        /\ sent' = [sent EXCEPT ![q] = id]
        /\ commitLog' = [commitLog EXCEPT ![q] = Append(@, id)]
        /\ flushed' = IF "SyncFlush" \in Remedies
                      THEN [flushed EXCEPT ![q] = Len(commitLog[q]) + 1] ELSE flushed
        /\ gap' = IF Passed(q, Len(commitLog[q]))
                  THEN [gap EXCEPT ![q][id] = "ReusedOffset"] ELSE gap
        /\ UNCHANGED <<memberVars, workVars, progressVars, brokerCrashes, begun, consumed>>

(***************************************************************************)
(* The log of a queue is flushed; the table of offsets is written to its   *)
(* file.  That matters only to a crash that is still to come.              *)
(***************************************************************************)
Flush(q) ==
    /\ brokerCrashes < MaxBrokerCrashes
    /\ flushed[q] < Len(commitLog[q])
    /\ flushed' = [flushed EXCEPT ![q] = Len(commitLog[q])]
    /\ UNCHANGED <<memberVars, workVars, progressVars, commitLog, sent, brokerCrashes,
                   begun, consumed, gap>>

Persist ==
    /\ brokerCrashes < MaxBrokerCrashes
    /\ offsetFile # offsetTable
    /\ offsetFile' = offsetTable
    /\ UNCHANGED <<memberVars, workVars, offsetTable, network, lost, storeVars, begun,
                   consumed, gap>>

(***************************************************************************)
(* The broker dies, and starts with the offsets of its file, and with that *)
(* much of its log.                                                        *)
(***************************************************************************)
Load(length) ==
    LET log(q)  == SubSeq(commitLog[q], 1, length[q])
        kept(q) == {log(q)[p] : p \in DOMAIN log(q)}
        cut(q)  == {commitLog[q][p] : p \in DOMAIN commitLog[q]} \ kept(q)
    IN  /\ brokerCrashes < MaxBrokerCrashes
        /\ \A q \in Queues : length[q] \in flushed[q]..Len(commitLog[q])
        /\ brokerCrashes' = brokerCrashes + 1
        /\ commitLog' = [q \in Queues |-> log(q)]
        /\ flushed' = length
        /\ offsetTable' = offsetFile
        /\ lost' = [q \in Queues |-> [id \in Ids |->
            IF /\ Level(offsetFile[q]) <= Position(q, id)
               /\ Position(q, id) < Level(offsetTable[q])
            THEN "BrokerCrash" ELSE lost[q][id]]]
        /\ gap' = [q \in Queues |-> [id \in Ids |->
            IF id \in cut(q) \ consumed[q] /\ gap[q][id] = None THEN "LostTail" ELSE gap[q][id]]]
        /\ UNCHANGED <<memberVars, workVars, offsetFile, network, sent, begun, consumed>>

-----------------------------------------------------------------------------
Next ==
    \/ \E m \in Members :
        \/ Join(m) \/ Leave(m) \/ UnregisterConsumer(m) \/ CrashMember(m)
        \/ RebalanceByTopic(m) \/ DoLoadBalance(m)
        \/ PersistAll(m)
    \/ \E m \in Members, q \in Queues :
        \/ AddMessageQueue(m, q)
        \/ RemoveUnnecessaryMessageQueue(m, q)
        \/ PullMessage(m, q)
        \/ OffsetIllegal(m, q)
        \/ FinishOrphan(m, q)
    \/ \E m \in Members, q \in Queues, e \in Entries : ProcessConsumeResult(m, q, e)
    \/ \E commit \in Commits : UpdateConsumerOffset(commit) \/ LoseCommit(commit)
    \/ \E q \in Queues : SendMessage(q) \/ Flush(q)
    \/ Persist
    \/ \E length \in [Queues -> Progress] : Load(length)

(***************************************************************************)
(* Whoever can go on goes on.  Between two perturbations, which are        *)
(* bounded, there are finitely many of these steps, so that it is enough   *)
(* to ask that one of them is taken while any can be.  Commits may be      *)
(* reported for ever, so that their arrival is asked for by itself; where  *)
(* the network is full a queue cannot be let go of.  Nothing is asked of   *)
(* what is in work of dropped process queues: for every message to be      *)
(* consumed none of it need ever finish.                                   *)
(***************************************************************************)
GoOn ==
    \/ \E m \in Members : RebalanceByTopic(m) \/ DoLoadBalance(m) \/ UnregisterConsumer(m)
    \/ \E m \in Members, q \in Queues :
        \/ AddMessageQueue(m, q)
        \/ RemoveUnnecessaryMessageQueue(m, q)
        \/ PullMessage(m, q)
        \/ OffsetIllegal(m, q)
        \/ \E e \in Entries : ProcessConsumeResult(m, q, e)
    \/ \E q \in Queues : SendMessage(q)

Fairness ==
    /\ WF_vars(GoOn)
    /\ WF_vars(\E commit \in Commits : UpdateConsumerOffset(commit) \/ LoseCommit(commit))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* What is in work, in a process queue or of one that was dropped; what of *)
(* it is a repeat, because somebody has consumed it.                       *)
(***************************************************************************)
InWork ==
    orphans \cup UNION {
        IF Holds(m, q) THEN Working(m, q) ELSE {} : m \in Members, q \in Queues}

Repeats == {work \in InWork : work.id \in consumed[work.queue]}

(***************************************************************************)
(* SYSTEM-002.  A repeat has one of the named causes.                      *)
(***************************************************************************)
EveryRepeatIsNamed == \A repeat \in Repeats : repeat.why # None

(***************************************************************************)
(* A name says what happened, where no log loses its end: what is not      *)
(* reported was consumed, and is not below what is stored; and a commit    *)
(* that is late is on its way.                                             *)
(***************************************************************************)
NamedIsUnreported ==
    \A q \in Queues, id \in Ids :
        lost[q][id] # None =>
            /\ id \in consumed[q]
            /\ Position(q, id) >= Level(offsetTable[q])
            /\ lost[q][id] = "LateCommit" =>
                   \E commit \in network : commit.queue = q /\ commit.offset > Position(q, id)

(***************************************************************************)
(* A second member is told to consume a queue before the first lets go.    *)
(***************************************************************************)
NoRepeatByTwoOwners == \A repeat \in Repeats : repeat.why # "TwoOwners"

(***************************************************************************)
(* A queue is taken away while something of it is in work: that, and what  *)
(* was finished behind it, is not reported.                                *)
(***************************************************************************)
NoRepeatAfterHandover == \A repeat \in Repeats : repeat.why # "Handover"

(***************************************************************************)
(* The last commit of the old owner arrives after the new one asked.       *)
(***************************************************************************)
NoRepeatByLateCommit == \A repeat \in Repeats : repeat.why # "LateCommit"

(***************************************************************************)
(* The last commit of the old owner never arrives.                         *)
(***************************************************************************)
NoRepeatByLostCommit == \A repeat \in Repeats : repeat.why # "LostCommit"

(***************************************************************************)
(* A member dies with what it consumed and has not stored.                 *)
(***************************************************************************)
NoRepeatAfterMemberCrash == \A repeat \in Repeats : repeat.why # "MemberCrash"

(***************************************************************************)
(* A broker dies with offsets that are not in its file.                    *)
(***************************************************************************)
NoRepeatAfterBrokerCrash == \A repeat \in Repeats : repeat.why # "BrokerCrash"

(***************************************************************************)
(* A smaller offset is stored on top of a larger one: an old commit that   *)
(* was overtaken, or that of an owner who began further back.              *)
(***************************************************************************)
NoRepeatAfterStepBack == \A repeat \in Repeats : repeat.why # "StepBack"

(***************************************************************************)
(* Any of these.                                                           *)
(***************************************************************************)
NoRepeat == Repeats = {}

-----------------------------------------------------------------------------
(***************************************************************************)
(* What was sent and nobody will consume: it is in nobody's hands, and     *)
(* not in the log any more or where the group has passed.                  *)
(***************************************************************************)
Gaps ==
    {missed \in [queue : Queues, id : Ids] :
        LET q == missed.queue
            id == missed.id
            p == Position(q, id)
        IN  /\ id <= sent[q]
            /\ id \notin consumed[q]
            /\ \A work \in InWork : work.queue # q \/ work.id # id
            /\ p = MaxMessages \/ Passed(q, p)}

GapsBy(cause) == {missed \in Gaps : gap[missed.queue][missed.id] = cause}

(***************************************************************************)
(* SYSTEM-003.  A gap has one of the named causes.                         *)
(***************************************************************************)
EveryGapIsNamed == GapsBy(None) = {}

\* What is named as lost with a tail is not in the log.
LostTailIsGone ==
    \A q \in Queues, id \in Ids : gap[q][id] = "LostTail" => Position(q, id) = MaxMessages

(***************************************************************************)
(* OFFSET-002.  All below an offset that was committed is consumed.        *)
(***************************************************************************)
CommittedIsConsumed ==
    \A q \in Queues : \A p \in DOMAIN commitLog[q] :
        LET id == commitLog[q][p]
        IN  \/ id \in consumed[q]
            \/ gap[q][id] # None
            \/ /\ Level(offsetTable[q]) < p
               /\ Level(offsetFile[q]) < p
               /\ \A commit \in network : commit.queue = q => commit.offset < p

(***************************************************************************)
(* A group begins at the end, and messages were there before.              *)
(***************************************************************************)
NoGapBeforeBeginning == GapsBy("BeforeBeginning") = {}

(***************************************************************************)
(* A group began at the end, and that is forgotten: it begins again at an  *)
(* end that is further on.                                                 *)
(***************************************************************************)
NoGapByForgottenBeginning == GapsBy("ForgottenBeginning") = {}

(***************************************************************************)
(* A broker dies with a tail of its log that is not on disk.               *)
(***************************************************************************)
NoGapByLostTail == GapsBy("LostTail") = {}

(***************************************************************************)
(* A message gets the offset of one that was lost, which the group passed. *)
(***************************************************************************)
NoGapByReusedOffset == GapsBy("ReusedOffset") = {}

(***************************************************************************)
(* A member is told that the queue ends before where it wants to go on,    *)
(* and stores that end though messages before it are in work; then it      *)
(* dies.                                                                   *)
(***************************************************************************)
NoGapByCorrection == GapsBy("Correction") = {}

NoGap == Gaps = {}

(***************************************************************************)
(* SYSTEM-001.  In the end every message is consumed, but the gaps.        *)
(***************************************************************************)
EveryMessageConsumed ==
    <>[](\A q \in Queues, id \in Ids : id \in consumed[q] \/ gap[q][id] # None)

(***************************************************************************)
(* Refinement: what the group sees of a message.  It is lost as soon as    *)
(* nothing is left by which it would still come.                           *)
(***************************************************************************)
Messages == Queues \X Ids

StateOf(q, id) ==
    LET p == Position(q, id)
        committed ==
            \/ Level(offsetTable[q]) > p
            \/ Level(offsetFile[q]) > p
            \/ \E commit \in network : commit.queue = q /\ commit.offset > p
        held == \E m \in Members : Holds(m, q)
            /\ id \in IdsOf(processQueueTable[m][q].msgTreeMap)
    IN  CASE id \in consumed[q] -> "done"
          [] id > sent[q]       -> "pending"
          [] committed          -> "lost"
          [] held               -> "delivered"
          [] Passed(q, p) \/ p = MaxMessages -> "lost"
          [] OTHER              -> "pending"

D == INSTANCE Delivery WITH
        state <- [message \in Messages |-> StateOf(message[1], message[2])]

DeliveredAtLeastOnce == D!Spec
===============================================================================
