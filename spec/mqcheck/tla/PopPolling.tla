----------------------------- MODULE PopPolling -----------------------------
(***************************************************************************)
(* A pop that finds nothing is held until there may be something, or its   *)
(* time is up.  Twin of mqspec/core/pop_polling.py.                        *)
(*                                                                         *)
(* Held pops wait at a key: all queues of a topic, or one of them.  A      *)
(* message that arrives wakes one at each key, the one that has waited     *)
(* longest.  A pop that leaves messages behind, or finds its queue locked  *)
(* by another pop while there are some, wakes one at its own key, which    *)
(* may be itself.  A woken pop is carried out again, and held again if     *)
(* others were quicker.                                                    *)
(*                                                                         *)
(* Modelled: one queue and one group; pops of one message each, which lock *)
(* the queue while they read it; messages that arrive and are told of in   *)
(* separate steps; time that is up at any moment.                          *)
(*                                                                         *)
(* Left out: filters, and the arrivals that wake whatever they are;        *)
(* messages that come again, which wake nobody (POP-017); limits to how    *)
(* many may be held; notifications, which wait apart in the same way.      *)
(*                                                                         *)
(* Not in the core, being the queue, the shell and the clock: available,   *)
(* arrivals, sent, pops, lock, phase, sees, last; PutMessage, PopMessage,  *)
(* LockQueue, ReadQueue.                                                   *)
(***************************************************************************)
EXTENDS Naturals, Sequences

CONSTANTS
    WaitForAll,     \* consumers that pop all queues of the topic
    WaitForOne,     \* consumers that pop this one
    MaxMessages,
    MaxPops,        \* how many pops there are
    HoldsAtOnce,    \* a remedy: nothing comes between a pop's read and its being held
    Defect,         \* the guard or update that is left out; "none"
    Nobody

VARIABLES
    available,      \* how many messages are there to be popped
    arrivals,       \* how many have arrived that held pops were not told of
    sent,           \* how many there were
    pops,           \* how many pops there were
    lock,           \* whose pop reads the queue, or Nobody
    phase,          \* consumer -> how far its pop is
    sees,           \* consumer -> whether its pop left messages that it saw
    last,           \* the pops whose time is up
    pollingMap      \* key -> the consumers whose pops are held there, in order

vars == <<available, arrivals, sent, pops, lock, phase, sees, last, pollingMap>>

Consumers == WaitForAll \cup WaitForOne
Keys == {"all", "one"}
Key(c) == IF c \in WaitForAll THEN "all" ELSE "one"
Range(s) == {s[i] : i \in DOMAIN s}
Held == UNION {Range(pollingMap[k]) : k \in Keys}
Phases == {"none", "begins", "reads", "found nothing", "held"}

TypeOK ==
    /\ available \in 0..MaxMessages
    /\ arrivals \in 0..MaxMessages
    /\ sent \in 0..MaxMessages
    /\ pops \in 0..MaxPops
    /\ lock \in Consumers \cup {Nobody}
    /\ phase \in [Consumers -> Phases]
    /\ sees \in [Consumers -> BOOLEAN]
    /\ last \subseteq Consumers
    /\ pollingMap \in [Keys -> Seq(Consumers)]
    /\ Held = {c \in Consumers : phase[c] = "held"}

Init ==
    /\ available = 0
    /\ arrivals = 0
    /\ sent = 0
    /\ pops = 0
    /\ lock = Nobody
    /\ phase = [c \in Consumers |-> "none"]
    /\ sees = [c \in Consumers |-> FALSE]
    /\ last = {}
    /\ pollingMap = [k \in Keys |-> <<>>]

