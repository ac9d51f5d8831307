------------------------------ MODULE TRACE_Pop ------------------------------
(***************************************************************************)
(* What one group popped of one queue of a topic and of its retry topic,   *)
(* by one queue of the revive log, as steps of Pop.                        *)
(*                                                                         *)
(* | action               | process | x                  | y            |  *)
(* | PopMessage           | broker  | queue, last place  | first place  |  *)
(* | Pass                 | broker  | queue, last place  |              |  *)
(* | AckMessage, AckAgain | broker  | key of checkpoint  | place        |  *)
(* | ChangeInvisibleTime  | broker  | key of checkpoint  | place        |  *)
(* | ConsumeReviveMessage | broker  | messages still out |              |  *)
(* | TimeUp               | nobody  | time of a pop      |              |  *)
(* | Revive               | broker  | key of checkpoint  | places       |  *)
(* | ReviveElsewhere      | broker  |                    |              |  *)
(* | Persist, MayPersist  | broker  | offsets            | what is read |  *)
(* | Restart              | broker  | offsets            | what is read |  *)
(* | Forget               | nobody  |                    |              |  *)
(*                                                                         *)
(* The time of a pop is its number in the trace.  The broker says at which *)
(* time by its clock it looks for what is due.  Offsets are those of the   *)
(* topic and of its retry topic; what is read, how much of the log.        *)
(*                                                                         *)
(* Steps of the reference that Pop leaves out: what was popped by other    *)
(* queues of the revive log is passed over (Pass), and brought back        *)
(* (ReviveElsewhere); an acknowledgement that repeats another (AckAgain);  *)
(* a change after the time is up; how much of the log is read reaches the  *)
(* disk later than it might; a Persist of which only the beginning is in   *)
(* the trace, since the broker was killed.                                 *)
(*                                                                         *)
(* Hidden: which receipts consumers gave up (late): each may be used once; *)
(* when messages were sent: all are there from the beginning; which message*)
(* it is that is brought back elsewhere; what a crash takes of the log:    *)
(* nothing, since only the broker is killed, and not its machine.          *)
(* consumed, ackedInTime and poppedAgain are ghosts.                       *)
(*                                                                         *)
(* Forget takes the ghosts away, what lies in the log before the place to  *)
(* which a restart goes back, and times that nobody asks for, so that a    *)
(* state does not grow with the trace.  Of a message in the retry topic    *)
(* only the place is known then; no action asks for more.                  *)
(***************************************************************************)
EXTENDS Pop, Trace

X == Event[4]
Y == Event[5]

VARIABLE forgotten  \* how many entries of the log are gone, and messages of the retry topic

Place(i) == i + forgotten.log

Elements(sequence) == {sequence[i] : i \in DOMAIN sequence}

\* InQueue, but that the topic's messages are computed once: SubSeq makes a tuple of them.
InTopic == SubSeq([k \in 1 .. Messages |-> k], 1, Messages)
InQueueOfTrace(q) ==
    IF q = "topic" THEN InTopic ELSE [k \in 1 .. forgotten.retry |-> 0] \o InRetryTopic

TInit == PopInit /\ TraceInit /\ forgotten = [log |-> 0, retry |-> 0]

-----------------------------------------------------------------------------
Pass(q, last) ==
    /\ last > offsetTable[q]
    /\ offsetTable' = [offsetTable EXCEPT ![q] = last]
    /\ UNCHANGED <<log, flushed, disk, scanOffset, checkPoints, handles, late, due,
                   popTime, consumed, ackedInTime, poppedAgain, crashes, abandoned,
                   changes, replaced, persists>>

Receipts == {h \in handles : h.key = X /\ h.place = Y}

AckAgain ==
    /\ Receipts = {}
    /\ \E i \in DOMAIN log : log[i] = Ack(X, Y)
    /\ log' = Append(log, Ack(X, Y))
    /\ UNCHANGED <<flushed, offsetTable, disk, scanOffset, checkPoints, handles, late, due,
                   popTime, consumed, ackedInTime, poppedAgain, crashes, abandoned,
                   changes, replaced, persists>>

StillOut(open) == Cardinality(UNION {{<<key, k>> : k \in DOMAIN open[key]} : key \in DOMAIN open})

ReviveElsewhere ==
    /\ log' = Append(log, Retry(0))
    /\ UNCHANGED <<flushed, offsetTable, disk, scanOffset, checkPoints, handles, late, due,
                   popTime, consumed, ackedInTime, poppedAgain, crashes, abandoned,
                   changes, replaced, persists>>

Offsets == <<offsetTable["topic"], offsetTable["retry"]>>

