----------------------------- MODULE CleanExpired -----------------------------
(***************************************************************************)
(* Every 15 minutes a push consumer looks for messages that its listener   *)
(* has had for longer than the consume timeout.  It sends the first one of *)
(* a process queue back to the broker and takes it out, so that it holds   *)
(* the group's progress no longer; then the next one, 16 at most.  What    *)
(* Retry leaves out.  Twin of mqspec/core/push_consumer.py and             *)
(* mqspec/core/offset_commit.py.                                           *)
(*                                                                         *)
(* Modelled: one queue; a listener that is at work on any number of        *)
(* messages, ends when it likes, or never; the clean-up, which picks a     *)
(* message, sends it back and takes it out in three steps, between which   *)
(* the listener may end; a send-back that fails, or whose answer is lost;  *)
(* a member that crashes and goes on at what was stored.                   *)
(*                                                                         *)
(* A listener that ends while its message is picked, or sent back and not  *)
(* out yet, is one of the two races of the clean-up; one that ends after   *)
(* that is late.  EndsWhile says which of them there are.                  *)
(*                                                                         *)
(* Left out: a listener that fails, whose send-back is Retry's; how many   *)
(* messages a round takes; orderly consumption, which has no clean-up.     *)
(*                                                                         *)
(* Not in the core, being the shell, the listener and the broker: picked,  *)
(* isSent, listening, expired, retryTopic, crashes, failures;              *)
(* StartListening, Expire, SendMessageBack, FailToSendBack, ConsumeCopy,   *)
(* CrashMember.                                                            *)
(* Ghosts: consumed, endedWhile.                                           *)
(***************************************************************************)
EXTENDS Naturals

CONSTANTS
    MaxMessages,     \* the messages of the queue are 0..MaxMessages-1
    MaxCrashes,
    MaxFailures,     \* how many send-backs fail, as far as the member knows
    EndsWhile,       \* when a listener may end that is out of time: "picked", "sent", "removed"
    \* Defects, FALSE in the protocol as it is:
    RemovesFirst,    \* a message is taken out before it is sent back
    KeepsProgress    \* taking a message out does not move progress

VARIABLES
    nextOffset,      \* to pull next
    msgTreeMap,      \* what was pulled and is not finished
    offsetStore,     \* progress to report
    offsetTable,     \* what the broker has stored
    listening,       \* what a listener is at work on
    expired,         \* what of that has been there for too long
    picked,          \* what the clean-up is at, or Nothing
    isSent,          \* whether that has been sent back
    retryTopic,      \* message -> its copies that wait; 2 is more than one
    consumed,        \* message -> how often it was consumed; 2 is more than once
    endedWhile,      \* the races that a listener has run
    failures,
    crashes

queueVars == <<nextOffset, msgTreeMap, offsetStore, offsetTable>>
cleanVars == <<picked, isSent>>
vars == <<queueVars, cleanVars, listening, expired, retryTopic, consumed, endedWhile, failures,
          crashes>>

Offsets == 0 .. MaxMessages - 1
Nothing == MaxMessages
More(n) == IF n = 0 THEN 1 ELSE 2
Minimum(S) == CHOOSE x \in S : \A y \in S : x <= y
Max(a, b) == IF a > b THEN a ELSE b
Progress(tree) == Max(offsetStore, IF tree = {} THEN nextOffset ELSE Minimum(tree))

TypeOK ==
    /\ nextOffset \in 0 .. MaxMessages
    /\ msgTreeMap \subseteq Offsets
    /\ offsetStore \in 0 .. MaxMessages
    /\ offsetTable \in 0 .. MaxMessages
    /\ listening \subseteq Offsets
    /\ expired \subseteq listening
    /\ picked \in Offsets \cup {Nothing}
    /\ isSent \in BOOLEAN
    /\ retryTopic \in [Offsets -> 0 .. 2]
    /\ consumed \in [Offsets -> 0 .. 2]
    /\ endedWhile \subseteq {"picked", "sent", "removed"}
    /\ failures \in 0 .. MaxFailures
    /\ crashes \in 0 .. MaxCrashes

Init ==
    /\ nextOffset = 0
    /\ msgTreeMap = {}
    /\ offsetStore = 0
    /\ offsetTable = 0
    /\ listening = {}
    /\ expired = {}
    /\ picked = Nothing
    /\ isSent = FALSE
    /\ retryTopic = [o \in Offsets |-> 0]
    /\ consumed = [o \in Offsets |-> 0]
    /\ endedWhile = {}
    /\ failures = 0
    /\ crashes = 0

-----------------------------------------------------------------------------
(***************************************************************************)
(* The next message enters the process queue; a listener starts on one;    *)
(* its time is up.                                                         *)
(***************************************************************************)
PullMessage ==
    /\ nextOffset < MaxMessages
    /\ msgTreeMap' = msgTreeMap \cup {nextOffset}
    /\ nextOffset' = nextOffset + 1
    /\ UNCHANGED <<offsetStore, offsetTable, cleanVars, listening, expired, retryTopic, consumed,
                   endedWhile, failures, crashes>>

StartListening(o) ==
    /\ o \in msgTreeMap \ listening
    /\ listening' = listening \cup {o}
    /\ UNCHANGED <<queueVars, cleanVars, expired, retryTopic, consumed, endedWhile, failures,
                   crashes>>

Expire(o) ==
    /\ o \in listening \ expired
    /\ expired' = expired \cup {o}
    /\ UNCHANGED <<queueVars, cleanVars, listening, retryTopic, consumed, endedWhile, failures,
                   crashes>>

(***************************************************************************)
(* The listener is done with a message.                                    *)
(***************************************************************************)
PhaseOf(o) ==
    CASE o \notin msgTreeMap -> "removed"
      [] o = picked /\ isSent -> "sent"
      [] o = picked -> "picked"
      [] OTHER -> "in time"

ProcessConsumeResult(o) ==
    /\ o \in listening
    /\ PhaseOf(o) \in EndsWhile \cup {"in time"}
    /\ listening' = listening \ {o}
    /\ expired' = expired \ {o}
    /\ consumed' = [consumed EXCEPT ![o] = More(@)]
    /\ endedWhile' = IF PhaseOf(o) = "in time" THEN endedWhile ELSE endedWhile \cup {PhaseOf(o)}
    /\ msgTreeMap' = msgTreeMap \ {o}
    /\ offsetStore' = Progress(msgTreeMap \ {o})
    /\ UNCHANGED <<nextOffset, offsetTable, cleanVars, retryTopic, failures, crashes>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The clean-up picks the first message, if its listener is out of time.   *)
(***************************************************************************)
FirstExpired ==
    /\ picked = Nothing
    /\ msgTreeMap # {}
    /\ Minimum(msgTreeMap) \in expired
    /\ picked' = Minimum(msgTreeMap)
    /\ isSent' = FALSE
    /\ msgTreeMap' = IF RemovesFirst THEN msgTreeMap \ {picked'} ELSE msgTreeMap
    /\ offsetStore' = Progress(msgTreeMap')
    /\ UNCHANGED <<nextOffset, offsetTable, listening, expired, retryTopic, consumed, endedWhile,
                   failures, crashes>>

