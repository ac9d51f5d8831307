----------------------------- MODULE LongPolling -----------------------------
(***************************************************************************)
(* A pull that finds nothing is held until a message comes, or its time is *)
(* up.  Twin of mqspec/core/long_polling.py.                               *)
(*                                                                         *)
(* The broker reads the queue for a pull, and where nothing is there yet   *)
(* it enters the pull among the held ones.  A message that is appended is  *)
(* dispatched, so that readers see it, and then held pulls are told of     *)
(* it.  One that comes between the read and the entry is told to nobody.   *)
(* Therefore all held pulls are looked at every CheckInterval; that look   *)
(* also ends those whose time is up.                                       *)
(*                                                                         *)
(* Modelled: one queue; consumers that pull it again and again and want    *)
(* the messages of tag "A"; messages that are appended, dispatched and     *)
(* told of in separate steps, between which anything may happen; a clock.  *)
(* The real figures, 5 s between two looks, 15 s to hold a pull and 30 s   *)
(* for which the client waits, are scaled to 1, 2 and 4.                   *)
(*                                                                         *)
(* Left out: other queues, which are independent; connections that close;  *)
(* the threads that carry out woken pulls, as what a pull sees only grows; *)
(* what keeps a reader from the broker's clock: between the read and the   *)
(* entry no time passes.                                                   *)
(*                                                                         *)
(* Not in the core, being the store, the shell and the clock: queue,       *)
(* maxOffset, arrived, reading, waited, sinceCheck; PutMessage,            *)
(* Dispatch, PullMessage, Tick.                                            *)
(* Ghosts: heldAt, answers.                                                *)
(***************************************************************************)
EXTENDS Naturals, Sequences

CONSTANTS
    Consumers,          \* each has one pull under way at most
    MaxMessages,        \* how many messages are appended
    SuspendTimeout,     \* for how long a pull asks to be held
    CheckInterval,      \* between two looks at the held pulls
    ClientTimeout,      \* for how long a client waits for an answer
    LooksAgain,         \* a remedy: the queue is read again after the entry
    Defect              \* the guard or update that is left out; "none"

VARIABLES
    queue,              \* the log: the tags of its messages
    maxOffset,          \* how many of them were dispatched, and are seen by readers
    arrived,            \* how many of them held pulls were told of
    reading,            \* whose pull found nothing, and is not entered yet
    pullRequestTable,   \* whose pull is held
    pullFromThisOffset, \* consumer -> where it reads on
    waited,             \* consumer -> for how long its pull has been under way
    sinceCheck,         \* for how long nobody has looked at the held pulls
    heldAt,             \* consumer -> `arrived`, when its pull was entered
    answers             \* the answers that were given in the last step

vars == <<queue, maxOffset, arrived, reading, pullRequestTable, pullFromThisOffset,
          waited, sinceCheck, heldAt, answers>>

Tags == {"A", "B"}
Offsets == 0..MaxMessages
Longest == SuspendTimeout + CheckInterval
Found == 0
NotFound == 19
NotMatched == 20

Answers == [to : Consumers, code : {Found, NotFound, NotMatched},
            by : {"read", "arrival", "check"}, waited : 0..Longest + 1]

TypeOK ==
    /\ queue \in Seq(Tags) /\ Len(queue) <= MaxMessages
    /\ maxOffset \in 0..Len(queue)
    /\ arrived \in 0..Len(queue)
    /\ reading \subseteq Consumers
    /\ pullRequestTable \subseteq Consumers \ reading
    /\ pullFromThisOffset \in [Consumers -> 0..maxOffset]
    /\ waited \in [Consumers -> 0..Longest + 1]
    /\ sinceCheck \in 0..CheckInterval
    /\ heldAt \in [Consumers -> Offsets]
    /\ answers \subseteq Answers

Init ==
    /\ queue = <<>>
    /\ maxOffset = 0
    /\ arrived = 0
    /\ reading = {}
    /\ pullRequestTable = {}
    /\ pullFromThisOffset = [c \in Consumers |-> 0]
    /\ waited = [c \in Consumers |-> 0]
    /\ sinceCheck = 0
    /\ heldAt = [c \in Consumers |-> 0]
    /\ answers = {}

-----------------------------------------------------------------------------
(***************************************************************************)
(* What readers see of the queue from an offset on, and what a pull is     *)
(* answered that reads there.                                              *)
(***************************************************************************)
Wanted(from, to) == {o \in from + 1..to : queue[o] = "A"}

Code(c) ==
    CASE maxOffset <= pullFromThisOffset[c] -> NotFound
      [] Wanted(pullFromThisOffset[c], maxOffset) # {} -> Found
      [] OTHER -> NotMatched

(***************************************************************************)
(* The pulls of `who` are answered with what is there, and not held again. *)
(***************************************************************************)
Answer(who, by) ==
    /\ answers' = {[to |-> c, code |-> Code(c), by |-> by, waited |-> waited[c]] : c \in who}
    /\ pullFromThisOffset' = [c \in Consumers |->
                                IF c \in who THEN maxOffset ELSE pullFromThisOffset[c]]
    /\ waited' = [c \in Consumers |-> IF c \in who THEN 0 ELSE waited[c]]
    /\ heldAt' = [c \in Consumers |-> IF c \in who THEN 0 ELSE heldAt[c]]

