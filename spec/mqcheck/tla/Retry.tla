-------------------------------- MODULE Retry --------------------------------
(***************************************************************************)
(* What becomes of messages on which their consumers fail.  Twin of        *)
(* mqspec/core/retry.py.                                                   *)
(*                                                                         *)
(* The consumer sends the message back, and the broker stores a copy in    *)
(* the retry topic, or in the dead-letter topic once it was tried too      *)
(* often.  Where no answer comes, the consumer cannot know whether there   *)
(* is a copy: it sends one to the retry topic itself, and where that       *)
(* fails, it tries the message again by itself.                            *)
(*                                                                         *)
(* Modelled: messages and their copies, each with how often it was tried;  *)
(* members of a group, each of which works on one copy at a time, and on   *)
(* each succeeds or fails as it likes; requests and answers that are lost, *)
(* as often as MaxLosses; members that crash, as often as MaxCrashes: what *)
(* one worked on is delivered again from its queue, to any other, as no    *)
(* offset behind it is committed (OffsetCommit); a group without retry     *)
(* queues, whose send-backs are answered and dropped (DropsSendBack).      *)
(*                                                                         *)
(* Left out: the delay before a copy comes again, as any order of things   *)
(* is possible without it; locks, which send copies to the dead-letter     *)
(* topic early; that a try of the consumer by itself counts.               *)
(*                                                                         *)
(* An answer that is on its way to a member that crashes is one that is    *)
(* lost, and then a crash.                                                 *)
(*                                                                         *)
(* Not in the core, being in the store, the consumer and the network:      *)
(* waiting, deadLetters, held, request, consumed, losses, crashes;         *)
(* Deliver, Consume, Fail, LoseRequest, Crash.                             *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Messages,
    Members,            \* of the group
    MaxReconsumeTimes,  \* how often a message is tried again before it is given up
    MaxLosses,          \* how many requests and answers are lost
    MaxCrashes,         \* how many members crash
    DropsSendBack,      \* whether the group has no retry queues
    Nothing             \* what a member works on that has no copy

VARIABLES
    waiting,            \* message -> times tried -> how many copies are to be delivered: the
                        \* message itself, of no try, in its queue, and others in the retry topic
    deadLetters,        \* message -> how many copies are in the dead-letter topic
    held,               \* member -> the copy that it works on, or Nothing
    request,            \* member -> what it asked of the broker: "none", "send back" or "send"
    consumed,           \* message -> how often a member succeeded on it
    losses,             \* how many requests and answers were lost
    crashes             \* how many members crashed

vars == <<waiting, deadLetters, held, request, consumed, losses, crashes>>

Times == 0..MaxReconsumeTimes
Most == MaxLosses + 1     \* there is the message, and a copy more for each loss

Copy(m, tries) == [message |-> m, times |-> tries]

Waiting(m) == {n \in Times : waiting[m][n] > 0}

AtWork(m) == {c \in Members : held[c] # Nothing /\ held[c].message = m}

TypeOK ==
    /\ waiting \in [Messages -> [Times -> 0..Most]]
    /\ deadLetters \in [Messages -> 0..Most]
    /\ held \in [Members -> [message : Messages, times : Times] \cup {Nothing}]
    /\ request \in [Members -> {"none", "send back", "send"}]
    /\ consumed \in [Messages -> 0..Most]
    /\ losses \in 0..MaxLosses
    /\ crashes \in 0..MaxCrashes

Init ==
    /\ waiting = [m \in Messages |-> [n \in Times |-> IF n = 0 THEN 1 ELSE 0]]
    /\ deadLetters = [m \in Messages |-> 0]
    /\ held = [c \in Members |-> Nothing]
    /\ request = [c \in Members |-> "none"]
    /\ consumed = [m \in Messages |-> 0]
    /\ losses = 0
    /\ crashes = 0

-----------------------------------------------------------------------------
(***************************************************************************)
(* A member gets a copy, and succeeds on it, or fails and sends it back.   *)
(***************************************************************************)
Deliver(c, m, n) ==
    /\ held[c] = Nothing
    /\ waiting[m][n] > 0
    /\ held' = [held EXCEPT ![c] = Copy(m, n)]
    /\ waiting' = [waiting EXCEPT ![m][n] = @ - 1]
    /\ UNCHANGED <<deadLetters, request, consumed, losses, crashes>>

Consume(c) ==
    /\ held[c] # Nothing
    /\ request[c] = "none"
    /\ consumed' = [consumed EXCEPT ![held[c].message] = @ + 1]
    /\ held' = [held EXCEPT ![c] = Nothing]
    /\ UNCHANGED <<waiting, deadLetters, request, losses, crashes>>

Fail(c) ==
    /\ held[c] # Nothing
    /\ request[c] = "none"
    /\ request' = [request EXCEPT ![c] = "send back"]
    /\ UNCHANGED <<waiting, deadLetters, held, consumed, losses, crashes>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Where a copy of a message goes that was tried so often as `tries` says. *)
(***************************************************************************)
Retry(m, tries) ==
    /\ waiting' = [waiting EXCEPT ![m][tries] = @ + 1]
    /\ UNCHANGED deadLetters

Bury(m) ==
    /\ deadLetters' = [deadLetters EXCEPT ![m] = @ + 1]
    /\ UNCHANGED waiting

(***************************************************************************)
(* The broker's answer arrives, and the member is done with its copy; or   *)
(* it is lost, and the member does what it does next.                      *)
(***************************************************************************)
Answer(c, next) ==
    \/ /\ held' = [held EXCEPT ![c] = Nothing]
       /\ request' = [request EXCEPT ![c] = "none"]
       /\ UNCHANGED losses
    \/ /\ losses < MaxLosses
       /\ losses' = losses + 1
       /\ request' = [request EXCEPT ![c] = next]
       /\ UNCHANGED held

(***************************************************************************)
(* The broker gets a send-back: it gives up what was tried as often as     *)
(* allowed, and has the rest tried once more.                              *)
(***************************************************************************)
ConsumerSendMsgBack(c) ==
    /\ request[c] = "send back"
    /\ IF DropsSendBack THEN UNCHANGED <<waiting, deadLetters>>
       ELSE IF held[c].times >= MaxReconsumeTimes THEN Bury(held[c].message)
       ELSE Retry(held[c].message, held[c].times + 1)
    /\ Answer(c, "send")
    /\ UNCHANGED <<consumed, crashes>>

(***************************************************************************)
(* The broker gets a copy that a member sent to the retry topic, which     *)
(* counts this try already: it gives up what is above the maximum.         *)
(***************************************************************************)
HandleRetryAndDlq(c) ==
    /\ request[c] = "send"
    /\ IF held[c].times + 1 > MaxReconsumeTimes THEN Bury(held[c].message)
       ELSE Retry(held[c].message, held[c].times + 1)
    /\ Answer(c, "none")
    /\ UNCHANGED <<consumed, crashes>>

(***************************************************************************)
(* A request does not reach the broker.                                    *)
(***************************************************************************)
LoseRequest(c) ==
    /\ request[c] # "none"
    /\ losses < MaxLosses
    /\ losses' = losses + 1
    /\ request' = [request EXCEPT ![c] = IF @ = "send back" THEN "send" ELSE "none"]
    /\ UNCHANGED <<waiting, deadLetters, held, consumed, crashes>>

(***************************************************************************)
(* A member crashes.  Another gets its queue, from the committed offset on,*)
(* and with it the copy that it worked on.                                 *)
(***************************************************************************)
Crash(c) ==
    /\ crashes < MaxCrashes
    /\ held[c] # Nothing
    /\ crashes' = crashes + 1
    /\ waiting' = [waiting EXCEPT ![held[c].message][held[c].times] = @ + 1]
    /\ held' = [held EXCEPT ![c] = Nothing]
    /\ request' = [request EXCEPT ![c] = "none"]
    /\ UNCHANGED <<deadLetters, consumed, losses>>

-----------------------------------------------------------------------------
Next ==
    \/ \E c \in Members, m \in Messages, n \in Times : Deliver(c, m, n)
    \/ \E c \in Members :
        \/ Consume(c)
        \/ Fail(c)
        \/ ConsumerSendMsgBack(c)
        \/ HandleRetryAndDlq(c)
        \/ LoseRequest(c)
        \/ Crash(c)

Fairness ==
    /\ \A m \in Messages, n \in Times : SF_vars(\E c \in Members : Deliver(c, m, n))
    /\ \A c \in Members :
        /\ WF_vars(Consume(c) \/ Fail(c))
        /\ WF_vars(ConsumerSendMsgBack(c))
        /\ WF_vars(HandleRetryAndDlq(c))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* Each message is consumed, given up, at work, or waits to be delivered.  *)
(***************************************************************************)
NothingLost ==
    \A m \in Messages :
        \/ consumed[m] > 0
        \/ deadLetters[m] > 0
        \/ AtWork(m) # {}
        \/ Waiting(m) # {}

(***************************************************************************)
(* In the end every copy is consumed or given up.                          *)
(***************************************************************************)
Settled ==
    /\ \A c \in Members : held[c] = Nothing
    /\ \A m \in Messages : Waiting(m) = {}

SettlesDown == <>[]Settled

(***************************************************************************)
(* That would be so of a copy that vanished as well.  None does: there     *)
(* come to be more of them, and never fewer (RETRY-012).                   *)
(***************************************************************************)
WaitingCopies(m) ==
    LET UpTo[n \in Times] == waiting[m][n] + (IF n = 0 THEN 0 ELSE UpTo[n - 1])
    IN  UpTo[MaxReconsumeTimes]

Stored(m) == WaitingCopies(m) + deadLetters[m]
Total(m) == Stored(m) + consumed[m] + Cardinality(AtWork(m))

NoCopyVanishes == [][\A m \in Messages : Total(m)' >= Total(m)]_vars

(***************************************************************************)
(* There is never more than one copy.                                      *)
(***************************************************************************)
NoRepeat == \A m \in Messages : Total(m) <= 1

(***************************************************************************)
(* A member is done with what it failed on when the broker has stored a    *)
(* copy and the answer has come (RETRY-018).  That the message is          *)
(* somewhere, as NothingLost says, is less: it may be done with a copy     *)
(* while there are others, and does not know that there are.               *)
(***************************************************************************)
DoneWhenAnswered ==
    [][\A m \in Messages : \A c \in AtWork(m) : request[c] # "none" /\ held'[c] = Nothing =>
        /\ losses' = losses
        /\ DropsSendBack \/ Stored(m)' > Stored(m)]_vars
=============================================================================
