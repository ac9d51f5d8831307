-------------------------- MODULE TRACE_OffsetCommit --------------------------
(***************************************************************************)
(* What members and a broker did, as steps of OffsetCommit: one queue and  *)
(* one group a trace.  Queues are independent of each other but for what   *)
(* is done to all of them at once, which is in the trace of each.          *)
(*                                                                         *)
(* | action                        | process | x             | y        |  *)
(* | SendMessage                   | broker  | the end after |          |  *)
(* | AddMessageQueue               | member  | where to pull | stored   |  *)
(* | PullMessage                   | member  | where to pull |          |  *)
(* | SkipMessages                  | member  | where to pull |          |  *)
(* | ProcessConsumeResult          | member  | the message   | progress |  *)
(* | CorrectTagsOffset             | member  | progress      |          |  *)
(* | PersistAll                    | member  | progress      |          |  *)
(* | RemoveUnnecessaryMessageQueue | member  | progress      |          |  *)
(* | CrashMember                   | member  |               |          |  *)
(* | UpdateConsumerOffset          | broker  | what arrives  | whose    |  *)
(* | LoseCommit                    | member  | what does not |          |  *)
(* | Persist, MayPersist, Load     | broker  | what it holds |          |  *)
(*                                                                         *)
(* None is -1; Untold, where the trace does not say, is -2.                *)
(*                                                                         *)
(* Steps of the reference that OffsetCommit leaves out, and traces have:   *)
(* SkipMessages, those that the group does not want (tags);                *)
(* CorrectTagsOffset, a pull that found nothing, and all is finished; a    *)
(* queue that still holds its message 0 in memory is told to be stored at  *)
(* 0 where nothing is (OFFSET-013); a commit that is on its way more than  *)
(* once, which a set cannot tell from once; a Persist of which only the    *)
(* beginning is in the trace, since the broker was killed.                 *)
(*                                                                         *)
(* Hidden, so that traces say nothing of it: which of the commits of the   *)
(* same offset it was that arrived, and so which ones were lost: mqcheck   *)
(* takes the first that was sent, and has LoseCommit follow where none     *)
(* arrives; messages that are finished after their queue was taken away    *)
(* (FinishOrphan, orphans); consumed and begun, which are ghosts.          *)
(***************************************************************************)
EXTENDS OffsetCommit, Trace

VARIABLES
    again  \* <<commit, n>>: a commit that is on its way already was sent again, n times

Q == CHOOSE q \in Queues : TRUE

X == Event[4]
Y == Event[5]
Untold == -2
Value(number) == IF number = -1 THEN None ELSE number

TInit ==
    /\ TraceInit
    /\ processQueueTable = [m \in Members |-> [q \in Queues |-> None]]
    /\ offsetStore = [m \in Members |-> [q \in Queues |-> None]]
    /\ offsetTable = [q \in Queues |-> Value(Before[trace][2])]
    /\ offsetFile = offsetTable
    /\ network = {}
    /\ orphans = {}
    /\ crashed = {}
    /\ moves = 0
    /\ brokerCrashes = 0
    /\ maxOffset = [q \in Queues |-> Before[trace][1]]
    /\ begun = [q \in Queues |-> None]
    /\ consumed = [q \in Queues |-> [o \in Offsets |-> 0]]
    /\ again = {}

-----------------------------------------------------------------------------
AddYoungMessageQueue(m) ==
    /\ m \in Running
    /\ ~Holds(m, Q)
    /\ offsetTable[Q] = None
    /\ processQueueTable' = [processQueueTable EXCEPT
        ![m][Q] = [nextOffset |-> 0, msgTreeMap |-> {}]]
    /\ offsetStore' = [offsetStore EXCEPT ![m][Q] = 0]
    /\ begun' = [begun EXCEPT ![Q] = IF @ = None THEN 0 ELSE @]
    /\ UNCHANGED <<offsetTable, offsetFile, network, orphans, crashed, moves, brokerCrashes,
                   maxOffset, consumed>>

SkipMessages(m, offset) ==
    /\ m \in Running
    /\ Holds(m, Q)
    /\ offset > processQueueTable[m][Q].nextOffset
    /\ offset <= maxOffset[Q]
    /\ processQueueTable' = [processQueueTable EXCEPT ![m][Q].nextOffset = offset]
    /\ UNCHANGED <<offsetStore, offsetTable, offsetFile, network, orphans, crashed,
                   moves, brokerCrashes, maxOffset, begun, consumed>>