-----------------------------------------------------------------------------
(***************************************************************************)
(* A message is appended, and then dispatched.  One thread dispatches a    *)
(* message and tells of it, before it goes on to the next.                 *)
(***************************************************************************)
PutMessage(tag) ==
    /\ Len(queue) < MaxMessages
    /\ queue' = Append(queue, tag)
    /\ answers' = {}
    /\ UNCHANGED <<maxOffset, arrived, reading, pullRequestTable, pullFromThisOffset,
                   waited, sinceCheck, heldAt>>

TellsFirst == Defect = "NotifiesBeforeDispatch"

Dispatch ==
    /\ maxOffset < Len(queue)
    /\ arrived = IF TellsFirst THEN maxOffset + 1 ELSE maxOffset
    /\ maxOffset' = maxOffset + 1
    /\ answers' = {}
    /\ UNCHANGED <<queue, arrived, reading, pullRequestTable, pullFromThisOffset,
                   waited, sinceCheck, heldAt>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A consumer pulls.  It is answered where there is something, whatever    *)
(* its tag is; where there is nothing, the pull is about to be held.       *)
(***************************************************************************)
PullMessage(c) ==
    /\ c \notin reading \cup pullRequestTable
    /\ IF Code(c) = NotFound
       THEN /\ reading' = reading \cup {c}
            /\ answers' = {}
            /\ UNCHANGED <<pullFromThisOffset, waited, heldAt>>
       ELSE /\ Answer({c}, "read")
            /\ UNCHANGED reading
    /\ UNCHANGED <<queue, maxOffset, arrived, pullRequestTable, sinceCheck>>

(***************************************************************************)
(* The pull is entered among the held ones.  The remedy: unless there is   *)
(* something by now.                                                       *)
(***************************************************************************)
SuspendPullRequest(c) ==
    /\ c \in reading
    /\ reading' = reading \ {c}
    /\ IF LooksAgain /\ Code(c) # NotFound
       THEN /\ Answer({c}, "read")
            /\ UNCHANGED pullRequestTable
       ELSE /\ pullRequestTable' = pullRequestTable \cup {c}
            /\ heldAt' = [heldAt EXCEPT ![c] = arrived]
            /\ answers' = {}
            /\ UNCHANGED <<pullFromThisOffset, waited>>
    /\ UNCHANGED <<queue, maxOffset, arrived, sinceCheck>>

(***************************************************************************)
(* Held pulls are told of the next message: those are answered that want   *)
(* it, and those whose time is up.                                         *)
(***************************************************************************)
IsDue(c) == waited[c] >= SuspendTimeout

NotifyMessageArriving ==
    /\ arrived < IF TellsFirst THEN Len(queue) ELSE maxOffset
    /\ arrived = maxOffset \/ ~TellsFirst
    /\ arrived' = arrived + 1
    /\ LET next     == arrived + 1
           wants(c) == /\ next > pullFromThisOffset[c]
                       /\ queue[next] = "A" \/ Defect = "WakesForAnyTag"
           woken    == {c \in pullRequestTable : wants(c) \/ IsDue(c)}
           told     == IF Defect = "WakesOne" /\ woken # {}
                       THEN {CHOOSE c \in woken : TRUE}
                       ELSE woken
       IN  /\ Answer(told, "arrival")
           /\ pullRequestTable' = pullRequestTable \ told
    /\ UNCHANGED <<queue, maxOffset, reading, sinceCheck>>

