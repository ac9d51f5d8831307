-------------------------------- MODULE Retry --------------------------------
(***************************************************************************)
(* What becomes of a message on which its consumer fails.  Twin of         *)
(* mqspec/core/retry.py.                                                   *)
(*                                                                         *)
(* The consumer sends the message back, and the broker stores a copy in    *)
(* the retry topic, or in the dead-letter topic once it was tried too      *)
(* often.  Where no answer comes, the consumer cannot know whether there   *)
(* is a copy: it sends one to the retry topic itself, and where that       *)
(* fails, it tries the message again by itself.                            *)
(*                                                                         *)
(* Modelled: one message and its copies, each with how often it was tried; *)
(* a consumer that works on one copy at a time, and on each succeeds or    *)
(* fails as it likes; requests and answers that are lost, as often as      *)
(* MaxLosses; a group without retry queues, whose send-backs are answered  *)
(* and dropped (DropsSendBack).                                            *)
(*                                                                         *)
(* Left out: the delay before a copy comes again, as any order of things   *)
(* is possible without it; a consumer that crashes, which has its queue    *)
(* delivered again from the offset that it committed (see OffsetCommit);   *)
(* locks, which send copies to the dead-letter topic early; that a try of  *)
(* the consumer by itself counts.                                          *)
(*                                                                         *)
(* Not in the core, being in the store, the consumer and the network:      *)
(* retryTopic, deadLetters, held, request, consumed, losses; Deliver,      *)
(* Consume, Fail, LoseRequest.                                             *)
(***************************************************************************)
EXTENDS Naturals

CONSTANTS
    MaxReconsumeTimes,  \* how often a message is tried again before it is given up
    MaxLosses,          \* how many requests and answers are lost
    DropsSendBack       \* whether the group has no retry queues

VARIABLES
    retryTopic,         \* times tried -> how many copies wait that were tried so often
    deadLetters,        \* how many copies are in the dead-letter topic
    held,               \* what the consumer works on: times tried, or Nothing
    request,            \* what it asked of the broker: "none", "send back" or "send"
    consumed,           \* how often it succeeded
    losses              \* how many requests and answers were lost

vars == <<retryTopic, deadLetters, held, request, consumed, losses>>

Times == 0..MaxReconsumeTimes
Nothing == MaxReconsumeTimes + 1
Most == MaxLosses + 1     \* there is the message, and a copy more for each loss

Waiting == {n \in Times : retryTopic[n] > 0}

TypeOK ==
    /\ retryTopic \in [Times -> 0..Most]
    /\ deadLetters \in 0..Most
    /\ held \in Times \cup {Nothing}
    /\ request \in {"none", "send back", "send"}
    /\ consumed \in 0..Most
    /\ losses \in 0..MaxLosses

Init ==
    /\ retryTopic = [n \in Times |-> 0]
    /\ deadLetters = 0
    /\ held = 0           \* the message itself, delivered for the first time
    /\ request = "none"
    /\ consumed = 0
    /\ losses = 0

-----------------------------------------------------------------------------
(***************************************************************************)
(* The consumer gets a copy, and succeeds on it, or fails and sends it     *)
(* back.                                                                   *)
(***************************************************************************)
Deliver(n) ==
    /\ held = Nothing
    /\ retryTopic[n] > 0
    /\ held' = n
    /\ retryTopic' = [retryTopic EXCEPT ![n] = @ - 1]
    /\ UNCHANGED <<deadLetters, request, consumed, losses>>

Consume ==
    /\ held # Nothing
    /\ request = "none"
    /\ consumed' = consumed + 1
    /\ held' = Nothing
    /\ UNCHANGED <<retryTopic, deadLetters, request, losses>>

Fail ==
    /\ held # Nothing
    /\ request = "none"
    /\ request' = "send back"
    /\ UNCHANGED <<retryTopic, deadLetters, held, consumed, losses>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Where a copy goes that was tried so often as `tries` says.              *)
(***************************************************************************)
Retry(tries) ==
    /\ retryTopic' = [retryTopic EXCEPT ![tries] = @ + 1]
    /\ UNCHANGED deadLetters

