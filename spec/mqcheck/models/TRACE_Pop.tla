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
(* consumed, ackedInTime and poppedAgain are ghosts, and forgotten (Forget)*)
(* now and then, so that a state does not grow with the trace by them.     *)
(***************************************************************************)
EXTENDS Pop, Trace

X == Event[4]
Y == Event[5]

Elements(sequence) == {sequence[i] : i \in DOMAIN sequence}

\* InQueue, but that the topic's messages are computed once: SubSeq makes a tuple of them.
InTopic == SubSeq([k \in 1 .. Messages |-> k], 1, Messages)
InQueueOfTrace(q) == IF q = "topic" THEN InTopic ELSE InRetryTopic

TInit == PopInit /\ TraceInit

-----------------------------------------------------------------------------
Pass(q, last) ==
    /\ last > offsetTable[q]
    /\ offsetTable' = [offsetTable EXCEPT ![q] = last]
    /\ UNCHANGED <<log, flushed, disk, scanOffset, checkPoints, handles, late, due, popTime,
                   consumed, ackedInTime, poppedAgain, crashes, abandoned, changes, persists>>

Receipts == {h \in handles : h.key = X /\ h.place = Y}

AckAgain ==
    /\ Receipts = {}
    /\ \E i \in DOMAIN log : log[i] = Ack(X, Y)
    /\ log' = Append(log, Ack(X, Y))
    /\ UNCHANGED <<flushed, offsetTable, disk, scanOffset, checkPoints, handles, late, due,
                   popTime, consumed, ackedInTime, poppedAgain, crashes, abandoned, changes,
                   persists>>

ChangeLate(h) ==
    LET ck == CheckPoint(h.queue, h.place, [k \in {h.place} |-> h.msg], popTime)
    IN  /\ TimeOf(h.key) \in DOMAIN due
        /\ log' = log \o <<ck, Ack(h.key, h.place)>>
        /\ handles' = (handles \ {h}) \cup {Receipt(ck.key, h.queue, h.place, h.msg)}
        /\ popTime' = popTime + 1
        /\ UNCHANGED <<flushed, offsetTable, disk, scanOffset, checkPoints, late, due, consumed,
                       ackedInTime, poppedAgain, crashes, abandoned, changes, persists>>

StillOut(open) == Cardinality(UNION {{<<key, k>> : k \in DOMAIN open[key]} : key \in DOMAIN open})

ReviveElsewhere ==
    /\ log' = Append(log, Retry(0))
    /\ UNCHANGED <<flushed, offsetTable, disk, scanOffset, checkPoints, handles, late, due,
                   popTime, consumed, ackedInTime, poppedAgain, crashes, abandoned, changes,
                   persists>>

Offsets == <<offsetTable["topic"], offsetTable["retry"]>>

PersistRead ==
    /\ Offsets = X
    /\ Y \in disk.scanOffset .. ReviveOffset
    /\ disk' = [offsetTable |-> offsetTable, scanOffset |-> Y]
    /\ flushed' = Len(log)
    /\ UNCHANGED <<log, offsetTable, scanOffset, checkPoints, handles, late, due, popTime,
                   consumed, ackedInTime, poppedAgain, crashes, abandoned, changes, persists>>

Forget ==
    /\ consumed' = {}
    /\ ackedInTime' = {}
    /\ poppedAgain' = {}
    /\ UNCHANGED <<log, flushed, offsetTable, disk, scanOffset, checkPoints, handles, late, due,
                   popTime, crashes, abandoned, changes, persists>>

Step ==
    CASE Action = "PopMessage" ->
            /\ Y = offsetTable[X[1]] + 1
            /\ X[2] >= Y
            /\ PopMessage(X[1], X[2] - offsetTable[X[1]])
      [] Action = "Pass" -> Pass(X[1], X[2])
      [] Action = "AckMessage" -> \E h \in Receipts : AckMessage(h)
      [] Action = "AckAgain" -> AckAgain
      [] Action = "ChangeInvisibleTime" ->
            \E h \in Receipts : ChangeInvisibleTime(h) \/ ChangeLate(h)
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
            /\ scanOffset' = Y
      [] Action = "Forget" -> Forget
      [] OTHER -> FALSE

ReadStep == ReadEvent /\ Step

TNext == ReadStep \/ (EditTrace /\ UNCHANGED popVars)

(***************************************************************************)
(* What a trace does not determine: whether a Persist was done.            *)
(***************************************************************************)
TView == <<traceVars, disk>>

Shown ==
    [offsetTable |-> offsetTable, disk |-> disk, log |-> Len(log), scanOffset |-> scanOffset,
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
    /\ IF Action = "ConsumeReviveMessage" THEN CanConsume ELSE ENABLED Step

TellAll == Tell(TRUE, CanStep, Shown)
=============================================================================