PersistRead ==
    /\ Offsets = X
    /\ Y \in Place(disk.scanOffset) .. Place(ReviveOffset)
    /\ disk' = [offsetTable |-> offsetTable, scanOffset |-> Y - forgotten.log]
    /\ flushed' = Len(log)
    /\ UNCHANGED <<log, offsetTable, scanOffset, checkPoints, handles, late, due, popTime,
                   consumed, ackedInTime, poppedAgain, crashes, abandoned, changes,
                   replaced, persists>>

InLog == {log[i] : i \in disk.scanOffset + 1 .. Len(log)}

Times ==
    {TimeOf(h.key) : h \in handles}
        \cup {TimeOf(key) : key \in DOMAIN checkPoints}
        \cup {TimeOf(e.key) : e \in {f \in InLog : f.kind = "ck"}}

\* \E is of one: TLC computes it once, and not for each time.
Forget ==
    \E times \in {Times} :
        /\ log' = SubSeq(log, disk.scanOffset + 1, Len(log))
        /\ flushed' = flushed - disk.scanOffset
        /\ scanOffset' = scanOffset - disk.scanOffset
        /\ disk' = [disk EXCEPT !.scanOffset = 0]
        /\ due' = [time \in DOMAIN due \cap times |-> due[time] - disk.scanOffset]
        /\ forgotten' =
            [log |-> Place(disk.scanOffset),
             retry |-> forgotten.retry
                        + Cardinality({i \in 1 .. disk.scanOffset : log[i].kind = "retry"})]
        /\ consumed' = {}
        /\ ackedInTime' = {}
        /\ poppedAgain' = {}
        /\ replaced' = {}
        /\ UNCHANGED <<offsetTable, checkPoints, handles, late, popTime, crashes,
                       abandoned, changes, persists>>

Step ==
    CASE Action = "PopMessage" ->
            /\ Y = offsetTable[X[1]] + 1
            /\ X[2] >= Y
            /\ PopMessage(X[1], X[2] - offsetTable[X[1]])
      [] Action = "Pass" -> Pass(X[1], X[2])
      [] Action = "AckMessage" -> \E h \in Receipts : AckMessage(h)
      [] Action = "AckAgain" -> AckAgain
      [] Action = "ChangeInvisibleTime" -> \E h \in Receipts : ChangeInvisibleTime(h)
      [] Action = "ConsumeReviveMessage" -> ConsumeReviveMessage /\ StillOut(checkPoints') = X
      [] Action = "TimeUp" -> TimeUp(X)
      [] Action = "Revive" ->
            /\ X \in DOMAIN checkPoints
            /\ DOMAIN checkPoints[X] = Elements(Y)
            /\ Revive(X)
      [] Action = "ReviveElsewhere" -> ReviveElsewhere
      [] Action = "Persist" -> PersistRead
      [] Action = "MayPersist" -> PersistRead \/ (Offsets = X /\ UNCHANGED popVars)
      [] Action = "Restart" ->
            /\ Crash(Len(log))
            /\ <<offsetTable'["topic"], offsetTable'["retry"]>> = X
            /\ Place(scanOffset') = Y
      [] OTHER -> FALSE

ReadStep ==
    /\ ReadEvent
    /\ IF Action = "Forget" THEN Forget ELSE Step /\ UNCHANGED forgotten

TNext == ReadStep \/ (EditTrace /\ UNCHANGED <<popVars, forgotten>>)

(***************************************************************************)
(* What a trace does not determine: whether a Persist was done.            *)
(***************************************************************************)
Disk == [offsetTable |-> disk.offsetTable, scanOffset |-> Place(disk.scanOffset)]

TView == <<traceVars, Disk>>

Shown ==
    [offsetTable |-> offsetTable, disk |-> Disk, log |-> Place(Len(log)),
     scanOffset |-> Place(scanOffset),
     checkPoints |-> {<<key, DOMAIN checkPoints[key]>> : key \in DOMAIN checkPoints},
     handles |-> {<<h.key, h.place>> : h \in handles}, due |-> DOMAIN due]

(***************************************************************************)
(* Whether the log can be read.  In ENABLED, TLC would compute what an     *)
(* entry is merged with anew wherever Merged names it.                     *)
(***************************************************************************)
CanConsume ==
    /\ scanOffset < Len(log)
    /\ StillOut(MergedAll(checkPoints, scanOffset + 1)) = X

CanStep ==
    /\ ENABLED ReadEvent
    /\ CASE Action = "ConsumeReviveMessage" -> CanConsume
         [] Action = "Forget" -> TRUE
         [] OTHER -> ENABLED Step

TellAll == Tell(TRUE, CanStep, Shown)
=============================================================================
