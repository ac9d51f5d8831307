--------------------------- MODULE ConsumeOrderly ---------------------------
(***************************************************************************)
(* One queue, consumed in order.  Twin of mqspec/core/consume_orderly.py   *)
(* and mqspec/core/offset_commit.py.                                       *)
(*                                                                         *)
(* The owner of the queue gives its listener the first messages of its     *)
(* process queue, MaxBatch at once at most.  They are finished, and        *)
(* progress moves behind them; or they go back, and are the first ones     *)
(* again.  One that was tried MaxReconsumeTimes is parked in the           *)
(* dead-letter topic, and a batch of such is finished.                     *)
(*                                                                         *)
(* Modelled: owners one after the other, each of which begins at the       *)
(* stored offset; an owner that lets go in good order, and one that        *)
(* crashes; a listener that succeeds and fails as it likes; progress that  *)
(* is reported at any time.                                                *)
(*                                                                         *)
(* Taken for granted: one owner at a time, which Lock shows to need        *)
(* assumptions.  Left out: reports that arrive late or not at all          *)
(* (OffsetCommit); parking that fails, which is a failure like any other;  *)
(* pauses between tries; commits that the listener makes by hand.          *)
(*                                                                         *)
(* Not in the core, being the queue and the shell: isHeld, tries,          *)
(* deadLetters, crashes; Begin, Suspend, Release, Crash.                   *)
(* Ghosts: finished.                                                       *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    MaxMessages,            \* the messages of the queue are 0..MaxMessages-1
    MaxBatch,               \* consumeMessageBatchMaxSize
    MaxReconsumeTimes,      \* how often a message is tried again before it is parked
    Forever,                \* whether it is never parked, which is the default
    MaxCrashes,
    Defect                  \* the guard or update that is left out; "none"

VARIABLES
    isHeld,                         \* whether the queue has an owner
    nextOffset,                     \* where the owner pulls next
    msgTreeMap,                     \* what it has pulled and not given to its listener
    consumingMsgOrderlyTreeMap,     \* what the listener works on
    offsetStore,                    \* the owner's progress
    offsetTable,                    \* what the broker has stored
    tries,                          \* offset -> how often the owner has tried it in vain
    deadLetters,                    \* what was parked
    finished,                       \* what a listener succeeded on
    crashes

vars == <<isHeld, nextOffset, msgTreeMap, consumingMsgOrderlyTreeMap, offsetStore, offsetTable,
          tries, deadLetters, finished, crashes>>

Offsets == 0..MaxMessages-1
Below(offset) == {o \in Offsets : o < offset}
Max(set) == CHOOSE x \in set : \A y \in set : y <= x
Done == finished \cup deadLetters

TypeOK ==
    /\ isHeld \in BOOLEAN
    /\ nextOffset \in 0..MaxMessages
    /\ msgTreeMap \subseteq Below(nextOffset)
    /\ consumingMsgOrderlyTreeMap \subseteq Below(nextOffset) \ msgTreeMap
    /\ Cardinality(consumingMsgOrderlyTreeMap) <= MaxBatch
    /\ offsetStore \in 0..MaxMessages
    /\ offsetTable \in 0..MaxMessages
    /\ tries \in [Offsets -> 0..MaxReconsumeTimes]
    /\ deadLetters \subseteq Offsets
    /\ finished \subseteq Offsets
    /\ crashes \in 0..MaxCrashes

Init ==
    /\ isHeld = FALSE
    /\ nextOffset = 0
    /\ msgTreeMap = {}
    /\ consumingMsgOrderlyTreeMap = {}
    /\ offsetStore = 0
    /\ offsetTable = 0
    /\ tries = [o \in Offsets |-> 0]
    /\ deadLetters = {}
    /\ finished = {}
    /\ crashes = 0

-----------------------------------------------------------------------------
(***************************************************************************)
(* A member becomes the owner, and begins at the stored offset.  How often *)
(* messages were tried it does not know.                                   *)
(***************************************************************************)
Begin ==
    /\ ~isHeld
    /\ isHeld' = TRUE
    /\ nextOffset' = offsetTable
    /\ offsetStore' = offsetTable
    /\ UNCHANGED <<msgTreeMap, consumingMsgOrderlyTreeMap, offsetTable, tries, deadLetters,
                   finished, crashes>>

(***************************************************************************)
(* The next message enters the process queue.                              *)
(***************************************************************************)
PullMessage ==
    /\ isHeld
    /\ nextOffset < MaxMessages
    /\ nextOffset' = nextOffset + 1
    /\ msgTreeMap' = msgTreeMap \cup {nextOffset}
    /\ UNCHANGED <<isHeld, consumingMsgOrderlyTreeMap, offsetStore, offsetTable, tries,
                   deadLetters, finished, crashes>>

(***************************************************************************)
(* The first messages go to the listener, when it has nothing else.        *)
(***************************************************************************)
TakeMessages(taken) ==
    /\ consumingMsgOrderlyTreeMap = {}
    /\ taken # {}
    /\ taken \subseteq msgTreeMap
    /\ Cardinality(taken) <= MaxBatch
    /\ \/ \A o \in taken, p \in msgTreeMap \ taken : o < p
       \/ Defect = "TakesAny"
    /\ consumingMsgOrderlyTreeMap' = taken
    /\ msgTreeMap' = msgTreeMap \ taken
    /\ UNCHANGED <<isHeld, nextOffset, offsetStore, offsetTable, tries, deadLetters, finished,
                   crashes>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* What the listener has is done with: progress is behind it.              *)
