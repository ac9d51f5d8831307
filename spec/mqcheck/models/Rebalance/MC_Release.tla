------------------------------ MODULE MC_Release ------------------------------
(***************************************************************************)
(* Incident E: how long the queues of a member that goes have no owner.    *)
(*                                                                         *)
(* A member stops as it should ("stopped"), or dies and its connection     *)
(* ends ("closed"), or dies and nobody sees it ("silent").  Brokers tell   *)
(* the others of the first two, unless the notice is lost, and remove the  *)
(* third without a word after ExpiredTime without a heartbeat, at their    *)
(* next scan.  The others rebalance on a notice, and by their timer.  A    *)
(* queue that is consumed in order has a lock besides, which a member that *)
(* stops gives back, and any other leaves until it expires.                *)
(*                                                                         *)
(* Time passes in steps of 10 s, and only when nothing is due.  What is    *)
(* computed are the figures of the configuration: each is reached, and     *)
(* none is passed.                                                         *)
(*                                                                         *)
(* Left out: how long requests and rebalances take, and the 1 s after      *)
(* which a member that was refused a lock asks again.                      *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    HeartbeatTime, ScanTime, ExpiredTime,  \* 30 s, 10 s, 120 s
    RebalanceTime, RenewTime, LockTime,    \* 20 s, 20 s, 60 s
    \* How long a queue has no owner at most, in steps of 10 s:
    Noticed,        \* where the member stops as it should, or its connection ends
    NoticeLost,     \* where the notice of that is lost
    Silent,         \* where nobody sees it end
    LockLeft        \* of a queue with a lock, where the connection ends

VARIABLES
    ending,         \* how the member goes: "stopped", "closed" or "silent"
    arrives,        \* whether the notice arrives
    ordered,        \* whether the queue is consumed in order
    known,          \* whether the broker has the member in its list
    wakes,          \* whether the other one is to rebalance as soon as it can
    heartbeat,      \* how long ago the broker heard of the member
    lock,           \* how long ago the lock was renewed
    scan,           \* how long ago the broker looked for members that are silent
    rebalance,      \* how long ago the other one rebalanced
    waited,         \* how long the queue has had no owner
    owned           \* whether it has one again

vars == <<ending, arrives, ordered, known, wakes, heartbeat, lock, scan, rebalance, waited,
          owned>>

Init ==
    /\ ending \in {"stopped", "closed", "silent"}
    /\ arrives \in BOOLEAN
    /\ ordered \in BOOLEAN
    /\ known = TRUE
    /\ wakes = FALSE
    /\ heartbeat \in 0..HeartbeatTime
    /\ lock \in 0..RenewTime
    /\ scan \in 0..ScanTime
    /\ rebalance \in 0..RebalanceTime
    /\ waited = 0
    /\ owned = FALSE

LockIsFree == ~ordered \/ ending = "stopped" \/ lock >= LockTime

(***************************************************************************)
(* The broker hears that the member stops, or sees its connection end.     *)
(***************************************************************************)
Remove ==
    /\ known
    /\ ending # "silent"
    /\ known' = FALSE
    /\ wakes' = arrives
    /\ UNCHANGED <<ending, arrives, ordered, heartbeat, lock, scan, rebalance, waited, owned>>

(***************************************************************************)
(* It looks for members that were silent for too long.                     *)
(***************************************************************************)
Scan ==
    /\ scan = ScanTime
    /\ scan' = 0
    /\ known' = (known /\ heartbeat <= ExpiredTime)
    /\ UNCHANGED <<ending, arrives, ordered, wakes, heartbeat, lock, rebalance, waited, owned>>

(***************************************************************************)
(* The other member rebalances, and takes the queue if it can.  One that   *)
(* is refused the lock asks for it again and again.                        *)
(***************************************************************************)
Rebalance ==
    /\ \/ rebalance = RebalanceTime
       \/ wakes /\ (known \/ LockIsFree)
    /\ rebalance' = 0
    /\ wakes' = (~known /\ ~LockIsFree)
    /\ owned' = (~known /\ LockIsFree)
    /\ UNCHANGED <<ending, arrives, ordered, known, heartbeat, lock, scan, waited>>

Tick ==
    /\ ~ENABLED (Remove \/ Scan \/ Rebalance)
    /\ heartbeat' = heartbeat + 1
    /\ lock' = lock + 1
    /\ scan' = scan + 1
    /\ rebalance' = rebalance + 1
    /\ waited' = waited + 1
    /\ UNCHANGED <<ending, arrives, ordered, known, wakes, owned>>

Next == ~owned /\ (Remove \/ Scan \/ Rebalance \/ Tick)

Spec == Init /\ [][Next]_vars /\ WF_vars(Next)

-----------------------------------------------------------------------------
TypeOK ==
    /\ {arrives, ordered, known, wakes, owned} \subseteq BOOLEAN
    /\ heartbeat \in 0..HeartbeatTime + waited
    /\ lock \in 0..RenewTime + waited
    /\ scan \in 0..ScanTime
    /\ rebalance \in 0..RebalanceTime

(***************************************************************************)
(* REBAL-006.  How long it can take, for each way to go.                   *)
(***************************************************************************)
LeavesALock == ending = "closed" /\ ordered
IsNoticed == ending # "silent" /\ ~LeavesALock

Most ==
    IF ending = "silent" THEN Silent
    ELSE IF LeavesALock THEN LockLeft
    ELSE IF arrives THEN Noticed ELSE NoticeLost

WithinBounds == waited <= Most

ComesToBeOwned == <>owned

(***************************************************************************)
(* Broken, to show that each figure is reached.                            *)
(***************************************************************************)
LessIfNoticed == ~(owned /\ IsNoticed /\ arrives /\ waited = Noticed)
LessIfNoticeLost == ~(owned /\ IsNoticed /\ ~arrives /\ waited = NoticeLost)
LessIfSilent == ~(owned /\ ending = "silent" /\ waited = Silent)
LessIfLockLeft == ~(owned /\ LeavesALock /\ waited = LockLeft)
=============================================================================
