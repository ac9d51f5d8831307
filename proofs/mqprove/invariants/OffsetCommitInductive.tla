----------------------- MODULE OffsetCommitInductive -----------------------
(***************************************************************************)
(* What is true of OffsetCommit in every state, for any number of members, *)
(* queues, messages, moves and crashes, whatever is lost and however many  *)
(* commits are on their way.                                               *)
(***************************************************************************)
EXTENDS OffsetCommit

(***************************************************************************)
(* A group begins at the beginning where nothing is stored: with the other *)
(* policy a second owner may begin behind what nobody consumed (OFFSET-009)*)
(***************************************************************************)
OwnBounds == SentBefore >= 0

Bounds == OwnBounds /\ ~FromLast

(***************************************************************************)
(* No offset is negative: so a set of them has a least.  What a member has *)
(* in its process queue it has pulled.                                     *)
(***************************************************************************)
OffsetsAreNatural ==
    /\ \A q \in Queues :
        /\ maxOffset[q] >= 0
        /\ offsetTable[q] # None => offsetTable[q] >= 0
        /\ offsetFile[q] # None => offsetFile[q] >= 0
        /\ \A o \in Offsets : consumed[q][o] >= 0
    /\ \A commit \in network : commit.offset >= 0
    /\ \A m \in Members, q \in Queues :
        /\ offsetStore[m][q] # None => offsetStore[m][q] >= 0
        /\ Holds(m, q) =>
            /\ processQueueTable[m][q].nextOffset >= 0
            /\ \A o \in processQueueTable[m][q].msgTreeMap :
                0 <= o /\ o < processQueueTable[m][q].nextOffset

(***************************************************************************)
(* What a member is to report is consumed below it, and what it does not   *)
(* pull any more is consumed, or in its process queue.                     *)
(***************************************************************************)
ProgressIsConsumed ==
    \A m \in Members, q \in Queues : Holds(m, q) /\ offsetStore[m][q] # None =>
        Below(offsetStore[m][q]) \subseteq Done(q)

OwnersSkipNothing ==
    \A m \in Members, q \in Queues : Holds(m, q) =>
        Below(processQueueTable[m][q].nextOffset)
            \subseteq Done(q) \cup processQueueTable[m][q].msgTreeMap

(***************************************************************************)
(* What a member is to report is behind all that is not finished: so it    *)
(* never goes back, also where nothing compares it.                        *)
(***************************************************************************)
ProgressIsBehind ==
    \A m \in Members, q \in Queues : Holds(m, q) /\ offsetStore[m][q] # None =>
        /\ offsetStore[m][q] <= processQueueTable[m][q].nextOffset
        /\ \A o \in processQueueTable[m][q].msgTreeMap : offsetStore[m][q] <= o

OwnInductive == OffsetsAreNatural /\ ProgressIsBehind

Inductive ==
    /\ OffsetsAreNatural
    /\ CommittedIsConsumed
    /\ ProgressIsConsumed
    /\ OwnersSkipNothing
=============================================================================