(***************************************************************************)
Progress ==
    /\ offsetStore' = Max(consumingMsgOrderlyTreeMap) + 1
    /\ consumingMsgOrderlyTreeMap' = {}

Commit ==
    /\ consumingMsgOrderlyTreeMap # {}
    /\ finished' = finished \cup consumingMsgOrderlyTreeMap
    /\ Progress
    /\ UNCHANGED <<isHeld, nextOffset, msgTreeMap, offsetTable, tries, deadLetters, crashes>>

(***************************************************************************)
(* What the listener has goes back, to be taken again.                     *)
(***************************************************************************)
MakeMessageToConsumeAgain ==
    /\ msgTreeMap' = IF Defect = "DropsFailed"
                     THEN msgTreeMap
                     ELSE msgTreeMap \cup consumingMsgOrderlyTreeMap
    /\ consumingMsgOrderlyTreeMap' = {}
    /\ UNCHANGED offsetStore

(***************************************************************************)
(* The listener fails.  What was tried too often is parked, the rest is    *)
(* tried again: then all of the batch is, what is parked too.              *)
(***************************************************************************)
Suspend ==
    LET tooOften == IF Forever THEN {}
                    ELSE {o \in consumingMsgOrderlyTreeMap : tries[o] = MaxReconsumeTimes}
    IN  /\ consumingMsgOrderlyTreeMap # {}
        /\ deadLetters' = deadLetters \cup tooOften
        /\ tries' = [o \in Offsets |->
                        IF o \in consumingMsgOrderlyTreeMap \ tooOften /\ tries[o] < MaxReconsumeTimes
                        THEN tries[o] + 1 ELSE tries[o]]
        /\ IF tooOften = consumingMsgOrderlyTreeMap \/ Defect = "CommitsFailed"
           THEN Progress /\ UNCHANGED msgTreeMap
           ELSE MakeMessageToConsumeAgain
        /\ UNCHANGED <<isHeld, nextOffset, offsetTable, finished, crashes>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* Progress is reported.                                                   *)
(***************************************************************************)
UpdateConsumerOffset ==
    /\ isHeld
    /\ offsetTable' = offsetStore
    /\ UNCHANGED <<isHeld, nextOffset, msgTreeMap, consumingMsgOrderlyTreeMap, offsetStore,
                   tries, deadLetters, finished, crashes>>

(***************************************************************************)
(* The owner lets go of the queue: in good order, when its listener has    *)
(* ended and progress is reported; or as it crashes.                       *)
(***************************************************************************)
LetGo ==
    /\ isHeld' = FALSE
    /\ nextOffset' = 0
    /\ offsetStore' = 0
    /\ msgTreeMap' = {}
    /\ consumingMsgOrderlyTreeMap' = {}
    /\ tries' = [o \in Offsets |-> 0]
    /\ UNCHANGED <<deadLetters, finished>>

Release ==
    /\ isHeld
    /\ offsetTable < MaxMessages
    /\ consumingMsgOrderlyTreeMap = {}
    /\ offsetTable' = IF Defect = "ReleasesFirst" THEN offsetTable ELSE offsetStore
    /\ LetGo
    /\ UNCHANGED crashes

Crash ==
    /\ isHeld
    /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ LetGo
    /\ UNCHANGED offsetTable

-----------------------------------------------------------------------------
Next ==
    \/ Begin
    \/ PullMessage
    \/ \E taken \in SUBSET Offsets : TakeMessages(taken)
    \/ Commit
    \/ Suspend
    \/ UpdateConsumerOffset
    \/ Release
    \/ Crash

(***************************************************************************)
(* An owner goes on; that it succeeds is not assumed, but that it does not *)
(* let go of the queue again and again.                                    *)
(***************************************************************************)
Fairness ==
    /\ WF_vars(Begin)
    /\ WF_vars(PullMessage)
    /\ WF_vars(\E taken \in SUBSET Offsets : TakeMessages(taken))
    /\ WF_vars(Commit \/ Suspend)

Spec == Init /\ [][Next]_vars /\ Fairness /\ <>[][~Release /\ ~Crash]_vars

-----------------------------------------------------------------------------
(***************************************************************************)
(* A message goes to the listener only when all before it were finished or *)
(* parked (LOCK-022).                                                      *)
(***************************************************************************)
InOrder ==
    \A o \in consumingMsgOrderlyTreeMap :
        Below(o) \subseteq Done \cup consumingMsgOrderlyTreeMap

(***************************************************************************)
(* Progress, as the owner has it and as it is stored, is behind messages   *)
(* that were finished or parked (LOCK-023).                                *)
(***************************************************************************)
ProgressIsDone == Below(offsetStore) \cup Below(offsetTable) \subseteq Done

(***************************************************************************)
(* What a listener has finished it does not get again.  Never promised     *)
(* (LOCK-024).                                                             *)
(***************************************************************************)
NoRepeat == consumingMsgOrderlyTreeMap \cap finished = {}

(***************************************************************************)
(* What was parked no listener gets again.  Never promised (LOCK-025).     *)
(***************************************************************************)
ParkedIsOver == consumingMsgOrderlyTreeMap \cap deadLetters = {}

(***************************************************************************)
(* In the end the group is past every message (LOCK-026), unless it is     *)
(* tried for ever.                                                         *)
(***************************************************************************)
ComesToTheEnd == <>(Done = Offsets)
=============================================================================
