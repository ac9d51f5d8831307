-------------------------------- MODULE Delay --------------------------------
(***************************************************************************)
(* Messages wait in a queue for each delay level until a clock delivers    *)
(* them to their real topics.  Twin of mqspec/core/delay.py.               *)
(*                                                                         *)
(* Modelled: the queues of the levels, a clock, deliveries that fail, the  *)
(* offsets in memory and in delayOffset.json, kills of the broker.         *)
(*                                                                         *)
(* Left out: what a crash of the machine takes from the log, which is      *)
(* Recovery's; a clock that goes back and levels that are reconfigured, on *)
(* which a message is delivered at once; timer messages.                   *)
(*                                                                         *)
(* Not in the core, being the environment: queue, now, disk, Tick,         *)
(* FailToDeliver.                                                          *)
(* Ghosts: delivered, crashes, failures.                                   *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Delays,       \* the delay of each level, which is also its name
    MaxMessages,  \* how many messages each level gets
    MaxTime,      \* how long the clock runs
    MaxCrashes,
    MaxFailures,  \* how many deliveries fail
    \* A defect, FALSE in the protocol as it is:
    FailedPutCounts  \* a delivery that failed counts as done

VARIABLES
    queue,        \* each level's messages: the time at which each is due
    now,          \* the clock
    offsetTable,  \* by level: how many of its messages are delivered
    disk,         \* the same, as delayOffset.json has it
    delivered,    \* by level: what was put into real topics, in order, and when
    crashes,
    failures

delayVars == <<queue, now, offsetTable, disk, delivered, crashes, failures>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* The next message of a level waits for nothing any more.                 *)
(***************************************************************************)
IsDue(level) ==
    /\ offsetTable[level] < Len(queue[level])
    /\ queue[level][offsetTable[level] + 1] <= now

Delivery(n, time) == [message |-> n, time |-> time]

Copies(level) == {delivered[level][i].message : i \in DOMAIN delivered[level]}

-----------------------------------------------------------------------------
DelayInit ==
    /\ queue = [level \in Delays |-> <<>>]
    /\ now = 0
    /\ offsetTable = [level \in Delays |-> 0]
    /\ disk = offsetTable
    /\ delivered = [level \in Delays |-> <<>>]
    /\ crashes = 0
    /\ failures = 0

(***************************************************************************)
(* A message that asks for a level is stored in the queue of that level.   *)
(* It is sent early enough to be due before the clock ends.                *)
(***************************************************************************)
ScheduleMessage(level) ==
    /\ Len(queue[level]) < MaxMessages
    /\ now + level <= MaxTime
    /\ queue' = [queue EXCEPT ![level] = Append(@, now + level)]
    /\ UNCHANGED <<now, offsetTable, disk, delivered, crashes, failures>>

(***************************************************************************)
(* The next message of a level is due, and is put into its real topic.     *)
(***************************************************************************)
Deliver(level) ==
    /\ IsDue(level)
    /\ delivered' = [delivered EXCEPT ![level] =
                        Append(@, Delivery(offsetTable[level] + 1, now))]
    /\ offsetTable' = [offsetTable EXCEPT ![level] = @ + 1]
    /\ UNCHANGED <<queue, now, disk, crashes, failures>>

(***************************************************************************)
(* The put fails.  The offset stays, and it is tried again.                *)
(***************************************************************************)
FailToDeliver(level) ==
    /\ IsDue(level)
    /\ failures < MaxFailures
    /\ failures' = failures + 1
    /\ offsetTable' = [offsetTable EXCEPT ![level] = IF FailedPutCounts THEN @ + 1 ELSE @]
    /\ UNCHANGED <<queue, now, disk, delivered, crashes>>

(***************************************************************************)
(* Each 10 s the offsets are written.                                      *)
(***************************************************************************)
Persist ==
    /\ disk /= offsetTable
    /\ disk' = offsetTable
    /\ UNCHANGED <<queue, now, offsetTable, delivered, crashes, failures>>

(***************************************************************************)
(* The broker is killed, and starts again with what was written.           *)
(***************************************************************************)
Load ==
    /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ offsetTable' = disk
    /\ UNCHANGED <<queue, now, disk, delivered, failures>>

Tick ==
    /\ now < MaxTime
    /\ now' = now + 1
    /\ UNCHANGED <<queue, offsetTable, disk, delivered, crashes, failures>>

DelayNext ==
    \/ \E level \in Delays :
        ScheduleMessage(level) \/ Deliver(level) \/ FailToDeliver(level)
    \/ Persist
    \/ Load
    \/ Tick

DelaySpec ==
    /\ DelayInit /\ [][DelayNext]_delayVars
    /\ WF_delayVars(Tick)
    /\ \A level \in Delays : WF_delayVars(Deliver(level))

-----------------------------------------------------------------------------
DelayTypeOK ==
    /\ queue \in [Delays -> Seq(1 .. MaxTime)]
    /\ now \in 0 .. MaxTime
    /\ offsetTable \in [Delays -> 0 .. MaxMessages]
    /\ disk \in [Delays -> 0 .. MaxMessages]
    /\ delivered \in [Delays -> Seq([message : 1 .. MaxMessages, time : 0 .. MaxTime])]
    /\ crashes \in 0 .. MaxCrashes
    /\ failures \in 0 .. MaxFailures

(***************************************************************************)
(* Nothing comes before its time (DELAY-002).                              *)
(***************************************************************************)
NothingIsEarly ==
    \A level \in Delays : \A i \in DOMAIN delivered[level] :
        delivered[level][i].time >= queue[level][delivered[level][i].message]

(***************************************************************************)
(* What lies below an offset, in memory or on disk, was delivered          *)
(* (DELAY-003).                                                            *)
(***************************************************************************)
NothingIsSkipped ==
    \A level \in Delays :
        /\ 1 .. offsetTable[level] \subseteq Copies(level)
        /\ disk[level] <= offsetTable[level]

(***************************************************************************)
(* The first copies of a level's messages come in their order (DELAY-004). *)
(***************************************************************************)
LevelsAreInOrder ==
    \A level \in Delays : \A i \in DOMAIN delivered[level] :
        LET before == {delivered[level][j].message : j \in 1 .. i - 1}
            n      == delivered[level][i].message
        IN  1 .. n - 1 \subseteq before

(***************************************************************************)
(* A message is delivered once only.  Never promised (DELAY-008).          *)
(***************************************************************************)
NoRepeat ==
    \A level \in Delays : Len(delivered[level]) = Cardinality(Copies(level))

(***************************************************************************)
(* Every message is delivered in the end (DELAY-003).                      *)
(***************************************************************************)
MessagesAreDelivered ==
    <>[](\A level \in Delays : Copies(level) = 1 .. Len(queue[level]))

(***************************************************************************)
(* Witnesses, to be violated: something is delivered from each level; a    *)
(* put fails, which changes nothing.                                       *)
(***************************************************************************)
NeverFromAllLevels == \E level \in Delays : delivered[level] = <<>>

NeverFails == failures = 0
==============================================================================