(***************************************************************************)
(* It sends the message back; that fails, and the message stays, though    *)
(* the broker may have got it.                                             *)
(***************************************************************************)
SendMessageBack ==
    /\ picked # Nothing
    /\ ~isSent
    /\ isSent' = TRUE
    /\ retryTopic' = [retryTopic EXCEPT ![picked] = More(@)]
    /\ UNCHANGED <<queueVars, picked, listening, expired, consumed, endedWhile, failures, crashes>>

FailToSendBack ==
    /\ picked # Nothing
    /\ ~isSent
    /\ failures < MaxFailures
    /\ failures' = failures + 1
    /\ picked' = Nothing
    /\ \E got \in BOOLEAN :
           retryTopic' = IF got THEN [retryTopic EXCEPT ![picked] = More(@)] ELSE retryTopic
    /\ UNCHANGED <<queueVars, isSent, listening, expired, consumed, endedWhile, crashes>>

(***************************************************************************)
(* It takes the message out, if it is there still.  Its listener goes on.  *)
(***************************************************************************)
RemoveMessage ==
    /\ picked # Nothing
    /\ isSent
    /\ picked' = Nothing
    /\ isSent' = FALSE
    /\ msgTreeMap' = msgTreeMap \ {picked}
    /\ offsetStore' = IF KeepsProgress THEN offsetStore ELSE Progress(msgTreeMap')
    /\ UNCHANGED <<nextOffset, offsetTable, listening, expired, retryTopic, consumed, endedWhile,
                   failures, crashes>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Progress is reported and stored; a copy is consumed.                    *)
