------------------------------- MODULE TRACE_Log -------------------------------
(***************************************************************************)
(* What a broker did to its log, from one start to the next, as steps of   *)
(* Log; with the positions, sizes and queue offsets that it really had.    *)
(*                                                                         *)
(* | action            | x                            | y               |  *)
(* | AppendMessage     | queue, and its next offset   | the log's end   |  *)
(* | AppendUnindexed   |                              | the log's end   |  *)
(* | Batch             |                              | its size        | *)
(* | Written           | queue and queue offset that  | where it begins |  *)
(* |                   | the last record's bytes say  | and ends        |  *)
(* | Dispatch          | queue, and its units         | reputFromOffset |  *)
(* | DispatchUnindexed |                              | reputFromOffset |  *)
(* | Flush             |                              | flushedWhere    |  *)
(* | DispatchBlank     | of a blank: no line tells it |                 |  *)
(* | Forget            | of records that are not read |                 |  *)
(*                                                                         *)
(* A trace begins at what the broker found when it started: the last       *)
(* record and the units of that time have lengths and no contents here.    *)
(* Forget takes records away that are dispatched, but for the last, so     *)
(* that a state does not grow with the trace: no action reads them.        *)
(*                                                                         *)
(* Hidden: whether the broker flushes synchronously; it is taken not to.   *)
(* The records of a batch, or of a run, are told one by one.  A batch is   *)
(* in one segment: it is closed for the whole before its first record.     *)
(* A record that enters no ConsumeQueue is a blank to Log, which           *)
(* dispatches it as one.  Positions are below 2^31.                        *)
(***************************************************************************)
EXTENDS Log, Trace

X == Event[4]
Y == Event[5]

Found == Before[trace]
OfQueue(table, q, absent) ==
    IF \E i \in DOMAIN table : table[i][1] = q
    THEN (CHOOSE entry \in {table[i] : i \in DOMAIN table} : entry[1] = q)[2]
    ELSE absent

TInit ==
    /\ TraceInit
    /\ commitLog = IF Found[1] = 0 THEN <<>> ELSE <<Entry("found", 0, 0, Found[1], 0)>>
    /\ committedWhere = Found[1]
    /\ flushedWhere = Found[2]
    /\ reputFromOffset = Found[3]
    /\ topicQueueTable = [q \in Queues |-> OfQueue(Found[4], q, 0)]
    /\ consumeQueue = [q \in Queues |-> [i \in 1 .. OfQueue(Found[5], q, 0) |-> "found"]]
    /\ messages = 0
    /\ failures = 0

-----------------------------------------------------------------------------
(***************************************************************************)
(* The size of a record that makes the log end at an offset: it follows    *)
(* the last one, or a blank.                                               *)
(***************************************************************************)
SizeUpTo(end) ==
    LET size == end - End(commitLog)
        room == SegmentSize - (End(commitLog) % SegmentSize)
    IN  IF Closing(size) = <<>> THEN size ELSE size - room

Append_(q, next, end) ==
    /\ end > End(commitLog)
    /\ SizeUpTo(end) > 0
    /\ AppendMessage(q, SizeUpTo(end))
    /\ End(commitLog') = end
    /\ topicQueueTable'[q] = next

Batch(size) ==
    /\ size + BlankSize <= SegmentSize
    /\ commitLog' = commitLog \o Closing(size)
    /\ committedWhere' = End(commitLog')
    /\ UNCHANGED <<flushedWhere, reputFromOffset, topicQueueTable, consumeQueue, messages,
                   failures>>

AppendUnindexed(end) ==
    LET closed == commitLog \o Closing(SizeUpTo(end))
    IN  /\ end > End(commitLog)
        /\ SizeUpTo(end) > 0
        /\ commitLog' = Append(closed, Entry(Blank, 0, End(closed), SizeUpTo(end), 0))
        /\ committedWhere' = End(commitLog')
        /\ UNCHANGED <<flushedWhere, reputFromOffset, topicQueueTable, consumeQueue, messages,
                       failures>>

Written(q, queueOffset, begin, end) ==
    /\ commitLog /= <<>>
    /\ LET r == commitLog[Len(commitLog)]
       IN  /\ r.queue \in {q, Blank}
           /\ r.queueOffset = queueOffset
           /\ r.position = begin
           /\ Behind(r) = end
    /\ UNCHANGED logVars

Dispatch_(q, units, end) ==
    /\ Dispatch
    /\ reputFromOffset' = end
    /\ Len(consumeQueue'[q]) = units

IsNeeded(r) == Behind(r) > reputFromOffset \/ Behind(r) = End(commitLog)

Forget ==
    /\ commitLog' = SelectSeq(commitLog, IsNeeded)
    /\ UNCHANGED <<committedWhere, flushedWhere, reputFromOffset, topicQueueTable, consumeQueue,
                   messages, failures>>

Step ==
    CASE Action = "AppendMessage" -> Append_(X[1], X[2], Y)
      [] Action = "Batch" -> Batch(Y)
      [] Action = "AppendUnindexed" -> AppendUnindexed(Y)
      [] Action = "Written" -> Written(X[1], X[2], Y[1], Y[2])
      [] Action = "Dispatch" -> Dispatch_(X[1], X[2], Y)
      [] Action = "DispatchUnindexed" -> Dispatch /\ UNCHANGED consumeQueue /\ reputFromOffset' = Y
      [] Action = "DispatchBlank" -> Dispatch /\ UNCHANGED consumeQueue
      [] Action = "Flush" -> Flush /\ flushedWhere' = Y
      [] Action = "Forget" -> Forget
      [] OTHER -> FALSE

ReadStep == ReadEvent /\ Step

TNext == ReadStep \/ (EditTrace /\ UNCHANGED logVars)

(***************************************************************************)
(* A trace determines every step.                                          *)
(***************************************************************************)
TView == traceVars

Shown ==
    [end |-> End(commitLog), committedWhere |-> committedWhere, flushedWhere |-> flushedWhere,
     reputFromOffset |-> reputFromOffset, topicQueueTable |-> topicQueueTable,
     consumeQueue |-> [q \in Queues |-> Len(consumeQueue[q])]]

TellAll == Tell(TRUE, ENABLED ReadStep, Shown)
==============================================================================
