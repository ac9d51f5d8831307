--------------------------------- MODULE Log ---------------------------------
(***************************************************************************)
(* Messages are appended to one CommitLog and dispatched from there to a   *)
(* ConsumeQueue for each queue, which is what consumers read.  Twin of     *)
(* mqspec/core/log.py.                                                     *)
(*                                                                         *)
(* Modelled: segments and the blank that closes one, queue offsets given   *)
(* at append, puts that fail, the transient store pool, flushing, dispatch *)
(* as a step of its own, synchronous and asynchronous flush.               *)
(*                                                                         *)
(* Left out: batches; prepared and rollback records, which enter no        *)
(* ConsumeQueue; segments that expire.  Crashes are Recovery's.            *)
(*                                                                         *)
(* Not in the core, being the environment: FailToAppend.                   *)
(* Ghosts: messages, failures.                                             *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Queues,       \* of all topics of one broker
    Sizes,        \* the sizes that records may have
    SegmentSize,
    BlankSize,    \* the smallest blank: what a segment always keeps free at its end
    MaxMessages,  \* how many messages producers send
    MaxFailures,  \* how many puts fail
    SyncFlush,    \* TRUE: a message is visible only once it is on disk
    TransientStorePool,  \* TRUE: a message is in memory first, and in the files later
    \* Defects, FALSE in the protocol as it is:
    OffsetBeforeChecks,  \* a put takes its queue offset before it can fail
    DispatchBeforeFlush  \* synchronous flush does not hold the dispatcher back

VARIABLES
    commitLog,        \* the records and blanks, in order
    committedWhere,   \* position: everything before it is in the files
    flushedWhere,     \* position: everything before it survives a crash
    reputFromOffset,  \* position: everything before it is dispatched
    topicQueueTable,  \* the queue offset that a queue's next record gets
    consumeQueue,     \* each queue's units, the one of queue offset k at k + 1
    messages,         \* how many messages were stored
    failures          \* how many puts failed

logVars == <<commitLog, committedWhere, flushedWhere, reputFromOffset, topicQueueTable,
             consumeQueue, messages, failures>>

-----------------------------------------------------------------------------
Blank == "blank"

Entry(queue, queueOffset, position, size, message) ==
    [queue |-> queue, queueOffset |-> queueOffset, position |-> position, size |-> size,
     message |-> message]

Unit(r) == [position |-> r.position, size |-> r.size, message |-> r.message]

Behind(r) == r.position + r.size

End(log) == IF log = <<>> THEN 0 ELSE Behind(log[Len(log)])

Range(s) == {s[i] : i \in DOMAIN s}

RecordsOf(log, q) == LET IsOfQueue(r) == r.queue = q IN SelectSeq(log, IsOfQueue)

(***************************************************************************)
(* What closes the segment before a record of a size: nothing, or a blank, *)
(* where the room left would not hold the record and a blank after it.     *)
(***************************************************************************)
Closing(size) ==
    LET end  == End(commitLog)
        room == SegmentSize - (end % SegmentSize)
    IN  IF size + BlankSize > room THEN <<Entry(Blank, 0, end, room, 0)>> ELSE <<>>

(***************************************************************************)
(* What dispatching a record makes of its queue's units: one more, unless  *)
(* the record has its unit already.  No record comes ahead of its queue    *)
(* but in the defects here.  Then 5.3.3 appends it all the same, as here,  *)
(* and begins an empty queue at its offset; the core begins the queue anew *)
(* there in both cases, so that a unit is at its offset (LOG-003).         *)
(***************************************************************************)
Dispatched(units, r) ==
    IF r.queueOffset < Len(units) THEN units ELSE Append(units, Unit(r))

-----------------------------------------------------------------------------
LogInit ==
    /\ commitLog = <<>>
    /\ committedWhere = 0
    /\ flushedWhere = 0
    /\ reputFromOffset = 0
    /\ topicQueueTable = [q \in Queues |-> 0]
    /\ consumeQueue = [q \in Queues |-> <<>>]
    /\ messages = 0
    /\ failures = 0

(***************************************************************************)
(* A message is stored at the end of the log, and only now takes its queue *)
(* offset.  Its producer gets its answer, with asynchronous flush.         *)
(***************************************************************************)
AppendMessage(q, size) ==
    LET closed == commitLog \o Closing(size)
    IN  /\ messages < MaxMessages
        /\ size + BlankSize <= SegmentSize
        /\ commitLog' = Append(closed, Entry(q, topicQueueTable[q], End(closed), size,
                                             messages + 1))
        /\ committedWhere' = IF TransientStorePool THEN committedWhere ELSE End(commitLog')
        /\ topicQueueTable' = [topicQueueTable EXCEPT ![q] = @ + 1]
        /\ messages' = messages + 1
        /\ UNCHANGED <<flushedWhere, reputFromOffset, consumeQueue, failures>>

(***************************************************************************)
(* A put fails: a limit is passed, or the segment cannot be made.          *)
(***************************************************************************)
FailToAppend(q) ==
    /\ failures < MaxFailures
    /\ failures' = failures + 1
    /\ topicQueueTable' = [topicQueueTable EXCEPT ![q] = IF OffsetBeforeChecks THEN @ + 1 ELSE @]
    /\ UNCHANGED <<commitLog, committedWhere, flushedWhere, reputFromOffset, consumeQueue,
                   messages>>

(***************************************************************************)
(* What is in the transient store pool goes to the files.  From then on a  *)
(* kill of the process leaves it.                                          *)
(***************************************************************************)
Commit ==
    /\ committedWhere < End(commitLog)
    /\ committedWhere' = End(commitLog)
    /\ UNCHANGED <<commitLog, flushedWhere, reputFromOffset, topicQueueTable, consumeQueue,
                   messages, failures>>

