------------------------------ MODULE TRACE_Delay ------------------------------
(***************************************************************************)
(* How a broker delivered the messages of one delay level, as steps of     *)
(* Delay.                                                                  *)
(*                                                                         *)
(* | action              | process | x                  | y             |  *)
(* | Elapse              | nobody  | milliseconds       |               |  *)
(* | ScheduleMessage     | broker  | how many there are | when it is due|  *)
(* | Deliver             | broker  | the offset after   |               |  *)
(* | Persist, MayPersist | broker  | the offset         |               |  *)
(* | Load                | broker  | the offset after   |               |  *)
(*                                                                         *)
(* A Tick is a millisecond here, and Elapse many of them at once; its time *)
(* is the broker's, which it notes with each message that it stores and    *)
(* each delivery.  It begins with the first of these, and a message is due *)
(* so many ms later; -2, Untold, where the broker was killed before it     *)
(* told.  The clock is taken not to go back.                               *)
(*                                                                         *)
(* A trace begins at what the broker found when it started: messages of    *)
(* that time may be due at once.  A broker that was killed while it wrote  *)
(* its offsets may have written them, or not: MayPersist.                  *)
(*                                                                         *)
(* Hidden: deliveries that fail (FailToDeliver); what is in the messages.  *)
(***************************************************************************)
EXTENDS Delay, Trace

X == Event[4]
Y == Event[5]
Untold == -2

L == Before[trace][1]
Found == Before[trace][2]
FoundOffset == Before[trace][3]

TraceDelays == {Before[i][1] : i \in DOMAIN Before}

TInit ==
    /\ TraceInit
    /\ queue = [level \in Delays |-> IF level = L THEN [i \in 1 .. Found |-> 0] ELSE <<>>]
    /\ now = 0
    /\ offsetTable = [level \in Delays |-> IF level = L THEN FoundOffset ELSE 0]
    /\ disk = offsetTable
    /\ delivered = [level \in Delays |-> <<>>]
    /\ crashes = 0
    /\ failures = 0

-----------------------------------------------------------------------------
Elapse ==
    /\ now' = now + X
    /\ UNCHANGED <<queue, offsetTable, disk, delivered, crashes, failures>>

Step ==
    CASE Action = "Elapse" -> Elapse
      [] Action = "ScheduleMessage" ->
            /\ ScheduleMessage(L)
            /\ Len(queue'[L]) = X
            /\ Y \in {Untold, queue'[L][X]}
      [] Action = "Deliver" -> Deliver(L) /\ offsetTable'[L] = X
      [] Action = "Persist" -> Persist /\ disk'[L] = X
      [] Action = "MayPersist" -> (Persist \/ UNCHANGED delayVars) /\ offsetTable[L] = X
      [] Action = "Load" -> Load /\ offsetTable'[L] = X
      [] OTHER -> FALSE

ReadStep == ReadEvent /\ Step

TNext == ReadStep \/ (EditTrace /\ UNCHANGED delayVars)

(***************************************************************************)
(* What a trace does not determine: whether a Persist was done.            *)
(***************************************************************************)
TView == <<traceVars, disk>>

Shown ==
    [messages |-> Len(queue[L]), nextIsDue |-> IsDue(L), now |-> now,
     offsetTable |-> offsetTable[L], disk |-> disk[L]]

TellAll == Tell(TRUE, ENABLED ReadStep, Shown)
================================================================================
