----------------------------- MODULE Broadcasting -----------------------------
(***************************************************************************)
(* In broadcasting each process of a group consumes all queues, and keeps  *)
(* its progress in a file on its host, under the id of its client: that of *)
(* the host, the same for all processes on it.  No broker knows of it.     *)
(*                                                                         *)
(* Modelled: one queue, which has a message already; processes that        *)
(* consume it, each at its own pace; their reports to the file; stops and  *)
(* kills, after which a process starts again.                              *)
(*                                                                         *)
(* Left out: what a file goes through while it is written (ConfigFile);    *)
(* messages that expire unread (Retention); listeners at work on several   *)
(* messages at once, before the first of which progress stays              *)
(* (OffsetCommit).                                                         *)
(*                                                                         *)
(* No twin in the core: what it models is a file,                          *)
(* mqspec/client/offset_store, and where a member begins that has none.    *)
(***************************************************************************)
EXTENDS Naturals

CONSTANTS
    Processes,
    MaxMessages,
    MaxRestarts,     \* how often a process stops or is killed
    FromFirst,       \* TRUE: what has no progress begins at the first message; else behind the last
    \* What is not as it should be:
    SharesFile,      \* all processes are on one host
    LosesFile,       \* a process may start on another host
    Fails            \* a listener may fail, and the message is given up

VARIABLES
    maxOffset,       \* how many messages there are
    file,            \* host -> the offset in its file, or None
    nextOffset,      \* process -> what it consumes next, or Down
    offsetTable,     \* process -> the progress that it will report, or None
    stops,
    \* ghosts
    begun,           \* process -> where it began when it first started, or None
    reported,        \* process -> what it first reported, or None
    consumed,        \* process -> what it consumed
    failed           \* process -> what its listener failed on

ghosts == <<begun, reported, consumed, failed>>
vars == <<maxOffset, file, nextOffset, offsetTable, stops, ghosts>>

None == MaxMessages + 1
Down == MaxMessages + 2
Offsets == 0 .. MaxMessages
Messages == 0 .. MaxMessages - 1
Host(p) == IF SharesFile THEN CHOOSE q \in Processes : TRUE ELSE p

TypeOK ==
    /\ maxOffset \in 1 .. MaxMessages
    /\ file \in [Processes -> Offsets \cup {None}]
    /\ nextOffset \in [Processes -> Offsets \cup {Down}]
    /\ offsetTable \in [Processes -> Offsets \cup {None}]
    /\ stops \in 0 .. MaxRestarts
    /\ begun \in [Processes -> Offsets \cup {None}]
    /\ reported \in [Processes -> Offsets \cup {None}]
    /\ consumed \in [Processes -> SUBSET Messages]
    /\ failed \in [Processes -> SUBSET Messages]

Init ==
    /\ maxOffset = 1
    /\ file = [p \in Processes |-> None]
    /\ nextOffset = [p \in Processes |-> Down]
    /\ offsetTable = [p \in Processes |-> None]
    /\ stops = 0
    /\ begun = [p \in Processes |-> None]
    /\ reported = [p \in Processes |-> None]
    /\ consumed = [p \in Processes |-> {}]
    /\ failed = [p \in Processes |-> {}]

-----------------------------------------------------------------------------
SendMessage ==
    /\ maxOffset < MaxMessages
    /\ maxOffset' = maxOffset + 1
    /\ UNCHANGED <<file, nextOffset, offsetTable, stops, ghosts>>

(***************************************************************************)
(* A process starts, and goes on where the file is that it finds.          *)
(***************************************************************************)
Start(p) ==
    /\ nextOffset[p] = Down
    /\ LET found == file[Host(p)]
           offset == IF found # None THEN found ELSE IF FromFirst THEN 0 ELSE maxOffset
       IN  /\ nextOffset' = [nextOffset EXCEPT ![p] = offset]
           /\ offsetTable' = [offsetTable EXCEPT ![p] = found]
           /\ begun' = IF begun[p] = None THEN [begun EXCEPT ![p] = offset] ELSE begun
    /\ UNCHANGED <<maxOffset, file, stops, reported, consumed, failed>>

\* On another host.
StartElsewhere(p) ==
    /\ LosesFile
    /\ nextOffset[p] = Down
    /\ file[Host(p)] # None
    /\ file' = [file EXCEPT ![Host(p)] = None]
    /\ UNCHANGED <<maxOffset, nextOffset, offsetTable, stops, ghosts>>

