------------------------------- MODULE Recovery -------------------------------
(***************************************************************************)
(* What a store is worth after a stop, clean or not.  Twin of              *)
(* mqspec/core/recovery.py.                                                *)
(*                                                                         *)
(* Recovery walks the log from a segment that it can trust, record by      *)
(* record, dispatches each again, cuts everything behind the last good     *)
(* one, and may be cut off by a crash itself.                              *)
(*                                                                         *)
(* Modelled: any set of records that were not flushed is lost in a crash,  *)
(* and what lay behind them may stay on the disk; ConsumeQueues that are   *)
(* flushed each by itself, or get lost while the store is stopped; a       *)
(* checkpoint that lags behind; the index, as the list of records in its   *)
(* files, of which a crash leaves the full ones.  A record is lost when    *)
(* one of its pages is: any set of records covers every set of pages.  A   *)
(* kill -9 is the crash in which the set is empty.                         *)
(*                                                                         *)
(* Left out: time (the time stamps of the checkpoint are positions),       *)
(* segments that expire, damage to what was flushed, the transient store   *)
(* pool (TransientStorePool is FALSE here).                                *)
(*                                                                         *)
(* Not in the core, being the environment or the shell: phase, disk,       *)
(* consumeQueueFlushed, index; Store, FlushCommitLog and Reput, which are  *)
(* Log's AppendMessage, Flush and Dispatch with the files they write;      *)
(* FlushConsumeQueue, SaveCheckpoint, Crash, Shutdown, LoseConsumeQueue;   *)
(* and dispatchFrom, which only Apache keeps.                              *)
(* Ghosts: before, acknowledged, read, cut, stops, losses.                 *)
(***************************************************************************)
EXTENDS Log

ASSUME ~TransientStorePool

CONSTANTS
    MaxStops,       \* crashes and clean stops
    MaxLosses,      \* ConsumeQueues lost while the store is stopped
    IndexFileSize,  \* records in one index file
    IndexSkipsEnd,  \* TRUE: the index leaves out a record at its end position, too
    \* Defects, FALSE in the protocol as it is:
    KeepsOldTail,     \* recovery moves the log's end and leaves the bytes behind it
    DispatchesBehind  \* a clean start dispatches only what is behind all ConsumeQueues

VARIABLES
    phase,                \* "running", "stopped" or "recovering"
    abort,                \* the abort file is there
    disk,                 \* the records whose bytes are whole in the files
    consumeQueueFlushed,  \* how many units of each queue are on disk
    index,                \* the records in the index files
    checkpoint,           \* position: records before it are on disk, their units too
    dispatchFrom,         \* position: the end of all ConsumeQueues, as loaded
    scanFrom,             \* position where the walk started
    processOffset,        \* position: everything from scanFrom up to it is good
    before,               \* the log as it was when the store stopped
    acknowledged,         \* the messages whose producers were told that they are stored
    read,                 \* the messages that consumers could read
    cut,                  \* the messages that a recovery cut off
    stops, losses

filesVars == <<abort, disk, consumeQueueFlushed, index, checkpoint>>
walkVars  == <<dispatchFrom, scanFrom, processOffset>>
ghostVars == <<before, acknowledged, read, cut, stops, losses>>
vars      == <<logVars, phase, filesVars, walkVars, ghostVars>>

-----------------------------------------------------------------------------
Messages(log) == {r.message : r \in {e \in Range(log) : e.queue # Blank}}

Max(S) == CHOOSE m \in S : \A n \in S : n <= m

IsPrefix(s, t) == Len(s) <= Len(t) /\ SubSeq(t, 1, Len(s)) = s

LengthsOf(queues) == [q \in Queues |-> Len(queues[q])]

(***************************************************************************)
(* The files after entries were written over what lay there.               *)
(***************************************************************************)
Overwritten(old, new) ==
    {r \in old : \A n \in new : Behind(r) <= n.position \/ Behind(n) <= r.position} \cup new

(***************************************************************************)
(* The index files after a record was dispatched to them.  A record before *)
(* their end position is left out: it is in them already.  The end         *)
(* position is where the last record of theirs starts, and that one is not *)
(* left out, unless IndexSkipsEnd.                                         *)
(***************************************************************************)
Indexed(entries, r) ==
    LET last == entries[Len(entries)]
    IN  IF entries # <<>> /\ (\/ r.position < last.position
                              \/ IndexSkipsEnd /\ r.position = last.position)
        THEN entries ELSE Append(entries, Unit(r))

FullFiles(entries) == SubSeq(entries, 1, Len(entries) - (Len(entries) % IndexFileSize))

(***************************************************************************)
(* How far the log and every unit of it are on disk.                       *)
(***************************************************************************)
Covered ==
    LET IsCovered(r) ==
            /\ Behind(r) <= flushedWhere
            /\ Behind(r) <= reputFromOffset
            /\ r.queue # Blank => r.queueOffset < consumeQueueFlushed[r.queue]
        open == {r \in Range(commitLog) : ~IsCovered(r)}
    IN  IF open = {} THEN End(commitLog)
        ELSE (CHOOSE r \in open : \A o \in open : r.position <= o.position).position

SegmentStarts == {0} \cup {s \in {r.position : r \in disk} : (s % SegmentSize) = 0}

DispatchedEnd == Max({0} \cup UNION {{Behind(u) : u \in Range(consumeQueue[q])} : q \in Queues})

(***************************************************************************)
(* Where the walk starts: after a clean stop, in the last segment that     *)
(* starts before the end of all ConsumeQueues; otherwise in the last one   *)
(* whose first record the checkpoint covers.                               *)
(***************************************************************************)
Trusted ==
    IF abort THEN Max({0} \cup {s \in SegmentStarts : s < checkpoint})
    ELSE Max({s \in SegmentStarts : s <= DispatchedEnd})

-----------------------------------------------------------------------------
Init ==
    /\ LogInit
    /\ phase = "running"
    /\ abort = TRUE
    /\ disk = {}
    /\ consumeQueueFlushed = [q \in Queues |-> 0]
    /\ index = <<>>
    /\ checkpoint = 0
    /\ dispatchFrom = 0
    /\ scanFrom = 0
    /\ processOffset = 0
    /\ before = <<>>
    /\ acknowledged = {}
    /\ read = {}
    /\ cut = {}
    /\ stops = 0
    /\ losses = 0

(***************************************************************************)
(* The running store, as in Log.  With asynchronous flush a producer gets  *)
(* its answer once the message is written, with synchronous flush once it  *)
(* is on disk.                                                             *)
(***************************************************************************)
Store(q, size) ==
    /\ phase = "running"
    /\ AppendMessage(q, size)
    /\ disk' = Overwritten(disk, Range(commitLog') \ Range(commitLog))
    /\ acknowledged' = IF SyncFlush THEN acknowledged ELSE acknowledged \cup {messages'}
    /\ UNCHANGED <<phase, abort, consumeQueueFlushed, index, checkpoint, walkVars, before, read,
                   cut, stops, losses>>