(***************************************************************************)
(* Everything that is in the files so far goes to disk.                    *)
(***************************************************************************)
Flush ==
    /\ flushedWhere < committedWhere
    /\ flushedWhere' = committedWhere
    /\ UNCHANGED <<commitLog, committedWhere, reputFromOffset, topicQueueTable, consumeQueue,
                   messages, failures>>

(***************************************************************************)
(* The dispatcher takes the next record, or goes over a blank.  It reads   *)
(* the files; with synchronous flush it stays behind the flushed position. *)
(***************************************************************************)
Dispatch ==
    \E r \in Range(commitLog) :
        /\ r.position = reputFromOffset
        /\ Behind(r) <= committedWhere
        /\ (SyncFlush /\ ~DispatchBeforeFlush) => Behind(r) <= flushedWhere
        /\ reputFromOffset' = Behind(r)
        /\ consumeQueue' = IF r.queue = Blank THEN consumeQueue
                           ELSE [consumeQueue EXCEPT ![r.queue] = Dispatched(@, r)]
        /\ UNCHANGED <<commitLog, committedWhere, flushedWhere, topicQueueTable, messages,
                       failures>>

LogNext ==
    \/ \E q \in Queues, size \in Sizes : AppendMessage(q, size)
    \/ \E q \in Queues : FailToAppend(q)
    \/ Commit
    \/ Flush
    \/ Dispatch

LogSpec ==
    /\ LogInit
    /\ [][LogNext]_logVars
    /\ WF_logVars(Commit)
    /\ WF_logVars(Flush)
    /\ WF_logVars(Dispatch)

-----------------------------------------------------------------------------
Positions == 0 .. 2 * SegmentSize * MaxMessages

LogTypeOK ==
    /\ commitLog \in Seq([queue : Queues \cup {Blank}, queueOffset : Nat, position : Positions,
                          size : 1 .. SegmentSize, message : 0 .. MaxMessages])
    /\ committedWhere \in Positions
    /\ flushedWhere \in 0 .. committedWhere
    /\ reputFromOffset \in Positions
    /\ topicQueueTable \in [Queues -> 0 .. MaxMessages + MaxFailures]
    /\ consumeQueue \in [Queues -> Seq([position : Positions, size : Sizes,
                                        message : 1 .. MaxMessages])]
    /\ messages \in 0 .. MaxMessages
    /\ failures \in 0 .. MaxFailures

(***************************************************************************)
(* Records lie one behind the other, each where it says (LOG-001).         *)
(***************************************************************************)
RecordsLieInOrder ==
    \A i \in DOMAIN commitLog :
        commitLog[i].position = IF i = 1 THEN 0 ELSE Behind(commitLog[i - 1])

(***************************************************************************)
(* No record spans two segments; what is followed by another segment ends  *)
(* with a blank (LOG-004).                                                 *)
(***************************************************************************)
SegmentsAreClosed ==
    \A i \in DOMAIN commitLog :
        LET r == commitLog[i]
        IN  /\ r.position \div SegmentSize = (Behind(r) - 1) \div SegmentSize
            /\ (Behind(r) % SegmentSize = 0) <=> (r.queue = Blank)

(***************************************************************************)
(* The records of a queue have the queue offsets 0, 1, 2, ... (LOG-002).   *)
(***************************************************************************)
QueueOffsetsAreDense ==
    \A q \in Queues :
        \A i \in DOMAIN RecordsOf(commitLog, q) :
            RecordsOf(commitLog, q)[i].queueOffset = i - 1

(***************************************************************************)
(* Each unit points to the one record that has its offset (LOG-003).       *)
(***************************************************************************)
OneUnitARecord ==
    \A q \in Queues :
        \A i \in DOMAIN consumeQueue[q] :
            \E r \in Range(RecordsOf(commitLog, q)) :
                Unit(r) = consumeQueue[q][i] /\ r.queueOffset = i - 1

(***************************************************************************)
(* A put that failed took no offset (LOG-005).                             *)
(***************************************************************************)
FailedPutsTakeNoOffset ==
    \A q \in Queues : topicQueueTable[q] = Len(RecordsOf(commitLog, q))

(***************************************************************************)
(* What can be read is on disk: with synchronous flush (LOG-007), and not  *)
(* without (LOG-008).                                                      *)
(***************************************************************************)
VisibleIsOnDisk ==
    \A q \in Queues : \A i \in DOMAIN consumeQueue[q] : Behind(consumeQueue[q][i]) <= flushedWhere

(***************************************************************************)
(* What can be read is in the files, where a kill of the process leaves it *)
(* (LOG-030); what was stored is, too, without a transient store pool      *)
(* (LOG-031).                                                              *)
(***************************************************************************)
VisibleIsInFiles ==
    \A q \in Queues :
        \A i \in DOMAIN consumeQueue[q] : Behind(consumeQueue[q][i]) <= committedWhere

StoredIsInFiles == \A r \in Range(commitLog) : Behind(r) <= committedWhere

(***************************************************************************)
(* Every record becomes visible, once puts stop (LOG-006).                 *)
(***************************************************************************)
RecordsBecomeVisible ==
    <>[](\A q \in Queues : Len(consumeQueue[q]) = Len(RecordsOf(commitLog, q)))

(***************************************************************************)
(* A witness, to be violated: two records of one queue lie in different    *)
(* segments.                                                               *)
(***************************************************************************)
NeverTwoSegments ==
    \A q \in Queues : \A r \in Range(RecordsOf(commitLog, q)) :
        r.queueOffset > 0 => r.position < SegmentSize
==============================================================================
