------------------------------- MODULE PopOrder -------------------------------
(***************************************************************************)
(* POP in order: a queue gives its group one batch at a time.  Twin of     *)
(* mqspec/core/pop_order.py.                                               *)
(*                                                                         *)
(* Modelled: one queue and one group; pops with attempt ids,               *)
(* acknowledgements in any order and of batches of before, batches whose   *)
(* time is up, the file of orders and offsets, crashes.                    *)
(*                                                                         *)
(* Left out: changes of the invisible time of one message, which move its  *)
(* time; resets; counts of deliveries.                                     *)
(*                                                                         *)
(* Not in the core, being the environment: offsetTable, disk, receipts,    *)
(* due, popTime, Reenter (a Pop as well), Abandon, TimeUp, Crash.          *)
(* Ghosts: acked, abandoned, crashes, persists.                            *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS
    Messages,     \* how many messages the queue holds
    MaxBatch,     \* the most that a pop gets
    Attempts,     \* the attempt ids of consumers
    MaxAbandons,  \* how often the time of a batch is up
    MaxCrashes,
    MaxPersists,
    \* Defects, FALSE in the protocol as it is:
    NotBlocked,       \* a pop does not look at the batch of before
    AckPassesUnacked, \* an acknowledgement moves the offset behind its message, whatever is left
    AcksForgotten     \* where a crash took the batch, an acknowledgement of it does so as well

VARIABLES
    offsetTable,  \* how many messages the group has left behind
    orderInfo,    \* the last batch
    disk,         \* both, as a crash leaves them
    receipts,     \* what consumers hold
    due,          \* the pop times whose time is up
    popTime,      \* the next
    acked,        \* messages that were acknowledged
    abandoned, crashes, persists

orderVars == <<offsetTable, orderInfo, disk, receipts, due, popTime, acked, abandoned, crashes,
               persists>>

-----------------------------------------------------------------------------
Nobody == "nobody"

NoBatch == [popTime |-> 0, attempt |-> Nobody, offsets |-> {}, acked |-> {}]

Least(offsets) == CHOOSE k \in offsets : \A j \in offsets : k <= j

Most(offsets) == CHOOSE k \in offsets : \A j \in offsets : k >= j

Unacked(batch) == batch.offsets \ batch.acked

(***************************************************************************)
(* A message of the last batch is neither acknowledged nor due, and it was *)
(* another attempt's.                                                      *)
(***************************************************************************)
IsBlocked(attempt) ==
    /\ Unacked(orderInfo) # {}
    /\ orderInfo.popTime \notin due
    /\ orderInfo.attempt # attempt

(***************************************************************************)
(* How many messages are left behind for good once a batch is acknowledged *)
(* so far.                                                                 *)
(***************************************************************************)
NextOffset(batch, message) ==
    IF AckPassesUnacked THEN message
    ELSE IF Unacked(batch) = {} THEN Most(batch.offsets) ELSE Least(Unacked(batch)) - 1

-----------------------------------------------------------------------------
OrderInit ==
    /\ offsetTable = 0
    /\ orderInfo = NoBatch
    /\ disk = [offsetTable |-> 0, orderInfo |-> NoBatch]
    /\ receipts = {}
    /\ due = {}
    /\ popTime = 1
    /\ acked = {}
    /\ abandoned = 0
    /\ crashes = 0
    /\ persists = 0

(***************************************************************************)
(* A consumer pops a batch, from the group's offset on, which stays.       *)
(***************************************************************************)
Pop(attempt, n) ==
    LET offsets == offsetTable + 1 .. offsetTable + n
    IN  /\ NotBlocked \/ ~IsBlocked(attempt)
        /\ offsetTable + n <= Messages
        /\ \A r \in receipts : r.attempt = attempt => r.popTime \in due
        /\ orderInfo' = [popTime |-> popTime, attempt |-> attempt, offsets |-> offsets,
                         acked |-> {}]
        /\ receipts' = {r \in receipts : r.popTime \notin due}
                           \cup {[popTime |-> popTime, attempt |-> attempt, offset |-> k] :
                                    k \in offsets}
        /\ popTime' = popTime + 1
        /\ UNCHANGED <<offsetTable, disk, due, acked, abandoned, crashes, persists>>

(***************************************************************************)
(* The answer to a pop was lost, and it is asked again: the batch again,   *)
(* under a new time.                                                       *)
(***************************************************************************)
Reenter(attempt) ==
    LET offsets == offsetTable + 1 .. Most(orderInfo.offsets)
    IN  /\ orderInfo.attempt = attempt
        /\ abandoned < MaxAbandons
        /\ Unacked(orderInfo) # {}
        /\ orderInfo' = [orderInfo EXCEPT !.popTime = popTime, !.offsets = offsets, !.acked = {}]
        /\ receipts' = {r \in receipts : r.attempt # attempt}
                           \cup {[popTime |-> popTime, attempt |-> attempt, offset |-> k] :
                                    k \in offsets}
        /\ popTime' = popTime + 1
        /\ abandoned' = abandoned + 1
        /\ UNCHANGED <<offsetTable, disk, due, acked, crashes, persists>>

(***************************************************************************)
(* A message is acknowledged.  Of an earlier batch that is ignored, and of *)
(* one that a crash took from the file.                                    *)
(***************************************************************************)
Ack ==
    \E r \in receipts :
        LET batch == [orderInfo EXCEPT !.acked = @ \cup {r.offset}]
            moves == r.popTime = orderInfo.popTime /\ r.offset > offsetTable
            passes == AcksForgotten /\ orderInfo = NoBatch /\ r.offset > offsetTable
        IN  /\ receipts' = receipts \ {r}
            /\ acked' = acked \cup {r.offset}
            /\ orderInfo' = IF moves THEN batch ELSE orderInfo
            /\ offsetTable' = IF moves THEN NextOffset(batch, r.offset)
                              ELSE IF passes THEN r.offset
                              ELSE offsetTable
            /\ UNCHANGED <<disk, due, popTime, abandoned, crashes, persists>>

(***************************************************************************)
(* A consumer is too slow, or dies.                                        *)
(***************************************************************************)
Abandon ==
    /\ abandoned < MaxAbandons
    /\ Unacked(orderInfo) # {}
    /\ orderInfo.popTime \notin due
    /\ abandoned' = abandoned + 1
    /\ due' = due \cup {orderInfo.popTime}
    /\ UNCHANGED <<offsetTable, orderInfo, disk, receipts, popTime, acked, crashes, persists>>

(***************************************************************************)
(* Nobody has a receipt of the last batch any more, and its time is up.    *)
(***************************************************************************)
TimeUp ==
    /\ Unacked(orderInfo) # {}
    /\ \A r \in receipts : r.popTime # orderInfo.popTime
    /\ orderInfo.popTime \notin due
    /\ due' = due \cup {orderInfo.popTime}
    /\ UNCHANGED <<offsetTable, orderInfo, disk, receipts, popTime, acked, abandoned, crashes,
                   persists>>

(***************************************************************************)
(* Offsets and orders go to the disk, one after the other and at once.     *)
(***************************************************************************)
Persist ==
    /\ persists < MaxPersists
    /\ crashes < MaxCrashes
    /\ persists' = persists + 1
    /\ disk' = [offsetTable |-> offsetTable, orderInfo |-> orderInfo]
    /\ UNCHANGED <<offsetTable, orderInfo, receipts, due, popTime, acked, abandoned, crashes>>

(***************************************************************************)
(* The broker crashes, and starts with what is on the disk.                *)
(***************************************************************************)
Load ==
    /\ offsetTable' = disk.offsetTable
    /\ orderInfo' = disk.orderInfo

Crash ==
    /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ Load
    /\ UNCHANGED <<disk, receipts, due, popTime, acked, abandoned, persists>>

-----------------------------------------------------------------------------
Pops == \E attempt \in Attempts, n \in 1 .. MaxBatch : Pop(attempt, n)

\* Pops is written out, or TLC would not name the action.
OrderNext ==
    \/ \E attempt \in Attempts, n \in 1 .. MaxBatch : Pop(attempt, n)
    \/ \E attempt \in Attempts : Reenter(attempt)
    \/ Ack
    \/ Abandon
    \/ TimeUp
    \/ Persist
    \/ Crash

\* Who asks does not matter to the queue; receipts that are given up are bounded, so that pops
\* come to an end, and one condition does for all attempts.
OrderSpec ==
    /\ OrderInit
    /\ [][OrderNext]_orderVars
    /\ WF_orderVars(Pops)
    /\ WF_orderVars(Ack)
    /\ WF_orderVars(TimeUp)

(***************************************************************************)
(* Without the block pops never end: what the seeded model looks at.       *)
(***************************************************************************)
FewPops == popTime <= 4

-----------------------------------------------------------------------------
AllMessages == 1 .. Messages

OrderTypeOK ==
    /\ offsetTable \in 0 .. Messages
    /\ orderInfo.offsets \subseteq AllMessages
    /\ orderInfo.acked \subseteq orderInfo.offsets
    /\ orderInfo.attempt \in Attempts \cup {Nobody}
    /\ \A r \in receipts : r.offset \in AllMessages /\ r.attempt \in Attempts
    /\ acked \subseteq AllMessages
    /\ abandoned \in 0 .. MaxAbandons
    /\ crashes \in 0 .. MaxCrashes
    /\ persists \in 0 .. MaxPersists

(***************************************************************************)
(* POP-020. Before their time is up, the receipts are of one attempt.      *)
(***************************************************************************)
OneBatchAtATime ==
    crashes = 0 =>
        \A r1, r2 \in {r \in receipts : r.popTime \notin due} : r1.attempt = r2.attempt

(***************************************************************************)
(* POP-022. A batch that is asked for again comes whole again, but for     *)
(* what the group has left behind meanwhile.                               *)
(***************************************************************************)
SameBatchAgain ==
    [][\A attempt \in Attempts : Reenter(attempt) =>
        orderInfo'.offsets = orderInfo.offsets \ (1 .. offsetTable)]_orderVars

(***************************************************************************)
(* POP-021. The group leaves no message behind that nobody acknowledged,   *)
(* also in a crash.                                                        *)
(***************************************************************************)
NothingIsPassed == \A k \in 1 .. offsetTable : k \in acked

(***************************************************************************)
(* POP-021, as progress: the queue comes to its end.                       *)
(***************************************************************************)
TheQueueMoves == <>[](offsetTable = Messages)
=============================================================================