FlushCommitLog ==
    /\ phase = "running"
    /\ Flush
    /\ acknowledged' = acknowledged \cup Messages(commitLog)
    /\ UNCHANGED <<phase, filesVars, walkVars, before, read, cut, stops, losses>>

Reput ==
    /\ phase = "running"
    /\ Dispatch
    /\ LET new == {r \in Range(commitLog) : r.position = reputFromOffset /\ r.queue # Blank}
       IN  /\ index' = IF new = {} THEN index ELSE Indexed(index, CHOOSE r \in new : TRUE)
           /\ read' = read \cup {r.message : r \in new}
    /\ UNCHANGED <<phase, abort, disk, consumeQueueFlushed, checkpoint, walkVars, before,
                   acknowledged, cut, stops, losses>>

FlushConsumeQueue(q) ==
    /\ phase = "running"
    /\ consumeQueueFlushed[q] < Len(consumeQueue[q])
    /\ consumeQueueFlushed' = [consumeQueueFlushed EXCEPT ![q] = Len(consumeQueue[q])]
    /\ UNCHANGED <<logVars, phase, abort, disk, index, checkpoint, walkVars, ghostVars>>

SaveCheckpoint ==
    /\ phase = "running"
    /\ checkpoint # Covered
    /\ checkpoint' = Covered
    /\ UNCHANGED <<logVars, phase, abort, disk, consumeQueueFlushed, index, walkVars, ghostVars>>

(***************************************************************************)
(* The machine stops, at any time.  Of what was not flushed any part may   *)
(* be lost, also a part that other records lie behind.  A ConsumeQueue     *)
(* ends at its first page that was lost.                                   *)
(***************************************************************************)
Forget(log) ==
    /\ before' = log
    /\ commitLog' = <<>>
    /\ committedWhere' = 0
    /\ flushedWhere' = 0
    /\ reputFromOffset' = 0
    /\ topicQueueTable' = [q \in Queues |-> 0]
    /\ UNCHANGED <<messages, failures>>

Crash ==
    /\ phase \in {"running", "recovering"}
    /\ stops < MaxStops
    /\ stops' = stops + 1
    /\ phase' = "stopped"
    /\ \E lost \in SUBSET {r \in Range(commitLog) : phase = "running" /\ Behind(r) > flushedWhere} :
           disk' = disk \ lost
    /\ \E kept \in [Queues -> 0 .. MaxMessages] :
           /\ \A q \in Queues : kept[q] \in consumeQueueFlushed[q] .. Len(consumeQueue[q])
           /\ consumeQueue' = [q \in Queues |-> SubSeq(consumeQueue[q], 1, kept[q])]
    /\ Forget(IF phase = "running" THEN commitLog ELSE before)
    /\ UNCHANGED <<abort, consumeQueueFlushed, index, checkpoint, walkVars, acknowledged, read,
                   cut, losses>>

(***************************************************************************)
(* A clean stop: everything is dispatched and flushed, and the abort file  *)
(* is removed.                                                             *)
(***************************************************************************)
Shutdown ==
    /\ phase = "running"
    /\ stops < MaxStops
    /\ reputFromOffset = End(commitLog)
    /\ stops' = stops + 1
    /\ phase' = "stopped"
    /\ abort' = FALSE
    /\ checkpoint' = End(commitLog)
    /\ acknowledged' = acknowledged \cup Messages(commitLog)
    /\ consumeQueueFlushed' = LengthsOf(consumeQueue)
    /\ Forget(commitLog)
    /\ UNCHANGED <<disk, consumeQueue, index, walkVars, read, cut, losses>>

(***************************************************************************)
(* Somebody removes a ConsumeQueue after a clean stop.  The walk must meet *)
(* a record of that queue, or nobody can know.                             *)
(***************************************************************************)
LoseConsumeQueue(q) ==
    /\ phase = "stopped"
    /\ ~abort
    /\ losses < MaxLosses
    /\ \E r \in disk : r.queue = q /\ r.position >= Max(SegmentStarts)
    /\ losses' = losses + 1
    /\ consumeQueue' = [consumeQueue EXCEPT ![q] = <<>>]
    /\ UNCHANGED <<commitLog, committedWhere, flushedWhere, reputFromOffset, topicQueueTable,
                   messages, failures, phase, filesVars, walkVars, before, acknowledged, read, cut, stops>>

(***************************************************************************)
(* The store starts.  It trusts what lies before the start of the walk.    *)
(* After a crash the index keeps its full files only.                      *)
(***************************************************************************)
Load ==
    LET IsTrusted(r) == r.position < Trusted
    IN  /\ phase = "stopped"
        /\ phase' = "recovering"
        /\ dispatchFrom' = DispatchedEnd
        /\ scanFrom' = Trusted
        /\ processOffset' = Trusted
        /\ commitLog' = SelectSeq(before, IsTrusted)
        /\ consumeQueueFlushed' = LengthsOf(consumeQueue)
        /\ index' = IF abort THEN FullFiles(index) ELSE index
        /\ UNCHANGED <<committedWhere, flushedWhere, reputFromOffset, topicQueueTable,
                       consumeQueue, messages, failures, abort, disk, checkpoint, ghostVars>>

(***************************************************************************)
(* The walk meets a good record, and dispatches it again.  A record that   *)
(* is ahead of its queue shows that units before it were lost: the walk    *)
(* starts again from the first segment.                                    *)
(*                                                                         *)
(* The index gets each record again after a crash; after a clean stop only *)
(* those that were not dispatched.                                         *)
(***************************************************************************)
IsSkipped(r) == DispatchesBehind /\ ~abort /\ r.position <= dispatchFrom

IsAhead(r) ==
    /\ r.queue # Blank
    /\ r.queueOffset > Len(consumeQueue[r.queue])
    /\ scanFrom > 0
    /\ abort \/ ~DispatchesBehind

Redispatch ==
    /\ phase = "recovering"
    /\ \E r \in disk :
        /\ r.position = processOffset
        /\ IF IsAhead(r)
           THEN /\ scanFrom' = 0
                /\ processOffset' = 0
                /\ commitLog' = <<>>
                /\ UNCHANGED <<consumeQueue, index>>
           ELSE /\ processOffset' = Behind(r)
                /\ commitLog' = Append(commitLog, r)
                /\ UNCHANGED scanFrom
                /\ IF r.queue = Blank \/ IsSkipped(r)
                   THEN UNCHANGED <<consumeQueue, index>>
                   ELSE LET units == Dispatched(consumeQueue[r.queue], r)
                        IN  /\ consumeQueue' = [consumeQueue EXCEPT ![r.queue] = units]
                            /\ index' = IF abort \/ units # consumeQueue[r.queue]
                                        THEN Indexed(index, r) ELSE index
    /\ UNCHANGED <<committedWhere, flushedWhere, reputFromOffset, topicQueueTable, messages,
                   failures, phase, abort, disk, consumeQueueFlushed, checkpoint, dispatchFrom,
                   ghostVars>>

(***************************************************************************)
(* The walk is at the end of what is good.  Units that point behind it are *)
(* dropped, old bytes behind it are removed, everything is flushed, and    *)
(* only then the store runs.                                               *)
(***************************************************************************)
EndRecovery ==
    LET IsBeforeEnd(u) == u.position < processOffset
        kept == [q \in Queues |-> SelectSeq(consumeQueue[q], IsBeforeEnd)]
    IN  /\ phase = "recovering"
        /\ \A r \in disk : r.position # processOffset
        /\ phase' = "running"
        /\ abort' = TRUE
        /\ consumeQueue' = kept
        /\ consumeQueueFlushed' = LengthsOf(kept)
        /\ topicQueueTable' = LengthsOf(kept)
        /\ committedWhere' = processOffset
        /\ flushedWhere' = processOffset
        /\ reputFromOffset' = processOffset
        /\ disk' = IF KeepsOldTail THEN disk ELSE {r \in disk : r.position < processOffset}
        /\ cut' = cut \cup (Messages(before) \ Messages(commitLog))
        /\ before' = <<>>
        /\ UNCHANGED <<commitLog, messages, failures, index, checkpoint, walkVars, acknowledged,
                       read, stops, losses>>

Next ==
    \/ \E q \in Queues, size \in Sizes : Store(q, size)
    \/ FlushCommitLog
    \/ Reput
    \/ \E q \in Queues : FlushConsumeQueue(q)
    \/ SaveCheckpoint
    \/ Crash
    \/ Shutdown
    \/ \E q \in Queues : LoseConsumeQueue(q)
    \/ Load
    \/ Redispatch
    \/ EndRecovery

Fairness ==
    /\ WF_vars(FlushCommitLog)
    /\ WF_vars(Reput)
    /\ WF_vars(Load)
    /\ WF_vars(Redispatch)
    /\ WF_vars(EndRecovery)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
TypeOK ==
    /\ LogTypeOK
    /\ phase \in {"running", "stopped", "recovering"}
    /\ abort \in BOOLEAN
    /\ Range(commitLog) \subseteq disk
    /\ \A q \in Queues : consumeQueueFlushed[q] <= Len(consumeQueue[q]) \/ phase = "stopped"
    /\ checkpoint \in Positions
    /\ {dispatchFrom, scanFrom, processOffset} \subseteq Positions
    /\ stops \in 0 .. MaxStops
    /\ losses \in 0 .. MaxLosses

(***************************************************************************)
(* The log that is recovered is a prefix of what it was (RECOV-001).       *)
(***************************************************************************)
LogIsPrefix == phase = "recovering" => IsPrefix(commitLog, before)

(***************************************************************************)
(* What was acknowledged is still there: with synchronous flush            *)
(* (RECOV-002), and not without (RECOV-010).                               *)
(***************************************************************************)
AcknowledgedSurvive == phase = "running" => acknowledged \subseteq Messages(commitLog)

(***************************************************************************)
(* What was dispatched of a queue has its units, at its offsets            *)
(* (RECOV-003), each record only one (RECOV-004), and none points behind   *)
(* the log (RECOV-005).                                                    *)
(***************************************************************************)
QueuesAreDense ==
    phase = "running" =>
        \A q \in Queues :
            LET records == RecordsOf(commitLog, q)
            IN  \A i \in DOMAIN records :
                    /\ records[i].queueOffset = i - 1
                    /\ Behind(records[i]) <= reputFromOffset =>
                          /\ i \in DOMAIN consumeQueue[q]
                          /\ consumeQueue[q][i] = Unit(records[i])

NoUnitTwice ==
    phase = "running" =>
        \A q \in Queues :
            \A i, j \in DOMAIN consumeQueue[q] :
                consumeQueue[q][i].message = consumeQueue[q][j].message => i = j

NoUnitBehindTheLog ==
    phase = "running" =>
        \A q \in Queues : \A u \in Range(consumeQueue[q]) : Behind(u) <= End(commitLog)

(***************************************************************************)
(* What a recovery cut off stays away (RECOV-008).                         *)
(***************************************************************************)
CutStaysAway == Messages(commitLog) \cap cut = {}

(***************************************************************************)
(* A queue goes on at its end, with the offsets of lost messages           *)
(* (RECOV-015).                                                            *)
(***************************************************************************)
OffsetsGoOnAtTheEnd ==
    phase = "running" =>
        \A q \in Queues : topicQueueTable[q] = Len(RecordsOf(commitLog, q))

(***************************************************************************)
(* Often believed: the index has a record once (RECOV-011), and what was   *)
(* read stays (RECOV-012).                                                 *)
(***************************************************************************)
OneIndexEntryARecord ==
    \A i, j \in DOMAIN index : index[i].message = index[j].message => i = j

\* Witness, to be violated: before any stop the checkpoint stays where it is.
NeverCheckpointed == phase = "running" /\ stops = 0 => checkpoint = 0

\* Witness, to be violated: a crash takes no unit that was read.
NeverLosesUnits ==
    phase = "stopped" => read \subseteq {u.message : u \in UNION {Range(consumeQueue[q]) : q \in Queues}}

\* After a clean stop the walk indexes only what it adds to a queue.
CleanStopIndexesNoneAgain ==
    [][phase = "recovering" /\ ~abort /\ index' # index => consumeQueue' # consumeQueue]_vars

\* After a crash recovery begins with the full files of the index.
IndexBeginsWhole ==
    [][phase = "stopped" /\ phase' = "recovering" /\ abort =>
           (Len(index') % IndexFileSize) = 0]_vars

ReadSurvives == phase = "running" => read \subseteq Messages(commitLog)

(***************************************************************************)
(* After the last stop every record in the log becomes visible             *)
(* (RECOV-009).                                                            *)
(***************************************************************************)
RecordsBecomeVisibleAgain ==
    <>[](/\ phase = "running"
         /\ \A q \in Queues : Len(consumeQueue[q]) = Len(RecordsOf(commitLog, q)))

(***************************************************************************)
(* Witnesses, to be violated: a crash takes a record and leaves one that   *)
(* lies behind it; a walk starts behind the first segment; a walk that     *)
(* started there went back.                                                *)
(***************************************************************************)
NeverAHole ==
    phase = "stopped" =>
        \A i, j \in DOMAIN before : i < j /\ before[j] \in disk => before[i] \in disk

NeverTrustsASegment == scanFrom = 0

NeverGoesBack ==
    (phase = "recovering" /\ ~abort /\ dispatchFrom > SegmentSize) => scanFrom > 0
===============================================================================