CorrectTagsOffset(m) ==
    /\ m \in Running
    /\ Holds(m, Q)
    /\ processQueueTable[m][Q].msgTreeMap = {}
    /\ IF offsetStore[m][Q] = None THEN TRUE
       ELSE offsetStore[m][Q] < processQueueTable[m][Q].nextOffset
    /\ offsetStore' = [offsetStore EXCEPT ![m][Q] = processQueueTable[m][Q].nextOffset]
    /\ UNCHANGED <<processQueueTable, offsetTable, offsetFile, network, orphans, crashed,
                   moves, brokerCrashes, maxOffset, begun, consumed>>

Copies(commit) == Cardinality({copy \in again : copy[1] = commit})

Sent(commits) == again' = again \cup {<<c, Copies(c) + 1>> : c \in commits \cap network}

\* A commit leaves the network: the last copy of it, as `leaves` says, or one of them before.
Leaves(commit, leaves, rest) ==
    IF Copies(commit) = 0 THEN leaves /\ UNCHANGED again
    ELSE again' = again \ {<<commit, Copies(commit)>>} /\ rest /\ UNCHANGED network

Arrives(commit) ==
    Leaves(commit, UpdateConsumerOffset(commit),
        /\ offsetTable' = [offsetTable EXCEPT ![Q] = commit.offset]
        /\ UNCHANGED <<processQueueTable, offsetStore, offsetFile, orphans, crashed, moves,
                       brokerCrashes, maxOffset, begun, consumed>>)

IsLost(commit) ==
    Leaves(commit, LoseCommit(commit),
        UNCHANGED <<processQueueTable, offsetStore, offsetTable, offsetFile, orphans, crashed,
                    moves, brokerCrashes, maxOffset, begun, consumed>>)

MayPersist == Persist \/ UNCHANGED vars

Steps(m) ==
    CASE Action = "SendMessage" -> SendMessage(Q) /\ maxOffset'[Q] = X
      [] Action = "AddMessageQueue" ->
            /\ AddMessageQueue(m, Q) \/ AddYoungMessageQueue(m)
            /\ processQueueTable'[m][Q].nextOffset = X
            /\ offsetStore'[m][Q] = Value(Y)
      [] Action = "PullMessage" ->
            PullMessage(m, Q) /\ processQueueTable'[m][Q].nextOffset = X
      [] Action = "SkipMessages" -> SkipMessages(m, X)
      [] Action = "ProcessConsumeResult" ->
            ProcessConsumeResult(m, Q, X) /\ Y \in {Untold, offsetStore'[m][Q]}
      [] Action = "CorrectTagsOffset" -> CorrectTagsOffset(m) /\ offsetStore'[m][Q] = X
      [] Action = "CrashMember" -> CrashMember(m)
      [] Action = "Persist" -> Persist /\ offsetFile'[Q] = Value(X)
      [] Action = "MayPersist" -> MayPersist /\ offsetTable[Q] = Value(X)
      [] Action = "Load" -> Load /\ offsetTable'[Q] = Value(X)
      [] OTHER -> FALSE

StepOf(m) ==
    CASE Action = "PersistAll" ->
            PersistAll(m) /\ offsetStore[m][Q] = X /\ Sent({Commit(m, Q)})
      [] Action = "RemoveUnnecessaryMessageQueue" ->
            /\ RemoveUnnecessaryMessageQueue(m, Q)
            /\ offsetStore[m][Q] = Value(X)
            /\ Sent(IF X = -1 THEN {} ELSE {Commit(m, Q)})
      [] Action = "UpdateConsumerOffset" -> Arrives([member |-> Y, queue |-> Q, offset |-> X])
      [] Action = "LoseCommit" -> IsLost([member |-> m, queue |-> Q, offset |-> X])
      [] OTHER -> Steps(m) /\ UNCHANGED again

ReadStep == ReadEvent /\ StepOf(Process)

TNext == ReadStep \/ (EditTrace /\ UNCHANGED <<vars, again>>)

(***************************************************************************)
(* What a trace does not determine: whether a Persist was done.            *)
(***************************************************************************)
TView == <<traceVars, offsetFile>>

Shown ==
    [processQueueTable |-> [m \in Members |-> processQueueTable[m][Q]],
     offsetStore |-> [m \in Members |-> offsetStore[m][Q]],
     offsetTable |-> offsetTable[Q],
     offsetFile |-> offsetFile[Q],
     network |-> {<<commit.member, commit.offset>> : commit \in network},
     crashed |-> crashed,
     maxOffset |-> maxOffset[Q]]

(***************************************************************************)
(* What is not lost arrives before the end.                                *)
(***************************************************************************)
TellAll == Tell(network = {}, ENABLED ReadStep, Shown)
=============================================================================
