-------------------------- MODULE MC_PopOrderMoved --------------------------
(***************************************************************************)
(* Others move the group's offset while a batch is out: a commit of a      *)
(* member that pulls, which counts at once, or an administrator's reset,   *)
(* which holds until the next pop learns of it and forgets the batch.      *)
(*                                                                         *)
(* Without crashes: a reset is not in the file.                            *)
(***************************************************************************)
EXTENDS PopOrder

CONSTANT MaxOffsetMoves

VARIABLES
    reset,  \* where an administrator moved the group that no pop has learned of yet, or NoReset
    moves   \* how often the offset was moved by others

movedVars == <<orderVars, reset, moves>>

NoReset == -1

MovedInit == OrderInit /\ reset = NoReset /\ moves = 0

-----------------------------------------------------------------------------
CommitOffset(k) ==
    /\ moves < MaxOffsetMoves
    /\ moves' = moves + 1
    /\ reset = NoReset \* or it is answered, and not stored
    /\ offsetTable' = k
    /\ UNCHANGED <<orderInfo, disk, receipts, due, popTime, acked, abandoned, crashes, persists,
                   reset>>

ResetOffset(k) ==
    /\ moves < MaxOffsetMoves
    /\ moves' = moves + 1
    /\ reset' = k
    /\ offsetTable' = k
    /\ UNCHANGED <<orderInfo, disk, receipts, due, popTime, acked, abandoned, crashes, persists>>

(***************************************************************************)
(* The first pop after a reset: nothing is blocked any more.               *)
(***************************************************************************)
PopAfterReset(attempt, n) ==
    LET offsets == offsetTable + 1 .. offsetTable + n
    IN  /\ reset # NoReset
        /\ offsetTable + n <= Messages
        /\ \A r \in receipts : r.attempt = attempt => r.popTime \in due
        /\ orderInfo' = [popTime |-> popTime, attempt |-> attempt, offsets |-> offsets,
                         acked |-> {}]
        /\ receipts' = {r \in receipts : r.popTime \notin due}
                           \cup {[popTime |-> popTime, attempt |-> attempt, offset |-> k] :
                                    k \in offsets}
        /\ popTime' = popTime + 1
        /\ reset' = NoReset
        /\ UNCHANGED <<offsetTable, disk, due, acked, abandoned, crashes, persists, moves>>

PopUnlessReset(attempt, n) ==
    /\ reset = NoReset
    /\ Pop(attempt, n)
    /\ UNCHANGED <<reset, moves>>

(***************************************************************************)
(* An acknowledgement counts for its batch, unless its message lies below  *)
(* the offset, and moves the offset unless a reset waits.                  *)
(***************************************************************************)
AckMoved ==
    \E r \in receipts :
        LET batch  == [orderInfo EXCEPT !.acked = @ \cup {r.offset}]
            counts == r.popTime = orderInfo.popTime /\ r.offset > offsetTable
        IN  /\ receipts' = receipts \ {r}
            /\ acked' = acked \cup {r.offset}
            /\ orderInfo' = IF counts THEN batch ELSE orderInfo
            /\ offsetTable' = IF counts /\ reset = NoReset THEN NextOffset(batch, r.offset)
                              ELSE offsetTable
            /\ UNCHANGED <<disk, due, popTime, abandoned, crashes, persists, reset, moves>>

MovedNext ==
    \/ \E k \in 0 .. Messages : CommitOffset(k) \/ ResetOffset(k)
    \/ \E attempt \in Attempts, n \in 1 .. MaxBatch :
        PopAfterReset(attempt, n) \/ PopUnlessReset(attempt, n)
    \/ AckMoved

MovedSpec == MovedInit /\ [][MovedNext]_movedVars

-----------------------------------------------------------------------------
(***************************************************************************)
(* An acknowledgement of what the group has left behind changes nothing.   *)
(* (One of a message above the offset may move it back, to the first of    *)
(* the batch that is not acknowledged, as in 5.3.3.)                       *)
(***************************************************************************)
LateAckIsNothing ==
    [][\A r \in receipts \ receipts' :
        AckMoved /\ r.offset <= offsetTable => UNCHANGED <<offsetTable, orderInfo>>]_movedVars

(***************************************************************************)
(* Until a pop learns of it, a group stays where it was moved.             *)
(***************************************************************************)
ResetIsNotUndone == [][reset # NoReset /\ reset' = reset => offsetTable' = reset]_movedVars
=============================================================================