(***************************************************************************)
(* A message is consumed, or given up: it is not sent back.                *)
(***************************************************************************)
PassOver(p) ==
    /\ nextOffset[p] < maxOffset
    /\ nextOffset' = [nextOffset EXCEPT ![p] = @ + 1]
    /\ offsetTable' = [offsetTable EXCEPT ![p] = nextOffset[p] + 1]

Consume(p) ==
    /\ PassOver(p)
    /\ consumed' = [consumed EXCEPT ![p] = @ \cup {nextOffset[p]}]
    /\ UNCHANGED <<maxOffset, file, stops, begun, reported, failed>>

GiveUp(p) ==
    /\ Fails
    /\ PassOver(p)
    /\ failed' = [failed EXCEPT ![p] = @ \cup {nextOffset[p]}]
    /\ UNCHANGED <<maxOffset, file, stops, begun, reported, consumed>>

(***************************************************************************)
(* Each 5 s progress is written to the file, if there is any.              *)
(***************************************************************************)
Written(p) ==
    IF offsetTable[p] = None
    THEN UNCHANGED <<file, reported>>
    ELSE /\ file' = [file EXCEPT ![Host(p)] = offsetTable[p]]
         /\ reported' = IF reported[p] = None
                        THEN [reported EXCEPT ![p] = offsetTable[p]] ELSE reported

PersistAll(p) ==
    /\ nextOffset[p] # Down
    /\ offsetTable[p] # None
    /\ Written(p)
    /\ UNCHANGED <<maxOffset, nextOffset, offsetTable, stops, begun, consumed, failed>>

GoDown(p) ==
    /\ stops < MaxRestarts
    /\ nextOffset[p] # Down
    /\ stops' = stops + 1
    /\ nextOffset' = [nextOffset EXCEPT ![p] = Down]
    /\ offsetTable' = [offsetTable EXCEPT ![p] = None]
    /\ UNCHANGED <<maxOffset, begun, consumed, failed>>

Shutdown(p) == Written(p) /\ GoDown(p)

Kill(p) == GoDown(p) /\ UNCHANGED <<file, reported>>

Next ==
    \/ SendMessage
    \/ \E p \in Processes :
          \/ Start(p)
          \/ StartElsewhere(p)
          \/ Consume(p)
          \/ GiveUp(p)
          \/ PersistAll(p)
          \/ Shutdown(p)
          \/ Kill(p)

(***************************************************************************)
(* A process that is down starts again, and one that runs goes on.         *)
(***************************************************************************)
Spec ==
    /\ Init /\ [][Next]_vars
    /\ \A p \in Processes : WF_vars(Start(p)) /\ WF_vars(Consume(p))

-----------------------------------------------------------------------------
Runs(p) == nextOffset[p] # Down

(***************************************************************************)
(* A process that has its file alone, and keeps it, passes over nothing    *)
(* behind what it first reported but what its listener failed on           *)
(* (BCAST-001).                                                            *)
(***************************************************************************)
NothingSkipped ==
    \A p \in Processes : Runs(p) /\ reported[p] # None =>
        reported[p] .. nextOffset[p] - 1 \subseteq consumed[p] \cup failed[p]

(***************************************************************************)
(* Often believed: a process consumes each message that is stored after it *)
(* first started (BCAST-002).                                              *)
(***************************************************************************)
EachConsumesAll ==
    \A p \in Processes : Runs(p) => begun[p] .. nextOffset[p] - 1 \subseteq consumed[p]

(***************************************************************************)
(* That says nothing of a process that stays where it is.  Each comes to   *)
(* run for good, and to the end: with EachConsumesAll it has consumed all  *)
(* then (BCAST-002).                                                       *)
(***************************************************************************)
EachComesToTheEnd ==
    \A p \in Processes : <>[](Runs(p) /\ nextOffset[p] = maxOffset)

(***************************************************************************)
(* Witnesses, to be violated: nothing is in a file before a process stops; *)
(* nothing is consumed again.                                              *)
(***************************************************************************)
NeverWrittenBeforeStop == stops = 0 => \A p \in Processes : file[p] = None

NoRepeat == \A p \in Processes : Runs(p) => nextOffset[p] \notin consumed[p]

(***************************************************************************)
(* A witness, to be violated: a listener fails, and its message is given   *)
(* up.                                                                     *)
(***************************************************************************)
NeverGivesUp == \A p \in Processes : failed[p] = {}
===============================================================================
