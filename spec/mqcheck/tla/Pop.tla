--------------------------------- MODULE Pop ---------------------------------
(***************************************************************************)
(* POP: the broker hands out messages, keeps a checkpoint of each pop, and *)
(* brings back what is not acknowledged in time.  Twin of                  *)
(* mqspec/core/pop.py.                                                     *)
(*                                                                         *)
(* Modelled: one queue of a topic and the group's retry topic, pops of one *)
(* or several messages, acknowledgements, changes of the invisible time,   *)
(* the revive log, its reader, offsets that reach the disk now and then,   *)
(* crashes of the machine that take the tail of the log.  The revive log   *)
(* and the retry topic lie in one CommitLog, as they do.  Time is an event *)
(* for each checkpoint.                                                    *)
(*                                                                         *)
(* Left out: filters; several revive queues, which do not meet; revivals   *)
(* that fail; ordered pops, which are PopOrder's.                          *)
(*                                                                         *)
(* A pop's time, by which checkpoints are told apart, is a number of its   *)
(* own here: the broker sees to that (pop.change_invisible_time).          *)
(*                                                                         *)
(* Not in the core, being the environment: log, flushed, disk, handles,    *)
(* late, replaced, due, popTime, Abandon, TimeUp, Persist, Crash.          *)
(* Ghosts: consumed, ackedInTime, poppedAgain, crashes, abandoned,         *)
(* changes, persists.                                                      *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Messages,      \* how many messages the topic's queue holds, all on disk
    MaxBatch,      \* the most that a pop gets
    MaxAbandons,   \* how many receipts consumers give up, or are too slow with
    MaxChanges,    \* how many invisible times are changed
    MaxCrashes,
    MaxPersists,   \* how often offsets reach the disk
    ChangesLate,   \* TRUE: also times that are up are changed, as the broker lets them
    \* Defects, FALSE in the protocol as it is:
    RevivesUnread,       \* revive looks before it has read the acknowledgements of before
    OffsetsBeforeLog,    \* offsets reach the disk although the log has not
    AckBeforeCheckPoint, \* a change acknowledges the old checkpoint before it leaves a new one
    SameMillisecond      \* a change leaves a checkpoint of the same time as the old one

VARIABLES
    log,          \* checkpoints, acknowledgements and messages of the retry topic, in order
    flushed,      \* how much of the log surely survives a crash
    offsetTable,  \* the group's offset in each queue: how many messages it has popped
    disk,         \* offsets as a crash leaves them, and how much of the log is not needed
    scanOffset,   \* how much of the log the revive service has read
    checkPoints,  \* those it has read and that are not done: what of them is not acknowledged
    handles,      \* receipts that consumers hold, one a message
    late,         \* receipts that they have given up, and may still use
    replaced,     \* the pop times of receipts that a change has replaced
    due,          \* the pop times whose time is up: how long the log was then
    popTime,      \* the next
    consumed,     \* messages that were acknowledged, also too late
    ackedInTime,  \* messages that were acknowledged in time
    poppedAgain,  \* those of them that were popped afterwards
    crashes, abandoned, changes, persists

popVars == <<log, flushed, offsetTable, disk, scanOffset, checkPoints, handles, late, due,
             popTime, consumed, ackedInTime, poppedAgain, crashes, abandoned, changes,
             replaced, persists>>

-----------------------------------------------------------------------------
Queues == {"topic", "retry"}

NoMessages == [m \in {} |-> 0]

Range(s) == {s[i] : i \in DOMAIN s}

(***************************************************************************)
(* A checkpoint is known by its pop time and the place where its read      *)
(* began; msgs are its messages by their places.                           *)
(***************************************************************************)
CheckPoint(q, start, msgs, time) ==
    [kind |-> "ck", key |-> <<q, start, time>>, msgs |-> msgs]

Ack(key, place) == [kind |-> "ack", key |-> key, place |-> place]

Retry(m) == [kind |-> "retry", msg |-> m]

Receipt(key, q, place, m) == [key |-> key, queue |-> q, place |-> place, msg |-> m]

TimeOf(key) == key[3]

(***************************************************************************)
(* What a queue holds: message k of the topic at place k; the retry topic  *)
(* as it lies in the log.                                                  *)
(***************************************************************************)
InRetryTopic ==
    LET IsRetry(e) == e.kind = "retry"
        entries    == SelectSeq(log, IsRetry)
    IN  [k \in DOMAIN entries |-> entries[k].msg]

InQueue(q) == IF q = "topic" THEN [k \in 1 .. Messages |-> k] ELSE InRetryTopic

(***************************************************************************)
(* Of all the log before this nothing is needed any more.                  *)
(***************************************************************************)
ReviveOffset ==
    LET open == {i \in 1 .. scanOffset :
                    log[i].kind = "ck" /\ log[i].key \in DOMAIN checkPoints}
    IN  IF open = {} THEN scanOffset ELSE (CHOOSE i \in open : \A j \in open : i <= j) - 1

-----------------------------------------------------------------------------
PopInit ==
    /\ log = <<>>
    /\ flushed = 0
    /\ offsetTable = [q \in Queues |-> 0]
    /\ disk = [offsetTable |-> [q \in Queues |-> 0], scanOffset |-> 0]
    /\ scanOffset = 0
    /\ checkPoints = NoMessages
    /\ handles = {}
    /\ late = {}
    /\ due = NoMessages
    /\ popTime = 1
    /\ consumed = {}
    /\ ackedInTime = {}
    /\ poppedAgain = {}
    /\ crashes = 0
    /\ abandoned = 0
    /\ changes = 0
    /\ replaced = {}
    /\ persists = 0

(***************************************************************************)
(* A consumer pops the next messages of a queue.  Their checkpoint is in   *)
(* the log before the offset moves.                                        *)
(***************************************************************************)
PopMessage(q, n) ==
    LET first == offsetTable[q] + 1
        last  == offsetTable[q] + n
        msgs  == [k \in first .. last |-> InQueue(q)[k]]
        ck    == CheckPoint(q, first, msgs, popTime)
    IN  /\ last <= Len(InQueue(q))
        /\ log' = Append(log, ck)
        /\ offsetTable' = [offsetTable EXCEPT ![q] = last]
        /\ handles' = handles \cup {Receipt(ck.key, q, k, msgs[k]) : k \in DOMAIN msgs}
        /\ popTime' = popTime + 1
        /\ poppedAgain' = poppedAgain \cup (Range(msgs) \cap ackedInTime)
        /\ UNCHANGED <<flushed, disk, scanOffset, checkPoints, late, due, consumed,
                       ackedInTime, crashes, abandoned, changes, replaced, persists>>

(***************************************************************************)
(* A consumer acknowledges a message.  It is in time if the time of the    *)
(* message's pop is not up.                                                *)
(***************************************************************************)
AckMessage(h) ==
    /\ log' = Append(log, Ack(h.key, h.place))
    /\ handles' = handles \ {h}
    /\ late' = late \ {h}
    /\ consumed' = consumed \cup {h.msg}
    /\ ackedInTime' = IF TimeOf(h.key) \in DOMAIN due THEN ackedInTime
                      ELSE ackedInTime \cup {h.msg}
    /\ UNCHANGED <<flushed, offsetTable, disk, scanOffset, checkPoints, due, popTime,
                   poppedAgain, crashes, abandoned, changes, replaced, persists>>

(***************************************************************************)
(* A consumer changes a message's invisible time: a checkpoint of its own, *)
(* then the acknowledgement of the old one.  The broker does not ask       *)
(* whether the time is over: a late change acknowledges what was brought   *)
(* back already.                                                           *)
(***************************************************************************)
ChangeInvisibleTime(h) ==
    LET time == IF SameMillisecond THEN TimeOf(h.key) ELSE popTime
        ck   == CheckPoint(h.queue, h.place, [k \in {h.place} |-> h.msg], time)
        old  == Ack(h.key, h.place)
    IN  /\ changes < MaxChanges
        /\ ChangesLate \/ TimeOf(h.key) \notin DOMAIN due
        /\ log' = log \o (IF AckBeforeCheckPoint THEN <<old, ck>> ELSE <<ck, old>>)
        /\ handles' = (handles \ {h}) \cup {Receipt(ck.key, h.queue, h.place, h.msg)}
        /\ late' = late \ {h}
        /\ replaced' = replaced \cup {TimeOf(h.key)}
        /\ popTime' = popTime + 1
        /\ changes' = changes + 1
        /\ UNCHANGED <<flushed, offsetTable, disk, scanOffset, checkPoints, due, consumed,
                       ackedInTime, poppedAgain, crashes, abandoned, persists>>

(***************************************************************************)
(* A consumer dies, or is too slow with a message.                         *)
(***************************************************************************)
Abandon(h) ==
    /\ abandoned < MaxAbandons
    /\ abandoned' = abandoned + 1
    /\ handles' = handles \ {h}
    /\ late' = late \cup {h}
    /\ UNCHANGED <<log, flushed, offsetTable, disk, scanOffset, checkPoints, due, popTime,
                   consumed, ackedInTime, poppedAgain, crashes, changes, replaced,
                   persists>>

(***************************************************************************)
(* The invisible time of an abandoned message's pop is over, or that which *)
(* a change has replaced.                                                  *)
(***************************************************************************)
TimeUp(time) ==
    /\ time \notin DOMAIN due
    /\ due' = due @@ (time :> Len(log))
    /\ UNCHANGED <<log, flushed, offsetTable, disk, scanOffset, checkPoints, handles, late,
                   popTime, consumed, ackedInTime, poppedAgain, crashes, abandoned,
                   changes, replaced, persists>>

(***************************************************************************)
(* The revive service reads the log to its end.  A checkpoint of which     *)
(* nothing is left is done.                                                *)
(***************************************************************************)
Merged(open, e) ==
    CASE e.kind = "ck" -> (e.key :> e.msgs) @@ open
      [] e.kind = "ack" /\ e.key \in DOMAIN open ->
            LET msgs == open[e.key]
                left == [k \in DOMAIN msgs \ {e.place} |-> msgs[k]]
            IN  IF DOMAIN left # {} THEN [open EXCEPT ![e.key] = left]
                ELSE [key \in DOMAIN open \ {e.key} |-> open[key]]
      [] OTHER -> open

RECURSIVE MergedAll(_, _)
MergedAll(open, i) == IF i > Len(log) THEN open ELSE MergedAll(Merged(open, log[i]), i + 1)

ConsumeReviveMessage ==
    /\ scanOffset < Len(log)
    /\ scanOffset' = Len(log)
    /\ checkPoints' = MergedAll(checkPoints, scanOffset + 1)
    /\ UNCHANGED <<log, flushed, offsetTable, disk, handles, late, due, popTime, consumed,
                   ackedInTime, poppedAgain, crashes, abandoned, changes, replaced,
                   persists>>

(***************************************************************************)
(* What is left of a checkpoint whose time is up goes to the retry topic,  *)
(* once all that was in the log at that time is read.                      *)
(***************************************************************************)
Ascending(msgs) ==
    LET places == DOMAIN msgs
        Nth(i) == CHOOSE k \in places : Cardinality({j \in places : j < k}) = i - 1
    IN  [i \in 1 .. Cardinality(places) |-> Retry(msgs[Nth(i)])]

Revive(key) ==
    /\ TimeOf(key) \in DOMAIN due
    /\ RevivesUnread \/ scanOffset >= due[TimeOf(key)]
    /\ log' = log \o Ascending(checkPoints[key])
    /\ checkPoints' = [other \in DOMAIN checkPoints \ {key} |-> checkPoints[other]]
    /\ UNCHANGED <<flushed, offsetTable, disk, scanOffset, handles, late, due, popTime,
                   consumed, ackedInTime, poppedAgain, crashes, abandoned, changes,
                   replaced, persists>>

(***************************************************************************)
(* The offsets go to the disk, after the log: no offset may be there       *)
(* before the checkpoint of what it passed.                                *)
(***************************************************************************)
Persist ==
    LET now == [offsetTable |-> offsetTable, scanOffset |-> ReviveOffset]
    IN  /\ crashes < MaxCrashes
        /\ persists < MaxPersists
        /\ persists' = persists + 1
        /\ disk # now
        /\ disk' = now
        /\ flushed' = IF OffsetsBeforeLog THEN flushed ELSE Len(log)
        /\ UNCHANGED <<log, offsetTable, scanOffset, checkPoints, handles, late, due,
                       popTime, consumed, ackedInTime, poppedAgain, crashes, abandoned,
                       changes, replaced>>

(***************************************************************************)
(* The machine crashes.  The log loses any part of its tail that no persist*)
(* has brought to the disk; the broker starts with the offsets that are, and reads the revive*)
(* log again.  Consumers keep their receipts.                              *)
(***************************************************************************)
Restart(n) ==
    /\ log' = SubSeq(log, 1, n)
    /\ flushed' = n
    /\ offsetTable' = disk.offsetTable
    /\ scanOffset' = IF disk.scanOffset <= n THEN disk.scanOffset ELSE n
    /\ checkPoints' = NoMessages
    /\ due' = [time \in DOMAIN due |-> IF due[time] <= n THEN due[time] ELSE n]

Crash(n) ==
    /\ crashes < MaxCrashes
    /\ crashes' = crashes + 1
    /\ Restart(n)
    /\ UNCHANGED <<disk, handles, late, popTime, consumed, ackedInTime, poppedAgain,
                   abandoned, changes, replaced, persists>>

-----------------------------------------------------------------------------
Pops == \E q \in Queues, n \in 1 .. MaxBatch : PopMessage(q, n)
Acks == \E h \in handles : AckMessage(h)
TimesUp == \E time \in {TimeOf(h.key) : h \in late} \cup replaced : TimeUp(time)
Revives == \E key \in DOMAIN checkPoints : Revive(key)

PopNext ==
    \/ Pops
    \/ Acks
    \/ \E h \in late : AckMessage(h)
    \/ \E h \in handles \cup late : ChangeInvisibleTime(h)
    \/ \E h \in handles : Abandon(h)
    \/ TimesUp
    \/ ConsumeReviveMessage
    \/ Revives
    \/ Persist
    \/ \E n \in flushed .. Len(log) : Crash(n)

(***************************************************************************)
(* Each of these steps uses up what it is taken for: a message that waits, *)
(* a receipt, a checkpoint.  Only receipts that are given up bring a       *)
(* message back, and they are bounded.  So each kind of step comes to an   *)
(* end, and one condition does for all queues and receipts of a kind.      *)
(***************************************************************************)
PopSpec ==
    /\ PopInit
    /\ [][PopNext]_popVars
    /\ WF_popVars(Pops)
    /\ WF_popVars(Acks)
    /\ WF_popVars(TimesUp)
    /\ WF_popVars(ConsumeReviveMessage)
    /\ WF_popVars(Revives)

-----------------------------------------------------------------------------
AllMessages == 1 .. Messages

PopTypeOK ==
    /\ \A e \in Range(log) : e.kind \in {"ck", "ack", "retry"}
    /\ flushed \in 0 .. Len(log)
    /\ scanOffset \in 0 .. Len(log)
    /\ offsetTable \in [Queues -> Nat]
    /\ \A q \in Queues : offsetTable[q] <= Len(InQueue(q))
    /\ \A key \in DOMAIN checkPoints : DOMAIN checkPoints[key] # {}
    /\ handles \cap late = {}
    /\ \A h \in handles \cup late : h.queue \in Queues /\ h.msg \in AllMessages
    /\ poppedAgain \subseteq ackedInTime
    /\ crashes \in 0 .. MaxCrashes
    /\ abandoned \in 0 .. MaxAbandons
    /\ changes \in 0 .. MaxChanges
    /\ persists \in 0 .. MaxPersists
    /\ ackedInTime \subseteq consumed
    /\ consumed \subseteq AllMessages

(***************************************************************************)
(* POP-002.  A message that nobody acknowledged is in a queue before the   *)
(* group's offset, or has a checkpoint that brings it back.                *)
(***************************************************************************)
IsAhead(m) == \E q \in Queues : \E k \in DOMAIN InQueue(q) :
                    k > offsetTable[q] /\ InQueue(q)[k] = m

IsRemembered(m) ==
    \/ \E key \in DOMAIN checkPoints : m \in Range(checkPoints[key])
    \/ \E i \in scanOffset + 1 .. Len(log) : log[i].kind = "ck" /\ m \in Range(log[i].msgs)

NothingIsLost == \A m \in AllMessages \ consumed : IsAhead(m) \/ IsRemembered(m)

(***************************************************************************)
(* POP-001.  Before its time is up, a message has one receipt.             *)
(***************************************************************************)
OneConsumerAtATime ==
    crashes = 0 =>
        \A h1, h2 \in {h \in handles \cup late : TimeOf(h.key) \notin DOMAIN due} :
            h1.msg = h2.msg => h1 = h2

(***************************************************************************)
(* POP-003.  What is acknowledged in time is not popped again, while the   *)
(* broker does not crash.                                                  *)
(***************************************************************************)
AckedIsNotPoppedAgain == crashes = 0 => poppedAgain = {}

(***************************************************************************)
(* POP-029, not promised: nor if it crashes.                               *)
(***************************************************************************)
AckedIsNeverPoppedAgain == poppedAgain = {}

(***************************************************************************)
(* POP-030, not promised: nothing is popped twice.                         *)
(***************************************************************************)
NoReceiptTwice == \A h1, h2 \in handles \cup late : h1.msg = h2.msg => h1 = h2

(***************************************************************************)
(* POP-002, as progress: every message is acknowledged in the end.         *)
(***************************************************************************)
EveryMessageIsConsumed == <>(consumed = AllMessages)

(***************************************************************************)
(* Refinement: what the group sees of a message.  It is lost as soon as    *)
(* nothing brings it any more, though a consumer may still have it.        *)
(***************************************************************************)
StateOf(m) ==
    CASE m \in consumed                   -> "done"
      [] ~IsAhead(m) /\ ~IsRemembered(m)  -> "lost"
      [] \E h \in handles : h.msg = m      -> "delivered"
      [] OTHER                            -> "pending"

D == INSTANCE Delivery WITH
        Messages <- AllMessages, state <- [m \in AllMessages |-> StateOf(m)]

DeliveredAtLeastOnce == D!Spec
=============================================================================
