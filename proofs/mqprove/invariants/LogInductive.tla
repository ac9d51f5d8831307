---------------------------- MODULE LogInductive ----------------------------
(***************************************************************************)
(* What is true of Log in every state, for any number of queues, messages  *)
(* and failures, any sizes, and segments of any size.                      *)
(***************************************************************************)
EXTENDS Log

Bounds ==
    /\ SegmentSize > 0
    /\ BlankSize >= 0
    /\ \A size \in Sizes : size > 0
    /\ ~OffsetBeforeChecks
    /\ ~DispatchBeforeFlush

(***************************************************************************)
(* Records lie one behind the other, and none reaches into another.        *)
(***************************************************************************)
SizesArePositive == \A i \in DOMAIN commitLog : commitLog[i].size > 0

NoneOverlap ==
    \A i, j \in DOMAIN commitLog : i < j => Behind(commitLog[i]) <= commitLog[j].position

InOrder == RecordsLieInOrder /\ NoneOverlap

Lying == SizesArePositive /\ InOrder

(***************************************************************************)
(* Log counts a queue's records, which have the offsets 0, 1, 2, ...  That *)
(* is: each but one of offset 0 comes behind one whose offset is one less, *)
(* none of an offset behind another of it, and one less than the next is   *)
(* the last, or there is none.  So no put that failed has taken an offset. *)
(***************************************************************************)
IsOf(i, q) == commitLog[i].queue = q

AreOfOne(i, j) == commitLog[i].queue # Blank /\ commitLog[i].queue = commitLog[j].queue

OffsetsAscend ==
    \A i, j \in DOMAIN commitLog : i < j /\ AreOfOne(i, j) =>
        commitLog[i].queueOffset < commitLog[j].queueOffset

OffsetsFollow ==
    \A i \in DOMAIN commitLog : commitLog[i].queue # Blank /\ commitLog[i].queueOffset # 0 =>
        \E j \in DOMAIN commitLog :
            j < i /\ AreOfOne(i, j) /\ commitLog[j].queueOffset = commitLog[i].queueOffset - 1

OffsetsAreBelow ==
    \A q \in Queues :
        /\ topicQueueTable[q] >= 0
        /\ \A i \in DOMAIN commitLog : IsOf(i, q) =>
            0 <= commitLog[i].queueOffset /\ commitLog[i].queueOffset < topicQueueTable[q]

LastIsThere ==
    \A q \in Queues : topicQueueTable[q] # 0 =>
        \E i \in DOMAIN commitLog :
            IsOf(i, q) /\ commitLog[i].queueOffset = topicQueueTable[q] - 1

Dense == OffsetsAscend /\ OffsetsFollow /\ OffsetsAreBelow /\ LastIsThere

(***************************************************************************)
(* What is dispatched of a queue are its records before the dispatcher's   *)
(* position, which has not passed the files, nor they the log.             *)
(***************************************************************************)
PositionsAreOrdered ==
    /\ 0 <= reputFromOffset
    /\ reputFromOffset <= committedWhere
    /\ flushedWhere <= committedWhere
    /\ committedWhere <= End(commitLog)

DispatchedIsBehind ==
    \A q \in Queues :
        /\ Len(consumeQueue[q]) <= topicQueueTable[q]
        /\ \A i \in DOMAIN commitLog : IsOf(i, q) =>
            (commitLog[i].position < reputFromOffset
                <=> commitLog[i].queueOffset < Len(consumeQueue[q]))

UnitsPointToRecords ==
    \A q \in Queues : \A k \in DOMAIN consumeQueue[q] :
        \E i \in DOMAIN commitLog :
            /\ IsOf(i, q)
            /\ commitLog[i].queueOffset = k - 1
            /\ consumeQueue[q][k].position = commitLog[i].position
            /\ consumeQueue[q][k].size = commitLog[i].size
            /\ consumeQueue[q][k].message = commitLog[i].message

(***************************************************************************)
(* So the next to be dispatched of a queue is the one that has the offset  *)
(* of the next unit.                                                       *)
(***************************************************************************)
NextIsInOrder ==
    /\ \A i, j \in DOMAIN commitLog : i < j => commitLog[i].position < commitLog[j].position
    /\ \A q \in Queues : \A i \in DOMAIN commitLog :
        IsOf(i, q) /\ commitLog[i].position = reputFromOffset =>
            commitLog[i].queueOffset = Len(consumeQueue[q])

Dispatching == PositionsAreOrdered /\ DispatchedIsBehind /\ UnitsPointToRecords

(***************************************************************************)
(* And what can be read lies before that position.                         *)
(***************************************************************************)
VisibleIsDispatched ==
    \A q \in Queues : \A i \in DOMAIN consumeQueue[q] :
        Behind(consumeQueue[q][i]) <= reputFromOffset

Visible == Lying /\ PositionsAreOrdered /\ VisibleIsDispatched

SyncBounds == Bounds /\ SyncFlush

VisibleAndFlushed == Visible /\ reputFromOffset <= flushedWhere

FileBounds == Bounds /\ ~TransientStorePool

RecordsAreInFiles == \A i \in DOMAIN commitLog : Behind(commitLog[i]) <= committedWhere

Stored == Lying /\ PositionsAreOrdered /\ RecordsAreInFiles
=============================================================================