Bury ==
    /\ deadLetters' = deadLetters + 1
    /\ UNCHANGED retryTopic

(***************************************************************************)
(* The broker's answer arrives, and the consumer is done with its copy; or *)
(* it is lost, and the consumer does what it does next.                    *)
(***************************************************************************)
Answer(next) ==
    \/ /\ held' = Nothing
       /\ request' = "none"
       /\ UNCHANGED losses
    \/ /\ losses < MaxLosses
       /\ losses' = losses + 1
       /\ request' = next
       /\ UNCHANGED held

(***************************************************************************)
(* The broker gets a send-back: it gives up what was tried as often as     *)
(* allowed, and has the rest tried once more.                              *)
(***************************************************************************)
ConsumerSendMsgBack ==
    /\ request = "send back"
    /\ IF DropsSendBack THEN UNCHANGED <<retryTopic, deadLetters>>
       ELSE IF held >= MaxReconsumeTimes THEN Bury ELSE Retry(held + 1)
    /\ Answer("send")
    /\ UNCHANGED consumed

(***************************************************************************)
(* The broker gets a copy that the consumer sent to the retry topic, which *)
(* counts this try already: it gives up what is above the maximum.         *)
(***************************************************************************)
HandleRetryAndDlq ==
    /\ request = "send"
    /\ IF held + 1 > MaxReconsumeTimes THEN Bury ELSE Retry(held + 1)
    /\ Answer("none")
    /\ UNCHANGED consumed

(***************************************************************************)
(* A request does not reach the broker.                                    *)
(***************************************************************************)
LoseRequest ==
    /\ request # "none"
    /\ losses < MaxLosses
    /\ losses' = losses + 1
    /\ request' = IF request = "send back" THEN "send" ELSE "none"
    /\ UNCHANGED <<retryTopic, deadLetters, held, consumed>>

-----------------------------------------------------------------------------
Next ==
    \/ \E n \in Times : Deliver(n)
    \/ Consume
    \/ Fail
    \/ ConsumerSendMsgBack
    \/ HandleRetryAndDlq
    \/ LoseRequest

Fairness ==
    /\ \A n \in Times : SF_vars(Deliver(n))
    /\ WF_vars(Consume \/ Fail)
    /\ WF_vars(ConsumerSendMsgBack)
    /\ WF_vars(HandleRetryAndDlq)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* The message is consumed, given up, at work, or waits to be tried again. *)
(***************************************************************************)
NothingLost == consumed > 0 \/ deadLetters > 0 \/ held # Nothing \/ Waiting # {}

(***************************************************************************)
(* There is never more than one copy.                                      *)
(***************************************************************************)
Copies == (IF held = Nothing THEN 0 ELSE 1) + consumed + deadLetters
NoRepeat == Copies <= 1 /\ \A n \in Times : retryTopic[n] + Copies <= 1

(***************************************************************************)
(* In the end every copy is consumed or given up.                          *)
(***************************************************************************)
Settled == held = Nothing /\ Waiting = {}
SettlesDown == <>[]Settled

(***************************************************************************)
(* That would be so of a copy that vanished as well.  None does: there     *)
(* come to be more of them, and never fewer (RETRY-012).                   *)
(***************************************************************************)
CopiesUpTo[n \in Times] == retryTopic[n] + (IF n = 0 THEN 0 ELSE CopiesUpTo[n - 1])
Stored == CopiesUpTo[MaxReconsumeTimes] + deadLetters
Total == Stored + consumed + (IF held = Nothing THEN 0 ELSE 1)

NoCopyVanishes == [][Total' >= Total]_vars

(***************************************************************************)
(* The consumer is done with what it failed on when the broker has stored  *)
(* a copy and the answer has come (RETRY-018).  That the message is        *)
(* somewhere, as NothingLost says, is less: it may be done with a copy     *)
(* while there are others, and does not know that there are.               *)
(***************************************************************************)
DoneWhenAnswered ==
    [][request # "none" /\ held # Nothing /\ held' = Nothing =>
        losses' = losses /\ (DropsSendBack \/ Stored' > Stored)]_vars
=============================================================================