(***************************************************************************)
(* All held pulls are looked at.  Nobody knows of which tag the messages   *)
(* are that came since a pull was read: whatever it is, it is answered.    *)
(***************************************************************************)
CheckHoldRequest ==
    /\ Defect # "NeverChecks"
    /\ sinceCheck = CheckInterval
    /\ sinceCheck' = 0
    /\ LET woken == {c \in pullRequestTable : maxOffset > pullFromThisOffset[c] \/ IsDue(c)}
       IN  /\ Answer(woken, "check")
           /\ pullRequestTable' = pullRequestTable \ woken
    /\ UNCHANGED <<queue, maxOffset, arrived, reading>>

(***************************************************************************)
(* Time goes on, unless the held pulls are to be looked at first.          *)
(***************************************************************************)
Tick ==
    /\ sinceCheck < CheckInterval \/ Defect = "NeverChecks"
    /\ reading = {}
    /\ sinceCheck' = IF sinceCheck < CheckInterval THEN sinceCheck + 1 ELSE sinceCheck
    /\ waited' = [c \in Consumers |->
                    IF c \in pullRequestTable /\ waited[c] <= Longest
                    THEN waited[c] + 1
                    ELSE waited[c]]
    /\ answers' = {}
    /\ UNCHANGED <<queue, maxOffset, arrived, reading, pullRequestTable,
                   pullFromThisOffset, heldAt>>

-----------------------------------------------------------------------------
Next ==
    \/ \E tag \in Tags : PutMessage(tag)
    \/ Dispatch
    \/ \E c \in Consumers : PullMessage(c) \/ SuspendPullRequest(c)
    \/ NotifyMessageArriving
    \/ CheckHoldRequest
    \/ Tick

(***************************************************************************)
(* The broker goes on with what it began, and its clock goes on.  That     *)
(* messages are dispatched, or come at all, is not assumed.                *)
(***************************************************************************)
Fairness ==
    /\ \A c \in Consumers : WF_vars(SuspendPullRequest(c))
    /\ WF_vars(CheckHoldRequest)
    /\ WF_vars(Tick)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* A pull that is held when a message that it wants arrives is not held    *)
(* any more (PULL-008, PULL-011).                                          *)
(***************************************************************************)
ArrivalsWake ==
    \A c \in pullRequestTable : Wanted(pullFromThisOffset[c], arrived) \ 1..heldAt[c] = {}

(***************************************************************************)
(* A pull is answered that there is nothing only when its time is up       *)
(* (PULL-009).                                                             *)
(***************************************************************************)
NothingTooEarly == \A a \in answers : a.code = NotFound => a.waited >= SuspendTimeout

(***************************************************************************)
(* It is held for no longer than its time and the time between two looks   *)
(* (PULL-009), and then its client still waits for it (PULL-015).          *)
(***************************************************************************)
HeldNoLonger == \A c \in pullRequestTable : waited[c] <= Longest

ClientStillWaits == \A c \in pullRequestTable : waited[c] < ClientTimeout

(***************************************************************************)
(* A message that a pull does not want ends the hold at the next look,     *)
(* not by its arrival (PULL-010).                                          *)
(***************************************************************************)
OthersWakeNobody ==
    \A a \in answers :
        a.code = NotMatched /\ a.by = "arrival" => a.waited >= SuspendTimeout

(***************************************************************************)
(* A pull is never held while there is a message for it that was told of:  *)
(* no wake-up is lost.  Never promised (PULL-014).                         *)
(***************************************************************************)
NoLostWakeUp ==
    \A c \in pullRequestTable : Wanted(pullFromThisOffset[c], arrived) = {}

(***************************************************************************)
(* Every pull is answered in the end (PULL-013).                           *)
(***************************************************************************)
EveryPullIsAnswered ==
    \A c \in Consumers : c \in reading \cup pullRequestTable
                            ~> c \notin reading \cup pullRequestTable
=============================================================================