-----------------------------------------------------------------------------
(***************************************************************************)
(* The pops that are the first at some keys are not held any more, and are *)
(* carried out again.  `held` is the map before.                           *)
(***************************************************************************)
Wake(keys, held, phases) ==
    LET woken == {held[k][1] : k \in {k \in keys : held[k] # <<>>}}
    IN  /\ pollingMap' = [k \in Keys |-> IF k \in keys /\ held[k] # <<>>
                                         THEN Tail(held[k]) ELSE held[k]]
        /\ phase' = [c \in Consumers |-> IF c \in woken THEN "begins" ELSE phases[c]]

(***************************************************************************)
(* There may be something for one that waits at a key.                     *)
(***************************************************************************)
NotifyGroup(key, held, phases) == Wake({key}, held, phases)

(***************************************************************************)
(* A message arrives in the queue; then held pops are told of it.          *)
(***************************************************************************)
PutMessage ==
    /\ sent < MaxMessages
    /\ sent' = sent + 1
    /\ available' = available + 1
    /\ arrivals' = arrivals + 1
    /\ UNCHANGED <<pops, lock, phase, sees, last, pollingMap>>

NotifyMessageArriving ==
    /\ arrivals > 0
    /\ arrivals' = arrivals - 1
    /\ Wake(IF Defect = "ArrivalsWakeOneKey" THEN {"all"} ELSE Keys, pollingMap, phase)
    /\ UNCHANGED <<available, sent, pops, lock, sees, last>>

-----------------------------------------------------------------------------
(***************************************************************************)
(* A pop that found nothing is held, unless its time is up.  If it saw     *)
(* messages, one that waits at its key is carried out again.               *)
(***************************************************************************)
Hold(c, saw) ==
    IF c \in last
    THEN /\ phase' = [phase EXCEPT ![c] = "none"]
         /\ last' = last \ {c}
         /\ UNCHANGED pollingMap
    ELSE LET held == [pollingMap EXCEPT ![Key(c)] = Append(@, c)]
         IN  /\ IF saw
                THEN NotifyGroup(Key(c), held, [phase EXCEPT ![c] = "held"])
                ELSE /\ pollingMap' = held
                     /\ phase' = [phase EXCEPT ![c] = "held"]
             /\ UNCHANGED last

FindNothing(c, saw) ==
    IF HoldsAtOnce
    THEN Hold(c, saw) /\ UNCHANGED sees
    ELSE /\ phase' = [phase EXCEPT ![c] = "found nothing"]
         /\ sees' = [sees EXCEPT ![c] = saw]
         /\ UNCHANGED <<last, pollingMap>>

(***************************************************************************)
(* A consumer pops.  The pop locks the queue to read it; where another one *)
(* has the lock, it gets nothing, but sees whether there is something.     *)
(***************************************************************************)
PopMessage(c) ==
    /\ phase[c] = "none"
    /\ pops < MaxPops
    /\ pops' = pops + 1
    /\ phase' = [phase EXCEPT ![c] = "begins"]
    /\ UNCHANGED <<available, arrivals, sent, lock, sees, last, pollingMap>>

LockQueue(c) ==
    /\ phase[c] = "begins"
    /\ IF lock = Nobody
       THEN /\ lock' = c
            /\ phase' = [phase EXCEPT ![c] = "reads"]
            /\ UNCHANGED <<sees, last, pollingMap>>
       ELSE /\ FindNothing(c, available > 0 /\ Defect # "LockedIsEmpty")
            /\ UNCHANGED lock
    /\ UNCHANGED <<available, arrivals, sent, pops>>

(***************************************************************************)
(* The pop has read the queue, and is answered with a message; or it has   *)
(* found nothing.                                                          *)
(***************************************************************************)
ReadQueue(c) ==
    /\ phase[c] = "reads"
    /\ lock' = Nobody
    /\ IF available > 0
       THEN /\ available' = available - 1
            /\ last' = last \ {c}
            /\ UNCHANGED sees
            /\ IF available > 1
               THEN NotifyGroup(Key(c), pollingMap, [phase EXCEPT ![c] = "none"])
               ELSE phase' = [phase EXCEPT ![c] = "none"] /\ UNCHANGED pollingMap
       ELSE FindNothing(c, FALSE) /\ UNCHANGED available
    /\ UNCHANGED <<arrivals, sent, pops>>

Polling(c) ==
    /\ phase[c] = "found nothing"
    /\ Hold(c, sees[c])
    /\ sees' = [sees EXCEPT ![c] = FALSE]
    /\ UNCHANGED <<available, arrivals, sent, pops, lock>>

(***************************************************************************)
(* The time of a held pop is up: it is carried out for the last time.      *)
(***************************************************************************)
Forget(c) ==
    /\ Defect # "NobodyForgets"
    /\ phase[c] = "held"
    /\ pollingMap' = [pollingMap EXCEPT ![Key(c)] = SelectSeq(@, LAMBDA d : d # c)]
    /\ phase' = [phase EXCEPT ![c] = "begins"]
    /\ last' = last \cup {c}
    /\ UNCHANGED <<available, arrivals, sent, pops, lock, sees>>

-----------------------------------------------------------------------------
Next ==
    \/ PutMessage
    \/ NotifyMessageArriving
    \/ \E c \in Consumers :
        PopMessage(c) \/ LockQueue(c) \/ ReadQueue(c) \/ Polling(c) \/ Forget(c)

(***************************************************************************)
(* A broker goes on with what it began, and time goes on.                  *)
(***************************************************************************)
Fairness ==
    \A c \in Consumers :
        /\ WF_vars(LockQueue(c))
        /\ WF_vars(ReadQueue(c))
        /\ WF_vars(Polling(c))
        /\ WF_vars(Forget(c))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(***************************************************************************)
(* Once nothing is under way, no pop is held while there is a message for  *)
(* it.  Never promised (POP-042).                                          *)
(***************************************************************************)
NoLostWakeUp ==
    (\A c \in Consumers : phase[c] \in {"none", "held"}) /\ arrivals = 0 /\ available > 0
        => Held = {}

(***************************************************************************)
(* Every pop is answered (POP-041).                                        *)
(***************************************************************************)
EveryPopIsAnswered == \A c \in Consumers : phase[c] # "none" ~> phase[c] = "none"
=============================================================================