(***************************************************************************)
PersistAll ==
    /\ offsetTable # offsetStore
    /\ offsetTable' = offsetStore
    /\ UNCHANGED <<nextOffset, msgTreeMap, offsetStore, cleanVars, listening, expired, retryTopic,
                   consumed, endedWhile, failures, crashes>>

ConsumeCopy(o) ==
    /\ retryTopic[o] > 0
    /\ retryTopic' = [retryTopic EXCEPT ![o] = @ - 1]
    /\ consumed' = [consumed EXCEPT ![o] = More(@)]
    /\ UNCHANGED <<queueVars, cleanVars, listening, expired, endedWhile, failures, crashes>>

(***************************************************************************)
(* The member dies, and another goes on at what was stored.                *)
(***************************************************************************)
CrashMember ==
    /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ nextOffset' = offsetTable
    /\ offsetStore' = offsetTable
    /\ msgTreeMap' = {}
    /\ listening' = {}
    /\ expired' = {}
    /\ picked' = Nothing
    /\ isSent' = FALSE
    /\ UNCHANGED <<offsetTable, retryTopic, consumed, endedWhile, failures>>

Next ==
    \/ PullMessage
    \/ \E o \in Offsets :
          \/ StartListening(o)
          \/ Expire(o)
          \/ ProcessConsumeResult(o)
          \/ ConsumeCopy(o)
    \/ FirstExpired
    \/ SendMessageBack
    \/ FailToSendBack
    \/ RemoveMessage
    \/ PersistAll
    \/ CrashMember

\* Nothing is asked of listeners: one may never end.
Fairness ==
    /\ WF_vars(PullMessage)
    /\ \A o \in Offsets : WF_vars(StartListening(o)) /\ WF_vars(Expire(o))
    /\ WF_vars(FirstExpired)
    /\ WF_vars(SendMessageBack)
    /\ WF_vars(RemoveMessage)
    /\ WF_vars(PersistAll)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* What was pulled, and what is below the stored progress, is consumed, in *)
(* work, or has a copy that will be (RETRY-015).                           *)
(***************************************************************************)
NothingLost ==
    \A o \in Offsets :
        o < Max(nextOffset, offsetTable) =>
            consumed[o] > 0 \/ o \in msgTreeMap \/ retryTopic[o] > 0

(***************************************************************************)
(* A listener that never ends does not hold progress back for ever         *)
(* (RETRY-016).                                                            *)
(***************************************************************************)
ProgressGoesOn == <>[](offsetTable = MaxMessages)

(***************************************************************************)
(* Often believed: each message is consumed once (RETRY-017).  The causes: *)
(* the first race, the second race, and a late listener.                   *)
(***************************************************************************)
NoRepeat == \A o \in Offsets : consumed[o] + retryTopic[o] <= 1

NoFirstRace == "picked" \in endedWhile => NoRepeat
NoSecondRace == "sent" \in endedWhile => NoRepeat
NoLateListener == "removed" \in endedWhile => NoRepeat
===============================================================================
